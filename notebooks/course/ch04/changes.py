"""Does a compiled function notice what changed around it?

    noticed()               a table of all changes below
    noticed("another size")  of this one

Each scene is a function, the inputs of its first call, and what then changes, which
may return other inputs for the second call.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch import nn

from course.backend import CountingBackend
from helpers.tensors import clone
from helpers.text import Table

Scene = tuple[str, Callable[..., Any], tuple[Any, ...], Callable[[], Any]]
X = torch.linspace(-1, 2, 4)


class Layer(nn.Module):
    """A module with a submodule, and a number as a setting."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.gain = nn.Linear(4, 4), 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.gain


def scenes() -> Iterator[Scene]:
    """Yield each scene, made anew."""

    def sine(x):
        return x.sin() + 1

    def product(a, b):
        with torch.no_grad():
            a.add_(1)
        return a * b

    yield "other values, same size", sine, (X,), lambda: (X * 7,)
    yield "another size", sine, (X,), lambda: (X.repeat(2),)
    aliased = "both inputs are one tensor, which is written to"
    yield aliased, product, (X, X + 1), lambda: (X, X)
    views = "they are two views of one memory, which is written to"
    yield views, product, (X, X + 1), lambda: (X, X[:])

    factors = [2.0]
    os.environ["COURSE_GAIN"] = "2"

    def looped(x):
        for factor in factors:
            x = x * factor
        return x

    def change():
        os.environ.update(COURSE_GAIN="3", COURSE_FLAG="1")

    yield "a global list grew", looped, (X,), lambda: factors.append(3.0)

    def by_item(x):
        return x * float(os.environ["COURSE_GAIN"])

    def by_getenv(x):
        return x * float(os.getenv("COURSE_GAIN"))

    def by_get(x):
        known = os.environ.get("COURSE_FLAG") or "COURSE_FLAG" in os.environ
        return x.sin() if known else x.cos()

    yield 'a variable read by os.environ["..."]', by_item, (X,), change
    os.environ["COURSE_GAIN"] = "2"
    yield 'a variable read by os.getenv("...")', by_getenv, (X,), change
    os.environ.pop("COURSE_FLAG", None)
    unset = "a variable that wasn't set, asked by .get or in"
    yield unset, by_get, (X,), change
    leaf, set_grad = X.clone().requires_grad_(), torch.set_grad_enabled
    times = "gradients are switched off", lambda x: x * leaf
    yield *times, (X,), lambda: set_grad(False)
    set_grad(True)

    one, other = nn.Parameter(X.clone()), nn.Parameter(X + 1)
    tied = "two parameters become one, which is written to"
    yield tied, product, (one, other), lambda: (one, one)
    number, weight, hooked, heard = (Layer() for _ in range(4))
    kept = "a number that a module keeps", number, (X,)
    yield *kept, lambda: setattr(number, "gain", 3.0)
    replaced = "a parameter is replaced by one of its size", weight, (X,)
    ones = nn.Parameter(torch.ones(4, 4))
    yield *replaced, lambda: setattr(weight.linear, "weight", ones)

    def hook():
        hooked.linear.register_forward_hook(lambda *call: -call[-1])

    def global_hook():
        nn.modules.module.register_module_forward_hook(
            lambda m, *call: -call[-1] if isinstance(m, nn.Linear) else None
        )

    def patch():
        Act.forward = lambda self, x: x.cos()

    class Act(nn.Module):
        def forward(self, x):
            return x.sin()

    yield "the first hook of a submodule", hooked, (X,), hook
    yield "a global hook, which hears every module", heard, (X,), global_hook
    patched, model = (nn.Sequential(Act(), nn.ReLU()) for _ in range(2))
    own = "a method of a layer, replaced on this layer", patched, (X,)
    yield *own, lambda: setattr(patched[0], "forward", torch.cos)
    yield "a method of a layer, replaced on its class", model, (X,), patch


def noticed(only: str | None = None) -> Table:
    """Play the scenes: compile, call, change, call, and compare with eager."""
    hooks = mock.patch.dict(nn.modules.module._global_forward_hooks)
    quiet = warnings.catch_warnings()  # a global hook hears the wrapper, too
    rows = []
    with torch.enable_grad(), mock.patch.dict(os.environ), hooks, quiet:
        warnings.filterwarnings("ignore", "Using `torch.compile")
        for what, function, inputs, change in scenes():
            if only in (None, what):
                rows.append((what, *_played(function, inputs, change)))
                nn.modules.module._global_forward_hooks.clear()
    return Table.of(["what changed after the first call", "compiles", "result"], rows)


def _played(function: Any, inputs: Any, change: Callable[[], Any]) -> tuple[int, str]:
    """Return how many compiles the change cost, and whether the result is stale."""
    torch.compiler.reset()
    backend = CountingBackend("aot_eager")
    compiled = torch.compile(function, backend=backend)
    compiled(*clone(inputs))
    first = len(backend.captured)
    changed = change()
    inputs = changed if isinstance(changed, tuple) else inputs
    result, wanted = compiled(*clone(inputs)), function(*clone(inputs))
    right = torch.equal(result, wanted)
    right &= result.requires_grad == wanted.requires_grad
    return len(backend.captured) - first, "as eager" if right else "stale"
