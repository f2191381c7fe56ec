"""Checks and hints of notebook 24."""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from course.exercises import exercise
from helpers import recompiles

REQUESTS = ((100, 4), (41, 1), (7, 150), (99_950, 40))
LENGTH = 256
AT = torch.tensor([*range(LENGTH), 60_000, 60_001, 99_900, 100_000])  # a long chat


def _wanted(window, first):
    back = AT[:, None] - AT
    return (back >= 0) & ((back < window) | (first > AT))


def _dense(rule):
    given = rule(torch.tensor(0), torch.tensor(0), AT[:, None], AT)
    return torch.as_tensor(given).expand(len(AT), len(AT))


@exercise(
    "24.1",
    hints=(
        "Three conditions: never ahead, and either near or among the first.",
        "An int compiles at its first two values. What is an input of the kernel "
        "instead?",
        "near, early = torch.tensor(window), torch.tensor(first), before the rule; in "
        "it: (i >= j) & ((i - j < near) | (j < early)).",
    ),
    passed="Each request brings its own window, and nothing compiles.",
)
def streaming(answer):
    calls = []
    rules = [answer(*request) for request in REQUESTS]  # all, before one is asked
    for (window, first), rule in zip(REQUESTS, rules, strict=True):
        wrong = (_dense(rule) != _wanted(window, first)).nonzero()
        if len(wrong):
            i, j = AT[wrong[0]].tolist()
            seen = "does not see" if _wanted(window, first)[*wrong[0]] else "sees"
            return (
                f"with streaming({window}, {first}), position {i} {seen} position {j}"
            )
        mask = create_block_mask(rule, None, None, LENGTH, LENGTH, device="cpu")
        qkv = tuple(torch.ones(3, 1, 1, LENGTH, 16))
        calls.append((qkv, {"block_mask": mask}))
    torch.compiler.reset()
    cost = recompiles(flex_attention, calls)
    if cost.total > 1:
        why = "; ".join(cost.calls[1].reasons or cost.calls[2].reasons)
        return f"{len(calls)} requests cost {cost.total} compiles: {why}"
    return None
