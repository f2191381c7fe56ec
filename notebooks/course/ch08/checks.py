"""Checks and hints of lesson 08."""

import torch
from torch.nn import functional as F

from course.exercises import difference, exercise
from course.kernel_checks import fault, interpreted, normal, not_a_kernel, short

# --- 08.1 ----------------------------------------------------------------------


def _lost(a, b, c):
    h = a * b
    return torch.where(h > 0, h, 0.1 * a) + c[:, None]


MISREAD = {
    "tmp6 is tmp0 * 0.1: what is multiplied by 0.1 is a, not a * b": lambda a, b, c: (
        F.leaky_relu(a * b, 0.1) + c[:, None]
    ),
    "tmp4 looks at tmp2: the product decides, not a": lambda a, b, c: (
        torch.where(a > 0, a * b, 0.1 * a) + c[:, None]
    ),
    "tmp4 is False where the product is 0, and tmp6 is taken": lambda a, b, c: (
        torch.where(a * b >= 0, a * b, 0.1 * a) + c[:, None]
    ),
    "tmp8 is added behind tmp7, to every element": lambda a, b, c: torch.where(
        a * b > 0, a * b + c[:, None], 0.1 * a
    ),
}


@exercise(
    "08.1",
    hints=(
        "Which elements of b and c does one element of a meet? x0 counts 0 to 95 and "
        "begins again, x1 stays the same for 96 elements.",
        "b goes along the columns and c along the rows, so c needs a second dimension. "
        "tmp2 is a * b; tmp7 chooses between tmp2 and tmp6.",
        "h = a * b; then torch.where(h > 0, h, 0.1 * a) + c[:, None].",
    ),
    passed="You read a kernel, index arithmetic included. b is read once for each row, "
    "from the cache: evict_last asks to keep it there.",
)
def lost(answer):
    case = normal(50, 96, seed=1), normal(96, seed=2), normal(50, seed=3)
    case[1][7] = 0.0  # so that some products are neither above nor below 0
    wrong = difference(answer, _lost, [case])
    for why, misread in MISREAD.items():
        if wrong and difference(answer, misread, [case]) is None:
            return f"{wrong}: {why}"
    return wrong


# --- 08.2 ----------------------------------------------------------------------


@exercise(
    "08.2",
    hints=(
        "Copy `double`. Two tensors come in, so there are two loads.",
        "The pieces: i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), the mask "
        "i < n in all three accesses, and gelu(h) = h * 0.5 * (1 + erf(h / sqrt(2))). "
        "bfloat16 becomes float32 with .to(tl.float32).",
        "a = tl.load(h + i, mask=i < n).to(tl.float32), b likewise from x, then "
        "tl.store(out + i, b + a * 0.5 * (1 + tl.erf(a * 0.7071067811865476)), "
        "mask=i < n).",
    ),
    passed="It agrees with eager in every element, and touches nothing else.",
)
def add_gelu(kernel):
    if wrong := not_a_kernel(kernel, ["h", "x", "out", "n", "BLOCK"]):
        return wrong
    for n, dtype, block in ((1000, torch.float32, 256), (999, torch.bfloat16, 512)):
        h, x = (normal(n, seed=seed).to(dtype) for seed in (1, 2))
        programs = -(-n // block)
        [result] = interpreted(kernel, [(programs, (h, x), (n,), block)])
        wanted = (x.double() + F.gelu(h.double())).to(dtype)
        if wrong := fault(result, wanted):
            if fault(result, x + F.gelu(h, approximate="tanh")) is None:
                wrong += "\n  that is GELU's tanh form: F.gelu means the one with erf"
            if "but got bf16" in wrong:
                wrong += "\n  as in the generated kernel, tl.load(...).to(tl.float32)"
            return f"n = {n} in {short(dtype)}, BLOCK = {block}: {wrong}"
    return None
