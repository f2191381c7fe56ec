"""Checks and hints of lesson 09."""

import torch
from course.gpu_code import widths
from course.kernel_checks import (
    fault,
    interpreted,
    normal,
    not_a_kernel,
    short,
    traffic,
)

from helpers import dump_triton
from helpers.exercises import exercise

# --- 09.1 ----------------------------------------------------------------------


def _standardised(x):
    d = x - x.mean(-1, keepdim=True)
    return d * torch.rsqrt(d.square().mean(-1, keepdim=True) + 1e-6)


ADVICE = {  # what is wrong in a whole answer, by what it then computes
    "the mean is divided by BLOCK: a row has only `columns` numbers": lambda x: _with(
        x, x.sum(-1, keepdim=True) / 128, 0
    ),
    "past the row, v is 0 and d is minus the mean: the variance sees it": lambda x: (
        _with(x, x.mean(-1, keepdim=True), 28)
    ),
    "the mean is divided by BLOCK, and past the row d is not 0": lambda x: _with(
        x, x.sum(-1, keepdim=True) / 128, 28
    ),
}


def _with(x, mean, places):
    """Standardise 100 columns with a *mean*, and *places* of minus that mean."""
    d = x - mean
    squares = d.square().sum(-1, keepdim=True) + places * mean.square()
    return d / torch.sqrt(squares / 100 + 1e-6)


@exercise(
    "09.1",
    hints=(
        "Where does row 1 begin, with 100 columns and a BLOCK of 128? And by how many "
        "numbers is a row's sum divided?",
        "After the mean is subtracted, what stands in the places past the row? They "
        "must not be seen by the second sum: tl.where(i < columns, ..., 0.0).",
        "at = tl.program_id(0) * columns + i; d = tl.where(i < columns, v - "
        "tl.sum(v, 0) / columns, 0.0); the rest stays as it was.",
    ),
    passed="All three had hidden behind 128 columns, where BLOCK and columns are one. "
    "Test kernels at odd sizes.",
)
def standardise(kernel):
    if wrong := not_a_kernel(kernel, ["x", "out", "columns", "BLOCK"]):
        return wrong
    cases = {
        "4 rows of 128 columns": (4, (normal(4, 128, seed=1),), (128,), 128),
        "5 rows of 100 columns": (5, (normal(5, 100, seed=2) + 3,), (100,), 128),
        "1 row of 100 columns": (1, (normal(1, 100, seed=4) + 3,), (100,), 128),
        "3 rows of 7 columns": (3, (normal(3, 7, seed=3),), (7,), 8),
    }
    results = interpreted(kernel, cases.values())
    found = dict(zip(cases, results, strict=True))
    for what, result in found.items():
        [x] = cases[what][1]
        if wrong := fault(result, _standardised(x)):
            return f"{what}: {wrong}{_advice(cases, found)}"

    def launch(x):
        out = torch.empty_like(x)
        kernel[(len(x),)](x, out, x.shape[1], BLOCK=1024)
        return out

    return traffic(launch, _standardised, normal(4, 1024, seed=5))


def _advice(cases, found):
    """Say which fault explains what one row of 100 columns came to."""
    one, result = cases["1 row of 100 columns"][1][0], found["1 row of 100 columns"]
    for why, computed in ADVICE.items():
        if torch.is_tensor(result) and torch.allclose(
            result, computed(one), rtol=1e-4, atol=1e-4
        ):
            return f"\n  {why}"
    several = found["5 rows of 100 columns"]
    if torch.is_tensor(result) and fault(result, _standardised(one)) is None:
        return "\n  one row alone is right: rows lie `columns` apart, not BLOCK"
    if isinstance(several, str) and "outside its buffers" in several:
        return "\n  rows lie `columns` apart, not BLOCK"
    return ""


# --- 09.2 ----------------------------------------------------------------------


def _head(h, weight, bias):
    return (h @ weight + bias).softmax(-1)


@exercise(
    "09.2",
    hints=(
        "A load is wide when every row begins at a multiple of 16 bytes, and when "
        "the mask changes at such a place only. How many numbers are 16 bytes?",
        "New columns of the weight may hold anything finite. What must their bias be, "
        "so that their probability is zero and the others do not change?",
        "extra = -len(bias) % (16 // bias.element_size()); F.pad(weight, (0, extra)), "
        "and F.pad(bias, (0, extra), value=float('-inf')).",
    ),
    passed="The same probabilities, wide loads, and no copy in any call. A vocabulary "
    "of 50257 is often padded to 50304, for the matrix product's sake as well.",
)
def padded(pad):
    for seed, (words, dtype) in enumerate(
        ((1001, torch.float32), (1002, torch.float32), (1001, torch.bfloat16))
    ):
        weight = (normal(32, words, seed=seed) / 6).to(dtype)
        bias = (normal(words, seed=seed + 9) - 3).to(dtype)
        h = normal(8, 32, seed=seed + 5).to(dtype)
        if wrong := _padding_fault(h, weight, bias, pad(weight.clone(), bias.clone())):
            return f"{words} words in {short(dtype)}: {wrong}"
    return None


def _padding_fault(h, weight, bias, answer):
    if not isinstance(answer, tuple) or len(answer) != 2:
        return "a pair was wanted: weight, bias"
    wider, longer = answer
    words, added = len(bias), len(longer) - len(bias)
    if wider.shape != (len(weight), len(longer)) or added < 0:
        shapes = f"{tuple(wider.shape)} and {tuple(longer.shape)}"
        return f"weight and bias do not belong together: {shapes}"
    if wider.dtype is not weight.dtype or longer.dtype is not bias.dtype:
        return f"the dtypes became {short(wider.dtype)} and {short(longer.dtype)}"
    if added >= 64:
        return f"{added} words were added, and 16 bytes need fewer"
    new = _head(h, wider, longer)
    if new.isnan().any():
        return "probabilities are NaN: is there an inf in the weight, or a row of -inf?"
    if not torch.allclose(
        new[:, :words].float(), _head(h, weight, bias).float(), rtol=2e-2, atol=1e-6
    ):
        lost = float(new[:, words:].float().sum(-1).max())
        return (
            f"the probabilities change; the new words take up to {lost:.0%} of a row. "
            "Which bias gives probability 0?"
        )
    width = len(longer) + -len(longer) % 64
    best = torch.empty(len(weight), width).to(wider), torch.empty(width).to(longer)
    own, wide = (
        min(widths(dump_triton(_head, h, *pair, dynamic=False).kernels[-1]))
        for pair in ((wider, longer), best)
    )
    if own < wide:
        return (
            f"with {len(longer)} words a thread loads {own} bytes at a time, and "
            f"{wide} would do"
        )
    return None
