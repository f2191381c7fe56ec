"""What a kernel needs on a GPU, read from what the compilers print."""

from __future__ import annotations

import base64
import os
import types
from unittest import mock

import pytest

from helpers import _torch
from helpers.errors import InputError
from helpers.gpu import machine_code as made
from helpers.gpu.gpus import find, occupancy

H100 = find("h100")


def tuner(*configs, **meta):
    """What Inductor makes of a kernel, as far as its configurations go."""
    made_ = [
        types.SimpleNamespace(kwargs=blocks, num_warps=warps, num_stages=stages)
        for blocks, warps, stages in configs
    ]
    return types.SimpleNamespace(configs=made_, inductor_meta=meta)


def test_a_configuration_as_text() -> None:
    one = made.Config({"XBLOCK": 128, "R0_BLOCK": 64}, 4, 1)
    assert str(one) == "XBLOCK 128, R0_BLOCK 64, 4 warps"
    assert repr(one) == "<XBLOCK 128, R0_BLOCK 64, 4 warps>"
    assert str(made.Config({}, 1, 2)) == "1 warp, 2 stages"


def test_a_configuration_holds_what_is_fixed_what_is_named_and_what_is_tried() -> None:
    found = tuner(
        ({"XBLOCK": 8}, 4, 3),
        combo_grid_meta={"default_config": {"YBLOCK": 2, "XBLOCK": 1}},
        config_args={"BLOCK_M": 64, "num_warps": 9, "SOME_BLOCK_": 7, "YBLOCK": 3},
    )
    (only,) = made._configs(found)
    assert only == made.Config({"YBLOCK": 2, "XBLOCK": 8, "BLOCK_M": 64}, 4, 3)
    without = tuner(({"XBLOCK": 8}, 4, 1), combo_grid_meta={"default_config": None})
    assert made._configs(without) == (made.Config({"XBLOCK": 8}, 4, 1),)


def test_a_configuration_by_number_or_value() -> None:
    found = tuner(({"XBLOCK": 8}, 4, 1), ({"XBLOCK": 16}, 8, 1))
    one, two = found.configs
    assert made._choose(found, 0) is one and made._choose(found, 1) is two
    assert made._choose(found, made.Config({"XBLOCK": 16}, 8, 1)) is two
    there = "there are 0: XBLOCK 8, 4 warps; 1: XBLOCK 16, 8 warps"
    for none in (2, -1, "0", made.Config({"XBLOCK": 8}, 8, 1)):
        with pytest.raises(InputError, match=there):
            made._choose(found, none)


def test_lines_for_a_debugger_are_left_out() -> None:
    text = (
        '#loc = loc("x":1:0)\ntt.func @k(%0: i32 loc("a")) loc(#loc1)\n#loc1 = x\n'
        "  %1 = f %0 loc(#loc)\n  %2 = allocate %1\n"
    )
    assert made._plain(text) == (
        "tt.func @k(%0: i32)\n  %1 = f %0\n  %2 = allocate %1\n"
    )
    assert made._plain("") == ""


SASS = """
        Function : triton_poi
        /*0000*/                   MOV R1, c[0x0][0x28] ;       /* 0x00000a00 */
                                                                /* 0x000fe200 */
        /*0010*/              @!P0 STG.E [R2], R4 ;             /* 0x00000004 */
"""
USAGE = " Function k:\n  REG:34 STACK:8 SHARED:512 LOCAL:4 CONSTANT[0]:380 TEXTURE:0\n"


def test_what_an_nvidia_kernel_needs(monkeypatch) -> None:
    asked = []

    def cuobjdump(option: str, cubin: bytes) -> str:
        asked.append((option, cubin))
        return {"--dump-resource-usage": USAGE, "--dump-sass": SASS}[option]

    monkeypatch.setattr(made, "_cuobjdump", cuobjdump)
    needs = made._needs(H100, types.SimpleNamespace(asm={"cubin": b"code"}))
    assert needs == {"registers": 34, "spills": 3}
    code = types.SimpleNamespace(cubin=base64.b64encode(b"code").decode())
    sass = made.MachineCode.sass.func(code)
    assert sass == "0000  MOV R1, c[0x0][0x28] ;\n0010  @!P0 STG.E [R2], R4 ;\n"
    assert asked == [("--dump-resource-usage", b"code"), ("--dump-sass", b"code")]


def test_what_an_amd_kernel_needs() -> None:
    notes = "  .vgpr_count:     17\n    .vgpr_spill_count: 5\n  .sgpr_count: 9\n"
    binary = types.SimpleNamespace(asm={"amdgcn": notes})
    assert made._needs(find("mi300x"), binary) == {"registers": 17, "spills": 5}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("first\n  error: bad type \nlast", "error: bad type"),
        ("ptxas: error one\nError two\n", "Error two"),
        ("only this\n\n", "only this"),
        ("CompilationError('wrong')", "wrong"),
        ('KeyError("wrong")', "wrong"),
        ("", "ValueError"),
    ],
)
def test_the_line_that_says_what_is_wrong(message: str, reason: str) -> None:
    assert made._reason(ValueError(message)) == reason


@pytest.mark.parametrize(
    ("gpu", "cc", "kind"), [("h100", 90, "cuda"), ("mi300x", "gfx942", "hip")]
)
def test_a_kernel_is_told_of_the_gpu_it_is_for(gpu: str, cc: object, kind: str) -> None:
    hints, chip = _torch_private("hints"), find(gpu)
    told = made._properties(hints, chip)("anything", more=1)
    assert (told.type, told.index, told.cc) == (kind, 0, cc)
    assert told.multi_processor_count == chip.multiprocessors
    assert told.warp_size == chip.warp and told.major == chip.capability[0]


