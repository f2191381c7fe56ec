"""A library that is not here: the cells that need it are left out, the others run.

Where claims are strict, as in CI, nothing is left out: there a missing library is an
error like any other.
"""

from __future__ import annotations

import ast
import builtins
import dis
import importlib.util
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from course.cell_errors import causes
from helpers.results import version_of

_PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
_DISPLAYED = "Left out: this cell needs {}. The lesson goes on."


@cache
def libraries() -> dict[str, str]:
    """Return the libraries of the extra "practice": name of import -> of install."""
    project = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]
    asked = project["optional-dependencies"]["practice"]
    names = [re.match(r"[\w-]+", line).group() for line in asked]
    return {name.replace("-", "_"): name for name in names}


def wanted(error: BaseException) -> tuple[str, str] | None:
    """Return which library *error* is for want of, and what helps; None for others.

    Its version may be another one, which has not what is imported.
    """
    for cause in causes(error):
        if not isinstance(cause, ImportError):
            continue
        root = (cause.name or "").split(".")[0]
        named = [root, *re.findall(r"[\w-]+", str(cause))]
        for name in (each.replace("-", "_") for each in named):
            if name in libraries() and importlib.util.find_spec(name) is None:
                pip = f"pip install {libraries()[name]}"
                return name, f"{name}, which is not installed here ({pip})"
        if root in libraries():
            version = version_of(libraries()[root])
            return root, f"another version of {root} than {version} ({cause})"
    return None


class LeftOut:
    """The cells of this kernel that were left out, and the names that they owe."""

    def __init__(self) -> None:
        self.cells = 0
        self.owed: dict[str, str] = {}  # name -> what it waits for

    def begin(self, shell: Any) -> None:
        """Watch the cells of a notebook's kernel from now on; nothing elsewhere."""
        self.cells, self.owed, self.shell = 0, {}, shell
        if shell and self not in shell.ast_transformers:
            shell.ast_transformers.append(self)
            shell.events.register("post_run_cell", self.after)

    def visit(self, cell: ast.Module) -> ast.Module:
        """Return the cell, or one that says what it lacks; IPython calls it."""
        lacking = sorted(reads(cell) & self.owed.keys())
        if not lacking:
            return cell
        self._note(cell, *self._owed(lacking[0]))
        return ast.parse("")

    def after(self, result: Any) -> None:
        """Let a kernel go on after a cell that lacks a library; IPython calls it."""
        try:
            cell = ast.parse(self.shell.transform_cell(result.info.raw_cell))
        except SyntaxError:
            return
        if result.error_in_exec is None:
            if not reads(cell) & self.owed.keys():  # it ran
                for name in stores(cell):
                    self.owed.pop(name, None)
            return
        if lack := self.lack(result.error_in_exec):
            self._note(cell, *lack)
            result.error_in_exec = None

    def lack(self, error: BaseException) -> tuple[str, str] | None:
        """Return the library that a cell lacks, with words; None for another error."""
        if isinstance(error, NameError) and error.name in self.owed:
            return self._owed(error.name)
        return wanted(error)

    def _owed(self, name: str) -> tuple[str, str]:
        library = self.owed[name]
        return library, f"`{name}`, which a cell above makes with {library}"

    def _note(self, cell: ast.Module, library: str, lack: str) -> None:
        self.cells += 1
        owed = stores(cell) - self._imported(cell)
        self.owed |= dict.fromkeys(owed, library)
        print(_DISPLAYED.format(lack))

    def _imported(self, cell: ast.Module) -> set[str]:
        """Import what a cell that is left out imports for others; return its names."""
        names = set()
        for line in cell.body:
            if isinstance(line, (ast.Import, ast.ImportFrom)):
                alone = ast.Module([line], [])
                with suppress(ImportError):
                    exec(compile(alone, "<cell>", "exec"), self.shell.user_ns)
                    names |= stores(alone)
        return names


left_out = LeftOut()


def stores(cell: ast.Module) -> set[str]:
    """Return the names that a cell assigns, defines or imports."""
    steps = dis.get_instructions(compile(cell, "<cell>", "exec"))
    return {step.argval for step in steps if step.opname == "STORE_NAME"}


def reads(cell: ast.Module) -> set[str]:
    """Return the names that a cell, or a function in it, takes from cells above."""
    code = compile(cell, "<cell>", "exec", dont_inherit=True)
    stored, found = set(), set()
    for step in dis.get_instructions(code):
        if step.opname == "STORE_NAME":
            stored.add(step.argval)
        elif step.opname == "LOAD_NAME" and step.argval not in stored:
            found.add(step.argval)
    for inner in _inside(code):
        steps = dis.get_instructions(inner)
        names = {s.argval for s in steps if s.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        found |= names - stored
    return found - vars(builtins).keys()


def _inside(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _inside(inner)
