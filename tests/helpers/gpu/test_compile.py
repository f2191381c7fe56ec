"""Generated kernels, compiled for GPUs that are not here."""

import linecache
import os
import re
from unittest import mock

import pytest
import torch
from torch._inductor.runtime import hints, triton_heuristics

from helpers import _torch
from helpers.errors import InputError, Unavailable
from helpers.gpu.compile import (
    Config,
    MachineCode,
    compile_kernel,
    configs,
    grid,
    neighbours,
)
from helpers.gpu.gpus import GPUS, find, occupancy
from tests.kinds import dumped

H100 = find("h100")


def source(kind, number=0):
    """Return the module of one generated kernel of a kind."""
    return [k.generated for k in dumped(kind).kernels][number]


@pytest.mark.parametrize("gpu", GPUS.values(), ids=str)
def test_a_pointwise_kernel_on_every_gpu(gpu):
    code = compile_kernel(source("pointwise chain"), gpu)
    assert code.gpu == gpu.name and code.threads == code.config.num_warps * gpu.warp
    assert 8 <= code.registers <= 64 and code.spills == 0
    assert "tt.func public" in code.ttir and "loc(" not in code.ttir
    assert code.ttir.startswith("module {") and code.ttir.endswith("}\n")
    assert f"= {gpu.warp} : i32" in code.ttgir and "define " in code.llir
    assert code.occupancy == occupancy(gpu, code.threads, code.registers, code.shared)
    assert f".target sm_{gpu.target}" in code.ptx and "\t.loc\t" not in code.ptx
    assert "STG" in code.sass and "EXIT" in code.sass
    assert MachineCode.from_json(code.to_json()) == code
    first, second, *_ = str(code).splitlines()
    assert first.startswith("triton_poi_fused_") and f"(sm_{gpu.target}): XB" in first
    used = (
        f"{code.registers} registers a thread, 0 spilled, 0 B of shared memory a block"
    )
    assert second == used and str(code).endswith(f"\n{code.occupancy}")
    assert first == f"{code.kernel} on {gpu}: {code.config}"
    assert re.match(r"0000  \S.*;\n0010  ", code.sass) and "loc(" not in code.ttgir


def test_coordinate_descent_goes_one_step_in_each_direction():
    kernel = source("pointwise chain")
    assert neighbours(kernel, H100) == ()
    asked = "inductor_meta={"
    descends = kernel.replace(asked, asked + "'coordinate_descent_tuning': True, ")
    descends = descends.replace("'coordinate_descent_tuning': False", "")
    for number, start in enumerate(configs(descends, H100)):
        found = neighbours(descends, H100, number)
        assert found and not {*map(str, found)} & {*map(str, configs(descends, H100))}
        for each in found:
            blocks = each.blocks["XBLOCK"] / start.blocks["XBLOCK"]
            moved = blocks, each.num_warps / start.num_warps
            assert sorted(moved) in ([0.5, 1], [1, 2])


def test_candidates_in_inductors_order_and_one_by_number():
    kernel = source("pointwise chain")
    known = configs(kernel, H100)
    assert len(known) > 1 and all("XBLOCK" in config.blocks for config in known)
    assert re.fullmatch(r"<XBLOCK \d+, \d warps>", repr(known[0]))
    assert str(Config({}, 1, 2)) == "1 warp, 2 stages"
    assert "\t.loc\t" in compile_kernel(kernel, H100, lines=True).ptx
    last = compile_kernel(kernel, H100, len(known) - 1)
    assert last.config == known[-1] != compile_kernel(kernel, H100).config
    names = "; ".join(f"{i}: {each}" for i, each in enumerate(known))
    for wrong in (-1, len(known)):
        with pytest.raises(InputError) as caught:
            compile_kernel(kernel, H100, wrong)
        assert str(caught.value) == f"no configuration {wrong}: there are {names}"