def test_a_kernel_compiled_as_text() -> None:
    needs = occupancy(H100, 128, 34, 2048)
    code = made.MachineCode(
        "triton_poi", "h100", made.Config({"XBLOCK": 128}, 4, 1), 128, 34, 2, 2048,
        needs, *"abcdef",
    )  # fmt: skip
    assert str(code) == repr(code)
    assert str(code) == (
        "triton_poi on NVIDIA H100 80GB HBM3 (sm_90): XBLOCK 128, 4 warps\n"
        "34 registers a thread, 2 spilled, 2 KiB of shared memory a block\n"
        f"{needs}"
    )
    assert made.STAGES == ("ttir", "ttgir", "llir", "ptx", "amdgcn")


# ---------------------------------------------------------- one kernel, compiled really

KERNEL = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties

@triton_heuristics.pointwise(
    size_hints={'x': 4096},
    filename=__file__,
    triton_meta={'signature': {'a': '*fp32', 'o': '*fp32', 'xnumel': 'i32',
                               'XBLOCK': 'constexpr'},
                 'device': DeviceProperties(None), 'constants': {},
                 'configs': [{}]},
    inductor_meta={'grid_type': 'Grid1D', 'kernel_name': 'triton_poi_fused_add_0',
                   'no_x_dim': False, 'num_load': 1, 'num_reduction': 0},
    min_elem_per_thread=0
)
@triton.jit
def triton_poi_fused_add_0(a, o, xnumel, XBLOCK : tl.constexpr):
    x = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    tl.store(o + x, tl.load(a + x, x < xnumel) + 1.0, x < xnumel)
"""
triton = pytest.mark.skipif(
    not _torch.version_of("triton"), reason="Triton is not installed"
)


@triton
def test_a_kernel_is_compiled_for_the_gpu_that_was_asked_for() -> None:
    code = made.compile_kernel(KERNEL, H100)
    assert (code.kernel, code.gpu) == ("triton_poi_fused_add_0", "h100")
    assert code.config == made.configs(KERNEL, H100)[0]
    assert code.threads == 32 * code.config.num_warps
    assert code.spills == code.shared == 0 and 8 <= code.registers <= 40
    assert code.occupancy == occupancy(H100, code.threads, code.registers, 0)
    assert ".target sm_90" in code.ptx and "EXIT" in code.sass and code.amdgcn == ""
    assert "tt.func" in code.ttir and "ttg" in code.ttgir and "define" in code.llir
    assert made.MachineCode.from_json(code.to_json()).sass == code.sass
    assert ".loc" not in code.ptx
    assert "\t.loc\t" in made.compile_kernel(KERNEL, H100, lines=True).ptx
    amd = made.compile_kernel(KERNEL, find("mi300x"))
    assert "gfx942" in amd.amdgcn and amd.sass == amd.ptx == ""
    assert amd.threads == 64 * amd.config.num_warps


@triton
@pytest.mark.parametrize("before", ["old", None])
def test_the_environment_is_put_back(before: str | None, monkeypatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", before or "")
    if before is None:
        monkeypatch.delenv("TRITON_CACHE_DIR")
    with pytest.raises(ZeroDivisionError), made._loaded(KERNEL, H100):
        os.environ["TRITON_CACHE_DIR"] = f"new, {1 / 0}"
    with made._loaded(KERNEL, H100):
        os.environ["TRITON_CACHE_DIR"] = "new"
    assert os.environ.get("TRITON_CACHE_DIR") == before


@triton
def test_what_ptxas_says_of_spills_counts_and_not_the_arrays(monkeypatch) -> None:
    real, said = made._compiled, []

    def compiled(tuner, config, lines, again=False):
        said.append(again)
        return real(tuner, config, lines)[0], "x 24 bytes spill stores, 8 loads" * again

    monkeypatch.setattr(made, "_compiled", compiled)
    needs = {"registers": 30, "spills": 9}
    monkeypatch.setattr(made, "_needs", lambda *_: dict(needs))
    code = made.compile_kernel(KERNEL, H100)
    assert (code.spills, code.registers) == (6, 30)
    assert said == [False, True]
    needs["spills"] = 0
    assert made.compile_kernel(KERNEL, H100).spills == 0 and len(said) == 3


@triton
def test_the_grid_is_a_number_where_the_sizes_are_known() -> None:
    block = made.configs(KERNEL, H100)[0].blocks["XBLOCK"]
    for numels in ([3 * block], {"xnumel": 3 * block}):
        assert made.grid(KERNEL, H100, 0, numels) == (3, 1, 1)
    assert made.grid(KERNEL, H100, numels=[3 * block + 1]) == (4, 1, 1)
    assert made.grid(KERNEL, H100) == f"(ceil(xnumel / {block}), 1, 1)"
    small = made.configs(KERNEL, H100)[-1]
    assert made.grid(KERNEL, H100, small, [1]) == (1, 1, 1)


@triton
def test_a_kernel_that_cannot_be_compiled_says_why() -> None:
    with (
        mock.patch.object(made, "_compiled", side_effect=ValueError("error: x\n")),
        pytest.raises(InputError, match=r"no machine code for Tesla T4 .*error: x"),
    ):
        made.compile_kernel(KERNEL, find("t4"))
    with pytest.raises(InputError, match="this holds 2"):
        made.configs(KERNEL + KERNEL.replace("fused_add_0", "fused_add_1"), H100)
    with pytest.raises(InputError, match="not a kernel that Inductor wrote: invalid"):
        made.configs("def", H100)
