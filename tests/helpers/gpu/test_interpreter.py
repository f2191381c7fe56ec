"""Every generated kernel runs in the interpreter; a wrong one is seen."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import tempfile
from types import SimpleNamespace
from unittest import mock

import pytest
import torch

pytest.importorskip("triton")

import triton
import triton.language as tl
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from helpers.errors import InputError
from helpers.gpu import gpus
from helpers.gpu import interpreter as interpreting
from helpers.gpu.dump import Dump, dump_triton
from helpers.gpu.interpreter import (
    CheckedKernel,
    Numerics,
    attention,
    check_numerics,
    interpreter,
)
from helpers.text import unmark
from tests.kinds import dumped, randn

NAMES = (
    "a sum in two kernels",
    "Conv, BatchNorm, ReLU, training",
    "embedding and index, training",
    "cross-entropy, training",
    "mixed dtypes",
    "bfloat16 LayerNorm, training",
    "dynamic batch",
    "attention, training",
    "half attention with a causal mask",
    "FlexAttention",
    "AdamW over several tensors",
    "your own Triton kernel",
    "sort and running sum",
)


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_agrees(name):
    kernels = dumped(name).check_numerics().kernels
    own = (
        "eager cannot run: NotImplementedError: a kernel of your own has no eager twin"
    )
    yours = [k for k in kernels if k.reason == own]
    assert kernels
    assert len(yours) == (len(kernels) if name == "your own Triton kernel" else 0)
    for kernel in kernels:
        assert kernel in yours or (kernel.status, kernel.reason) == ("agrees", "")
        assert kernel.programs > 0
        # The gradient of a bias before a normalisation cancels: only rounding is left.
        assert min(kernel.relative, kernel.error) < 1e-4 or "half" in name
        assert max(kernel.relative, kernel.error) == 0 or name != "dynamic batch"
    if "Conv" in name:  # sums in another order differ, or nothing was run
        assert max(kernel.error for kernel in kernels) > 0


def grouped(q, k, v):
    """Return attention of four heads, of which two share keys and values."""
    options = {"is_causal": True, "enable_gqa": True, "scale": 0.3}
    return scaled_dot_product_attention(q, k, v, dropout_p=0.1, **options).sin()


def masked(q, mask):
    """Return attention with a mask that counts, which has gradients of its own."""
    options = {"attn_mask": mask, "scale": 0.5}
    return scaled_dot_product_attention(q, q.sin(), q.cos(), **options).sin()


def often_dropped(x, weight):
    """Return four dropouts: the kernel of the last two is one, with two seeds."""
    for _ in range(4):
        x = torch.nn.functional.dropout(x, 0.5) @ weight
    return x


def normalised(x):
    """Return what a detector does with an image first."""
    mean, scale = torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.3, 0.4])
    return (x - mean[:, None, None]) / scale[:, None, None]


HEADS = [randn(2, heads, 16, 8).bfloat16() for heads in (4, 2, 2)]
PROGRAMS = {  # each was once said to differ, or not to run
    "ones added into new zeros": (
        lambda i: torch.zeros(8).scatter_add(0, i, torch.ones(90)),
        torch.arange(90) % 7,
    ),
    "a column of a longer row": (
        lambda a, b: torch.cat([a.sum(1, keepdim=True), b], 1),
        randn(16, 300),
        randn(16, 16),
    ),
    "grouped heads with dropout, training": (grouped, *HEADS),
    "dropout of two elements, training": (torch.nn.Dropout(0.5), torch.ones(2)),
    "dropout of three, training": (torch.nn.Dropout(0.5), torch.ones(3)),
    "one kernel drops twice": (often_dropped, randn(64, 64), randn(64, 64)),
    "a mask that learns, training": (masked, randn(1, 2, 16, 8), randn(1, 2, 16, 16)),
    "random whole numbers": (lambda x: x * torch.randint(-5, 9, (64,)), randn(64)),
    "normal numbers": (lambda x: x + torch.randn(7, 9), randn(7, 9)),
    "two normal numbers": (lambda x: x + torch.randn(2), randn(2)),
    "what is no number": (lambda x: (x.log(), x / x.relu()), randn(64)),
    "complex numbers": (lambda x: (torch.fft.fft(x), x.sin()), randn(64)),
    "whole numbers to bfloat16": (
        lambda i: (i.bfloat16() + 0.5).float(),
        torch.arange(-50, 50),
    ),
    "a function of the GPU alone": (torch.special.i0, randn(64)),
    "constants made inside": (normalised, randn(3, 8, 8)),
    "more constants than a kernel holds": (
        lambda x: x * torch.tensor([float(i) for i in range(20)]),
        randn(4, 20),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_is_right_agrees(name):
    dump = dump_triton(*PROGRAMS[name], training=name.endswith(", training"))
    result = dump.check_numerics()
    assert 0 < result.checked == len(result.kernels), result


def test_a_gpu_that_only_this_process_knows(monkeypatch):
    """Such is one of a kind that is in no table, described by its driver."""
    own = dataclasses.replace(gpus.find("h100"), name="own", multiprocessors=46)
    monkeypatch.setitem(gpus.GPUS, "own", own)
    assert dump_triton(torch.sin, randn(8), gpu="own").check_numerics().checked == 1


def test_the_state_of_the_program_stays_as_it_was():
    cache = SimpleNamespace(values=torch.zeros(4, 8), length=torch.tensor([2]))

    def step(x):
        cache.values.index_copy_(0, cache.length, x)
        cache.length.add_(1)
        return cache.values.sum(0)

    assert dump_triton(step, torch.ones(1, 8)).check_numerics().checked == 3
    assert not cache.values.any() and cache.length.item() == 2


# --- it can fail -------------------------------------------------------------------


def planted(dump, old, new):
    """Return *dump* with a bug in the graph that has *old*, and the graph's place."""
    lowered = list(dump.lowered)
    [place] = [i for i, graph in enumerate(lowered) if old in graph.source]
    source = lowered[place].source.replace(old, new)
    lowered[place] = dataclasses.replace(lowered[place], source=source)
    return dataclasses.replace(dump, lowered=tuple(lowered)), place


