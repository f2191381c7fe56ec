"""A visible cell uses no name that only folded cells make: many readers skip folds."""

import re
import symtable
from collections.abc import Iterator

import pytest
from nbformat import NotebookNode

from tests.form import Lesson, is_folded
from tests.refresh import notebooks, read

LESSONS = notebooks()


def python(source: str) -> str:
    """Return a cell without lines for IPython; nothing of one that writes a file."""
    if source.startswith("%%"):
        return ""
    return re.sub(r"^\s*[%!].*$", "", source, flags=re.M)


def made(source: str) -> set[str]:
    """Return the names that a cell makes."""
    table = symtable.symtable(source, "cell", "exec")
    symbols = table.get_symbols()
    return {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}


def used(source: str) -> set[str]:
    """Return the names of the notebook that a cell uses, in its functions too."""

    def walk(table: symtable.SymbolTable) -> Iterator[str]:
        for symbol in table.get_symbols():
            whole = table.get_type() == "module" or symbol.is_global()
            if whole and symbol.is_referenced():
                yield symbol.get_name()
        for child in table.get_children():
            yield from walk(child)

    return set(walk(symtable.symtable(source, "cell", "exec")))


def only_folded(cells: list[NotebookNode]) -> set[str]:
    """Return names that a visible cell uses, and only folded cells before it make."""
    shown: set[str] = set()
    folded: set[str] = set()
    missed: set[str] = set()
    for cell in cells:
        source = python(cell.source)
        if is_folded(cell):
            folded |= made(source)
            continue
        shown |= made(source)
        missed |= (used(source) - shown) & folded
    return missed


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.name[:2])
def test_a_visible_cell_needs_no_fold(path):
    assert not only_folded(Lesson(read(path), path).code)
