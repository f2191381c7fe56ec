"""Checks and hints of lesson 08."""

import torch

from course.exercises import exercise
from course.gpu_code import widths
from course.kernel_checks import fault, interpreted, normal, not_a_kernel
from helpers import dump_triton
from helpers.text import count

# --- 09.1 ----------------------------------------------------------------------


def _standardised(x):
    d = x - x.mean(-1, keepdim=True)
    return d * torch.rsqrt(d.square().mean(-1, keepdim=True) + 1e-6)


CASES = (  # rows, their scale and mean, and what is wrong where those before are right
    (
        (1, 1.0, 3.0),
        "a row has only `columns` numbers, and past them d must be 0: what is minus "
        "the mean there is seen by the variance",
    ),
    (
        (5, 1.0, 3.0),
        "one row alone is right: rows lie `columns` apart, not BLOCK",
    ),
    (
        (2, 1e-3, 0.0),
        "these numbers are small: 1e-6 is added to the variance, under the root",
    ),
)


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
    for (rows, scale, mean), advice in CASES:
        x = normal(rows, 100, seed=rows) * scale + mean
        [result] = interpreted(kernel, [(rows, (x,), (100,), 128)])
        if wrong := fault(result, _standardised(x)):
            found = f"{count(rows, 'row')} of 100 columns: {wrong}"
            alone = rows == 1 and "outside its buffers" in wrong  # a mask, no sum
            return found if alone else f"{found}\n  {advice}"
    return None


# --- 09.2 ----------------------------------------------------------------------


WORDS = 1001, 999, 1024


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
    for words in WORDS:
        if wrong := _pad_fault(pad, words):
            return wrong
    return None


def _pad_fault(pad, words):
    """Say what is wrong with a vocabulary of *words*, padded."""
    weight, bias = normal(32, words, seed=0) / 6, normal(words, seed=1) - 3
    h = normal(8, 32, seed=2)
    wider, longer = pad(weight.clone(), bias.clone())
    if not 0 <= (added := len(longer) - words) < 64:
        return f"{added} columns were added, and fewer than 64 were asked for"
    new, wanted = _head(h, wider, longer), _head(h, weight, bias)
    if new.isnan().any():
        return "probabilities are NaN: is there an inf in the weight, or a row of -inf?"
    if not torch.allclose(new[:, :words], wanted, rtol=1e-3, atol=1e-6):
        lost = float(new[:, words:].sum(-1).max())
        return (
            f"the probabilities change; the new words take up to {lost:.0%} of a row. "
            "Which bias gives probability 0?"
        )
    [softmax] = dump_triton(_head, h, wider, longer, dynamic=False).kernels
    if (width := min(widths(softmax))) < 16:
        return (
            f"{words} words became {len(longer)}, and a thread loads {width} bytes "
            "at a time, where 16 would do"
        )
    return None
