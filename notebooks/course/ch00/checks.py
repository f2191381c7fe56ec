"""Checks and hints of notebook 00."""

import torch
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from course.exercises import difference, exercise, number
from helpers import eager_bytes, kernels

# --- 00.1 ----------------------------------------------------------------------


def two_faced(x):
    """One graph, and another answer once it is compiled, as some libraries have."""
    return x + 1 if torch.compiler.is_compiling() else x


def nearly_two_faced(x):
    """One graph, and an answer that is off by more than rounding once compiled."""
    return x * 1.001 if torch.compiler.is_compiling() else x


def interrupted(x):
    """The right answers, in two graphs: it prints half way, though nothing."""
    x = x.sin()
    print(end="")
    return x * 2


def interrupted_at_the_end(x):
    """One graph with a break behind it: it prints before it returns."""
    x = x.sin() * 2
    print(end="")
    return x


def handed_on(x):
    """No graph at all and no break, as there is nothing to compute."""
    return x


def rounded(x):
    """One graph; sums long rows, so compiled rounds in another way than eager."""
    return (x / x.square().mean(-1, keepdim=True).sqrt()).softmax(-1)


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
def compile_and_prove(answer):
    torch.manual_seed(0)
    x = torch.randn(32, 512)
    pair = answer(two_faced, x)
    if not isinstance(pair, tuple):
        return "it returns no pair: first the compiled model, then True or False"
    compiled, well = pair
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
    if not _ran_inductor(compiled, x):
        return "what you return is compiled, but not with the default backend"
    if answer(nearly_two_faced, x)[1]:
        return (
            "you say that all is well with a function that is off by a thousandth once "
            "it is compiled: the tolerances are rtol=1e-4 and atol=1e-5"
        )
    if not answer(rounded, x)[1]:
        return (
            "you say that a function went wrong which is one graph and differs from "
            "eager by rounding alone: compare with a tolerance"
        )
    if answer(interrupted, x)[1]:
        return (
            "you say that all is well with a function that has a graph break: its "
            "answers are right, and only part of it is compiled"
        )
    if answer(interrupted_at_the_end, x)[1]:
        return (
            "you say that all is well with a function that prints before it returns: "
            "that is one graph, and a break, so count the breaks too"
        )
    if answer(handed_on, x)[1]:
        return (
            "you say that all is well with a function of which nothing is captured, as "
            "it hands on its input: count the graphs too"
        )
    return None


def _ran_inductor(compiled, x):
    """Return whether a graph of Inductor runs in a call."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        compiled(x)
    return any("CompiledFxGraph" in event.name for event in seen.events())


# --- 00.2 ----------------------------------------------------------------------


def _gelu_gate(gate, value):
    return F.gelu(gate, approximate="tanh") * value


@exercise(
    "00.2",
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
def readable_for_free(answer):
    gelu_gate, times = answer
    torch.manual_seed(0)
    inputs = tuple(torch.randn(2, 4096).unbind())
    if fault := difference(gelu_gate, _gelu_gate, [inputs]):
        return f"{fault}: check the formula term by term"
    before, after = eager_bytes(gelu_gate, *inputs), kernels(gelu_gate, *inputs)
    used = [name for name, _ in before.calls]
    if "gelu" in used:
        return (
            f"gelu_gate is {', '.join(used)}, so the library does the work: spell it "
            "out in + * ** and torch.tanh"
        )
    times = number(times)
    if times is None or abs(times - before.bytes / after.bytes) > 0.1:
        return (
            f"times is {times}: the kernel reads two arrays and writes one. Count what "
            f"each of your {len(used)} operations reads and writes"
        )
    return None
