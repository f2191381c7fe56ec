"""Checks and hints of lesson 07."""

import re

import torch
from torch._dynamo.utils import counters

from course.exercises import difference, exercise, same
from course.lowering import past_the_caches
from helpers import kernels, output_code

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
    cases = [
        (torch.randn(shape), *torch.randn(2, *shape[:2], other, shape[3]))
        for shape, other in (((1, 2, 24, 8), 40), ((2, 4, 32, 16), 32))
    ]
    attention = torch.nn.functional.scaled_dot_product_attention
    if fault := difference(answer, attention, cases, tolerance=1e-4):
        return (
            f"{fault}: it computes something else. Is the scale 1 / sqrt(width), for "
            "every width?"
        )
    calls = kernels(answer, *cases[-1])
    if calls.generated or len(calls.library) != 1:
        return (
            f"right, and not recognised: {len(calls.generated)} kernels and "
            f"{len(calls.library)} library calls. Come closer to the paper's spelling"
        )
    with past_the_caches():
        counters.clear()
        torch.compile(answer)(*cases[-1])
    if not counters["inductor"]["fuse_attention"]:
        return (
            "one call, and yet the matcher recognised nothing: you call "
            "scaled_dot_product_attention yourself"
        )
    return None


# --- 07.2 ----------------------------------------------------------------------


def _deep(x, w):
    for _ in range(3):
        x = torch.relu(x @ w)
    return x.sum(-1)


PLANS = {  # what it is, its lines and the most bytes at one time
    "one that is freed before the next": (
        [
            "buf0 = empty_strided_cpu((100, ), (1, ), torch.float32)",
            "del buf0",
            "buf1 = empty_strided_cpu((30, ), (1, ), torch.float32)",
        ],
        400,
    ),
    "one that is reused": (
        [
            "buf0 = empty_strided_cpu((4, 4), (4, 1), torch.float32)",
            "buf1 = buf0; del buf0  # reuse",
            "del buf1",
            "buf2 = empty_strided_cpu((4, 4), (4, 1), torch.float32)",
        ],
        64,
    ),
    "rows that are padded, and another dtype": (
        ["buf0 = empty_strided_cpu((4, 3), (8, 1), torch.bfloat16)"],
        54,
    ),
    "a single number": (
        ["buf0 = empty_strided_cpu((), (), torch.float64)"],
        8,
    ),
    "one that is reused in another shape": (
        [
            "buf0 = empty_strided_cpu((4, 8), (8, 1), torch.float32)",
            "buf1 = reinterpret_tensor(buf0, (4, 4), (4, 1), 0); del buf0  # reuse",
            "del buf1",
            "buf2 = empty_strided_cpu((4, 4), (4, 1), torch.float32)",
        ],
        128,
    ),
}


@exercise(
    "07.2",
    hints=(
        "Keep a dict of what is alive: name to bytes. After each line, compare its sum "
        "with the largest so far.",
        "Three kinds of line, three regular expressions. A reuse, in the same shape or "
        "another, moves an entry to a new name, and adds nothing.",
        "Elements are 1 + the sum of (size - 1) * stride; the bytes of one are "
        "getattr(torch, 'float32').itemsize.",
    ),
    passed="You have read a memory plan as the program that it is.",
)
def peak_bytes(answer):
    code = output_code(_deep, torch.randn(16, 32), torch.randn(32, 32)).text
    call = re.search(r"def call\(.*?\n(.*?return .*?)\n", code, re.S)[1]
    lines = [line.strip() for line in call.split("\n")]
    # Two matrices of 16 by 32 are alive at once: what a product reads and writes.
    plans = {**PLANS, "compiled code": (lines, 2 * 16 * 32 * 4)}
    for what, (lines, wanted) in plans.items():
        most = answer(list(lines))
        if not same(most, wanted):
            return (
                f"{what}: the most at one time is {wanted} bytes, and you said {most}"
            )
    return None
