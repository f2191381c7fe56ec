"""Checks and hints of lesson 07."""

import re

import torch
from torch._inductor.utils import run_and_get_code

from course.exercises import exercise, same

# --- 07.1 ----------------------------------------------------------------------


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
        ["buf0 = empty_strided_cpu((3, 2, 4), (1, 32, 8), torch.bfloat16)"],
        118,
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
    "07.1",
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
    inputs = torch.randn(16, 32), torch.randn(32, 32)
    _, [code] = run_and_get_code(torch.compile(_deep), *inputs)
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
