"""Checks and hints of notebook 00."""

import torch

from course.exercises import exercise


def two_faced(x):
    """One graph; once compiled, two numbers of a middle row differ, and no sum."""
    off = 0.5 * torch.compiler.is_compiling()
    before, one, other, after = x.flatten().split([8000, 1, 1, x.numel() - 8002])
    return torch.cat([before, one + off, other - off, after]).view_as(x)


def off_by(share):
    """One graph; once compiled, its answer is off by *share*."""
    return lambda x: x * (1 + share) if torch.compiler.is_compiling() else x


def lifted(x):
    """One graph; once compiled, its answer is off by less than atol."""
    return x + 5e-6 if torch.compiler.is_compiling() else x * 1


def small_are_off(x):
    """One graph; once compiled, its numbers below 1 are off by 2 in 10,000."""
    off = 2e-4 * torch.compiler.is_compiling()
    return x * (1 + off * (x.abs() < 1))


def rounds_less(x):
    """One graph; Inductor rounds its steps once, eager and other backends each."""
    return (x.bfloat16() * 1.1 + 0.3) * 1.7


def interrupted_at_the_end(x):
    """One graph with a break behind it: it prints before it returns."""
    x = x.sin() * 2
    print(end="")
    return x


def looked_up(x):
    """No graph and no break: there is nothing to compute."""
    return _X


def rounded(x, y):
    """One graph; sums long rows, so compiled rounds differently than eager."""
    return (x / x.square().mean(-1, keepdim=True).sqrt()).softmax(-1) * y


_X = torch.randn(32, 512, generator=torch.Generator().manual_seed(0))

went_well = exercise(
    "00.1",
    hints=(
        "Three things make it go well: how many graphs, how many breaks, and the "
        "same answers. The page measured all three.",
        "graphs(model, *inputs) has .count and .breaks. torch.allclose(a, b, "
        "rtol=..., atol=...) compares two tensors up to rounding.",
        "Return count == 1 and not breaks and torch.allclose of "
        "torch.compile(model)(*inputs) and model(*inputs).",
    ),
    passed="Now you can tell a colleague that one line did no harm.",
    cases=[
        ("one with two wrong numbers, compiled", (two_faced, _X), False),
        ("one whose small numbers are off, compiled", (small_are_off, 100 * _X), False),
        ("one that differs by rounding alone", (rounded, _X, _X + 9), True),
        ("one that differs by less than rtol", (off_by(3e-5), 100 * _X), True),
        ("one that differs by less than atol", (lifted, 1e-3 * _X), True),
        ("a module", (torch.nn.Softmax(-1), _X), True),
        ("one that Inductor rounds less often", (rounds_less, _X), False),
        ("one that prints before it returns", (interrupted_at_the_end, _X), False),
        ("one that computes nothing, in no graph", (looked_up, _X), False),
    ],
)
