"""What records on a GPU, as far as a CPU can tell: its programs, and what is kept."""

import contextlib
import dataclasses
import datetime
import itertools
import sys
from types import SimpleNamespace

import pytest
import torch

from course.ch13.driver import Recorder
from helpers import compare, dump_triton, results
from helpers.gpu import gpus
from tests.refresh import python
from tools import record_gpu
from tools.record_gpu import MODELS, cases, difference, main, record

pytestmark = pytest.mark.usefixtures("one_thread")


def measured():
    x = torch.ones(100)
    return compare(torch.sin, torch.sin, x, budget=0.001)


# --- what is kept -----------------------------------------------------------------


def test_a_case_that_fails_is_kept_as_failed_and_tried_again(tmp_path, capsys):
    def fails():
        raise RuntimeError("1/2 of a/b is left, see /opt/some/where/x.py\nand more")

    assert record(tmp_path, {"modes/a/1": fails, "modes/a/2": measured}) == 1
    said = "RuntimeError: 1/2 of a/b is left, see x.py"
    assert f"[1/2] modes/a/1: {said}\n" in capsys.readouterr().out
    failed, done = sorted((tmp_path / "modes" / "a").iterdir())
    assert f'"failed": "{said}\\nand more"' in failed.read_text()
    before = done.read_text()
    assert record(tmp_path, {"modes/a/1": measured, "modes/a/2": measured}) == 0
    assert results.load(failed).matches and done.read_text() == before


def test_an_interrupt_loses_nothing_that_was_measured(tmp_path):
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(tmp_path, {"a/b/1": measured, "a/b/2": interrupted, "a/b/3": measured})
    assert [path.name for path in tmp_path.rglob("*.*")] == ["1.json"]


def test_a_race_that_was_broken_off_is_not_kept(monkeypatch):
    """compare() keeps the rounds that it has; here they would stand for all."""
    part = dataclasses.replace(measured(), interrupted=True)
    monkeypatch.setattr(record_gpu, "compare", lambda *given, **how: part)
    monkeypatch.setattr(record_gpu, "cold", contextlib.nullcontext)
    monkeypatch.setattr(torch, "compile", lambda fn, **options: fn)
    with pytest.raises(KeyboardInterrupt):
        record_gpu.race("running example", "forward", "float32", "default", "cpu")


def test_what_is_kept_is_what_was_measured_whatever_the_clock_says(
    tmp_path, monkeypatch
):
    """A second passes at each look at the clock."""
    ticks = itertools.count()

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2030, 1, 1, tzinfo=tz) + datetime.timedelta(seconds=next(ticks))

    monkeypatch.setattr(results, "datetime", Clock)
    found = []

    def watched():
        found.append(measured())
        return found[0]

    record(tmp_path, {"a/b/1": watched})
    assert results.load(tmp_path / "a" / "b" / "1.json") == found[0]
    assert found[0].when.startswith("2030-01-01")


