"""doctor finds what is missing; below an error stands what helps, if anything does."""

import os
import re
import sys
import types
from unittest import mock

import pytest
import torch

from helpers import _torch, health
from helpers.__main__ import main
from tests.refresh import ran

PARTS = [
    *("Python", "torch", "triton", "C++ compiler", "GPU"),
    *("threads", "cache folder", "memory", "first compile"),
]


def row(name, *, compile=False):
    found = health.doctor(compile=compile)
    assert [part.name for part in found.rows] == PARTS
    return next(part for part in found.rows if part.name == name)


def test_no_compiler_is_told_in_words(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CXX", "/no/compiler")
    with torch._inductor.config.patch({"cpp.cxx": ("/no/compiler",)}):
        assert main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert "ready to compile: no, missing: C++ compiler, first c" in printed
    assert "set CXX to one that runs" in printed


def test_a_torch_that_does_not_import_is_a_row(tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so: no such file')")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = ran(sys.executable, "-m", "helpers", "doctor", status=1, env=env)
    assert "fails with OSError: libcudart.so: no such file" in done.stdout
    assert "torch: Nothing runs. make clean setup." in done.stdout
    assert "Traceback" not in done.stderr


def raises(error):
    return mock.Mock(side_effect=error)


def triton(wanted, found, gpu=False):
    pair = wanted, found, wanted == found
    return {
        "helpers._torch.triton_pair": lambda: pair,
        "torch.cuda.is_available": lambda: gpu,
        "sys.platform": "linux",
    }


def gpu(driver, cuda):
    return {
        "helpers.results.nvidia_driver": lambda: driver,
        "torch.cuda.is_available": lambda: False,
        "torch.cuda.init": raises(RuntimeError("too old")),
        "torch.version.cuda": cuda,
    }


def working_gpu(major):
    chip = {"name": "Tesla", "total_memory": 16 << 30, "major": major, "minor": 1}
    properties = types.SimpleNamespace(**chip)
    return {
        "helpers.results.nvidia_driver": lambda: "550.1",
        "torch.cuda.is_available": lambda: True,
        "torch.cuda.get_device_properties": lambda device: properties,
    }


CACHE, COMPILER = "cache folder", "C++ compiler"
BROKEN = raises(RuntimeError("one\ntwo"))
NO_HEADERS = {
    "helpers._torch.cpp_compiler": lambda: ("g++", ""),
    "sysconfig.get_path": {"include": "/none"}.get,
}
FULL = raises(OSError("cannot write doctor: No space left on device."))
LITTLE = types.SimpleNamespace(free=1 << 20)
OLD, OTHER = "make setup PYTHON=python3.11", "2.13 to 2.15. make setup"
INSTALL = "pip install 'triton==3.7.1.*'"
# What is so on a machine, the row that tells it, its status, and what it says last.
MACHINES = [
    ({"sys.version_info": (3, 10, 0)}, "Python", "note", OLD),
    ({"torch.__version__": "2.12.1"}, "torch", "missing", OTHER),
    ({"torch.__version__": "2.15.1+cu130"}, "torch", "ok", "2.15.1+cu130 "),
    ({"torch.__version__": "3.0.0a0+git"}, "torch", "note", OTHER),
    (triton("3.7.1", "3.7.1"), "triton", "ok", f"of torch {torch.__version__} "),
    (triton("3.7.1", None), "triton", "note", INSTALL),
    (triton("3.7.1", None, gpu=True), "triton", "missing", INSTALL),
    (gpu(None, None), "GPU", "note", "no NVIDIA GPU All works on the CPU"),
    (gpu("550.1", None), "GPU", "note", "make setup TORCH=default"),
    (gpu("550.1", "13.0"), "GPU", "note", "make setup TORCH=cu126"),
    (working_gpu(7), "GPU", "ok", "Tesla, 16 GiB, driver 550.1 "),
    (working_gpu(6), "GPU", "note", "capability 7.0. All works on the CPU"),
    (NO_HEADERS, COMPILER, "missing", "set CXX to one that runs"),
    (
        *({"helpers._torch.cpp_compiler": BROKEN}, COMPILER, "note"),
        "fails with RuntimeError: one two This could not be looked at",
    ),
    (
        *({"shutil.disk_usage": lambda _: LITTLE}, CACHE, "note"),
        "set TORCHINDUCTOR_CACHE_DIR to a folder with more",
    ),
    (
        *({"helpers.results.write_atomically": FULL}, CACHE, "missing"),
        "Set TORCHINDUCTOR_CACHE_DIR to a folder that you may write to",
    ),
]


@pytest.mark.parametrize(("machine", "name", "status", "last"), MACHINES)
def test_what_is_so_on_a_machine_is_said_in_its_row(
    machine, name, status, last, monkeypatch
):
    for target, value in machine.items():
        monkeypatch.setattr(target, value)
    found = row(name)
    assert found.status == status
    assert f"{found.found} {found.advice}".endswith(last)


def sine_for_cosine(graph, inputs):
    for node in graph.graph.find_nodes(op="call_method", target="cos"):
        node.target = "sin"
    graph.recompile()
    return graph


def test_the_first_compile_is_tried_and_its_numbers_are_checked():
    with torch.compiler.set_stance("default", force_backend="eager"):
        healthy = row("first compile", compile=True)
    assert healthy.status == "ok"
    assert re.fullmatch(r"cpu [\d.]+ \w+", healthy.found)
    torch.compiler.reset()

    with torch.compiler.set_stance("default", force_backend=sine_for_cosine):
        wrong = row("first compile", compile=True)
    assert wrong.status == "missing"
    assert re.fullmatch(r"cpu: the compiled function is off by .*", wrong.found)
    assert f"Delete the folder {_torch.inductor_cache_dir()}" in wrong.advice

    torch.compiler.reset()
    with torch._dynamo.config.patch(disable=True):
        eager = row("first compile", compile=True)
    assert (eager.status, eager.found) == ("missing", "it is switched off")
    assert "Unset TORCH_COMPILE_DISABLE and TORCHDYNAMO_DISABLE" in eager.advice
