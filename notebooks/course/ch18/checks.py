"""Checks and hints of notebook 18."""

import random

import torch
from torch.nn import functional as F

from course.exercises import exercise
from course.planted import BUGS
from torch_checkup.where import LADDER


def _program(x, y):
    z = (F.gelu(x * 3 + 1e-6) - 1).relu() + y
    return z - z.flip(0)  # a mean of 0, whatever is planted


def _in_two_graphs(x, y):
    torch._dynamo.graph_break()
    return _program(x, y)


def _spoilt(x, y, places, wrong):
    z = _program(x, y)
    return torch.where(places, wrong, z) if torch.compiler.is_compiling() else z


def _far(x, y):
    return (x + 1e5) - 1e5 + y


def _raises(x, y):
    z = _program(x, y)
    return z[1 + torch.arange(8)] if torch.compiler.is_compiling() else z


# What is planted, and which layer is wrong.  "none" comes first: it fills the caches
# that hide the bugs after it.  Those come in any order, or a list of answers passes.
PLANTED = {
    "none": None,
    "relu's lowering": "inductor",
    "relu's lowering raises": "inductor",
    "gelu's decomposition raises": "aot_eager_decomp_partition",
    "gelu's decomposition": "aot_eager_decomp_partition",
    "the result's sign, in the joint graph": "aot_eager",
    "a constant, behind Dynamo": "eager",
}


@exercise(
    "18.1",
    hints=(
        "Run fn, then climb: the first backend whose result is off is the answer. What "
        "might keep a backend from compiling again?",
        "torch.compile keeps what it compiled by code object, and Inductor keeps "
        "graphs on disk: torch.compiler.reset() is for the first, uncached for the "
        "second.",
        "For each backend: torch.compiler.reset(); inside `with uncached:` and a try, "
        "got = torch.compile(fn, backend=backend)(*inputs). Return the backend if that "
        "raises, or if torch.allclose(got, wanted, rtol=1e-3, atol=1e-3, "
        "equal_nan=True) is False. After the loop, return None.",
    ),
    passed="It finds the layer of each bug, and raises no false alarm.",
)
def the_ladder(first_wrong):
    torch.manual_seed(0)
    x, y = torch.randn(2, 8, 8).unbind()
    x[:, 5], y[:, 5] = 1.0, 0.0  # of which the program makes 0
    for backend in LADDER:  # as an earlier try may have
        torch.compile(_program, backend=backend)(x, y)
    none, *bugs = PLANTED
    for bug in (none, *random.sample(bugs, len(bugs))):
        layer = PLANTED[bug]
        x.requires_grad_("joint" in bug)
        with BUGS[bug]():
            backend = first_wrong(_program, x, y)
        if backend and not layer:
            return (
                f"nothing is planted, and you say {backend}: does the call itself "
                "raise, or is the comparison stricter than 1e-3?"
            )
        if backend is None and layer:
            return (
                f"planted: {bug}, and you found nothing. What raises is wrong, too, "
                "and fn must be compiled again, with the inputs as they are, whatever "
                "memory and disk still hold"
            )
        if backend != layer:
            return (
                f"planted: {bug}. You say {backend}, and it is {layer}: the first "
                "backend that is wrong, compiled again"
            )
    if backend := first_wrong(_in_two_graphs, x, y):
        return f"a graph break is no wrong result, and you say {backend}"
    if backend := first_wrong(_program, x.log(), y):
        return f"NaN where eager has NaN is right, and you say {backend}"
    if backend := first_wrong(torch.reciprocal, y):
        return f"infinity where eager has infinity is right, and you say {backend}"
    z = _program(x.log(), y).detach()
    if first_wrong(_spoilt, x.log(), y, z.isnan(), torch.ones(8, 8)) != "eager":
        return "each backend has a number where eager has NaN, and you see no fault"
    if backend := first_wrong(_far, x, y):
        return f"eager is right, also where it rounds, and you say {backend}"
    y[0, 0] = 1e4  # in a column of its own: one scale doesn't do for all numbers
    z = _program(x, y).detach()
    for row, column, off in (7, 5, torch.nan), (3, 1, 9e-3), (0, 4, 9e-3), (2, 5, 8e-4):
        place = torch.zeros(8, 8, dtype=torch.bool)
        place[row, column] = True
        backend = first_wrong(_spoilt, x, y, place, z + off)
        if backend != (None if off < 1e-3 else "eager"):
            return f"one number of each backend is off by {off}, and you say {backend}"
    z = 1.0005 * _program(x, 1e4 * y).detach()
    if backend := first_wrong(_spoilt, x, 1e4 * y, z == z, z):
        return f"each number is off by a share of 5e-4, and you say {backend}"
    try:
        backend = first_wrong(_raises, x, y)
    except Exception as error:
        return f"what is compiled raises {error!r:.40} in its call, and you let it out"
    if backend != "eager":
        return "what is compiled raises in its call, and you see no fault"
    return None
