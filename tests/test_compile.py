"""Generated kernels, compiled for GPUs that are not here."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import torch

from helpers import _torch
from helpers.errors import InputError
from helpers.gpu import compile as made
from helpers.gpu import fake_gpu
from helpers.gpu.gpus import GPUS, find
from tests.kinds import dumped

H100 = find("h100")


def source(kind: str, number: int = 0) -> str:
    """Return the module of one generated kernel of a kind."""
    return [k.generated for k in dumped(kind).kernels if k.generated][number]


@pytest.mark.parametrize("gpu", GPUS.values(), ids=str)
def test_a_pointwise_kernel_on_every_gpu(gpu) -> None:
    code = made.compile_kernel(source("pointwise chain"), gpu)
    assert code.gpu == gpu.name and code.threads == code.config.num_warps * gpu.warp
    assert 8 <= code.registers <= 64 and code.spills == 0
    assert "tt.func public" in code.ttir and " loc(" not in code.ttir
    assert f"= {gpu.warp} : i32" in code.ttgir and "define " in code.llir
    if gpu.language == "hip":
        assert gpu.arch in code.amdgcn and not code.ptx + code.sass
    else:
        assert f".target {gpu.arch}" in code.ptx and "\t.loc\t" not in code.ptx
        assert "STG" in code.sass and "EXIT" in code.sass and not code.amdgcn
    assert 0 < code.occupancy.fraction <= 1


def test_it_is_quick_once_it_is_warm() -> None:
    made.compile_kernel(source("two outputs"), find("a100"))
    start = time.perf_counter()
    made.compile_kernel(source("two outputs"), find("l4"))
    assert time.perf_counter() - start < 5  # seconds; many times what it takes


def test_candidates_in_inductors_order_and_one_by_number_or_value() -> None:
    kernel = source("pointwise chain")
    found = made.configs(kernel, H100)
    assert len(found) > 1 and all("XBLOCK" in config.blocks for config in found)
    assert repr(found[0]).startswith("<XBLOCK ") and "warps" in str(found[0])
    last = made.compile_kernel(kernel, H100, len(found) - 1)
    assert last.config == found[-1] != made.compile_kernel(kernel, H100).config
    assert made.compile_kernel(kernel, H100, found[-1]) == last
    with pytest.raises(InputError, match="no configuration 99: there are 0: XBLOCK"):
        made.compile_kernel(kernel, H100, 99)


def test_the_grid_covers_the_elements() -> None:
    kernel = source("pointwise chain")
    size = made.configs(kernel, H100)[0].blocks["XBLOCK"]
    assert made.grid(kernel, H100, 0, [10 * size]) == (10, 1, 1)
    assert made.grid(kernel, H100, 0, {"xnumel": 10 * size + 1}) == (11, 1, 1)
    assert made.grid(kernel, H100) == f"(ceil(xnumel / {size}), 1, 1)"


@pytest.mark.parametrize(
    ("kind", "block"),
    [("FlexAttention", "BLOCK_M"), ("AdamW over several tensors", "XBLOCK")],
)
def test_templates_and_foreach_kernels(kind: str, block: str) -> None:
    kernel = source(kind, -1)
    code = made.compile_kernel(kernel, H100)
    assert block in code.config.blocks and "STG" in code.sass
    grid = made.grid(kernel, H100, 0, [4, 5, 6])
    assert grid == (4, 5, 6) or (grid[0] > 0 and grid[1:] == (1, 1))


def test_registers_that_do_not_fit_are_counted_and_arrays_are_not() -> None:
    small = find("t4")  # FlexAttention was written for an H100
    tight = made.compile_kernel(source("FlexAttention", -1), small)
    assert tight.registers == 255 and tight.spills > 100
    assert made.compile_kernel(source("FlexAttention", -1), small) == tight  # cached
    wave = made.compile_kernel(source("pointwise chain"), H100)
    assert "STL" in wave.sass and wave.spills == 0  # sin has a table in local memory


def test_fp8_needs_a_gpu_that_has_it() -> None:
    kernel = source("mixed dtypes").replace("'*bf16'", "'*fp8e4nv'")
    assert "*fp8e4nv" in kernel
    assert made.compile_kernel(kernel, H100).registers > 0
    with pytest.raises(
        InputError, match=r"no machine code for Tesla T4.*not supported"
    ):
        made.compile_kernel(kernel, find("t4"))


@pytest.mark.parametrize(
    ("text", "said"),
    [("x = 1", "holds 0"), ("import nope", "No module"), ("def (", "invalid syntax")],
)
def test_what_is_no_kernel_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        made.compile_kernel(text, H100)


def test_it_survives_json() -> None:
    code = made.compile_kernel(source("two outputs"), H100)
    assert made.MachineCode.from_json(code.to_json()) == code
    assert "registers a thread" in str(code) and "occupancy" in repr(code)


def test_nothing_stays_behind(tmp_path: Path, monkeypatch) -> None:
    kernel = source("two outputs")
    cache = tmp_path / "cache"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(cache))
    heuristics, hints = _torch_private("heuristics"), _torch_private("hints")
    before = dict(os.environ), hints.DeviceProperties, torch.version.hip
    for name in ("h100", "mi300x"):
        made.compile_kernel(kernel, find(name))
    assert before == (dict(os.environ), hints.DeviceProperties, torch.version.hip)
    assert not heuristics.log.disabled
    assert {each.name for each in tmp_path.iterdir()} <= {"cache", "course-home"}
    assert any(cache.rglob("*.cubin"))
    monkeypatch.delenv("TRITON_CACHE_DIR")
    made.configs(kernel, H100)
    assert "TRITON_CACHE_DIR" not in os.environ


def test_without_triton_it_says_what_to_do(monkeypatch) -> None:
    kernel = source("two outputs")
    monkeypatch.setattr(_torch, "triton_pair", lambda: ("3.7", None, False))
    for ask in (made.configs, made.grid, made.compile_kernel):
        with pytest.raises(fake_gpu.Missing, match="pip install 'triton==3"):
            ask(kernel, H100)
