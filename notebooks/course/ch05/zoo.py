"""The zoo of graph breaks: `zoo.txt` read, and each of its lines run.

A group begins with ``==``, a line that may break with ``--``, and what removes the
break with ``->``: other code, a setting (``name=value``) or a decorator (``@name``)
for the same code.  Code is the body of a function of *x* that ends in its result, or
the text of a module with a function *f*.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import sys
import textwrap
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from helpers import graphs
from helpers.text import Table

TEXT = (Path(__file__).parent / "zoo.txt").read_text()
GROUPS = {
    name: rows.strip()
    for name, rows in re.findall(r"^== (.*)\n((?:(?!== ).*\n)*)", TEXT, re.M)
}
NAMES = """
import bisect, collections, contextlib, copy, dataclasses, functools, gc, itertools
import json, logging, math, os, pickle, threading, time, warnings
import numpy as np
import torch
from torch._higher_order_ops import while_loop
from torch.utils.data import default_collate
lock = threading.Lock()
log = logging.getLogger("zoo")
seconds = []
"""
X = torch.linspace(-1, 2, 8)
INPUTS = X, -X, X / 7  # so that both sides of each branch are taken


def table(group: str) -> Table:
    """Run each line of a group, and what removes its break, as a table.

    *then* says how the second version compares, for three inputs: what it returns,
    prints and raises, in one graph without a break; and its gradients.
    """
    rows = []
    for name, code, fix, instead in lines(group):
        given = function(code)
        with _quiet():
            found = graphs(given, X)
        numbers = [re.findall(r"/gb/(gb\d+)", b.message)[0] for b in found.breaks]
        gives_up = any(b.skipped for b in found.breaks)
        broken = " ".join(dict.fromkeys(numbers)) + ", given up" * gives_up
        row = [name, found.count, broken]
        if fix:
            fixed, settings = function(instead.strip() or code), {}
            if "=" in fix:
                settings = eval(f"dict({fix})", fixed.__globals__)
            if fix.startswith("@"):
                fixed = eval(fix[1:])(fixed)
            with torch._dynamo.config.patch(settings):
                row += [fix.partition(":")[0], compared(given, fixed)]
        rows.append(row)
    headings = ["line", "graphs", "break", "what removes it", "then"]
    return Table.of(headings[: len(rows[0])], rows)


def lines(group: str) -> list[tuple[str, str, str, str]]:
    """Return the name and code of each line of a group, and what removes its break."""
    pattern = r"^-- (.*)\n((?:(?!--|->).*\n)+)(?:-> (.*)\n((?:(?!--).*\n)*))?"
    return re.findall(pattern, GROUPS[group] + "\n", re.M)


def function(code: str) -> Callable[..., Any]:
    """Return the function of *code*."""
    module = types.ModuleType(f"line_{len(sys.modules)}")
    sys.modules[module.__name__] = module  # where the compiler looks for it
    exec(NAMES, vars(module))
    exec(compile(whole(code), "zoo.txt", "exec", dont_inherit=True), vars(module))
    return module.f


def whole(code: str) -> str:
    """Return *code* as the text of a module with a function *f*."""
    if re.search(r"^def f\(", code, re.M):
        return code
    lines = code.strip().split("\n")
    lines[ast.parse(code).body[-1].lineno - 1 :] = [f"return {lines[-1]}"]
    return "def f(x):\n" + textwrap.indent("\n".join(lines), "    ") + "\n"


def compared(given: Callable[..., Any], fixed: Callable[..., Any]) -> str:
    """Compare *fixed*, compiled as one graph, with *given* in eager."""
    with _quiet():
        found = graphs(fixed, X)
    whole = torch.compile(fixed, backend="eager")
    if found.count != 1 or found.breaks:
        return "breaks"
    if not all(_same(_run(given, x), _run(whole, x)) for x in INPUTS):
        return "differs"
    slopes = [(_slope(given, x), _slope(fixed, x)) for x in INPUTS]
    if any(a is None and b is not None for a, b in slopes):
        return "as before, new gradients"
    if any(a is not None and (b is None or not a.allclose(b)) for a, b in slopes):
        return "as before, other gradients"
    return "as before"


@contextlib.contextmanager
def _quiet():
    """Collect what is printed, and drop warnings."""
    with contextlib.redirect_stdout(io.StringIO()) as text, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield text


def _run(f: Callable[..., Any], x: torch.Tensor) -> tuple[Any, str]:
    with _quiet() as text:
        try:
            return f(x.clone()), text.getvalue()
        except (ValueError, AssertionError, RuntimeError):
            return None, text.getvalue()


def _same(wanted: tuple[Any, str], found: tuple[Any, str]) -> bool:
    (a, said), (b, also) = wanted, found
    if a is None or b is None:
        return a is b and said == also
    return said == also and a.shape == b.shape and a.allclose(b)


def _slope(f: Callable[..., Any], x: torch.Tensor) -> torch.Tensor | None:
    x = x.clone().requires_grad_()
    try:
        with _quiet():
            return torch.autograd.grad(f(x).sum(), x)[0]
    except (ValueError, AssertionError, RuntimeError):
        return None
