"""Generated kernels, compiled for GPUs that are not here."""

import re
from dataclasses import replace
from unittest import mock

import pytest
from torch._inductor.runtime import triton_heuristics

from helpers.errors import InputError, Unavailable
from helpers.gpu.compile import Config, MachineCode, compile_kernel
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
    assert MachineCode.from_json(code.to_json()) == code
    assert str(code).startswith(f"{code.kernel} on {gpu}: {code.config}\n")
    assert f"\n{code.registers} registers a thread, 0 spilled, 0 B of" in str(code)
    assert str(code).endswith(f"\n{code.occupancy}")
    assert "loc(" not in code.ttgir
    if gpu.capability < (7, 5):  # CUDA 13 writes no assembly of it any more
        with pytest.raises(Unavailable, match="sm_70"):
            code.sass  # noqa: B018
    else:
        assert re.match(r"0000  \S.*;\n0010  ", code.sass)
        assert "STG" in code.sass and "EXIT" in code.sass


def test_the_first_of_inductors_candidates_is_compiled():
    kernel = source("pointwise chain")
    known = dumped("pointwise chain").kernels[0].configs
    assert len(known) > 1 and all("XBLOCK" in config.blocks for config in known)
    assert re.fullmatch(r"<XBLOCK \d+, \d warps>", repr(known[0]))
    assert str(Config({}, 1, 2)) == "1 warp, 2 stages"
    assert compile_kernel(kernel, H100).config == known[0]


def test_the_grid_covers_the_elements():
    [kernel] = dumped("pointwise chain").kernels
    block = kernel.configs[0].blocks["XBLOCK"]
    ten, eleven = (("in", "out", f"{10 * block + more}") for more in (0, 1))
    assert replace(kernel, arguments=ten).grid == (10, 1, 1)
    assert replace(kernel, arguments=eleven).grid == (11, 1, 1)
    assert replace(kernel, arguments=()).grid == f"(ceil(xnumel / {block}), 1, 1)"


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


def test_fp8_needs_a_gpu_that_has_it():
    kernel = source("mixed dtypes").replace("'*bf16'", "'*fp8e4nv'")
    assert "*fp8e4nv" in kernel and compile_kernel(kernel, H100).registers > 0
    message = r"^no machine code for Tesla T4 \(sm_75\): ValueError.*not supported"
    handled = mock.patch.object(triton_heuristics.log, "handle")
    with handled as logged, pytest.raises(InputError, match=message):
        compile_kernel(kernel, find("t4"))
    logged.assert_not_called()  # the caller is told once
