"""Runs a notebook, whatever fails in it, and says which cells noticed something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from tests.failing import heading, short
from tests.refresh import client, key_of, normalised, read, texts
from tests.strict import NOT_COMPARED

KINDS = ("claim", "error", "no end", "output differs")  # the best notice first
FALSE = re.compile(r"^✗ does not hold here: (.*)$", re.MULTILINE)
MARKED = re.compile(r"⟨[^⟩\n]*⟩")  # as in tests/sanitize.cfg
SECONDS_PER_CELL = 600.0


@dataclass(frozen=True)
class Notice:
    """A cell that did not do as the page says: where, how it showed, what it said."""

    notebook: str
    number: int
    heading: str
    kind: str
    said: str

    @property
    def rank(self) -> tuple[int, int]:
        """Return what sorts the most telling notice first."""
        return KINDS.index(self.kind), self.number


def notices(
    path: Path,
    environment: dict[str, str],
    patience: float | None = None,
    to_end: bool = True,
) -> list[Notice]:
    """Return what the cells of a notebook notice, run with these variables.

    Claims only say that they do not hold (COURSE_STRICT=0), so all cells run, or
    those up to the first false claim.  No cell may take longer than *patience*.
    """
    stored, ran, name = read(path), read(path), key_of(path)
    for cell in ran.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    runner = client(ran, path.parent)
    runner.allow_errors, runner.timeout = True, patience or SECONDS_PER_CELL
    found: list[Notice] = []
    number = 0

    def note(kind: str, said: str) -> None:
        where = heading(ran.cells, ran.cells[number])
        found.append(Notice(name, number, where, kind, said))

    try:
        strictly = {**environment, "COURSE_STRICT": "0", "HELPERS_QUIET": "1"}
        with runner.setup_kernel(env=strictly):
            for number, cell in enumerate(ran.cells):
                runner.execute_cell(cell, number)
                [done] = normalised(new_notebook(cells=[cell])).cells
                for difference in differences(stored.cells[number], done):
                    note(*difference)
                if not to_end and any(each.kind == "claim" for each in found):
                    break
    except (CellTimeoutError, DeadKernelError) as error:
        late = isinstance(error, CellTimeoutError)
        said = f"no end in {runner.timeout:.0f} s" if late else "the kernel died"
        note("no end", said)
    return found


def differences(wanted: NotebookNode, cell: NotebookNode) -> Iterator[tuple[str, str]]:
    """Yield how a cell that ran differs from the stored one: the kind, and the text."""
    if cell.cell_type != "code":
        return
    found, expected = _said(cell), _said(wanted)
    for said in FALSE.findall(found.get("stdout", "")):
        yield "claim", said
    for output in cell.outputs:
        if output.output_type == "error" and "error" not in expected:
            text = f"{output.ename}: {output.evalue}".strip()
            yield "error", _short(re.sub(r"\x1b\[[0-9;]*m", "", text))
    if "nbval-ignore-output" in cell.metadata.get("tags", []):
        return
    for kind in dict.fromkeys([*expected, *found]):
        if kind != "error" and found.get(kind, "") != expected.get(kind, ""):
            lines = set(expected.get(kind, "").splitlines())
            new = [ln for ln in found.get(kind, "").splitlines() if ln not in lines]
            yield "output differs", _short(new[0] if new else "something is missing")


def _said(cell: NotebookNode) -> dict[str, str]:
    """Return what is compared of a cell's outputs, without what was measured."""
    kept: dict[str, str] = {}
    for kind, text in texts(cell):
        if kind not in NOT_COMPARED:
            kept[kind] = kept.get(kind, "") + MARKED.sub("(measured)", text)
    return kept


def _short(text: str) -> str:
    """Return the first line, without the folders of one machine."""
    line = text.strip().partition("\n")[0]
    return short(re.sub(r"(?<![\w.])/[\w./-]+/", "…/", line), 110)
