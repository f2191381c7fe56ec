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

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from helpers.gpu import interpreter as interpreting
from helpers.gpu.dump import dump_triton
from helpers.gpu.interpreter import INTERPRETER, attention, check_numerics
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
    pytest.param("sort and running sum", marks=pytest.mark.weekly),  # it is slow
)


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_agrees(name):
    kernels = dumped(name).check_numerics().kernels
    own = "eager cannot run: NotImplementedError: your own kernel has no eager twin"
    yours = [k for k in kernels if k.reason == own]
    assert kernels
    assert len(yours) == (len(kernels) if name == "your own Triton kernel" else 0)
    for kernel in kernels:
        assert kernel in yours or (kernel.status, kernel.reason) == ("agrees", "")
        assert kernel.programs > 0
        # The gradient of a bias before a normalisation cancels: only rounding is left.
        cancels = "BatchNorm" in name and kernel.phase == "backward"
        assert kernel.error < 1e-4 or cancels or "half" in name
        assert kernel.error == 0 or name != "dynamic batch"
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


HEADS = [randn(2, heads, 16, 8).bfloat16() for heads in (4, 2, 2)]
PROGRAMS = {  # each was once said to differ, or not to run
    "ones added into new zeros": (
        lambda i: torch.zeros(8).scatter_add(0, i, torch.ones(90)),
        torch.arange(90) % 7,
    ),
    "grouped heads with dropout, training": (grouped, *HEADS),
    "one kernel drops twice": (often_dropped, randn(64, 64), randn(64, 64)),
    "a mask that learns, training": (masked, randn(1, 2, 16, 8), randn(1, 2, 16, 16)),
    "random whole numbers": (lambda x: x * torch.randint(-5, 9, (64,)), randn(64)),
    "normal numbers": (lambda x: x + torch.randn(7, 9), randn(7, 9)),
    "what is no number": (lambda x: (x.log(), x / x.relu()), randn(64)),
    "complex numbers": (lambda x: (torch.fft.fft(x), x.sin()), randn(64)),
    "a function of the GPU alone": (torch.special.i0, randn(64)),
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
    "another seed": ("drop", "(tmp0, (", "(tmp0 + 1, (", "wrong: "),
    "a wrong input changed": ("state", "tl.store(out", "tl.store(in", CHANGED),
    "reads past the end": ("two", READ, f"{READ} + 1", OUTSIDE.format("loads", "1")),
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
    """The limit is 1.3e-5 here."""
    size = float((randn(4096).cos() + 1).square().mean().sqrt())
    for off, status in ((1.2e-5, "agrees"), (2.5e-5, "differs")):
        dump, _ = planted(programs["two"], ONE, f"tl.full([1], {1 + off}")
        [kernel] = dump.check_numerics().kernels
        assert kernel.status == status
        assert kernel.error == pytest.approx(off / size, rel=0.05)
    for old, new in (
        (ONE, "tl.full([1], float('nan')"),
        (ONE, "tl.full([1], float('inf')"),
        ("return (buf0, ", "return (buf0[:9], "),
    ):
        [kernel] = planted(programs["two"], old, new)[0].check_numerics().kernels
        assert kernel.status == "differs"
        assert kernel.error == math.inf


def test_a_backward_gets_what_eager_saved_and_normal_gradients():
    dump = dump_triton(lambda x: x * x, torch.full((8,), 1e3), training=True)
    dump, place = planted(dump, "tmp2 + tmp2", "tmp2")
    error, gradient = dump.check_numerics().kernels[place].error, randn(8)
    size = gradient.square().mean().sqrt()
    assert error == pytest.approx(float(gradient.abs().max() / (2 * size)))


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

    if process := INTERPRETER.process:  # the next one sees these variables:
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
    process = INTERPRETER.process
    loud = "tmp0 + __import__('os').system('echo; echo >&2')"
    dump, _ = planted(programs["two"], "sin(tmp0", f"sin({loud}")
    assert dump.check_numerics().checked and capfd.readouterr() == ("", "")
    assert INTERPRETER.process is process and process.poll() is None
    interrupt = mock.patch.object(interpreting, "unpack", side_effect=KeyboardInterrupt)
    with interrupt, pytest.raises(KeyboardInterrupt):
        programs["two"].check_numerics()
    assert process.poll() is not None

    assert (dict(os.environ), tritons._patch_lang) == before[:2]
    assert torch.equal(torch.get_rng_state(), before[2])
    assert list(tmp_path.rglob("*.*")) == [own]
