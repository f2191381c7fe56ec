"""Every generated kernel runs in the interpreter; a wrong one is seen."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

import triton
import triton.language as tl

from helpers.errors import InputError
from helpers.gpu import gpus
from helpers.gpu import interpreter as interpreting
from helpers.gpu.dump import Dump, dump_triton
from helpers.gpu.interpreter import CheckedKernel, Numerics, check_numerics, interpreter
from helpers.text import unmark
from tests.kinds import dumped, randn
from tests.refresh import ROOT

NAMES = (
    "two outputs",
    "broadcast and transpose",
    "softmax over 1024, training",
    "LayerNorm, training",
    "a sum in two kernels",
    "GELU MLP, training",
    "Transformer layer with dropout, training",
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
def test_every_kernel_agrees(name: str) -> None:
    kernels = dumped(name).check_numerics().kernels
    yours = [k for k in kernels if "of your own" in k.reason]
    assert kernels
    assert len(yours) == (len(kernels) if name == "your own Triton kernel" else 0)
    for kernel in kernels:
        assert kernel in yours or (kernel.status, kernel.reason) == ("agrees", "")
        assert kernel.programs > 0
        # The gradient of a bias before a normalisation cancels: only rounding is left.
        assert min(kernel.relative, kernel.error) < 1e-4 or "half" in name


def test_nearly_all_is_computed_and_not_copied() -> None:
    # Sums in another order differ in a last digit somewhere, or nothing was run.
    kernels = dumped("LayerNorm, training").check_numerics().kernels
    assert max(k.error for k in kernels) > 0


def grouped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return attention of four heads, of which two share keys and values."""
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(q, k, v, is_causal=True, enable_gqa=True).sin()