READ, ONE = "tl.load(in_ptr0 + (x0", "tl.full([1], 1.0"
STORE, ADD = "tl.store(out_ptr1 + (x0), tmp4", "tl.atomic_add(out_ptr0 + ("
FIRST, SECOND = "wrong: output 0$", "wrong: output 1$"
OUTSIDE = r"IndexError: {} outside its buffers\n  in \w+: .*{}.*$"
UNKNOWN = "NotImplementedError: libdevice.sad has no counterpart"
CHANGED = "wrong: output 0, input 0 after the call, input 1 after the call$"
SABOTAGES = {  # program, old, new, what is said of its kernel
    "wrong constant": ("two", ONE, "tl.full([1], 1.0001", SECOND),
    "half of an output": ("two", f"{STORE}, None", f"{STORE}, x0 < 9", SECOND),
    "no mask on a sum": ("sum", " & xmask, tmp1, 0)", "| xmask, tmp1 + 1, 0)", FIRST),
    "a backward": ("norm", "tmp3 = tmp1 - tmp2", "tmp3 = tmp1 + tmp2", "wrong: "),
    "another seed": ("drop", "rand4x(tmp0", "rand4x(tmp0 + 1", "wrong: "),
    "integers": ("ints", "tl.full([1], 3", "tl.full([1], 4", FIRST),
    "a wrong input changed": ("state", "tl.store(out", "tl.store(in", CHANGED),
    "reads past the end": (
        "two",
        READ,
        f"{READ} + 1",
        OUTSIDE.format("loads", r"x0 \+ 1"),
    ),
    "no mask on a store": (
        "drop",
        "tmp9, xmask",
        "tmp9, None",
        OUTSIDE.format("stores", "tmp9, None"),
    ),
    "adds past the end": ("adds", ADD, f"{ADD}64 + ", OUTSIDE.format("stores", "64")),
    "no such function": ("two", "tl_math.sin", "libdevice.sad", UNKNOWN),
    "no Python": ("two", "tmp4 = tmp2", "tmp4 = = tmp2", "SyntaxError"),
}


