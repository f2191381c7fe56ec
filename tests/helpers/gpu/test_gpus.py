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
from helpers.gpu.gpus import GPUS, find, occupancy


@pytest.mark.parametrize("gpu", GPUS.values(), ids=str)
def test_each_row_fits_together(gpu):
    assert find(gpu.name) is find(gpu.title) is gpu
    assert gpu.threads % gpu.warp == 0 and gpu.blocks * gpu.warp <= gpu.threads
    assert gpu.shared_optin <= gpu.shared
    assert gpu.l2 < gpu.memory
    assert gpu.properties.regs_per_multiprocessor == gpu.registers
    assert gpu.properties.shared_memory_per_block_optin == gpu.shared_optin


def test_a_gpu_by_the_names_people_use():
    names = {"RTX 4090": "rtx4090", "NVIDIA H100": "h100", "rtx-3090": "rtx3090"}
    assert {given: find(given).name for given in names} == names


@pytest.mark.parametrize("name", ["L40", "A100 40GB", "H100 PCIe", ""])
def test_another_gpu_is_not_taken_for_one_of_these(name):
    with pytest.raises(InputError, match="there are t4, a100"):
        find(name)


# From the data sheets: cores (per multiprocessor times how many), GB, MB of L2.
@pytest.mark.parametrize(
    ("name", "each", "cores", "gigabytes", "l2"),
    [
        ("t4", 64, 2560, 16, 4),
        ("a100", 64, 6912, 80, 40),
        ("rtx3090", 128, 10496, 24, 6),
        ("rtx4090", 128, 16384, 24, 72),
        ("l4", 128, 7424, 24, 48),
        ("h100", 128, 16896, 80, 50),
        ("h200", 128, 16896, 141, 60),
        ("b200", 128, 18944, 180, 126),
    ],
)
def test_the_numbers_are_those_of_the_data_sheet(name, each, cores, gigabytes, l2):
    gpu = GPUS[name]
    assert gpu.multiprocessors * each == cores
    assert gpu.l2 == l2 * 2**20
    # Some is kept for error correction, and a sheet may count 1e9 or 2**30.
    assert 0.9 * gigabytes * 2**30 <= gpu.memory <= 1.07 * gigabytes * 2**30


def test_the_gpu_of_this_machine(monkeypatch):
    def pretend(title, capability):
        monkeypatch.setattr(cuda, "is_available", lambda: True)
        monkeypatch.setattr(cuda, "get_device_name", lambda: title)
        monkeypatch.setattr(cuda, "get_device_capability", lambda: capability)

    cuda = torch.cuda
    monkeypatch.setattr(cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="name one of"):
        gpus.here()
    pretend("NVIDIA H200", (9, 0))
    assert gpus.here() is GPUS["h200"]
    pretend("Quadro K600", (3, 0))
    with pytest.raises(InputError, match="Quadro K600"):
        gpus.here()
    # One that is not in the table is described by its driver.
    sizes = {"total_memory": 12 * 2**30, "L2_cache_size": 4 * 2**20}
    has = types.SimpleNamespace(multi_processor_count=46, **sizes)
    monkeypatch.setattr(gpus, "GPUS", dict(GPUS))
    monkeypatch.setattr(cuda, "get_device_properties", lambda: has)
    pretend("NVIDIA GeForce RTX 3070", (8, 6))
    here = gpus.here()
    assert (here.name, here.title) == ("rtx3070", "NVIDIA GeForce RTX 3070")
    assert (here.target, here.multiprocessors) == (86, 46)
    assert (here.memory, here.l2) == (12 * 2**30, 4 * 2**20)
    assert gpus.find("RTX 3070") is here and gpus.here() is here


def test_occupancy_is_explained_step_by_step():
    fits = occupancy(find("h100"), 100, 33, 3000)
    assert fits.formula.splitlines() == [
        "warps: 64 // 4 = 16 blocks",
        "blocks: 32 at most",
        "registers: 16384 // 1280 = 12 warps for each of 4 schedulers, so 12 blocks",
        "shared memory: 233472 // 4096 = 57 blocks",
    ]
    assert str(fits).splitlines()[0] == (
        "75% occupancy: 48 warps in 12 blocks per multiprocessor, limited by registers"
    )
    assert str(fits) == repr(fits) and str(fits).endswith(fits.formula)
    bare = occupancy(find("t4"), 32, 0, 0)
    assert bare.formula.splitlines() == [
        "warps: 32 // 1 = 32 blocks",
        "blocks: 16 at most",
    ]
    assert (bare.warps, bare.fraction, bare.limit) == (16, 0.5, "blocks")
    assert occupancy(find("h100"), 1024, 32, 0).limit == "warps"
    assert occupancy(find("h100"), 128, 32, 50_000).limit == "shared memory"


@pytest.mark.parametrize("threads", [0, 1025])
def test_a_block_that_cannot_be_is_refused(threads):
    with pytest.raises(InputError, match="1 to 1024"):
        occupancy(find("h100"), threads, 32, 0)


_ASK = """
#include <cstddef>
#include <cuda_occupancy.h>
extern "C" int blocks(const int* g, int threads, int registers, int shared) {
  cudaOccDeviceProp p; cudaOccFuncAttributes a; cudaOccDeviceState s;
  p.computeMajor = g[0]; p.computeMinor = g[1]; p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiprocessor = g[2]; p.regsPerBlock = g[3];
  p.regsPerMultiprocessor = g[3]; p.warpSize = 32; p.sharedMemPerBlock = g[4];
  p.sharedMemPerMultiprocessor = g[5]; p.sharedMemPerBlockOptin = g[6];
  p.reservedSharedMemPerBlock = g[7]; p.numSms = 1;
  a.maxThreadsPerBlock = 1024; a.numRegs = registers;
  a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; a.maxDynamicSharedSizeBytes = g[6];
  cudaOccResult r;
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &s, threads, shared))
    return -1;
  return r.activeBlocksPerMultiprocessor;
}
"""


def test_occupancy_is_what_nvidias_calculator_says(tmp_path):
    triton = pytest.importorskip("triton", reason="NVIDIA's header comes with Triton")
    compiler, why = _torch.cpp_compiler()
    if compiler is None:
        pytest.skip(why)
    headers = Path(triton.__file__).parent / "backends" / "nvidia" / "include"
    (tmp_path / "ask.cpp").write_text(_ASK)
    built = ["ask.cpp", "-shared", "-fPIC", f"-I{headers}", "-o", "ask.so"]
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
