"""Checks and hints of notebook 24."""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from course.backend import CountingBackend
from course.ch24.attention import one_by_one
from course.exercises import exercise
from helpers import dump_triton, recompiles
from helpers.gpu import gpus

# --- 24.1 ----------------------------------------------------------------------

REQUESTS = ((100, 4), (50, 1), (7, 3), (200, 40))
LENGTH = 256


def _wanted(window, first):
    at = torch.arange(LENGTH)
    back = at[:, None] - at
    return (back >= 0) & ((back < window) | (at < first))


def _dense(rule):
    at = torch.arange(LENGTH)
    given = rule(torch.tensor(0), torch.tensor(0), at[:, None], at)
    return torch.as_tensor(given).expand(LENGTH, LENGTH)


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
    for window, first in REQUESTS:
        rule = answer(window, first)
        wrong = (_dense(rule) != _wanted(window, first)).nonzero()
        if len(wrong):
            i, j = wrong[0].tolist()
            seen = "sees" if _dense(rule)[i, j] else "does not see"
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


# --- 24.2 ----------------------------------------------------------------------

HEADS, DIM = 2, 64
BATCHES = ((70, 30, 5), (128,), (33, 200), (9, 9, 9, 60), (300, 1), (17, 90, 64))


def _texts(lengths):
    return [tuple(torch.randn(3, 1, HEADS, n, DIM)) for n in lengths]


class _Watched:
    """A compiled flex_attention that keeps what it is called with."""

    def __init__(self):
        self.backend = CountingBackend()
        self.compiled = torch.compile(flex_attention, backend=self.backend)
        self.shapes = []

    def __call__(self, query, key, value, *rest, **options):
        self.shapes.append(query.shape)
        return self.compiled(query, key, value, *rest, **options)


@exercise(
    "24.2",
    hints=(
        "Put all texts behind one another, attend once, and split the result.",
        "A tensor with the number of each position's text keeps them apart: "
        "torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths)). The "
        "rule reads it, and a new one compiles nothing.",
        "q, k, v = (torch.cat(parts, -2) for parts in zip(*texts)); rule: (i >= j) & "
        "(own[i] == own[j]); blocks = create_block_mask(rule, None, None, n, n, "
        'device="cpu"); attend(q, k, v, block_mask=blocks).split(lengths, -2).',
    ),
    passed="One row, one call, and no text sees another.",
)
def attend_all(answer):
    torch.compiler.reset()
    torch.manual_seed(0)
    watched = _Watched()
    for lengths in BATCHES:
        texts = _texts(lengths)
        watched.shapes.clear()
        found = list(answer(watched, texts))
        if fault := _fault(lengths, texts, found, watched.shapes):
            return f"with texts of {lengths} positions, {fault}"
    compiles = len(watched.backend.captured)
    if compiles > 3:
        return f"{len(BATCHES)} lists cost {compiles} compiles, and 3 were allowed"
    return None


def _fault(lengths, texts, found, shapes):
    if len(shapes) != 1:
        return f"attend is called {len(shapes)} times"
    positions = shapes[0][0] * shapes[0][2]
    most = -(-sum(lengths) // 128) * 128
    if positions > most:
        return f"{positions} positions are computed, of which {sum(lengths)} are texts"
    if len(found) != len(texts):
        return f"{len(found)} outputs came back"
    for number, (text, ours) in enumerate(zip(texts, found, strict=True)):
        wanted = one_by_one([text])
        if ours.shape != wanted.shape:
            return f"output {number} has the shape {tuple(ours.shape)}"
        if not torch.allclose(ours, wanted, atol=1e-4):
            return f"output {number} is not the causal attention of its text"
    return None


# --- 24.3 ----------------------------------------------------------------------

RTX = gpus.find("rtx4090")


def _causal(b, h, i, j):
    return i >= j


@exercise(
    "24.3",
    hints=(
        "Half of a multiprocessor's shared memory is the most that one may take.",
        "Fewer keys at a time: BLOCK_N is a power of two.",
        "num_stages=1 and BLOCK_N=32.",
    ),
    passed="While one waits for memory, the other computes.",
)
def options(answer):
    blocks = create_block_mask(_causal, None, None, 512, 512, device="cpu")
    wide = torch.ones(3, 1, 1, 512, 256, dtype=torch.bfloat16)

    def attend(q, k, v):
        return flex_attention(q, k, v, block_mask=blocks, kernel_options=answer)

    made = dump_triton(attend, *wide, gpu=RTX.name).kernels[-1].on()
    if made.shared > RTX.shared_optin:
        return f"{made.shared} bytes of shared memory do not fit into one block"
    if made.spills:
        return f"{made.spills} registers are kept in memory"
    if made.occupancy.blocks < 2:
        return f"{made.shared} bytes a block leave room for {made.occupancy.blocks}"
    return None
