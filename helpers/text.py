"""Words and tables: how every result of the course prints itself.

Values that depend on the machine stand between two marks, ⟨like this⟩, and
everything else is the same on every machine.  One sanitize rule in the tests
blanks what stands between the marks, so the rest is compared to the letter.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_FACE = "font-family:var(--jp-code-font-family,monospace)"
# A number stays in one piece, and a long name breaks where the page ends.
_SHORT, _LONG = "white-space:pre", "white-space:pre-wrap;overflow-wrap:anywhere"
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def mark(value: Any) -> str:
    """Return ``⟨value⟩``: the value depends on the machine, do not compare it."""
    return f"⟨{str(value).replace('⟨', '').replace('⟩', '')}⟩"


def unmark(text: str) -> str:
    """Return *text* with every marked value replaced by ``⟨…⟩``."""
    return re.sub(r"⟨[^⟩]*⟩", "⟨…⟩", text)


def plain(text: Any) -> str:
    """Return *text* without the marks, for a picture or a file."""
    return str(text).replace("⟨", "").replace("⟩", "")


def seconds(value: float) -> str:
    """Return a duration in seconds as text with three digits and its unit."""
    for scale, unit in _UNITS:
        if abs(value) >= 0.9995 * scale or unit == "ns":  # 999.7 ms is 1 s
            return f"{value / scale:.3g} {unit}"
    raise AssertionError("unreachable")


def size(value: float) -> str:
    """Return a number of bytes as text, in powers of 1024."""
    for unit in _BINARY:
        if abs(value) < 1024 or unit == _BINARY[-1]:
            return f"{value:.4g} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def count(n: int, one: str, many: str | None = None) -> str:
    """Return ``1 graph`` or ``3 graphs``."""
    return f"{n} {one if n == 1 else many or one + 's'}"


@dataclass(frozen=True)
class Table:
    """Rows under headings; prints as aligned text and shows as HTML."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""

    @classmethod
    def of(
        cls, headings: Sequence[str], rows: Sequence[Sequence[Any]], title: str = ""
    ) -> Table:
        """Return a table of the texts of *rows*."""
        cells = tuple(tuple(str(cell) for cell in row) for row in rows)
        for row in cells:
            if len(row) != len(headings):
                raise ValueError(f"{len(headings)} headings, but a row is {row}")
        return cls(tuple(headings), cells, title)

    def __str__(self) -> str:
        # Marked cells differ in length between machines, so they do not count
        # towards the width of a column: the rest then stays where it was.
        def width(cell: str) -> int:
            return 0 if "⟨" in cell else len(cell)

        grid = (self.headings, *self.rows)
        widths = [max(width(row[i]) for row in grid) for i in range(len(grid[0]))]
        lines = [self._line(row, widths) for row in grid]
        lines.insert(1, "  ".join("─" * w for w in widths))
        return "\n".join(([self.title] if self.title else []) + lines)

    @staticmethod
    def _line(row: tuple[str, ...], widths: list[int]) -> str:
        cells = []
        for cell, w in zip(row, widths, strict=True):
            cells.append(cell if "⟨" in cell else cell.ljust(w))
        return "  ".join(cells).rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def td(cell: str, tag: str) -> str:
            wrap = _SHORT if len(cell) <= 16 else _LONG
            style = f' style="text-align:left;{wrap};{_FACE}"'
            return f"<{tag}{style}>{html.escape(cell)}</{tag}>"

        def tr(row: tuple[str, ...], tag: str) -> str:
            return f"<tr>{''.join(td(cell, tag) for cell in row)}</tr>"

        title = html.escape(self.title)
        caption = (
            f'<caption style="text-align:left;white-space:nowrap">{title}</caption>'
        )
        body = "".join(tr(row, "td") for row in self.rows)
        return (
            f"<table>{caption if self.title else ''}"
            f"<thead>{tr(self.headings, 'th')}</thead><tbody>{body}</tbody></table>"
        )


def pre(text: Any) -> str:
    """Return *text* as an HTML block that keeps its line breaks."""
    style = "white-space:pre-wrap;line-height:1.4;margin:0"
    return f'<pre style="{style}">{html.escape(str(text))}</pre>'
