"""Checks and hints of notebook 40."""

import torch

from course import ppo
from course.backend import CountingBackend
from course.exercises import exercise
from helpers.tensors import tensors

# --- 40.1 ----------------------------------------------------------------------

STEPS = 16, 24, 40, 3, 5, 600, 24


@exercise(
    "40.1",
    hints=(
        "Each surprise needs the value of the next step, and the last step has none: "
        "shift the values by one. How much does a later surprise weigh?",
        "The advantage of step t is the sum of 0.81 ** (s - t) times the surprise of "
        "step s, over s from t on. That is a product of a matrix and a vector.",
        "after = torch.cat([values[1:], values.new_zeros(1)]); gap = steps[None] - "
        "steps[:, None] with steps = torch.arange(len(rewards)); the matrix is "
        "torch.where(gap < 0, 0.0, 0.81 ** gap.clamp(0)).",
    ),
    passed="No loop, and two graphs for all episodes.",
)
def advantages(answer):
    torch.compiler.reset()
    backend = CountingBackend("aot_eager")
    compiled = torch.compile(answer, backend=backend)
    for number, steps in enumerate(STEPS, 1):
        values, rewards = torch.randn(2, steps, generator=torch.manual_seed(steps))
        wanted = ppo.advantages(values.double(), rewards.double())
        for said, call in (("eager", answer), ("compiled", compiled)):
            before = len(backend.ran)
            given = values.clone(), rewards.clone()
            found = call(*given)
            if found.shape != wanted.shape:
                return (
                    f"{said}, {steps} steps: the shape is {tuple(found.shape)}, "
                    f"not {tuple(wanted.shape)}"
                )
            if not torch.allclose(found.double(), wanted, atol=1e-4):
                return f"{said}, {steps} steps: not what the loop gives"
            if not all(map(torch.equal, given, (values, rewards))):
                return f"{said}, {steps} steps: you wrote to values or rewards"
        if len(backend.ran) == before:
            return f"{steps} steps ran eagerly"
        if (many := len(backend.captured)) > 2:
            return f"{number} episodes cost {many} graphs, and two are enough"
    return None


# --- 40.2 ----------------------------------------------------------------------

PIECES = [16] * 3, [8, 20, 2], [2, 2, 3, 2, 30], [48], [31, 17]
SHAPES = (5, 1), (3, 4)  # kernel size and dilation


@exercise(
    "40.2",
    hints=(
        "How many samples before a piece does its first result need? Think of "
        "dilation, and of a piece that is shorter than that.",
        "The state is the end of the last state and the piece together. Make one of "
        "zeros outside of what is compiled, so that no first call is a case of its "
        "own.",
        "room = conv.dilation[0] * (conv.kernel_size[0] - 1); compiled: heard = "
        "torch.cat([past, piece], -1), and it returns conv(heard) and "
        "heard[..., -room:].clone(): a view has the strides of all that was heard.",
    ),
    passed="It hears everybody, in pieces of any length.",
)
def listener(answer):
    for size, dilation in SHAPES:
        torch.manual_seed(0)
        conv = torch.nn.Conv1d(2, 3, size, dilation=dilation).requires_grad_(False)
        torch.compiler.reset()
        backend = CountingBackend("aot_eager")
        if fault := _stream_fault(answer(conv, backend), conv, backend):
            return f"kernel size {size}, dilation {dilation}: {fault}"
        if (many := len(backend.captured)) > 2:
            return (
                f"kernel size {size}, dilation {dilation}: all speakers cost {many} "
                "graphs, and two are enough"
            )
    return None


def _stream_fault(listen, conv, backend):
    """Let all speak in turn, a piece each, and compare each with the whole."""
    room = conv.dilation[0] * (conv.kernel_size[0] - 1)
    sounds = [torch.randn(1, 2, sum(lengths)) for lengths in PIECES]
    cut = [
        [piece.clone() for piece in sound.split(lengths, -1)]
        for sound, lengths in zip(sounds, PIECES, strict=True)
    ]
    heard, kept = [[] for _ in PIECES], [[] for _ in PIECES]
    for turn in range(max(map(len, PIECES))):
        for who, pieces in enumerate(cut):
            if turn < len(pieces):
                before = len(backend.ran)
                found, past = listen(pieces[turn], *kept[who][-1:])
                if len(backend.ran) == before:
                    return "a piece ran eagerly"
                heard[who].append(found)
                kept[who].append(past)
    for who, sound in enumerate(sounds):
        wanted = conv(torch.nn.functional.pad(sound, (room, 0)))
        found = torch.cat(heard[who], -1)
        if found.shape != wanted.shape:
            return (
                f"pieces of {PIECES[who]} gave {found.shape[-1]} results, not "
                f"{wanted.shape[-1]}"
            )
        if not torch.allclose(found, wanted, atol=1e-5):
            return f"pieces of {PIECES[who]} gave other results than the whole"
    grown = [sum(x.numel() for x in tensors(past)) for past in kept[0]]
    if grown[-1] > grown[-2]:
        return f"the state grows from piece to piece: it holds {grown} numbers"
    again, _ = listen(cut[0][1], kept[0][0])
    if not torch.equal(again, heard[0][1]):
        return "going on once more from an old state gave another result"
    return None
