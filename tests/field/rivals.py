"""What torch's own tools say of a program: one process for one program.

    python -m tests.field.rivals explain program.py
    python -m tests.field.rivals inductor program.py

The first writes what ``torch._dynamo.explain`` has of the first call.  The second makes
all calls, compiled by that backend: with TORCH_LOGS and TORCH_TRACE set, torch writes
what it has.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from typing import Any

import torch

from tests.field.corpus import RAISED


def given(path: str) -> tuple[Any, list[tuple]]:
    """Return the model of a program and the inputs of its calls."""
    model, inputs = runpy.run_path(path)["make"]()
    return model, inputs if isinstance(inputs, list) else [inputs]


def explained(path: str) -> None:
    """Print how many graphs and breaks the first call has, and why."""
    model, calls = given(path)
    try:
        found = torch._dynamo.explain(model)(*calls[0])
    except Exception as error:
        print(RAISED, *str(error).split())
        return
    print(f"{found.graph_break_count} breaks in {found.graph_count} graphs")
    for stop in found.break_reasons:
        print("Graph break:", stop.reason, *map(str, stop.user_stack))


def called(path: str, backend: str) -> None:
    """Make all calls twice, compiled: what they return is nobody's here.

    A model that compiles its blocks is called as it is.
    """
    model, calls = given(path)
    parts = model.modules() if isinstance(model, torch.nn.Module) else ()
    inside = any(part._compiled_call_impl for part in parts)
    compiled = model if inside else torch.compile(model, backend=backend)
    for inputs in calls * 2:
        why = raised(compiled, inputs)
        with torch.compiler.set_stance("force_eager"):
            refused = bool(why) and raised(model, inputs)
        if why and not refused:
            print(RAISED, why)


def raised(fn: Callable[..., Any], inputs: tuple) -> str:
    """Return in one line what a call raises, '' where it runs."""
    try:
        fn(*inputs)
    except Exception as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""


if __name__ == "__main__":
    what, path = sys.argv[1:]
    explained(path) if what == "explain" else called(path, what)
