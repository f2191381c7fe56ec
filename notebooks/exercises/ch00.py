"""Checks and hints of notebook 00."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from helpers import eager_bytes, kernels
from helpers.benchmark import Comparison
from helpers.exercises import exercise
from helpers.exercises import number
from helpers.stats import Interval, verdict

# --- 00.1: what an answer meets ------------------------------------------------


class Small(nn.Module):
    """One graph; sums long rows, so compiled rounds in another way than eager."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(512, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x / x.square().mean(-1, keepdim=True).sqrt()
        return F.gelu(self.inner(x)).softmax(-1)


def two_faced(x: torch.Tensor) -> torch.Tensor:
    """One graph, and another answer once it is compiled, as some libraries have."""
    return x + 1 if torch.compiler.is_compiling() else x


def noisy(x: torch.Tensor) -> torch.Tensor:
    """One graph; Inductor draws other numbers than eager, whatever the seed."""
    return x + torch.rand_like(x)


class Interrupted(nn.Module):
    """The right answers, in two graphs: it prints half way, though nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.sin()
        print(end="")
        return x * 2


@exercise(
    "00.1",
    hints=(
        "Three things make it go well: how many graphs, how many breaks, and the "
        "same answers. The page measured all three.",
        "graphs(model, *inputs) has .count and .breaks. torch.allclose(a, b, "
        "rtol=..., atol=...) compares two tensors up to rounding.",
        "well = one graph and no breaks and torch.allclose of compiled(*inputs) and "
        "model(*inputs). Return the pair (compiled, well).",
    ),
    passed="You can hand this to a colleague: one line, and the proof beside it.",
)
def compile_and_prove(answer: Any) -> str | None:
    torch.manual_seed(0)
    x = torch.randn(64)
    compiled, well = _pair(answer(two_faced, x))
    if torch.equal(compiled(x), two_faced(x)):
        return (
            "what you return first runs eagerly: torch.compile returns the compiled "
            "function, and leaves the one that it was given as it is"
        )
    if well:
        return (
            "you say that all is well with a function that adds 1 once it is "
            "compiled: hold its answers against those of eager"
        )
    compiled, _ = _pair(answer(noisy, x))
    if torch.equal(*map(_seeded, (compiled, noisy), (x, x))):
        return (
            "what you return draws the numbers of eager's own generator, so Inductor "
            "never saw it: torch.compile(model), and no other backend"
        )
    module, rows = Small().eval().requires_grad_(False), torch.randn(32, 512)
    wanted, before = module(rows), _state(module)
    compiled, well = _pair(answer(module, rows))
    if _state(module) != before:
        return "the model is no longer what it was: it belongs to your reader"
    if compiled(rows).dtype != wanted.dtype:
        return f"the compiled answers are {compiled(rows).dtype}, not {wanted.dtype}"
    if not well:
        return (
            "you say that a model went wrong which is one graph and differs from "
            "eager by rounding alone: compare with a tolerance"
        )
    _, well = _pair(answer(Interrupted(), x))
    if well:
        return (
            "you say that all is well with a model that has a graph break: its "
            "answers are right, and only part of it is compiled"
        )
    return None


def _pair(answer: Any) -> tuple[Any, bool]:
    pair = isinstance(answer, tuple) and len(answer) == 2
    assert pair and callable(answer[0]), (
        "it returns something else than a pair: first the compiled model, then True "
        "or False"
    )
    compiled, well = answer
    if isinstance(well, torch.Tensor) and well.numel() == 1:
        well = bool(well)
    assert isinstance(well, bool), f"the second thing is {well!r}, not True or False"
    return compiled, well


def _seeded(fn: Any, x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(1)
    return fn(x)


def _state(module: nn.Module) -> list[Any]:
    tensors = [(t.dtype, t.sum().item()) for t in module.parameters()]
    return [*tensors, module.training]


# --- 00.2: results that were made up ---------------------------------------------


def made_up(
    low: float,
    high: float,
    eager_s: float,
    compiled_s: float,
    matches: bool | None = True,
) -> Comparison:
    """Return the result of a comparison that nobody ran: 10 s for the first call."""
    return Comparison(
        names=("eager", "compiled"),
        speedup=(low * high) ** 0.5,
        interval=(low, high),
        confidence=0.95,
        verdict=verdict(Interval(low, high, 0.95)),
        median_s=(eager_s, compiled_s),
        cold_start_s=10.0,
        compiles=1,
        graphs=1,
        graph_breaks=0,
        page_faults=None,
        peak_bytes=None,
        matches=matches,
        max_error=0.0,
        error64=None,
        rounds=(),
        notes=(),
        threads=1,
        device="cpu",
        scope="this process",
    )


MANY = 10**9
OTHERS = [made_up(1.5, 1.6, 0.5, 0.3), made_up(30.0, 31.0, 9.0, 0.3)]
FASTER = {"low": 1.9, "high": 2.1, "eager_s": 0.02, "compiled_s": 0.01}


@exercise(
    "00.2",
    hints=(
        "There are four verdicts and one question about the answers. Which of them "
        "decide without looking at `calls`?",
        "Settle the answers first, then 'cannot tell'. What is left needs the "
        "verdict and `result.calls_to_pay_back`.",
        "if matches is False: False; if the verdict is 'cannot tell': None; else "
        "whether it is 'faster' and calls_to_pay_back <= calls.",
    ),
    passed="A decision that says 'cannot tell' when that is the truth.",
)
def worth_it(answer: Any) -> str | None:
    fast, even = made_up(**FASTER), made_up(**FASTER).calls_to_pay_back
    few = "it is faster, but so few calls never pay for the first: mind "
    few += "calls_to_pay_back"
    unsure = made_up(0.8, 1.9, 0.02, 0.016)
    for result, calls, wanted, said in (
        (fast, MANY, True, "compiled is faster, and there are calls enough to pay"),
        (fast, even - 1, False, few),
        (fast, even, True, "exactly as many calls as pay it back are enough"),
        (
            unsure,
            MANY,
            None,
            "the interval reaches across 1, so nobody can tell, though the middle of "
            "it looks faster",
        ),
        (
            made_up(0.5, 0.6, 0.01, 0.02),
            MANY,
            False,
            "compiled is slower: that never pays",
        ),
        (
            made_up(0.999, 1.004, 0.0201, 0.02),
            MANY,
            False,
            "the verdict is 'same': that is known, and there is nothing to gain",
        ),
        (
            made_up(**FASTER, matches=False),
            MANY,
            False,
            "the answers differ: however fast, it is another computation",
        ),
        (
            made_up(0.8, 1.9, 0.02, 0.016, matches=False),
            MANY,
            False,
            "the answers differ, and that settles it before the clock is asked",
        ),
        (
            made_up(**FASTER, matches=None),
            MANY,
            True,
            "matches is None where random numbers kept the answers from being "
            "compared: they do not differ",
        ),
        *((each, each.calls_to_pay_back - 1, False, few) for each in OTHERS),
        *((each, each.calls_to_pay_back, True, "that pays it back") for each in OTHERS),
    ):
        got = answer(result, calls)
        if got is not wanted:
            return f"{got} where {wanted} was wanted: {said}"
    return None


# --- 00.3: bytes -----------------------------------------------------------------


@exercise(
    "00.3",
    hints=(
        "Write the formula as it stands. In eager each of your operations reads and "
        "writes whole arrays; the kernel touches each array of the function once.",
        "(2 / torch.pi) ** 0.5 is a plain number, and costs nothing. An operation on "
        "one array and a number moves 2 arrays, on two arrays 3.",
        "0.5 * g * (1 + torch.tanh(0.79788456 * (g + 0.044715 * g**3))) is the gelu. "
        "The kernel moves 3 arrays. eager_bytes and kernels count it for you.",
    ),
    passed="Compiled, it moves no more than the library's own: write it to be read.",
)
def readable_for_free(answer: Any) -> str | None:
    gelu_gate, times = answer
    torch.manual_seed(0)
    gate, value = torch.randn(2, 4096).unbind()
    wanted = F.gelu(gate, approximate="tanh") * value
    given = gelu_gate(gate, value)
    if type(given) is not torch.Tensor or given.shape != wanted.shape:
        return "gelu_gate returns no tensor of the shape of gate"
    if not torch.allclose(given, wanted, rtol=1e-5, atol=1e-5):
        worst = (given - wanted).abs().max().item()
        return f"gelu_gate is off by up to {worst:.1g}: check the formula term by term"
    before, after = eager_bytes(gelu_gate, gate, value), kernels(gelu_gate, gate, value)
    used = [name for name, _ in before.calls]
    if len(used) < 6 or "gelu" in used:
        return (
            f"gelu_gate is {', '.join(used)}, so the library does the work: spell it "
            "out in + * ** and torch.tanh"
        )
    if len(after.kernels) != 1:
        return f"compiled, it is {len(after.kernels)} kernels, and one was wanted"
    if number(times) is None:
        return f"times is {times!r}: a number was wanted"
    if not abs(number(times) - before.bytes / after.bytes) <= 0.1:
        return (
            f"times is {number(times):g}: the kernel reads two arrays and writes one. "
            f"Count what each of your {len(used)} operations reads and writes"
        )
    return None
