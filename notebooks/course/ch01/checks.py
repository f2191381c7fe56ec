"""Checks and hints of notebook 01."""

import copy

import torch
from torch import nn
from torch.profiler import record_function

from course.backend import CountingBackend
from course.exercises import exercise, what_differs

# --- 01.1 ----------------------------------------------------------------------

X = torch.linspace(0.1, 1, 4)
SQUARE = torch.eye(64)


def _wave(x):
    return torch.sin(x) + 1


def _noisy(x):
    for _ in range(2):
        x = x.sin()
        print(end="")
    return x


@torch.compiler.disable
def _cosine(x):
    return x.cos()


def _mixed(x):
    return _cosine(_wave(x)) * 2


def _named(x):
    with record_function("step"):
        return _compiled(x).exp()


def _named_graph(x):
    with record_function("step"):
        return _compiled(x)


class Hooked(nn.Module):
    """A module that is given up, with a hook that is compiled."""

    def __init__(self):
        super().__init__()
        self.register_forward_pre_hook(lambda module, inputs: None)
        self.compile()

    def forward(self, x):
        return _noisy(x)


_compiled, _given_up = torch.compile(_wave), torch.compile(_noisy)
_mixed_call, _aot = torch.compile(_mixed), torch.compile(_wave, backend="aot_eager")
_inverse, _hooked = torch.compile(lambda x: x.inverse().sin()), Hooked()

how_compiled = exercise(
    "01.1",
    hints=(
        "Call it once before the profiler looks, or you see a compile. What does the "
        "page say that a graph of Inductor is called?",
        "An aten event is outside if none of the events around it, from cpu_parent to "
        "cpu_parent, is a graph. A region is not a graph.",
        "Go up: parent = event.cpu_parent; while parent is not None, stop where "
        "parent.name starts with '## Call CompiledFxGraph'. No graph: 'eager'; an aten "
        "event that met none on its way up: 'partly'.",
    ),
    passed="You can say how much of a call is compiled.",
    cases=[
        ("an eager function", (lambda: _wave(X),), "eager"),
        ("a function that does nothing", (lambda: None,), "eager"),
        ("a compiled function", (lambda: _compiled(X),), "compiled"),
        ("a function that was given up", (lambda: _given_up(X),), "eager"),
        ("a module of which only the hook is compiled", (lambda: _hooked(X),), "eager"),
        ("a cos, and a graph behind it", (lambda: _compiled(X.cos()),), "partly"),
        ("a graph, and a cos behind it", (lambda: _compiled(X).cos(),), "partly"),
        ("a transpose, and a graph", (lambda: _compiled(SQUARE.T),), "partly"),
        ("a graph, and a transpose", (lambda: _compiled(SQUARE).t(),), "partly"),
        ("a graph and an exp, in a record_function", (lambda: _named(X),), "partly"),
        ("a graph, in a record_function", (lambda: _named_graph(X),), "compiled"),
        ("a graph of aot_eager, none of Inductor", (lambda: _aot(X),), "eager"),
        ("a disabled cos between two graphs", (lambda: _mixed_call(X),), "partly"),
        ("an operator that calls others", (lambda: _inverse(SQUARE),), "compiled"),
    ],
)

# --- 01.2 ----------------------------------------------------------------------

STEPS = 5


class Turn(nn.Linear):
    """A layer that counts eager calls."""

    eager = 0

    @classmethod
    def count(cls):
        if not torch.compiler.is_compiling():
            cls.eager += 1

    def forward(self, x):
        Turn.count()
        return super().forward(x)


class Speaker(nn.Module):
    """A model whose generate calls itself, as most do."""

    def __init__(self, width=4):
        super().__init__()
        self.turn = Turn(width, width)
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        Turn.count()
        return torch.tanh(self.inner(self.turn(x)))

    def generate(self, x, steps):
        for _ in range(steps):
            x = self(x)
        return x


class ForwardSpeaker(Speaker):
    """A model whose generate calls forward, past its own call, and needs its mode."""

    def forward(self, x, last=0):
        Turn.count()
        return last - self.training * torch.tanh(self.inner(self.turn(x)))

    def generate(self, x, steps):
        for _ in range(steps - 1):
            x = self.forward(x, last=x)
        return self.forward(x, x)


@exercise(
    "01.2",
    hints=(
        "Which method do self(x) and self.forward(x) both reach in the end?",
        "Look at the last row of the table: a decorator in the class, on a method "
        "that the subclass defines anew.",
        "class Repaired(cls): with one line in it, forward = torch.compile(...) of "
        "the forward that cls has, with backend=backend. Return Repaired.",
    ),
    passed="Every step is compiled, for the model and for its copies.",
)
def repaired(answer):
    x = torch.linspace(-1, 1, 12).reshape(2, 6).requires_grad_()
    for cls, call in (
        (Speaker, "self(x)"),
        (ForwardSpeaker, "self.forward(x, last=x)"),
    ):
        backend, before = CountingBackend(), dict(vars(cls))
        made = answer(cls, backend)
        if not (isinstance(made, type) and issubclass(made, cls)):
            return f"a subclass was asked for, and you return {made!r}"
        model = made(6)  # one argument, as cls
        keys = model.state_dict().keys()
        if dict(vars(cls)) != before:
            return "the class itself changed"
        if keys != cls().state_dict().keys():
            return "the keys of its checkpoint changed"
        copies = {"": model, "in a deep copy, ": copy.deepcopy(model)}
        for what in (*copies, "in a deep copy of one that ran, "):
            made = copies.get(what) or copy.deepcopy(model)
            for weight in made.parameters():
                nn.init.normal_(weight)
            where = f"{what}where generate calls {call}"
            made.generate(x, STEPS)
            backend.ran.clear()
            Turn.eager, compiled = 0, len(backend.captured)
            made.generate(x, STEPS)
            if (runs := len(backend.ran)) < STEPS:
                return f"{where}, the backend ran {runs} times in {STEPS} steps"
            if Turn.eager:
                return f"{where}, forward runs eagerly, too"
            if len(backend.captured) > compiled:
                return f"{where}, a second generate compiles again"
            eager = cls(6)
            eager.load_state_dict(made.state_dict())
            for ours, theirs, call_of in (
                (made, eager, (x,)),
                (made.generate, eager.generate, (x, STEPS)),
            ):
                if wrong := what_differs(ours, theirs, [call_of], gradient=True):
                    return f"{where}, with the same weights and {wrong}"
    return None
