"""The table of GPUs, and occupancy by NVIDIA's own method."""

import ctypes
import itertools
import subprocess
import types
from pathlib import Path

import pytest
import torch

from helpers import _torch
from helpers.errors import InputError
from helpers.gpu import gpus
from helpers.gpu.gpus import GPUS, occupancy


def test_the_gpu_of_this_machine(monkeypatch):
    def pretend(title, capability):
        known = {"is_available": bool(title), "get_device_name": title}
        known["get_device_capability"] = capability
        sizes = {"total_memory": 12 * 2**30, "L2_cache_size": 4 * 2**20}
        has = types.SimpleNamespace(multi_processor_count=46, **sizes)
        known["get_device_properties"] = has
        for name, value in known.items():
            monkeypatch.setattr(torch.cuda, name, lambda value=value: value)

    pretend("", None)
    with pytest.raises(InputError, match="name one of"):
        gpus.here()
    pretend("NVIDIA H200", (9, 0))
    assert gpus.here() is GPUS["h200"]
    pretend("Quadro K600", (3, 0))
    with pytest.raises(InputError, match="Quadro K600"):
        gpus.here()
    # One that is not in the table is described by its driver.
    monkeypatch.setattr(gpus, "GPUS", dict(GPUS))
    pretend("NVIDIA GeForce RTX 3070", (8, 6))
    here = gpus.here()
    assert (here.name, here.title) == ("rtx3070", "NVIDIA GeForce RTX 3070")
    found = here.target, here.multiprocessors, here.memory, here.l2
    assert found == (86, 46, 12 * 2**30, 4 * 2**20)
    assert gpus.find("RTX 3070") is here and gpus.here() is here


ASK = Path(__file__).with_name("occupancy.cpp")


def test_occupancy_is_what_nvidias_calculator_says(tmp_path):
    triton = pytest.importorskip("triton", reason="NVIDIA's header comes with Triton")
    compiler, why = _torch.cpp_compiler()
    if compiler is None:
        pytest.skip(why)
    headers = Path(triton.__file__).parent / "backends" / "nvidia" / "include"
    built = [ASK, "-shared", "-fPIC", f"-I{headers}", "-o", "ask.so"]
    subprocess.run([compiler, *built], cwd=tmp_path, check=True)
    ask = ctypes.CDLL(tmp_path / "ask.so").blocks
    for gpu in GPUS.values():
        kept = 1024 if gpu.capability >= (8, 0) else 0
        chip = (*gpu.capability, gpu.threads, gpu.registers)
        memory = (48 * 1024, gpu.shared, gpu.shared_optin, kept)
        described = (ctypes.c_int * 8)(*chip, *memory)
        threads = (1, 32, 33, 96, 256, 512, 1024)
        registers = (*range(0, 256, 17), 256, 257)
        most = gpu.shared_optin
        shared = (0, 1, 1000, 4096, 30_000, 60_000, most, most + 1, gpu.shared)
        for asked in itertools.product(threads, registers, shared):
            blocks = ask(described, *asked)
            assert occupancy(gpu, *asked).blocks == blocks, (gpu.name, asked)