@pytest.fixture(scope="module")
def programs():
    """The programs that are sabotaged, dumped."""
    return {
        "two": dumped("two outputs"),
        "norm": dumped("LayerNorm, training"),
        "sum": dump_triton(lambda x: x.sum(-1) + 1, torch.ones(5, 300)),
        "drop": dump_triton(torch.nn.Dropout(0.3), torch.ones(999), training=True),
        "ints": dump_triton(lambda x: x * 3, torch.arange(50)),
        "adds": dump_triton(*PROGRAMS["ones added into new zeros"]),
        "state": dump_triton(lambda x, y: x.add_(y), torch.ones(64), torch.ones(64)),
    }


@pytest.mark.parametrize("name", SABOTAGES)
def test_a_planted_bug_is_seen(name, programs):
    program, old, new, reason = SABOTAGES[name]
    dump, place = planted(programs[program], old, new)
    kernels = dump.check_numerics().kernels
    assert re.match(reason, kernels[place].reason), kernels
    assert kernels[place].status == ("differs" if "wrong" in reason else "not run")
    assert [k.status for k in kernels[:place]] == ["agrees"] * place


def test_an_output_may_be_off_by_eight_times_the_tolerance(programs):
    """The limit is 1.7e-5 here, and a bit more for what eager itself is off."""
    size = float((randn(4096).cos() + 1).square().mean().sqrt())
    for off, status in ((1.5e-5, "agrees"), (2.5e-5, "differs")):
        dump, _ = planted(programs["two"], ONE, f"tl.full([1], {1 + off}")
        [kernel] = dump.check_numerics().kernels
        assert kernel.status == status
        assert (kernel.error, kernel.relative) == pytest.approx(
            (off, off / size), rel=0.05
        )
    for old, new in (
        (ONE, "tl.full([1], float('nan')"),
        (ONE, "tl.full([1], float('inf')"),
        ("return (buf0, ", "return (buf0[:9], "),
    ):
        [kernel] = planted(programs["two"], old, new)[0].check_numerics().kernels
        assert kernel.status == "differs"
        assert (kernel.error, kernel.relative) == (math.inf, math.inf)


def test_infinite_values_hide_no_difference():
    """Of eager's [inf, -inf, nan, 2, 1] the root mean square is that of 2 and 1: 1."""
    x = torch.tensor(
        [3e38, -math.inf, math.nan, 0.5, 0.0]
    )  # the first in float64: 6e38
    dump, _ = planted(dump_triton(lambda x: x * 2 + 1, x), ONE, "tl.full([1], 1.01")
    [kernel] = dump.check_numerics().kernels
    assert kernel.status == "differs"
    assert kernel.relative == pytest.approx(0.01, rel=1e-3)


def test_a_backward_gets_what_eager_saved_and_normal_gradients():
    dump = dump_triton(lambda x: x * x, torch.full((8,), 1e3), training=True)
    dump, place = planted(dump, "tmp2 + tmp2", "tmp2")
    error = dump.check_numerics().kernels[place].error
    assert error == pytest.approx(1e3 * float(randn(8).abs().max()))


def test_many_programs_become_fewer():
    result = dump_triton(lambda x: x.t() + 1, torch.rand(600, 500)).check_numerics()
    (kernel,) = result.kernels
    assert kernel.status == "agrees" and 0 < kernel.programs <= 256
    assert " for " in kernel.blocks and kernel.blocks in str(result)