def often_dropped(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return four dropouts: the kernel of the last two is one, with two seeds."""
    for _ in range(4):
        x = torch.nn.functional.dropout(x, 0.5) @ weight
    return x


HEADS = [randn(2, heads, 16, 8) for heads in (4, 2, 2)]
PROGRAMS = {  # each was once said to differ, or not to run
    "ones added into new zeros": (
        lambda i: torch.zeros(8).scatter_add(0, i, torch.ones(90)),
        (torch.arange(90) % 7,),
        False,
    ),
    "a column of a longer row": (
        lambda a, b: torch.cat([a.sum(1, keepdim=True), b], 1),
        (randn(16, 300), randn(16, 16)),
        False,
    ),
    "grouped heads": (grouped, tuple(x.bfloat16() for x in HEADS), False),
    "grouped heads, training": (grouped, tuple(x.bfloat16() for x in HEADS), True),
    "dropout of two elements": (torch.nn.Dropout(0.5), (torch.ones(2),), True),
    "one kernel drops twice": (often_dropped, (randn(64, 64), randn(64, 64)), False),
    "random whole numbers": (
        lambda x: x * torch.randint(-5, 9, (64,)),
        (randn(64),),
        False,
    ),
    "whole numbers to bfloat16": (
        lambda i: (i.bfloat16() + 0.5).float(),
        (torch.arange(-50, 50),),
        False,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_is_right_agrees(name: str) -> None:
    fn, inputs, training = PROGRAMS[name]
    result = dump_triton(fn, *inputs, training=training).check_numerics()
    assert 0 < result.checked == len(result.kernels), result


def test_a_gpu_that_only_this_process_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such is one of a kind that is in no table, described by its driver."""
    own = dataclasses.replace(gpus.find("h100"), name="own", multiprocessors=46)
    monkeypatch.setitem(gpus.GPUS, "own", own)
    assert dump_triton(torch.sin, randn(8), gpu="own").check_numerics().checked == 1


def test_the_state_of_the_program_stays_as_it_was() -> None:
    cache = SimpleNamespace(values=torch.zeros(4, 8), length=torch.tensor([2]))

    def step(x: torch.Tensor) -> torch.Tensor:
        cache.values.index_copy_(0, cache.length, x)
        cache.length.add_(1)
        return cache.values.sum(0)

    assert dump_triton(step, torch.ones(1, 8)).check_numerics().checked == 3
    assert not cache.values.any() and cache.length.item() == 2


# --- it can fail -------------------------------------------------------------------


def planted(dump: Dump, old: str, new: str, graph: int = 0) -> Any:
    """Return *dump* with a bug in the source of one of its graphs."""
    captured = list(dump._captured)
    assert old in captured[graph].source
    source = captured[graph].source.replace(old, new)
    captured[graph] = dataclasses.replace(captured[graph], source=source)
    result = dataclasses.replace(dump)
    object.__setattr__(result, "_captured", tuple(captured))
    return result


SIN, ONE = "tl_math.sin", "tl.full([1], 1.0, tl.float32)"
KEEP, MEAN = "r0_mask & xmask, tmp1, 0)", "tmp9 = (tmp7 / tmp8)"
STORE, READ = "tl.store(out_ptr1 + (x0), tmp4", "tl.load(in_ptr0 + (x0)"
NOWHERE = "__import__('ctypes').string_at(0)"
SABOTAGES = {  # name: program, its graph, old, new, what becomes of the kernel
    "cosine for sine": ("two", 0, SIN, "tl_math.cos", "differs"),
    "wrong constant": ("two", 0, ONE, ONE.replace("1.0", "1.0001"), "differs"),
    "an output never written": ("two", 0, STORE, f"0 and {STORE}", "differs"),
    "half of it written": (
        "two",
        0,
        f"{STORE}, None",
        f"{STORE}, x0 < 2048",
        "differs",
    ),
    "no mask on a sum": ("sum", 0, KEEP, "xmask, tmp1 + 1, 0)", "differs"),
    "a mean of one too many": ("norm", 0, MEAN, "tmp9 = (tmp7 / 257.0)", "differs"),
    "a backward": ("norm", 1, "tmp3 = tmp1 - tmp2", "tmp3 = tmp1 + tmp2", "differs"),
    "another seed": ("drop", 0, "rand4x(tmp0", "rand4x(tmp0 + 1", "differs"),
    "integers": ("ints", 0, "tl.full([1], 3", "tl.full([1], 4", "differs"),
    "a wrong input changed": ("state", 0, "tl.store(out", "tl.store(in", "differs"),
    "reads past the end": ("two", 0, READ, READ.replace("x0", "x0 + 1"), "not run"),
    "writes past the end": ("two", 0, STORE, STORE.replace("x0", "x0 + 1"), "not run"),
    "no mask on a store": ("drop", 0, "tmp9, xmask", "tmp9, None", "not run"),
    "adds past the end": (
        "adds",
        0,
        "tl.atomic_add(out_ptr0 + (",
        "tl.atomic_add(out_ptr0 + (64 + ",
        "not run",
    ),
    "no such function": ("two", 0, SIN, "libdevice.sad", "not run"),
    "no Python": ("two", 0, "tmp4 = tmp2", "tmp4 = = tmp2", "not run"),
}


@pytest.fixture(scope="module")
def programs() -> dict[str, Dump]:
    """The programs that are sabotaged, dumped."""

    def counts(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.add_(y)

    return {
        "two": dumped("two outputs"),
        "norm": dumped("LayerNorm, training"),
        "sum": dump_triton(lambda x: x.sum(-1) + 1, torch.ones(5, 300)),
        "drop": dump_triton(torch.nn.Dropout(0.3), torch.ones(999), training=True),
        "ints": dump_triton(lambda x: x * 3, torch.arange(50)),
        "adds": dump_triton(
            PROGRAMS["ones added into new zeros"][0], torch.arange(90) % 7
        ),
        "state": dump_triton(counts, torch.ones(64), torch.ones(64)),
    }


@pytest.fixture(scope="module")
def sabotaged(programs: dict[str, Dump]) -> dict[str, tuple[CheckedKernel, ...]]:
    """The kernels of every sabotaged program, checked."""
    dumps = {
        name: planted(programs[program], old, new, graph)
        for name, (program, graph, old, new, _) in SABOTAGES.items()
    }
    return {name: check_numerics(dump).kernels for name, dump in dumps.items()}


@pytest.mark.parametrize("name", SABOTAGES)
def test_a_planted_bug_is_seen(name: str, sabotaged: Any) -> None:
    kernels, graph, status = sabotaged[name], SABOTAGES[name][1], SABOTAGES[name][-1]
    wrong = kernels[graph]
    assert wrong.status == status, kernels
    assert wrong.reason
    assert [k.status for k in kernels[:graph]] == ["agrees"] * graph


def test_what_is_wrong_is_said(sabotaged: Any) -> None:
    said = {name: kernels[0].reason for name, kernels in sabotaged.items()}
    assert said["cosine for sine"] == "wrong: output 0"
    assert said["half of it written"] == "wrong: output 1"
    assert said["a wrong input changed"].startswith("wrong: ")
    assert "loads outside its buffers" in said["reads past the end"]
    assert "stores outside its buffers" in said["no mask on a store"]
    assert "libdevice.sad has no counterpart" in said["no such function"]
    assert said["no Python"].startswith("SyntaxError")
    # Where it happened: the line of the kernel, and none of the interpreter's.
    lines = said["reads past the end"].splitlines()
    assert len(lines) == 2 and "tl.load(in_ptr0 + (x0 + 1)" in lines[1]


def test_a_crash_costs_its_own_graph_only(programs: dict[str, Dump]) -> None:
    lost = planted(programs["two"], f"{SIN}(tmp0)", NOWHERE)
    start = "    x0 = xindex\n"
    hang = planted(programs["ints"], start, f"{start}    while True: pass\n")
    dumps = [lost, programs["two"], hang]
    together = SimpleNamespace(
        gpu="h100",
        launches=[launch for dump in dumps for launch in dump.launches],
        _captured=[graph for dump in dumps for graph in dump._captured],
    )
    result = check_numerics(together, 5)
    assert [k.status for k in result.kernels] == ["not run", "agrees", "not run"]
    assert result.kernels[0].reason == "the interpreter crashed"
    assert result.kernels[2].reason == "stopped after 5 s"
    assert result.checked == 1


def test_many_programs_become_fewer() -> None:
    result = dump_triton(lambda x: x.t() + 1, torch.rand(600, 500)).check_numerics()
    (kernel,) = result.kernels
    assert kernel.status == "agrees" and 0 < kernel.programs <= 256
    assert " for " in kernel.blocks and kernel.blocks in str(result)


# --- the result --------------------------------------------------------------------

ROW = CheckedKernel("poi", 0, "forward", "agrees", 1e-7, 2e-7, 4, "XBLOCK 128")
LOST = CheckedKernel("red", 0, "backward", "not run", reason="stopped after 1 s")


def test_the_text_is_the_same_on_every_machine() -> None:
    once = Numerics((ROW, LOST))
    other = Numerics((dataclasses.replace(ROW, error=3e-7, relative=9.123e-7), LOST))
    assert str(once) != str(other) and unmark(str(once)) == unmark(str(other))
    assert "1 of 2 kernels agrees with eager" in str(once)
    assert "red: stopped after 1 s" in str(once)
    assert "red: stopped after 1 s" in once._repr_html_()
    assert str(Numerics(())) == "no Triton kernel to run"


def test_a_result_is_read_back_equal() -> None:
    result = Numerics((ROW, LOST))
    assert Numerics.from_json(result.to_json()) == result


# --- nothing is left ---------------------------------------------------------------


def ended() -> None:
    """End the interpreter's process, if it runs: the next one sees other variables."""
    if process := interpreter().process:
        process.kill()
        process.wait()


def test_nothing_is_left_behind(
    programs: dict[str, Dump], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    from triton.runtime import interpreter as tritons

    before = dict(os.environ), tritons._patch_lang, torch.get_rng_state()
    ended()
    assert programs["drop"].check_numerics().checked
    ended()
    assert (dict(os.environ), tritons._patch_lang) == before[:2]
    assert torch.equal(torch.get_rng_state(), before[2])
    assert not list(tmp_path.rglob("*.*"))


def test_one_process_serves_all() -> None:
    assert dumped("two outputs").check_numerics().checked
    process = interpreter().process
    assert dumped("broadcast and transpose").check_numerics().checked
    assert interpreter().process is process and process.poll() is None


def test_an_interrupt_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    processes: list[Any] = []

    def interrupted(data: bytes) -> Any:
        processes.append(interpreter().process)
        raise KeyboardInterrupt

    dump = dumped("two outputs")
    with monkeypatch.context() as patch:
        patch.setattr(interpreting, "unpack", interrupted)
        with pytest.raises(KeyboardInterrupt):
            dump.check_numerics()
    assert processes[0].poll() is not None
    assert dump.check_numerics().checked == 1


# --- a kernel of the reader's --------------------------------------------------------


@triton.jit
def inner(value):
    """Raise, for Triton knows no such range."""
    return value + tl.arange(0, 3)


@triton.jit
def wrong(x, out, n, BLOCK: tl.constexpr):
    """Raise in a function that it calls."""
    i = tl.arange(0, BLOCK)
    tl.store(out + i, inner(tl.load(x + i, mask=i < n)), mask=i < n)


def ran(kernel: Any, x: torch.Tensor) -> torch.Tensor:
    """Return what *kernel* writes in the interpreter."""

    def launch(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
        return out

    [graph] = dump_triton(launch, x, dynamic=False).graphs
    [out] = interpreting.run(graph.source, [x])
    return out


def test_an_error_of_the_readers_is_shown_as_theirs() -> None:
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


def test_a_kernel_of_the_readers_computes_in_bfloat16() -> None:
    x = randn(50).bfloat16()
    wanted = torch.where(x > 0, -x + 1.5, x.abs() * x)
    torch.testing.assert_close(ran(in_bfloat16, x), wanted)


def test_functions_of_the_gpu_alone_are_torchs() -> None:
    [i0] = dump_triton(torch.special.i0, randn(64)).check_numerics().kernels
    assert i0.status == "agrees", i0


def test_a_gradient_whose_size_depends_on_data_is_not_run() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        dump = dump_triton(lambda x: x[x > 0].sin(), randn(64), training=True)
    reasons = {kernel.reason for kernel in dump.check_numerics().kernels}
    assert "the size of a gradient depends on data" in reasons


def test_a_file_of_the_readers_is_not_taken_for_the_helpers(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("raise SystemExit\n")
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "import torch\n"
        "from helpers import dump_triton\n"
        "print(dump_triton(torch.sin, torch.randn(8)).check_numerics().checked)\n"
    )
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "program.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "own/program.py"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "1\n", done.stdout + done.stderr
