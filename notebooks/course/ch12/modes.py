"""Modes on pages: what they set, and what was timed."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from course.lowering import past_the_caches
from helpers.text import Table, mark

_NUMBER = re.compile(r"\d+\.\d+(?: ms| seconds|%)?")


def options_table(modes: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return which mode sets which option, and to what; those of lite alone last."""
    others = [o for m in modes if m != "lite" for o in modes[m]]
    options = dict.fromkeys([*others, *modes["lite"]])
    rows = [(o, *(str(m.get(o, "")) for m in modes.values())) for o in options]
    return Table.of(("option", *modes), rows)


def candidates(f: Callable[..., Any], *inputs: Any, mode: str) -> str:
    """Compile f anew, and return what torch says about the candidates.

    torch writes the fastest first.  Here they are sorted by name, and their
    times are marked, so that two runs can be compared.
    """
    said = io.StringIO()
    anew = past_the_caches(autotune_local_cache=False)
    with anew, contextlib.redirect_stderr(said):
        torch.compile(f, mode=mode)(*inputs)
    _, begin, rest = said.getvalue().partition("AUTOTUNE ")
    if not begin:
        return "nothing was timed"
    lines = (begin + rest).rstrip().split("\n")
    heads = ("AUTOTUNE", "strides", "dtypes")
    top = [line for line in lines if line.startswith(heads)]
    rows = sorted(line.rstrip() for line in lines if line.startswith("  "))
    end = [line for line in lines if line.startswith("SingleProcess")]
    return "\n".join(
        _NUMBER.sub(lambda found: mark(found[0]), line) for line in [*top, *rows, *end]
    )
