"""Checks and hints of notebook 34."""

import functools

import torch

from course.backend import CountingBackend
from course.exercises import exercise

X = torch.linspace(0.1, 1, 4)


def _wave(x):
    return torch.sin(x) + 1


def _noisy(x):
    for _ in range(2):
        x = x.sin()
        print(end="")
    return x


# --- 34.1 ----------------------------------------------------------------------


def _eager():
    return lambda: _wave(X)


def _nested():
    weight, bias = torch.eye(4), torch.ones(4)
    return lambda: torch.nn.functional.linear(X, weight, bias)


def _compiled():
    compiled = torch.compile(_wave)
    return lambda: compiled(X)


def _given_up():
    compiled = torch.compile(_noisy)
    return lambda: compiled(X)


def _hooked():
    class Noisy(torch.nn.Module):
        def forward(self, x):
            return _noisy(x)

    module = Noisy()
    module.register_forward_pre_hook(lambda module, inputs: None)
    module.compile()
    return lambda: module(X)


def _mixed():
    compiled = torch.compile(_wave)
    return lambda: compiled(compiled(X).cos())


def _with_a_product():
    compiled, weight = torch.compile(lambda x: (x @ x).sin()), torch.ones(64, 64)
    return lambda: compiled(weight)


def _with_an_operator():
    compiled = torch.compile(lambda x: _twice()(x) + 1)
    return lambda: compiled(X)


@functools.cache  # a name is registered once
def _twice():
    @torch.library.custom_op("course_ch34::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    twice.register_fake(torch.empty_like)
    return twice


CALLS = {  # how the call is made, and what runs in a second one
    "an eager function": (_eager, (0, ["aten::sin", "aten::add"])),
    "an operation that calls others": (_nested, (0, ["aten::linear"])),
    "a compiled function": (_compiled, (1, [])),
    "a function that was given up": (_given_up, (0, ["aten::sin", "aten::sin"])),
    "a module of which only the hook is compiled": (
        _hooked,
        (0, ["aten::sin", "aten::sin"]),
    ),
    "two runs of a graph, and a cos between them": (_mixed, (2, ["aten::cos"])),
    "a graph with a product of the library": (_with_a_product, (1, [])),
    "a graph with an operator of one's own": (_with_an_operator, (1, [])),
}


@exercise(
    "34.1",
    hints=(
        "Call it once before the profiler looks, or you see a compile. What does the "
        "page say that a graph of Inductor is called?",
        "An aten event counts if none of the events around it, from cpu_parent to "
        "cpu_parent, is a graph or an aten event. A region is neither.",
        "Go up: parent = event.cpu_parent; while parent is not None, stop where "
        "parent.name starts with '## Call CompiledFxGraph' or 'aten::'. Sort the "
        "events by event.time_range.start.",
    ),
    passed="You can tell of any call how much of it is compiled.",
)
def outside(answer):
    for name, (make, wanted) in CALLS.items():
        graphs, operations = answer(make())
        if (graphs, list(operations)) != wanted:
            found = graphs, list(operations)
            return f"{name}: in a second call run {wanted}, and you found {found}"
    return None


# --- 34.2 ----------------------------------------------------------------------

ALLOWED = 2
"""Versions that a function may have here: the third kind of input is eager."""


def _fixed(x):
    return torch.sin(x) + 1


def _tagged(x, tag):
    return x.sin() if tag else x.cos()


@exercise(
    "34.2",
    hints=(
        "Two questions, two tools of the page: one for compiles, one for graphs.",
        "Under fail_on_recompile a compile becomes a RuntimeError whose text names the "
        "stance. Other RuntimeErrors are the request's own.",
        "with torch.compiler.set_stance('fail_on_recompile'): try graphs, _ = "
        "outside(lambda: call(*request)); except RuntimeError as error: if "
        "'fail_on_recompile' not in str(error): raise. Then 'served' if graphs else "
        "'eager'.",
    ),
    passed="Asked beforehand, and nobody waited.",
)
def fit_to_serve(answer):
    torch.compiler.reset()
    backend = CountingBackend("inductor")
    warm = torch.compile(_fixed, backend=backend, dynamic=False)
    given_up = torch.compile(_noisy, backend=backend)
    warm(X), given_up(X)
    asked = [(X,), (X[:3],), (X * 2,)]
    fates = ["served", "would compile", "served"]
    return (
        _serving_fault("a warm function", answer, backend, warm, asked, fates)
        or _serving_fault(
            "a graph, and a cos behind it",
            *(answer, backend, lambda x: warm(x).cos(), [(X,)], ["served"]),
        )
        or _serving_fault(
            "a function that was given up",
            *(answer, backend, given_up, [(X,)], ["eager"]),
        )
        or _past_the_limit(answer, backend)
        or _hides_errors(answer, warm)
    )


def _past_the_limit(answer, backend):
    with torch._dynamo.config.patch(recompile_limit=ALLOWED):
        full = torch.compile(_tagged, backend=backend)
        for tag in range(ALLOWED + 1):
            full(X, f"user {tag}")
        asked, fates = [(X, "user 0"), (X, "somebody new")], ["served", "eager"]
        name = "a function past its limit"
        return _serving_fault(name, answer, backend, full, asked, fates)


def _serving_fault(name, answer, backend, call, requests, wanted):
    before = len(backend.captured)
    found = list(answer(call, requests))
    if _is_forbidden():
        torch.compiler.set_stance("default")
        return f"{name}: the stance is another one afterwards"
    if len(backend.captured) != before:
        return f"{name}: asking started a compile"
    if found != wanted:
        return f"{name}: the answers are {wanted}, and yours are {found}"
    return None


def _is_forbidden():
    """Return whether the stance forbids to compile something new."""
    try:
        torch.compile(lambda x: x + 1, backend="eager")(X)
    except RuntimeError:
        return True
    return False


def _hides_errors(answer, warm):
    def refuses(x):
        if len(x) == 3:
            raise RuntimeError("three are too few")
        return warm(x)

    try:
        found = answer(refuses, [(X[:3],)])
    except RuntimeError as error:
        named = "three are too few" in str(error)
        return None if named else f"another error than the request's: {error}"
    return f"a request that raises an error of its own is said to be {list(found)}"
