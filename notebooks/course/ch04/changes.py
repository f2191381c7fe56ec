"""Does a compiled function notice what changed around it?

Each change below is a small function that is compiled and called; then
something changes, and it is called again, compiled and in eager.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import nn

from course.backend import CountingBackend
from helpers.tensors import clone
from helpers.text import Table

Function = Callable[..., Any]


class Scene(NamedTuple):
    """A function, what it is called with, and what happens in between.

    *change* may return other inputs for the second call.
    """

    function: Function
    inputs: tuple[Any, ...]
    change: Callable[[], tuple[Any, ...] | None]


class Noticed(NamedTuple):
    """What a change cost, and whether the second result is that of eager."""

    what: str
    compiles: int
    right: bool


CHANGES: dict[str, Callable[[], Scene]] = {}


def change(what: str) -> Callable[[Callable[[], Scene]], Callable[[], Scene]]:
    """Decorator: list the scene that the function sets, as *what*."""

    def keep(scene: Callable[[], Scene]) -> Callable[[], Scene]:
        CHANGES[what] = scene
        return scene

    return keep


def noticed(what: str) -> Noticed:
    """Play the scene *what* with a freshly compiled function."""
    hooks = mock.patch.dict(nn.modules.module._global_forward_hooks)
    quiet = warnings.catch_warnings()  # a global hook hears the wrapper, too
    with torch.enable_grad(), mock.patch.dict(os.environ), hooks, quiet:
        warnings.filterwarnings("ignore", "Using `torch.compile")
        return _played(what)


def _played(what: str) -> Noticed:
    torch.compiler.reset()
    function, inputs, happens = CHANGES[what]()
    backend = CountingBackend("aot_eager")
    compiled = torch.compile(function, backend=backend)
    compiled(*clone(inputs))
    first = len(backend.captured)
    inputs = happens() or inputs
    result = compiled(*clone(inputs))
    wanted = function(*clone(inputs))
    right = torch.equal(result, wanted)
    right &= result.requires_grad == wanted.requires_grad
    return Noticed(what, len(backend.captured) - first, right)


def table_of(seen: list[Noticed]) -> Table:
    """Return what was noticed as a table."""
    said = {True: "as eager", False: "stale"}
    rows = [[s.what, s.compiles, said[s.right]] for s in seen]
    return Table.of(["what changed after the first call", "compiles", "result"], rows)


# ---------------------------------------------------------------- the scenes

X = torch.linspace(-1, 2, 4)


@change("other values, same size")
def values() -> Scene:
    return Scene(lambda x: x.sin() + 1, (X,), lambda: (X * 7,))


@change("another size")
def size() -> Scene:
    return Scene(lambda x: x.sin() + 1, (X,), lambda: (X.repeat(2),))


@change("both inputs are one tensor, which is written to")
def alias() -> Scene:
    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a * b

    return Scene(product, (X, X + 1), lambda: (X, X))


@change("a global list grew")
def grown() -> Scene:
    factors = [2.0]

    def product(x: torch.Tensor) -> torch.Tensor:
        for factor in factors:
            x = x * factor
        return x

    return Scene(product, (X,), lambda: factors.append(3.0))


@change("an environment variable")
def variable() -> Scene:
    os.environ["COURSE_GAIN"] = "2"

    def gained(x: torch.Tensor) -> torch.Tensor:
        return x * float(os.environ["COURSE_GAIN"])

    return Scene(gained, (X,), lambda: os.environ.update(COURSE_GAIN="3"))


@change("gradients are switched off")
def grad_mode() -> Scene:
    leaf = X.clone().requires_grad_()

    def off() -> None:
        torch.set_grad_enabled(False)

    return Scene(lambda x: x.sin() * leaf, (X,), off)


@change("two parameters become one, which is written to")
def tied() -> Scene:
    one, other = nn.Parameter(X.clone()), nn.Parameter(X + 1)

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            a.add_(1)
        return a * b

    return Scene(product, (one, other), lambda: (one, one))


class Scaled(nn.Module):
    """A module with a submodule, and a number as a setting."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.gain = nn.Linear(4, 4), 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.gain


@change("a number that a module keeps")
def setting() -> Scene:
    model = Scaled()
    return Scene(model, (X,), lambda: setattr(model, "gain", 3.0))


@change("a parameter is replaced by one of its size")
def parameter() -> Scene:
    model = Scaled()
    new = nn.Parameter(torch.ones(4, 4))
    return Scene(model, (X,), lambda: setattr(model.linear, "weight", new))


@change("the first hook of a submodule")
def hook() -> Scene:
    model = Scaled()

    def add() -> None:
        model.linear.register_forward_hook(lambda *call: -call[-1])

    return Scene(model, (X,), add)


@change("a global hook, which hears every module")
def global_hook() -> Scene:
    def negated(module: nn.Module, *call: Any) -> Any:
        return -call[-1] if isinstance(module, nn.Linear) else None

    def add() -> None:
        nn.modules.module.register_module_forward_hook(negated)

    return Scene(Scaled(), (X,), add)


@change("a method of a layer, replaced on its class")
def patched() -> Scene:
    class Layer(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin()

    def patch() -> None:
        Layer.forward = lambda self, x: x.cos()

    return Scene(nn.Sequential(Layer(), nn.ReLU()), (X,), patch)


@change("what assume_constant_result promised")
def promised() -> Scene:
    config = {"gain": 2.0}

    @torch.compiler.assume_constant_result
    def gain() -> float:
        return config["gain"]

    return Scene(lambda x: x * gain(), (X,), lambda: config.update(gain=3.0))
