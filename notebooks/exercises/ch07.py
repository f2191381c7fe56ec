"""Checks and hints of lesson 07."""

import re

import torch

from helpers import graphs, kernels, output_code
from helpers.exercises import difference, exercise, number, same

# --- 07.1 ----------------------------------------------------------------------


@exercise(
    "07.1",
    hints=(
        "One of the four spellings above was recognised. Two things differ here.",
        "Write the products with @, and scale the scores, not the query: a scale of "
        "1 / sqrt(width).",
        "scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5, then softmax over "
        "the last dimension, then @ v.",
    ),
    passed="Four launches became one, and the matrix of scores is gone from memory.",
)
def recognised(answer):
    torch.manual_seed(0)
    cases = []
    for (batch, heads, time, width), other in (
        ((1, 2, 24, 8), 40),
        ((3, 1, 8, 64), 8),
        ((2, 4, 32, 16), 32),
    ):
        q = torch.randn(batch, heads, time, width)
        k, v = (torch.randn(batch, heads, other, width) for _ in range(2))
        cases.append((q, k, v))
    attention = torch.nn.functional.scaled_dot_product_attention
    if fault := difference(answer, attention, cases, tolerance=1e-4):
        return (
            f"{fault}: it computes something else. Is the scale 1 / sqrt(width), for "
            "every width?"
        )
    if any("attention" in op for op in graphs(answer, *cases[-1]).ops):
        return "this calls the library by hand: spell it, so that it is recognised"
    found = kernels(answer, *cases[-1])
    if found.generated or len(found.library) != 1:
        return (
            f"right, and not recognised: {len(found.generated)} kernels and "
            f"{len(found.library)} library calls. Come closer to the paper's spelling"
        )
    if "attention" not in found.library[0].name:
        return f"one launch, and it is {found.library[0].name}: no attention"
    return None


# --- 07.2 ----------------------------------------------------------------------


def _deep(x, w):
    for _ in range(3):
        x = torch.relu(x @ w)
    return x.sum(-1)


def _new(name, sizes, strides, dtype="float32"):
    return f"{name} = empty_strided_cpu({sizes}, {strides}, torch.{dtype})"


PLANS = {  # what it is, its lines and the most bytes at one time
    "one buffer": ([_new("buf0", "(8, )", "(1, )")], 32),
    "one that is freed before the next": (
        [
            _new("buf0", "(100, )", "(1, )"),
            "cpp_fused_sum_0(arg0_1, buf0)",
            "del buf0",
            "del arg0_1",
            _new("buf1", "(30, )", "(1, )"),
        ],
        400,
    ),
    "one that is reused": (
        [
            _new("buf0", "(4, 4)", "(4, 1)"),
            "buf1 = buf0; del buf0  # reuse",
            "cpp_fused_relu_0(buf1)",
            "del buf1",
            _new("buf2", "(4, 4)", "(4, 1)"),
        ],
        64,
    ),
    "another dtype": (
        [
            _new("buf0", "(10, )", "(1, )", "bfloat16"),
            _new("buf1", "(10, )", "(1, )", "int64"),
        ],
        100,
    ),
    "rows that are padded": ([_new("buf0", "(4, 3)", "(8, 1)")], 108),
}


@exercise(
    "07.2",
    hints=(
        "Keep a dict of what is alive: name to bytes. After each line, compare its sum "
        "with the largest so far.",
        "Three kinds of line, three regular expressions. A reuse moves an entry to a "
        "new name, and adds nothing.",
        "Elements are 1 + the sum of (size - 1) * stride; the bytes of one are "
        "getattr(torch, 'float32').itemsize.",
    ),
    passed="You have read a memory plan as the program that it is.",
)
def peak_bytes(answer):
    code = output_code(_deep, torch.randn(16, 32), torch.randn(32, 32)).text
    call = re.search(r"def call\(.*?\n(.*?return .*?)\n", code, re.S)[1]
    compiled = [line.strip() for line in call.split("\n")]
    # Two matrices of 16 by 32 are alive at once: what a product reads and writes.
    plans = {**PLANS, "compiled code": (compiled, 2 * 16 * 32 * 4)}
    for what, (lines, wanted) in plans.items():
        found = answer(list(lines))
        if same(found, wanted):
            continue
        if what == "one that is reused" and number(found) == 2 * wanted:
            return "a reused buffer is counted twice: its memory only changes its name"
        return f"{what}: the most at one time is {wanted} bytes, and you said {found}"
    return None
