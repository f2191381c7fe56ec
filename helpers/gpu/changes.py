"""What differs between two dumps: their kernels, side by side."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from ..codegen import folded
from ..results import TableResult
from ..text import Table, mark, size

_DIVISION = r"\b(?:div|rem)\.[su](?:16|32|64)\b"
_FACTS: dict[str, Callable[[Any], Any]] = {
    "kind": lambda k: k.kind,
    "bytes": lambda k: size(k.bytes),
    "loads in the code": lambda k: k.source.count("tl.load("),
    "registers": lambda k: mark(k.registers),
    "spills": lambda k: mark(k.spills),
    "shared": lambda k: mark(size(k.shared)),
    "occupancy": lambda k: mark(f"{k.occupancy.fraction:.0%}"),
    "integer divisions": lambda k: mark(len(re.findall(_DIVISION, k.ptx))),
}


@dataclass(frozen=True, repr=False)
class Changes(TableResult):
    """The kernels of two dumps in pairs: what each needs, and how the text differs."""

    pairs: tuple[tuple[dict[str, str], dict[str, str]], ...]
    text: str
    """The Triton code of both, as ``diff`` writes it."""

    def table(self) -> Table:
        """Return a row for each fact in which two kernels differ."""
        rows = []
        for number, (one, other) in enumerate(self.pairs):
            for fact in _FACTS:
                before, after = one.get(fact, "none"), other.get(fact, "none")
                if before != after:
                    rows.append((number, fact, before, after))
        return Table.of(("kernel", "differs", "here", "there"), rows)

    def _last(self) -> str:
        return "" if self.text else "their Triton code is the same"

    def _repr_html_(self) -> str:
        code = folded("their Triton code", self.text) if self.text else ""
        return super()._repr_html_() + code


def changes(one: Any, other: Any) -> Changes:
    """Return what differs between two dumps, kernel by kernel in their order."""
    both = one.kernels, other.kernels
    facts = [
        [{name: str(fact(k)) for name, fact in _FACTS.items()} for k in kernels]
        for kernels in both
    ]
    texts = ["\n".join(k.source for k in kernels).splitlines(True) for kernels in both]
    lines = difflib.unified_diff(*texts, "here", "there", n=1)
    return Changes(tuple(zip_longest(*facts, fillvalue={})), "".join(lines))
