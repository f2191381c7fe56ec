"""Which version of a compiled function would serve a call, and what is asked.

A code object has a list of compiled versions.  A call asks the guards of one
after the other, and the first version whose guards all hold runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from torch._dynamo.eval_frame import _debug_get_cache_entry_list

from helpers.plots import COLOURS, QUIET, Picture, styled
from helpers.text import count


@dataclass(frozen=True)
class Asked:
    """A version whose guards a call asked: its id, its guards, what failed."""

    version: str
    guards: str
    holds: bool
    failed: str


def versions(function: Callable[..., Any]) -> list[Any]:
    """Return torch's versions of a function, in the order of asking."""
    original = getattr(function, "_torchdynamo_orig_callable", function)
    return list(_debug_get_cache_entry_list(original))


def asked(function: Callable[..., Any], name: str, **inputs: Any) -> list[Asked]:
    """Ask the guards of each version of *function*, as a call would.

    All versions come back, also those behind the one that runs; the guards
    shown are those on the size of the tensor *name*.
    """
    found = []
    for entry in versions(function):
        result = entry.guard_manager.check_verbose(inputs)
        failed = " ".join(map(str, result.verbose_code_parts))
        version = str(entry.compile_id)
        guards = _size_guards(str(entry.guard_manager), name)
        found.append(Asked(version, guards, result.result, _short(failed)))
    return found


def _size_guards(tree: str, name: str) -> str:
    size = re.search(rf"check_tensor\(L\['{name}'\].*? size=\[(.*?)\]", tree)
    more = re.findall(r"LAMBDA_GUARD: (.*?size\(\).*?)  #", tree)
    parts = [f"size=[{size[1]}]" if size else "", *more]
    return ", ".join(_local(part) for part in parts if part)


def _local(text: str) -> str:
    return re.sub(r"L\['(\w+)'\]", r"\1", text)


def _short(failed: str) -> str:
    return _local(failed.split("  #")[0]).replace("tensor 'x' ", "")


@styled
def path_picture(function: Callable[..., Any], rows: int, gain: Any) -> Picture:
    """Return a picture of the versions of scale, and of the path of a call."""
    x = torch.empty(rows, len(gain), device=gain.device)
    steps = asked(function, "x", x=x, gain=gain)
    figure = Figure(figsize=(9.5, 1.1 + 1.15 * len(steps)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 9.5), ylim=(-1.15 * len(steps) - 0.1, 1))
    axes.set_axis_off()
    _box(axes, 0.2, 0.5, 2.5, f"a call: {count(rows, 'row')}", "", COLOURS[0])
    served, words = None, []
    for place, step in enumerate(steps):
        at = -1.15 * place - 0.55
        reached = served is None
        ink = COLOURS[0] if reached else QUIET
        way = {"color": ink, "ls": "-" if reached else ":", "zorder": 0}
        axes.plot([0.8, 0.8, 1.5], [at + 1.15, at, at], **way)
        title = f"version {step.version}"
        _box(axes, 1.5, at, 4.3, title, step.guards, ink, reached and step.holds)
        said = "not asked"
        if reached:
            said = "all hold: it runs" if step.holds else f"fails: {step.failed}"
            ink = COLOURS[not step.holds]
            served = step.version if step.holds else None
        axes.text(6.0, at, _wrapped(said), va="center", color=ink)
        words.append(f"version {step.version} ({step.guards}): {said}")
    return Picture(figure, f"A call with {count(rows, 'row')}. {'; '.join(words)}.")


def _box(
    axes: Any,
    x: float,
    y: float,
    width: float,
    title: str,
    text: str,
    ink: str,
    runs: bool = False,
) -> None:
    inside = "#DCEBF5" if runs else "white"
    style = {"boxstyle": "round,pad=0.08", "fc": inside, "ec": ink, "lw": 2}
    axes.add_patch(FancyBboxPatch((x, y - 0.32), width, 0.64, **style))
    up = 0.14 if text else 0
    axes.text(x + 0.1, y + up, title, va="center", weight="bold")
    axes.text(x + 0.1, y - 0.17, text, va="center", size=12)


def _wrapped(text: str) -> str:
    for mark in (" mismatch", ". "):
        head, found, tail = text.partition(mark)
        text = f"{head}{found.rstrip(' .')}\n{tail.strip()}" if found else text
    return text
