"""Checks and hints of notebook 19."""

import time
from functools import partial

import torch
from torch._dynamo import utils

from course.exercises import exercise
from course.words import unlogged


def _as_in_a_service():
    """Compile until torch has as many records as it keeps, and forget the code."""
    most = utils.DEFAULT_COMPILATION_METRICS_LIMIT
    torch.compiler.reset()
    while len(utils.get_compilation_metrics()) < most:
        torch.compile(torch.sin, backend="eager")(torch.ones(3))
        torch.compiler.reset()


def _wave(x):
    return x.sin() * x + 1


BUMP = torch.zeros(5, 7)  # the sums of its rows and columns are 0
BUMP[2:4, 3:5] = torch.tensor([[0.004, -0.004], [-0.004, 0.004]])


def _other(x):
    return _wave(x) + BUMP


def _swapped(x):  # the same numbers; the first, middle and last row are the same
    return _wave(x)[[0, 3, 2, 1, 4]]


def _sorted(x):
    return x.sort(0)[0]


def _in_two_graphs(x):
    y = x.sin() * x
    torch._dynamo.graph_break()
    return y + 1


_hidden = torch.compiler.disable(_wave)


def _compiled(function=_wave, **options):
    return torch.compile(function, **options)


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


def _hooked():
    layer = torch.nn.Linear(7, 7)
    compiled = _compiled(layer)
    compiled(torch.ones(5, 7))
    layer.register_forward_hook(lambda module, given, out: out + 1)
    return layer, compiled


def _slow(function=_wave):
    compiled = _compiled(function)

    def call(x):
        torch.compiler.reset()  # somebody put it into the loop
        return compiled(x)

    return _wave, call


def _named(every=1, shift=1):
    name, calls = [""], []
    compiled = _compiled(lambda x: _wave(x) if name[0] != "no" else x)

    def call(x):
        calls.append(x)
        name[0] = "a" * ((len(calls) + shift) // every)  # guarded
        return compiled(x)

    return _wave, call


def _computing():
    compiled = _compiled()

    def call(x):
        ends = time.process_time() + 0.4  # longer than a compile from the cache
        while time.process_time() < ends:
            pass
        return compiled(x)

    return _wave, call


THIRD = "a function whose guard fails in each third call"
# What it is, what is handed over, and how it is made; some have two faults.
TRIALS = (
    ("fine", "a function that was never called", lambda: (_wave, _compiled())),
    ("fine", "a function that was compiled before", _known),
    ("fine", "a sort, which is a library's", lambda: (_sorted, _compiled(_sorted))),
    ("fine", "a function of two graphs", lambda: (_wave, _compiled(_in_two_graphs))),
    ("fine", "a function that takes long, and doesn't compile", _computing),
    ("stale", "a model with a hook that is not noticed", _hooked),
    ("stale", "another function, compiled in each call", lambda: _slow(_other)),
    (
        "stale",
        "another function, with disable=True",
        lambda: (_wave, _compiled(_swapped, disable=True)),
    ),
    ("stale", "the other sign", lambda: (_wave, _compiled(lambda x: -_wave(x)))),
    ("silent", "disable=True", lambda: (_wave, _compiled(disable=True))),
    ("silent", "a function past the recompile limit", _past_the_limit),
    (
        "silent",
        "a call of a disabled function",
        lambda: (_wave, _compiled(lambda x: _hidden(x))),
    ),
    (
        "silent",
        "a disabled function, called and compiled in each call",
        lambda: _slow(lambda x: _hidden(x)),
    ),
    ("slow", "a function that is compiled in each call", _slow),
    ("slow", "a function whose guard fails in each call", _named),
    *[("slow", THIRD, partial(_named, 3, shift)) for shift in range(3)],
)


@exercise(
    "19.1",
    hints=(
        "Three questions in the order of the docstring, and each has a tool on the "
        "page: compare, profile, look at the records of compiles.",
        "Call it once first: then a new compile in the next calls is one too many; try "
        "three, for it may come now and then. In the profile, event.name begins with "
        '"## Call CompiledFxGraph". torch keeps 64 records, so their number need not '
        "grow; a callback doesn't survive the check's reset().",
        "if not torch.allclose(compiled(x), eager(x)): stale. with profile() as p: "
        'compiled(x); if not any("CompiledFxGraph" in e.name for e in '
        "p.events()): silent. before = get_compilation_metrics(); three calls; if "
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