def test_without_a_gpu_nothing_is_recorded(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(record_gpu, "FOLDER", tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main([]) == 2 and not [*tmp_path.iterdir()]
    assert "no NVIDIA GPU" in capsys.readouterr().err


def test_the_command_records_in_a_folder_of_this_gpu(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(record_gpu, "FOLDER", tmp_path)
    monkeypatch.setattr(record_gpu, "cases", lambda: {"modes/a/default": measured})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(torch, "__version__", "2.13.0+cu130")
    assert main([]) == 0
    [folder] = tmp_path.iterdir()
    assert folder.name == "nvidia-h100-80gb-hbm3-torch-2.13.0-cu130"
    assert (
        f"recorded in data/recorded/{folder.name}, 0 failed" in capsys.readouterr().out
    )


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


def test_what_autotunes_comes_last():
    names = [*cases()]
    tuned = ["autotune" in name for name in names]
    assert names[0].startswith("sources/") and tuned == sorted(tuned)
    assert len(names) == 43 and all(name.count("/") == 2 for name in names)


@pytest.mark.parametrize("name", record_gpu.GRAPHS)
def test_what_is_seen_of_cuda_graphs_runs_where_none_are_made(name):
    kept = record_gpu.seen(record_gpu.GRAPHS[name], "cpu")
    assert "raises" not in kept.what and "wrong" not in kept.what
    assert results.Result.from_json(kept.to_json()) == kept


def test_what_is_seen_of_cuda_graphs_tells_recordings(monkeypatch):
    """The lesson's back end records on the CPU, as torch's own manager decides."""
    monkeypatch.setattr(
        record_gpu, "recording", lambda fn: torch.compile(fn, backend=Recorder())
    )
    kept = record_gpu.seen(record_gpu.kept_results, "cpu").what
    assert kept == "raises, raises, wrong, wrong, right"
    summed = record_gpu.seen(record_gpu.summed_gradients, "cpu").what
    assert summed.endswith("kept in place: right in 4 of 4 steps")
    assert summed.startswith(".grad taken over: right in 1 of 4 steps")
    masks = record_gpu.seen(record_gpu.dropout_masks, "cpu").what
    assert masks == "6 different masks in 6 calls"


def test_a_call_takes_what_the_boards_counter_says(monkeypatch):
    taken = [0]

    def call(x):
        taken[0] += 250

    board = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetTotalEnergyConsumption=lambda uuid: taken[0] * (uuid == "GPU-7"),
    )
    monkeypatch.setitem(sys.modules, "pynvml", board)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    here = SimpleNamespace(uuid=7)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: here)
    assert record_gpu.joules(call, None, 0.0) == 0.25


def test_the_joules_of_both_sides_are_told_in_turns(monkeypatch):
    taken = iter([4.0, 1.0, 4.0, 2.0, 5.0, 1.0])
    monkeypatch.setattr(record_gpu, "joules", lambda *_: next(taken))
    kept = record_gpu.energy("tiny operations", "forward", "float32", "cpu")
    assert kept.what == (
        "eager, then compiled: 4 J, then 1 J; 4 J, then 2 J; 5 J, then 1 J; "
        "0.20 to 0.50 of eager's"
    )
    assert results.Result.from_json(kept.to_json()) == kept


def test_a_race_is_from_a_cold_start():
    result = record_gpu.race(
        "running example", "forward", "float32", "default", "cpu", budget=0.001
    )
    assert result.compiles == 1 and result.matches
    assert result.names == ("eager", "default")


def test_a_training_step_gives_the_gradients_of_what_is_trained():
    eager, _, x = record_gpu.sides(
        "running example", "training", "float32", "default", "cpu"
    )
    loss, *gradients = eager(x)
    assert loss.ndim == 0 and [g.shape for g in gradients] == [(256,), (256, 256)]
    net = record_gpu.adapted(8, 2, 1)
    trained = [name for name, p in net.named_parameters() if p.requires_grad]
    assert trained == [
        f"{layer}.{part}.weight"
        for layer in ("qkv", "out", "up", "down")
        for part in ("down", "up")
    ]


@pytest.mark.parametrize("label", MODELS)
def test_each_model_is_one_graph(label):
    """A break would be timed as if it were the compiler's work.  Sizes are the real."""
    make, shape = MODELS[label]
    with torch.device("meta"):
        x = torch.empty(shape)
        whole = torch.compile(make(), backend="eager", fullgraph=True)
        assert whole(x).shape[0] == len(x)


def test_the_resnet_is_the_one_of_the_paper():
    """25.6 million parameters, and half the size at each stage but the first."""
    with torch.device("meta"):
        net = record_gpu.resnet50()
        assert sum(p.numel() for p in net.parameters()) == 25_557_032
        assert net(torch.empty(2, 3, 224, 224)).shape == (2, 1000)
        assert net[:-3](torch.empty(2, 3, 224, 224)).shape == (2, 2048, 7, 7)


def test_sources_that_ran_are_held_against_the_dump(monkeypatch):
    """A dump for an H100 stands in for what really ran on one."""
    ran = {"this": "h100", "h100": "h100"}
    monkeypatch.setattr(gpus, "here", lambda: gpus.find("h100"))
    monkeypatch.setattr(
        record_gpu, "dump_triton", lambda *given, gpu: dump_triton(*given, gpu=ran[gpu])
    )
    example = record_gpu.example
    monkeypatch.setattr(record_gpu, "example", lambda device: example("cpu"))
    dump = record_gpu.sources()
    assert (len(dump.kernels), len(dump.library)) == (2, 1)
    ran["this"] = "t4"
    with pytest.raises(RuntimeError, match="differs:\n--- ran"):
        record_gpu.sources()


def test_a_difference_names_what_differs():
    x = torch.randn(4, 8)
    sin, cos = dump_triton(torch.sin, x), dump_triton(torch.cos, x)
    assert difference(sin, sin) == ""
    lines = difference(sin, cos).splitlines()
    assert "-triton_poi_fused_sin_0" in lines and "+triton_poi_fused_cos_0" in lines
    assert "backend_hash" not in difference(sin, cos)
