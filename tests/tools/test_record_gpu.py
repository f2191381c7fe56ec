"""What records on a GPU, as far as a CPU can tell: its programs, and what is kept."""

from dataclasses import replace
from unittest import mock

import pytest
import torch

from helpers import compare, dump_triton, results
from helpers.gpu import gpus
from tests.refresh import python
from tools import record_gpu
from tools.record_gpu import record

pytestmark = pytest.mark.usefixtures("one_thread")


def measured():
    x = torch.ones(100)
    return compare(torch.sin, torch.sin, x, budget=0.001)


# --- what is kept -----------------------------------------------------------------


def test_a_case_that_fails_is_kept_as_failed_and_tried_again(tmp_path, capsys):
    error = RuntimeError("1/2 of a/b is left, see /opt/some/where/x.py\nand more")
    fails = mock.Mock(side_effect=error)
    assert record(tmp_path, {"modes/a/1": fails, "modes/a/2": measured}) == 1
    said = "RuntimeError: 1/2 of a/b is left, see x.py"
    assert f"[1/2] modes/a/1: {said}\n" in capsys.readouterr().out
    failed, done = sorted((tmp_path / "modes" / "a").iterdir())
    assert f'"what": "failed: {said}\\nand more"' in failed.read_text()
    before = done.read_text()
    assert record(tmp_path, {"modes/a/1": measured, "modes/a/2": measured}) == 0
    assert results.load(failed).matches and done.read_text() == before


@pytest.mark.weekly
def test_a_machine_that_only_records_needs_little():
    """Nothing of Jupyter: a machine that is lent for its GPU has torch and little."""
    without = "IPython ipywidgets matplotlib msgspec nbformat platformdirs pygments"
    python(f"""
import sys
from tools import record_gpu
from helpers import compare
import torch
compare(torch.sin, torch.sin, torch.ones(9), budget=0.001).to_json()
assert not {{*{without.split()!r}, "course"}} & {{*sys.modules}}""")


# --- the cases --------------------------------------------------------------------


@pytest.mark.weekly
def test_what_is_seen_of_cuda_graphs_runs_where_none_are_made():
    kept = record_gpu.kept_results("cpu")
    assert "raises" not in kept.what and "wrong" not in kept.what
    assert results.Result.from_json(kept.to_json()) == kept


def test_sources_that_ran_are_held_against_the_dump(monkeypatch):
    """A dump for an H100 stands in for what really ran on one."""
    ran = {"this": "h100", "h100": "h100"}
    monkeypatch.setattr(gpus, "here", lambda: gpus.find("h100"))
    monkeypatch.setattr(
        record_gpu, "dump_triton", lambda *given, gpu: dump_triton(*given, gpu=ran[gpu])
    )
    made = record_gpu.made
    monkeypatch.setattr(record_gpu, "made", lambda label, device: made(label, "cpu"))
    same = "2 kernels and 1 library call, the same as without a GPU"
    assert record_gpu.sources().what == same
    ran["this"] = "t4"
    with pytest.raises(RuntimeError, match="differs:\n--- ran"):
        record_gpu.sources()


def test_a_race_is_held_against_its_forecast(monkeypatch):
    """A laptop's times stand in for those of an H100, which they can't undercut."""
    monkeypatch.setattr(gpus, "here", lambda: gpus.find("h100"))
    net, x = torch.nn.Linear(4096, 4096), torch.ones(1024, 4096)
    for took, said in ((1.0, "were kept"), (1e-9, "were undercut")):
        race = replace(measured(), median_s=(took, took))
        assert f"bounds {said}" in record_gpu.held(race, net, x, "default")