@pytest.mark.parametrize("kind", ["flash", "efficient"])
def test_attention_of_a_gpu_is_that_of_the_definition(kind):
    """Both sides compute it so: a comparison of the two would not tell."""
    *inputs, gradient = randn(4, 1, 2, 16, 8).bfloat16().unbind()
    mask = [randn(1, 2, 16, 16).bfloat16()] if kind == "efficient" else []
    leaves = [x.float().requires_grad_() for x in (*inputs, *mask)]
    torch.manual_seed(interpreting.SEED)
    with sdpa_kernel(SDPBackend.MATH):
        exact = scaled_dot_product_attention(
            *leaves, dropout_p=0.5, is_causal=not mask, scale=0.3
        )
    wanted = [exact, *torch.autograd.grad(exact, leaves, gradient.float())]
    # What the forward leaves for the backward is not read.
    if mask:
        more, rest = (True, 0.5), (*[exact] * 4, 0.5, [True] * 4)
    else:
        more, rest = (0.5, True), (exact, exact, None, None, 16, 16, 0.5, True, exact)
        rest += (exact,)
    name = f"_scaled_dot_product_{kind}_attention"
    there, back = [
        getattr(torch.ops.aten, name + way).default for way in ("", "_backward")
    ]
    output, *_ = attention(there, *inputs, *mask, *more, scale=0.3)
    gradients = attention(back, gradient, *inputs, *mask, *rest, scale=0.3)
    for value, other in zip(wanted, (output, *gradients), strict=False):
        torch.testing.assert_close(other, value.bfloat16())


# --- the result --------------------------------------------------------------------

ROW = CheckedKernel("poi", 0, "forward", "agrees", 1e-7, 2e-7, 4, "XBLOCK 128")
LOST = CheckedKernel("red", 0, "backward", "not run", reason="stopped after 1 s")


def test_a_dump_from_a_file_says_what_to_do():
    dump = dump_triton(torch.sin, torch.ones(8))
    again = Dump.from_json(dump.to_json())
    assert again == dump and dump.lowered and not again.lowered
    with pytest.raises(InputError, match=r"dump again, .* dump_triton\(f, x\)\.check_"):
        check_numerics(again)


def test_the_text_is_the_same_on_every_machine():
    once = Numerics((ROW, LOST))
    other = Numerics((dataclasses.replace(ROW, error=3e-7, relative=9.123e-7), LOST))
    assert str(once) != str(other) and unmark(str(once)) == unmark(str(other))
    headings = ("graph", "status", "programs", "blocks", "name", "error")
    assert once.table().headings == headings
    assert once.table().rows == (
        ("0 forward", "agrees", "4", "XBLOCK 128", "poi", "⟨2e-07⟩"),
        ("0 backward", "not run", "", "", "red", ""),
    )
    last = "\n1 of 2 kernels agrees with eager\nred: stopped after 1 s"
    assert str(once).endswith(last)
    assert "\n2 of 2 kernels agree with eager" in str(Numerics((ROW, ROW)))
    assert "red: stopped after 1 s" in once._repr_html_()
    assert str(Numerics(())) == "no Triton kernel to run"
    assert Numerics.from_json(once.to_json()) == once


# --- a kernel of the caller's --------------------------------------------------------


@triton.jit
def inner(value):
    """Raise, for Triton knows no such range."""
    return value + tl.arange(0, 3)


@triton.jit
def wrong(x, out, n, BLOCK: tl.constexpr):
    """Raise in a function that it calls."""
    i = tl.arange(0, BLOCK)
    tl.store(out + i, inner(tl.load(x + i, mask=i < n)), mask=i < n)


def ran(kernel, x):
    """Return what *kernel* writes in the interpreter."""

    def launch(x):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
        return out

    [graph] = dump_triton(launch, x, dynamic=False).graphs
    [out] = interpreting.run(graph.source, [x])
    return out


def test_an_error_of_the_callers_is_shown_as_theirs():
    with pytest.raises(InputError) as caught:
        ran(wrong, randn(50))
    first, *frames = str(caught.value).splitlines()
    assert first == "ValueError: arange's range must be a power of 2"
    places = [frame.split(":")[0].strip() for frame in frames]
    assert places == ["in wrong", "in inner"]
    assert "return value + tl.arange(0, 3)" in frames[-1]


