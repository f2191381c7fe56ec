"""Checks and hints of notebook 17."""

import contextlib

import torch
from torch._dynamo.callback import callback_handler
from torch._dynamo.utils import clear_compilation_metrics

from course.exercises import exercise

# --- 17.1 ----------------------------------------------------------------------


def _callbacks():
    return callback_handler.start_callbacks + callback_handler.end_callbacks


@exercise(
    "17.1",
    hints=(
        "Something can tell you when a compile begins: you saw it with a start and "
        "an end.",
        "Register a start callback that appends to a list; take the list's length "
        "before and after each call; remove the callback in a finally.",
        "handler = torch._dynamo.callback.callback_handler; seen = []; note = lambda "
        "args: seen.append(args); handler.register_start_callback(note). For each "
        "call: before = len(seen); call(); counts.append(len(seen) - before). At the "
        "end handler.remove_start_callback(note).",
    ),
    passed="It sees each compile, forgets nothing, and leaves no callback behind.",
)
def a_witness(compiles_in):
    torch.compiler.reset()
    plus = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    times = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
    x = torch.ones(6)
    plus(x)  # known before: it must not cost a compile again
    before = _callbacks()
    calls = [lambda: plus(x), lambda: plus(x[:4]), lambda: (times(x), times(x[:3]))]
    counts = compiles_in(calls)
    if counts != [0, 1, 2]:
        return (
            "a known size, a new one, two sizes of another function: you say "
            f"{counts!r}, and it is [0, 1, 2]"
        )
    with contextlib.suppress(ZeroDivisionError):
        compiles_in([lambda: 1 / 0])
    if _callbacks() != before:
        return "a callback stays behind: remove it in a finally, for a call may raise"
    return None


# --- 17.2 ----------------------------------------------------------------------


def _wave(x):
    return x.sin() * x + 1


def _stale():
    layer = torch.nn.Linear(7, 7)
    compiled = torch.compile(layer, backend="aot_eager")
    with torch.no_grad():  # as in the check: another mode would compile again
        compiled(torch.ones(5, 7))
    layer.register_forward_hook(lambda module, given, out: out + 1)
    return layer, compiled


def _slow():
    compiled = torch.compile(_wave, backend="aot_eager")

    def slow(x):
        torch.compiler.reset()  # somebody put it into the loop
        return compiled(x)

    return _wave, slow


TRIALS = {
    "fine": lambda: (_wave, torch.compile(_wave, backend="aot_eager")),
    "stale": _stale,
    "silent": lambda: (_wave, torch.compile(_wave, disable=True)),
    "slow": _slow,
}


@exercise(
    "17.2",
    hints=(
        "Three questions in the order of the docstring, and each has a tool on the "
        "page: compare, profile, count compiles.",
        "Call it once first: then a new compile in the next call is one too many. In "
        'the profile, event.name begins with "Torch-Compiled Region".',
        "if not torch.allclose(compiled(x), eager(x)): stale. with profile() as p: "
        'compiled(x); if not any("Torch-Compiled Region" in e.name for e in '
        "p.events()): silent. before = len(get_compilation_metrics()); compiled(x); "
        "if it grew: slow. Otherwise fine.",
    ),
    passed="One answer for each complaint, in the right order.",
)
def slow_stale_or_silent(diagnose):
    for wanted, make in TRIALS.items():
        torch.compiler.reset()
        clear_compilation_metrics()  # torch keeps 64, and may have them
        eager, compiled = make()
        with torch.no_grad():
            answer = diagnose(eager, compiled, torch.randn(5, 7))
        if answer != wanted:
            return f'a function that is {wanted}: you say "{answer}"'
    return None
