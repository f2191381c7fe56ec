"""Words and tables: how every result of the course prints itself.

Values that depend on the machine stand between two marks, ⟨like this⟩, and
everything else is the same on every machine.  One sanitize rule in the tests
blanks what stands between the marks, so the rest is compared to the letter.
"""

from __future__ import annotations

import html
import io
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment
from tqdm import tqdm

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_FACE = "font-family:var(--jp-code-font-family,monospace)"
# A number stays in one piece, and a long name breaks where the page ends.
_SHORT = f"white-space:pre;{_FACE}"
_LONG = f"white-space:pre-wrap;overflow-wrap:anywhere;{_FACE}"
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
        return _TABLE.render(table=self, short=_SHORT, long=_LONG)


_TABLE = Environment(autoescape=True, trim_blocks=True).from_string("""\
{% macro cell(tag, text) %}
<{{ tag }} style="text-align:left;{{ short if text|length <= 16 else long }}">\
{{ text }}</{{ tag }}>
{% endmacro %}
<table>
{% if table.title %}
<caption style="text-align:left;white-space:nowrap">{{ table.title }}</caption>
{% endif %}
<thead><tr>
{% for text in table.headings %}{{ cell("th", text) }}{% endfor %}
</tr></thead>
<tbody>
{% for row in table.rows %}
<tr>{% for text in row %}{{ cell("td", text) }}{% endfor %}</tr>
{% endfor %}
</tbody>
</table>""")


def pre(text: Any) -> str:
    """Return *text* as an HTML block that keeps its line breaks."""
    style = "white-space:pre-wrap;line-height:1.4;margin:0"
    return f'<pre style="{style}">{html.escape(str(text))}</pre>'


def progress(what: str, total: float, unit: str = "") -> tqdm:
    """Return a bar for long work: a context manager with ``update(n)``.

    It vanishes when the work ends.  Silent where nobody watches: in a file, and
    under ``COURSE_QUIET=1``.  *total* is in *unit*, such as ``s``; without one, in
    steps.
    """
    quiet = os.environ.get("COURSE_QUIET") == "1"
    notebook = "ipykernel" in sys.modules
    return tqdm(
        desc=what,
        total=total,
        unit=unit,
        leave=False,
        disable=quiet or not (notebook or sys.stderr.isatty()),
        file=_InPlace() if notebook and not quiet else None,
        ncols=72 if notebook else None,
        bar_format="{desc}: {percentage:3.0f}% {bar} {n:.3g} of {total:.3g} {unit}",
    )


class _InPlace(io.TextIOBase):
    """A place on a notebook's page where each text that is written takes the last's.

    tqdm's own widget would come back broken when the page is opened without a kernel.
    """

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html = HTML
        self._place = display(HTML(""), display_id=True)

    def write(self, text: str) -> int:
        shown = text.strip("\r\n ")
        self._place.update(self._html(pre(shown) if shown else ""))
        return len(text)
