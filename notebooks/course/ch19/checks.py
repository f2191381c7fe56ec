"""Checks and hints of notebook 19."""

import contextlib
import time

import torch
from torch._dynamo import utils
from torch._dynamo.callback import callback_handler

from course.exercises import exercise
from course.words import unlogged


def _as_in_a_service():
    """Compile until torch has as many records as it keeps, and forget the code."""
    torch.compiler.reset()
    while (
        len(utils.get_compilation_metrics()) < utils.DEFAULT_COMPILATION_METRICS_LIMIT
    ):
        torch.compile(torch.sin, backend="eager")(torch.ones(3))
        torch.compiler.reset()


# --- 19.1 ----------------------------------------------------------------------


def _callbacks():
    return callback_handler.start_callbacks + callback_handler.end_callbacks


def _not_as(before):
    """Say what is wrong with the callbacks that are registered now, or None."""
    now = _callbacks()
    if any(callback not in now for callback in before):
        return "the callbacks of others are gone: take out yours alone"
    if len(now) > len(before):
        return "a callback stays behind: remove it in a finally, for a call may raise"
    return None


@exercise(
    "19.1",
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
    _as_in_a_service()
    seen = []  # by the service's own callback, which was there before
    callback_handler.register_start_callback(seen.append)
    try:
        return _witnessed(compiles_in, seen)
    finally:
        torch.compiler.reset()  # and no callback is left


def _witnessed(compiles_in, seen):
    plus = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    times = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
    x = torch.ones(6)
    plus(x)  # known before: it must not cost a compile again
    before = _callbacks()
    calls = [lambda: plus(x), lambda: plus(x[:4]), lambda: (times(x), times(x[:3]))]
    seen.clear()
    counts = compiles_in(calls)
    if fault := _not_as(before):
        return fault
    if len(seen) != 3:
        return f"3 compiles, and the service's own callback was told {len(seen)} times"
    if counts != [0, 1, 2]:
        return (
            "a known size, a new one, two sizes of another function: you say "
            f"{counts!r}, and it is [0, 1, 2]"
        )
    with contextlib.suppress(ZeroDivisionError):
        compiles_in([lambda: 1 / 0])
        return "a call raised an error, and yours keeps it to itself"
    if fault := _not_as(before):
        return fault

    def later(_):
        """Stand for one that the service registers in a call."""

    compiles_in([lambda: callback_handler.register_start_callback(later)])
    if len(_callbacks()) != len(before) + 1 or _callbacks()[-1] is not later:
        return "a callback that came later is gone: take out yours by its name"
    callback_handler.remove_start_callback(later)
    weight = torch.ones(6, requires_grad=True)
    train = torch.compile(lambda w: (w * w).sum(), backend="aot_eager")
    steps = compiles_in([lambda: train(weight).backward()] * 2)
    if steps != [2, 0]:
        return (
            f"a training step, twice: you say {steps!r}, and it is [2, 0]: the "
            "backward is compiled too"
        )
    return None


# --- 19.2 ----------------------------------------------------------------------


def _wave(x):
    return x.sin() * x + 1


def _compiled(function=_wave, **options):
    return torch.compile(function, **{"backend": "aot_eager", **options})


def _known():
    compiled = _compiled()
    compiled(torch.ones(5, 7))
    return _wave, compiled


def _past_the_limit():
    compiled = _compiled(dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=1), unlogged():
        for rows in (2, 3):
            compiled(torch.ones(rows, 7))
    return _wave, compiled


def _suppressed():
    """Return a function whose compile fails in each call, and eager answers."""

    def fails(graph, inputs):
        raise ValueError("this backend fails")

    compiled = _compiled(backend=fails)

    def call(x):
        torch.compiler.reset()
        with torch._dynamo.config.patch(suppress_errors=True), unlogged():
            return compiled(x)

    return _wave, call


def _hooked():
    layer = torch.nn.Linear(7, 7)
    compiled = _compiled(layer)
    compiled(torch.ones(5, 7))
    layer.register_forward_hook(lambda module, given, out: out + 1)
    return layer, compiled


def _slow(function=_wave):
    compiled = _compiled(function)

    def slow(x):
        torch.compiler.reset()  # somebody put it into the loop
        return compiled(x)

    return _wave, slow


def _takes_long():
    def slowly(graph, inputs):
        def run(*tensors):
            time.sleep(0.25)
            return graph.forward(*tensors)

        return run

    return _wave, _compiled(backend=slowly)


def _other(x):
    return _wave(x) + 1


# What it is, what is handed over, and how it is made; some have two faults.
TRIALS = (
    ("fine", "a function that nobody has called", lambda: (_wave, _compiled())),
    ("fine", "a function that was compiled before", _known),
    ("fine", "a function that takes long, and does not compile", _takes_long),
    ("stale", "a model with a hook that is not noticed", _hooked),
    ("stale", "another function, never compiled", lambda: (_wave, _other)),
    ("stale", "another function, compiled in each call", lambda: _slow(_other)),
    ("silent", "disable=True", lambda: (_wave, _compiled(disable=True))),
    ("silent", "a function past the recompile limit", _past_the_limit),
    ("silent", "a compile that fails in each call, suppressed", _suppressed),
    ("slow", "a function that is compiled in each call", _slow),
)


@exercise(
    "19.2",
    hints=(
        "Three questions in the order of the docstring, and each has a tool on the "
        "page: compare, profile, look at the records of compiles.",
        "Call it once first: then a new compile in the next call is one too many. In "
        'the profile, event.name begins with "Torch-Compiled Region". torch keeps 64 '
        "records, so their number need not grow.",
        "if not torch.allclose(compiled(x), eager(x)): stale. with profile() as p: "
        'compiled(x); if not any("Torch-Compiled Region" in e.name for e in '
        "p.events()): silent. before = get_compilation_metrics(); compiled(x); if "
        "get_compilation_metrics() != before: slow. Otherwise fine.",
    ),
    passed="One answer for each complaint, in the right order.",
)
def slow_stale_or_silent(diagnose):
    _as_in_a_service()
    for wanted, what, make in TRIALS:
        torch.compiler.reset()
        with torch.no_grad():  # all through: another mode would compile again
            answer = diagnose(*make(), torch.randn(5, 7))
        if answer != wanted:
            return f'{what}: you say "{answer}", and it is "{wanted}"'
    return None
