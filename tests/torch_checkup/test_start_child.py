"""First calls in real processes: none is left, and what a second one finds."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from torch_checkup import start_child, starts
from torch_checkup.starts import one_start

MODEL = """
import torch

def by_name():
    return torch.nn.Linear(8, 8), {"input": torch.ones(4, 8)}

def hangs():
    import subprocess, sys, time
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)"])
    time.sleep(99)
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return str(path)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_leaves_no_process(model, tmp_path):
    code = f"from torch_checkup import cold_start; cold_start({model + ':hangs'!r})"
    here = {**os.environ, "PYTHONPATH": str(Path(starts.__file__).parents[1])}
    parent = subprocess.Popen(
        [sys.executable, "-c", code], env=here, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 90
    family = []
    while time.monotonic() < deadline and len(family) < 2:  # the child, and its sleeper
        time.sleep(0.2)
        family = psutil.Process(parent.pid).children(recursive=True)
    assert len(family) == 2
    parent.send_signal(signal.SIGINT)
    parent.wait(30)
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive


def test_one_real_start_and_what_a_second_finds(model, tmp_path):
    cache, saved = tmp_path / "place", tmp_path / "saved"
    order = {"target": f"{model}:by_name", "options": {"backend": "inductor"}}
    first = one_start(order, cache, save=saved)
    assert first.problem == "" and first.agrees is True
    assert first.first_s > 0
    assert set(first.phases) == set(starts.PHASES)
    assert 0 < sum(first.phases.values()) <= first.first_s == first.wait_s
    assert first.found == "2 missed"
    again = one_start({**order, "train": True}, cache, load=saved)
    assert again.loaded is True and again.problem == ""
    assert "fx_kwargs[is_inference]" in again.missed(first)
    third = one_start(order, cache)
    assert third.found == "2 found" and third.missed(first) == ()


def test_its_eager_side_is_eager_where_blocks_are_compiled_inside(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "class Block(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return x * (3 if torch.compiler.is_compiling() else 2)\n"
        "def make():\n"
        "    block = Block()\n"
        "    block.compile(backend='eager')\n"
        "    return torch.nn.Sequential(block), (torch.ones(3),)\n"
    )
    order = {"target": f"{tmp_path / 'mine.py'}:make", "train": False, "load": ""}
    options, report = {"backend": "eager"}, tmp_path / "report"
    start_child.main({**order, "options": options, "save": "", "report": str(report)})
    lines = [*map(json.loads, report.read_text().splitlines())]
    assert {"agrees": False} in lines
    # The last of them says where a process was that was ended.
    assert [line["stage"] for line in lines if "stage" in line] == [
        *("import torch", "load the compiler", "make the model"),
        *("the first call", "compare with eager"),
    ]


def test_it_says_that_it_ended_where_artifacts_are_loaded(model, tmp_path):
    order = {"target": f"{model}:by_name", "load": str(tmp_path / "none")}
    report = tmp_path / "report"
    with pytest.raises(FileNotFoundError):
        start_child.main({**order, "report": str(report)})
    assert json.loads(report.read_text().splitlines()[-1])["stage"] == (
        "load the artifacts"
    )
