"""A figure with its words, in the one style of the course.

Large type, Okabe and Ito's colours, which colour-blind readers can tell apart, and a
shape or hatch beside each colour.
"""

from __future__ import annotations

import base64
import functools
import html
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.text import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe & Ito, Color Universal Design, 2008: blue, vermilion, bluish green.
COLOURS, SHAPES, HATCHES = ("#0072B2", "#D55E00"), ("o", "s"), ("", "//")
CEILING, QUIET = "#009E73", "#767676"
_STYLE = {
    "font.size": 13,
    "axes.titlesize": 14,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,  # no lines through the bars
    "grid.color": "#DDDDDD",
    "hatch.linewidth": 0.8,
    "lines.linewidth": 2,
    "lines.markersize": 9,
    "legend.fontsize": 13,
    "legend.frameon": False,
}


def styled(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Draw in the course's style, and leave the reader's own settings alone."""

    @functools.wraps(draw)
    def drawn(*arguments: Any, **options: Any) -> Any:
        from matplotlib import style

        with style.context(["default", _STYLE]):
            return draw(*arguments, **options)

    return drawn


@dataclass(frozen=True, repr=False)
class Picture:
    """A matplotlib figure and the same in words, for those who cannot see it."""

    figure: Figure
    alt: str

    def __str__(self) -> str:
        return f"Figure. {self.alt}"

    __repr__ = __str__

    @styled  # matplotlib looks at some settings only when it renders
    def _repr_html_(self) -> str:
        file = io.BytesIO()
        self.figure.savefig(file, format="png", dpi=100)
        alt = html.escape(plain(self.alt))
        data = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
        return f'<img alt="{alt}" style="max-width:100%" src="{data}">'

    @styled
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a .png or .svg file, whole or not at all; return its path.

        Raises ValueError for another ending, OSError where nothing can be written.
        """
        path = Path(path)
        if path.suffix not in (".png", ".svg"):
            raise ValueError(f"a picture is saved as .png or .svg, not {path.name!r}")
        part = path.with_name(f".part-{path.name}")
        try:
            self.figure.savefig(part, dpi=200, metadata={"Title": plain(self.alt)})
            os.replace(part, path)
        except OSError as error:
            said = f"cannot write {path.name}: {error.strerror}; name another folder"
            raise OSError(said) from error
        finally:  # whatever went wrong, Ctrl-C included
            part.unlink(missing_ok=True)
        return path