def test_the_grid_covers_the_elements():
    kernel = source("pointwise chain")
    block = configs(kernel, H100)[0].blocks["XBLOCK"]
    assert grid(kernel, H100, 0, ["in", "out", 10 * block]) == (10, 1, 1)
    assert grid(kernel, H100, 0, ["in", "out", f"{10 * block + 1}"]) == (11, 1, 1)
    assert grid(kernel, H100) == f"(ceil(xnumel / {block}), 1, 1)"


@pytest.mark.parametrize(
    ("kind", "blocks", "grid"),
    [
        ("FlexAttention", {"BLOCK_M", "BLOCK_N"}, (1, 1, 2)),
        ("AdamW over several tensors", {"XBLOCK"}, (16, 1, 1)),
    ],
)
def test_templates_and_foreach_kernels(kind, blocks, grid):
    kernel = dumped(kind).kernels[-1]
    code = kernel.on()
    assert code.config.blocks.keys() == blocks and "STG" in code.sass
    assert kernel.grid == grid


def test_registers_that_do_not_fit_are_counted_and_arrays_are_not():
    small = find("t4")  # FlexAttention was written for an H100
    tight = compile_kernel(source("FlexAttention", -1), small)
    stored = re.findall(r"\bSTL(\.64|\.128|)\b", tight.sass)
    words = sum({"": 1, ".64": 2, ".128": 4}[each] for each in stored)
    assert tight.registers == 255 and tight.spills == words > 100
    assert f" {words} spilled, " in str(tight)
    assert compile_kernel(source("FlexAttention", -1), small) == tight  # cached
    wave = compile_kernel(source("pointwise chain"), H100)
    assert "STL" in wave.sass and wave.spills == 0  # sin has a table in local memory


def test_machine_code_is_made_once_for_each_gpu_and_configuration():
    kernel = dumped("pointwise chain").kernels[0]
    assert kernel.on() is kernel.on("H100") is kernel.on(config=kernel.chosen)
    assert kernel.on("a100") is not kernel.on() and "sm_80" in kernel.on("a100").ptx
    for name in ("ptx", "sass", "registers", "spills"):
        assert getattr(kernel, name) == getattr(kernel.on(), name)


def test_fp8_needs_a_gpu_that_has_it():
    kernel = source("mixed dtypes").replace("'*bf16'", "'*fp8e4nv'")
    assert "*fp8e4nv" in kernel and compile_kernel(kernel, H100).registers > 0
    message = r"^no machine code for Tesla T4 \(sm_75\): ValueError.*not supported"
    handled = mock.patch.object(triton_heuristics.log, "handle")
    with handled as logged, pytest.raises(InputError, match=message):
        compile_kernel(kernel, find("t4"))
    logged.assert_not_called()  # the caller is told once


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "one generated kernel is wanted, and this holds 0$"),
        ("import nope", "not a kernel that Inductor wrote: No module named 'nope'$"),
        ("def (", "not a .*: invalid syntax .<generated kernel>, line 1.$"),
    ],
)
def test_what_is_no_kernel_is_refused(text, message):
    with pytest.raises(InputError, match=f"^{message}"):
        compile_kernel(text, H100)


def test_nothing_stays_behind(tmp_path, monkeypatch):
    kernel, cache = source("two outputs"), tmp_path / "cache"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(cache))
    before = dict(os.environ), hints.DeviceProperties, torch.version.hip
    compile_kernel(kernel, H100)
    assert before == (dict(os.environ), hints.DeviceProperties, torch.version.hip)
    assert not triton_heuristics.log.disabled
    assert "<generated kernel>" not in linecache.cache
    assert {path.name for path in tmp_path.iterdir()} <= {"cache", "course-home"}
    assert any(cache.rglob("*.cubin"))
    monkeypatch.delenv("TRITON_CACHE_DIR")
    configs(kernel, H100)
    assert "TRITON_CACHE_DIR" not in os.environ


def test_without_triton_it_says_what_to_do(monkeypatch):
    kernel = source("two outputs")
    monkeypatch.setattr(_torch, "version_of", lambda name: None)
    with pytest.raises(Unavailable, match="pip install 'triton==3"):
        configs(kernel, H100)