@triton.jit
def in_bfloat16(x, out, n, BLOCK: tl.constexpr):
    """Compute without a cast."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n)
    tl.store(out + i, tl.where(a > 0, -a + 1.5, tl.abs(a) * a), mask=i < n)


def test_a_kernel_of_the_callers_computes_in_bfloat16():
    x = randn(50).bfloat16()
    wanted = torch.where(x > 0, -x + 1.5, x.abs() * x)
    torch.testing.assert_close(ran(in_bfloat16, x), wanted)


def test_an_operator_of_the_callers_runs_where_a_module_defines_it():
    from tests.helpers.gpu.triton_kernel import in_a_module

    @torch.library.custom_op("tests::on_a_page", mutates_args=())
    def on_a_page(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    on_a_page.register_fake(torch.empty_like)
    nowhere = "it calls an operator of your own, which stands in no module"
    for operator, said in ((in_a_module, ""), (on_a_page, nowhere)):
        dump = dump_triton(lambda x, f=operator: f(x.sin()).cos(), randn(50))
        kernels = dump.check_numerics().kernels
        assert len(kernels) == 2
        for kernel in kernels:
            assert kernel.status == ("not run" if said else "agrees")
            assert kernel.reason == said


def test_a_gradient_whose_size_depends_on_data_is_not_run():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        dump = dump_triton(lambda x: x[x > 0].sin(), randn(64), training=True)
    reasons = {kernel.reason for kernel in dump.check_numerics().kernels}
    assert "the size of a gradient depends on data" in reasons


def test_a_branch_is_not_run():
    def either(x):
        return torch.cond(x.sum() > 0, torch.sin, torch.exp, (x,))

    result = dump_triton(either, randn(64)).check_numerics()
    assert result.kernels[0].reason == "a branch or loop: 2 launches of 3 kernels"
    assert {kernel.status for kernel in result.kernels} == {"not run"}


# --- the process -------------------------------------------------------------------


def test_a_crash_costs_its_own_graph_only_and_a_loop_is_stopped(programs):
    crash = "__import__('ctypes').string_at(0)"
    dump, _ = planted(dumped("graph break"), "tl_math.sin(tmp0)", crash)
    result = dump.check_numerics()
    assert [k.status for k in result.kernels] == ["not run", "agrees"]
    assert result.kernels[0].reason == "the interpreter crashed"
    assert result.checked == 1
    start = "    x0 = xindex\n"
    hang, _ = planted(programs["ints"], start, f"{start}    while True: pass\n")
    [kernel] = check_numerics(hang, 1).kernels
    assert (kernel.status, kernel.reason) == ("not run", "stopped after 1 s")


def test_one_process_serves_all_until_an_interrupt_and_leaves_nothing(
    programs, tmp_path, monkeypatch, capfd
):
    from triton.runtime import interpreter as tritons

    if process := interpreter().process:  # the next one sees these variables:
        process.kill()
        process.wait()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "helpers.py"  # of the caller's, who has it beside a notebook
    own.write_text("raise SystemExit\n")
    before = dict(os.environ), tritons._patch_lang, torch.get_rng_state()

    assert programs["drop"].check_numerics().checked
    process = interpreter().process
    loud = "tmp0 + __import__('os').system('echo; echo >&2')"
    dump, _ = planted(programs["two"], "sin(tmp0", f"sin({loud}")
    assert dump.check_numerics().checked and capfd.readouterr() == ("", "")
    assert interpreter().process is process and process.poll() is None
    interrupt = mock.patch.object(interpreting, "unpack", side_effect=KeyboardInterrupt)
    with interrupt, pytest.raises(KeyboardInterrupt):
        programs["two"].check_numerics()
    assert process.poll() is not None

    assert (dict(os.environ), tritons._patch_lang) == before[:2]
    assert torch.equal(torch.get_rng_state(), before[2])
    assert list(tmp_path.rglob("*.*")) == [own]
