"""A kernel at every stage, side by side, as a table, HTML and JSON."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from helpers.gpu import gpus
from helpers.results import Result
from helpers.text import Table, mark, pre

NONE = "not a line of its own"
_TITLES = ("program", "FX graph", "C++ on this CPU", "Triton", "PTX")
# Okabe & Ito, Color Universal Design, 2008, without black; a number goes with each.
_COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")


@dataclass(frozen=True, repr=False)
class Step(Result):
    """One operation, and the lines it became, counted from 1 in each text of Stages."""

    op: str
    program: tuple[int, ...]
    fx: tuple[int, ...]
    cpp: tuple[int, ...]
    triton: tuple[int, ...]
    ptx: tuple[int, ...]

    @property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """The lines in each column, from left to right."""
        return self.program, self.fx, self.cpp, self.triton, self.ptx


@dataclass(frozen=True, repr=False)
class Stages(Result):
    """A kernel at every stage: the whole texts, and a step for each operation.

    *first* is the number that the program's first line has in its file or cell;
    *others* are the program's kernels that are not shown.
    """

    gpu: str
    kernel: str
    others: tuple[str, ...]
    first: int
    program: str
    fx: str
    cpp: str
    triton: str
    ptx: str
    steps: tuple[Step, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the columns, from left to right."""
        return self.program, self.fx, self.cpp, self.triton, self.ptx

    def table(self) -> Table:
        """Return a row for each operation; C++ and PTX depend on the machine."""
        rows = []
        for step in self.steps:
            program, fx, cpp, triton = map(self._cell, self.texts, step.places[:4])
            if step.program:
                program = f"{step.program[0] + self.first - 1}: {program}"
            ptx = self._counted(step.ptx)
            rows.append((step.op, program, fx, triton, mark(cpp), mark(ptx)))
        return Table.of(("op", "program", "FX graph", "Triton", "C++", "PTX"), rows)

    @staticmethod
    def _cell(text: str, numbers: Sequence[int]) -> str:
        """Return a statement, which may go on for lines, as one short line."""
        lines = text.splitlines()
        shown, end = "", 0
        for number in numbers:
            if shown and (number != end + 1 or shown.count("(") == shown.count(")")):
                break
            shown, end = f"{shown} {lines[number - 1].strip()}".strip(), number
        shown = re.sub(r"^(auto|const auto|float) |;$", "", shown)
        return f"{shown[:47]}…" if len(shown) > 48 else shown or NONE

    def _counted(self, numbers: Sequence[int]) -> str:
        lines = self.ptx.splitlines()
        named = [lines[n - 1].split("//")[0].split() for n in numbers]
        ops = Counter(w[1] if w[0][0] == "@" else w[0].rstrip(";") for w in named)
        memory = [op for op in ops if op.startswith(("ld.global", "st.global"))]
        first = dict.fromkeys([*memory, *(op for op, _ in ops.most_common())])
        shown = [f"{ops[op]} {op}" for op in list(first)[:3]]
        return ", ".join([*shown, "…"] if len(ops) > 3 else shown) or NONE

    def _last(self) -> str:
        more = f"; not shown: {', '.join(self.others)}" if self.others else ""
        return f"{gpus.find(self.gpu).title}: {self.kernel}{more}"

    def __str__(self) -> str:
        return f"{self.table()}\n{self._last()}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        titles, cells = "", ""
        for i, (title, text) in enumerate(zip(_TITLES, self.texts, strict=True)):
            marks = [(n, k) for k, s in enumerate(self.steps) for n in s.places[i]]
            # Room is scarce, and what is marked in C++ lies ten levels deep.
            text = re.sub(r"^ +", lambda m: m[0][::4], text, flags=re.M)
            start = self.first if title == "program" else 1
            titles += f'<th style="text-align:left;width:{_WIDTHS[i]}%">{title}</th>'
            cells += f'<td style="{_CELL}">{_column(text, marks, start)}</td>'
        head, body = f"<thead><tr>{titles}</tr></thead>", f"<tr>{cells}</tr>"
        table = f'<table style="{_TABLE}">{head}<tbody>{body}</tbody></table>'
        return f'<div style="overflow-x:auto">{table}</div>{pre(self._last())}'


# All columns fit the page: lines go on below, indented, and a column scrolls by itself.
_TABLE = "table-layout:fixed;width:100%;min-width:70em"
_CELL = "vertical-align:top;text-align:left;padding:4px"
_WIDTHS = (18, 20, 22, 24, 16)
_BOX = "max-height:48em;overflow-y:auto;white-space:pre-wrap;overflow-wrap:anywhere;"
_BOX += "font:12px/1.5 var(--jp-code-font-family,monospace)"
_LINE = "padding-left:4em;text-indent:-4em"


def _column(text: str, marks: Sequence[tuple[int, int]], start: int) -> str:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        of = list(dict.fromkeys(step for at, step in marks if at == number))
        colour = _COLOURS[of[0] % len(_COLOURS)] if of else ""
        # A light tint behind black letters, and the colour itself at the edge.
        look = f"background:{colour}44;border-left:6px solid {colour}" if of else ""
        look = f"{_LINE};{look or 'border-left:6px solid transparent'}"
        tags = f"<b>[{_runs(of)}]</b> " if of else ""
        count = f'<span style="opacity:.6">{number + start - 1:>3}</span> '
        rows.append(f'<div style="{look}">{count}{tags}{html.escape(line)}</div>')
    return f'<div style="{_BOX}">{"".join(rows)}</div>'


def _runs(steps: Sequence[int]) -> str:
    """Return the numbers of steps, counted from 1: ``3-8, 10``."""
    runs: list[list[int]] = []
    for step in sorted(steps):
        if runs and step == runs[-1][1] + 1:
            runs[-1][1] = step
        else:
            runs.append([step, step])
    return ", ".join(f"{a + 1}" if a == b else f"{a + 1}-{b + 1}" for a, b in runs)
