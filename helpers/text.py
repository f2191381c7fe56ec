"""Words and tables: how every result prints itself.

Values that depend on the machine stand between two marks, ⟨like this⟩, and
everything else is the same on every machine.  One sanitize rule in the tests
blanks what stands between the marks, so the rest is compared to the letter.  HTML
is not compared: there the marks stand around numbers alone.
"""

from __future__ import annotations

import html
import io
import os
import re
import sys
import tokenize
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

if TYPE_CHECKING:  # a terminal needs no HTML
    from markupsafe import Markup


def mark(value: Any) -> str:
    """Return ``⟨value⟩``: the value depends on the machine, do not compare it."""
    return f"⟨{plain(value)}⟩"


def unmark(text: str) -> str:
    """Return *text* with every marked value replaced by ``⟨…⟩``."""
    return re.sub(r"⟨[^⟩]*⟩", "⟨…⟩", text)


# A number with its unit, and no part of a name, as in H100, or of a version.
_NUMBER = re.compile(r"(?<![\w.])(?<!\w[-+])\d+(?:\.\d+)?(?:e[-+]?\d+)?x?(?!\w|\.\d)")


def numbers_marked(text: str) -> str:
    """Return *text* with its marks only where they hold a number."""

    def keep(match: re.Match[str]) -> str:
        return match[0] if _NUMBER.search(match[1]) else match[1]

    return re.sub(r"⟨([^⟩<>\n]*)⟩", keep, text)


def plain(text: Any) -> str:
    """Return *text* without the marks, for a picture or a file."""
    return str(text).replace("⟨", "").replace("⟩", "")


def seconds(value: float) -> str:
    """Return a duration in seconds as text with three digits and its unit."""
    if abs(value) >= 999.5:
        return f"{value:.0f} s"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(value) >= 0.9995 * scale:  # 999.7 ms is 1 s
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def size(value: float) -> str:
    """Return a number of bytes as text, in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def count(n: int, one: str) -> str:
    """Return ``1 graph`` or ``3 graphs``."""
    return f"{n} {one if n == 1 else one + 's'}"


def code_of(line: str) -> str:
    """Return a line of a program without the comment behind it."""
    with suppress(tokenize.TokenError, SyntaxError):  # of half a statement
        for token in tokenize.generate_tokens(iter([line]).__next__):
            if token.type == tokenize.COMMENT:
                return line[: token.start[1]].rstrip()
    return line


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
        widths = [
            max(0 if "⟨" in cell else len(cell) for cell in column)
            for column in zip(self.headings, *self.rows, strict=True)
        ]
        lines = [self.title] if self.title else []
        for row in (self.headings, ["─" * width for width in widths], *self.rows):
            cells = [
                cell if "⟨" in cell else cell.ljust(width)
                for cell, width in zip(row, widths, strict=True)
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        title = html.escape(self.title)
        if title:
            look = "text-align:left;white-space:nowrap"
            title = f'<caption style="{look}">{title}</caption>'
        head = _html_row("th", self.headings)
        rows = "".join(_html_row("td", row) for row in self.rows)
        told = _MARKED if "⟨" in as_html(self) else ""
        return f"<table>{title}<thead>{head}</thead><tbody>{rows}</tbody></table>{told}"


_MARKED = (
    '<div style="font-size:smaller">'
    "⟨ ⟩: measured here, and different on another machine</div>"
)


def _html_row(tag: str, cells: Sequence[str]) -> str:
    """Return a row: a number stays in one piece, a long name breaks at the end."""
    row = ""
    for cell in cells:
        wrap = "-wrap;overflow-wrap:anywhere" if len(cell) > 16 else ""
        font = "var(--jp-code-font-family,monospace)"
        style = f"text-align:left;white-space:pre{wrap};font-family:{font}"
        row += f'<{tag} style="{style}">{as_html(cell)}</{tag}>'
    return f"<tr>{row}</tr>"


def as_html(text: Any) -> Markup:
    """Return *text* as HTML, with marks around numbers alone."""
    from markupsafe import Markup

    return Markup(html.escape(numbers_marked(str(text))))


def pre(text: Any) -> str:
    """Return *text* as an HTML block that keeps its line breaks."""
    style = "white-space:pre-wrap;line-height:1.4;margin:0"
    return f'<pre style="{style}">{as_html(text)}</pre>'


def kernel_shell() -> Any:
    """Return the shell in which a notebook's cells run; None where this is no kernel.

    A script may import ipykernel too; only a kernel has a shell that knows of one.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell if hasattr(shell, "kernel") else None


def watched() -> bool:
    """Return whether somebody watches a notebook, and may click."""
    return bool(kernel_shell()) and not _quiet()


def _quiet() -> bool:
    return os.environ.get("HELPERS_QUIET") == "1"


def progress(what: str, total: float, unit: str = "") -> tqdm:
    """Return a bar for long work: a context manager with ``update(n)``.

    It vanishes when the work ends.  Silent where nobody watches: in a file, and
    under ``HELPERS_QUIET=1``.  *total* is in *unit*, such as ``s``, or in steps.
    """
    notebook = watched()
    return tqdm(
        desc=what,
        total=total,
        unit=unit,
        leave=False,
        disable=_quiet() or not (notebook or sys.stderr.isatty()),
        file=_InPlace() if notebook else None,
        ncols=72 if notebook else None,
        bar_format="{desc}: {percentage:3.0f}% {bar} {n:.5g} of {total_fmt} {unit}",
    )


def tell(line: str) -> None:
    """Print a *line* on what is done, at once, to the standard error.

    It stands above a bar that runs.  Silent under ``HELPERS_QUIET=1``, and in a
    notebook, where the bar is all that is shown.
    """
    if not _quiet() and not kernel_shell():
        tqdm.write(plain(line), file=sys.stderr)
        sys.stderr.flush()


class _InPlace(io.TextIOBase):
    """A place on a notebook's page where each text that is written takes the last's.

    tqdm's own widget would come back broken when the page is opened without a kernel.
    """

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html = HTML
        self._place = display(HTML(""), display_id=True)

    def write(self, text: str) -> int:
        # A bar within another one's work moves the cursor, to its own line.
        if not re.fullmatch(r"(?:\r|\n|\x1b\[A)*", text):
            shown = text.strip("\r\n ")
            self._place.update(self._html(pre(shown) if shown else ""))
        return len(text)
