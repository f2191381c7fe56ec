"""Read every notebook as a reader does: JupyterLab, in a browser, Run All.

    python -m tests.proof browser                        # the whole course
    python -m tests.proof browser notebooks/06_*.ipynb --solved
    python -m tests.proof browser --self-test            # pages that must be refused

Each notebook runs twice, as it is and with the answers filled in, and every slider,
list, button and fold is moved.  A cell that does not run, an error, a warning, a claim
that fails, an exercise that is not passed, something moved that changes nothing, a
widget that is dead when the saved notebook is opened again, an error in the browser's
console and a request that failed are all faults.  It works on a copy, so the stored
notebooks stay as they are.  Needs `pip install playwright` and a Chromium (CHROMIUM
names it when it is not found).
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat

from helpers.text import count
from tests.form import keys, tags
from tests.proof import common
from tests.proof.common import markdown
from tests.proof.controls import IDLE, Move, move_all
from tests.proof.lab import chromium, lab
from tests.refresh import (
    ROOT,
    as_text,
    course_environment,
    normalised,
    notebooks,
    read,
    unfit,
)

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

SECONDS_PER_NOTEBOOK = 600
WIDTH, TALLEST = 1280, 16_000  # pixels; Chromium cannot draw a taller picture
NOTEBOOK = "() => JSON.stringify(jupyterapp.shell.currentWidget.content.model)"
RUN = "async () => { await jupyterapp.commands.execute('notebook:run-all-cells'); }"
SAVE = "async () => { await jupyterapp.commands.execute('docmanager:save'); }"
STOP = "async () => { await jupyterapp.shell.currentWidget.sessionContext.shutdown(); }"
TIDY = """() => {
  const notebook = jupyterapp.shell.currentWidget.content;
  jupyterapp.shell.collapseLeft();
  notebook.activeCellIndex = 0;
}"""
SCROLL = """(share) => {
  const outer = document.querySelector('.jp-Notebook .jp-WindowedPanel-outer');
  outer.scrollTop = share * outer.clientHeight;
}"""
HEIGHT = """() => Math.ceil(
  document.querySelector('.jp-Notebook .jp-WindowedPanel-viewport').scrollHeight)"""
FRAME = 150  # pixels of JupyterLab above and below the notebook
OUTPUTS = "[...document.querySelectorAll('.jp-OutputArea-output')]"
SETTLED = f"() => !{OUTPUTS}.some(each => /Loading widget/.test(each.textContent))"
DEAD = f"""() => {OUTPUTS}.filter(each => each.offsetParent)
    .map(each => each.innerText)
    .filter(text => /Error displaying widget|Loading widget/.test(text))"""


@dataclass
class Visit:
    """What one run of a notebook in the browser came to."""

    cells: str = "-"
    claims: str = "-"
    exercises: str = "-"
    moves: list[Move] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def moved(self, *controls: str) -> str:
        """Return how many of the controls changed what they are for."""
        chosen = [each for each in self.moves if each.control in controls]
        good = sum(not each.wrong for each in chosen)
        return f"{good} of {len(chosen)}" if chosen else "none"

    @property
    def problems(self) -> list[str]:
        moves = [each.wrong for each in self.moves if each.wrong]
        return self.wrong + moves + self.console


def judged(notebook: nbformat.NotebookNode, solved: bool) -> Visit:
    """Return what the cells of a notebook say after a run, and what is wrong there."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    ran = sum(cell.execution_count is not None for cell in code)
    said = {id(cell): _printed(cell) for cell in code}
    score = "".join(said[id(cell)] for cell in code if "score" in tags(cell))
    visit = Visit(
        cells=f"{ran} of {len(code)}",
        claims=_counted(r"claims +(\d+ of \d+) hold", score),
        exercises=_counted(r"exercises +(\d+ of \d+) passed", score),
    )
    visit.wrong = [fault for cell in code for fault in _errors(cell)]
    rest = [cell.source[:50] for cell in code if cell.execution_count is None]
    if rest:
        visit.wrong.append(f"{count(len(rest), 'cell')} did not run, from {rest[0]!r}")
    for cell in code:
        for key in keys(cell) if "check" in tags(cell) else []:
            wanted = f"{key} passed." if solved else f"{key} not attempted yet."
            got = said[id(cell)][:80]
            if not got.startswith(wanted):
                visit.wrong.append(f"wanted {wanted!r}, got {got!r}")
    for what in (visit.claims, visit.exercises if solved else "-"):
        if len(set(what.split(" of "))) == 2:
            visit.wrong.append(f"the score counts {what}")
    visit.wrong += unfit(normalised(notebook))
    return visit


def _printed(cell: nbformat.NotebookNode) -> str:
    return "".join(o.text for o in cell.outputs if o.output_type == "stream")


def _counted(pattern: str, score: str) -> str:
    found = re.search(pattern, score)
    return found[1] if found else "-"


def _errors(cell: nbformat.NotebookNode) -> Iterator[str]:
    if "raises-exception" not in tags(cell):
        for error in cell.outputs:
            if error.output_type == "error":
                where = cell.source[:50]
                yield f"{error.ename}: {error.evalue[:200]} in {where!r}"


def visit(
    page: Page, address: str, solved: bool, move: bool, picture: Path | None
) -> Visit:
    """Open one notebook, run all of it, and return a Visit.

    *move* moves what can be moved, and opens the saved notebook again.
    """
    console: list[str] = []
    page.on(
        "console", lambda m: m.type == "error" and console.append(f"console: {m.text}")
    )
    page.on("pageerror", lambda error: console.append(f"page: {error}"))
    page.on(
        "requestfailed", lambda r: console.append(f"request: {r.url.split('?')[0]}")
    )
    _open(page, address)
    page.evaluate(RUN)
    whole = nbformat.reads(page.evaluate(NOTEBOOK), as_version=4)
    found = judged(whole, solved)
    if picture:
        _draw(page, picture)
    if move:
        found.moves = move_all(page)
    found.console = list(console)  # what a dead widget says there is no fault
    if move and page.locator(".jupyter-widgets").count():
        found.wrong += _reopened(page, address)
    page.evaluate(STOP)
    return found


def _open(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=120_000)
    page.wait_for_function(f"() => window.jupyterapp && ({IDLE})()", timeout=120_000)


def _reopened(page: Page, address: str) -> list[str]:
    """Save, end the kernel and come back; return the widgets that are dead then."""
    page.evaluate(SAVE)
    page.evaluate(STOP)
    _open(page, address)
    page.wait_for_function(SETTLED, timeout=60_000)
    return [f"opened again: {text}" for text in page.evaluate(DEAD)]


def _draw(page: Page, picture: Path) -> None:
    """Save the page, in several pictures where it is too tall for one."""
    page.evaluate(TIDY)
    height = page.evaluate(HEIGHT)
    pieces = math.ceil(height / (TALLEST - FRAME))
    tall = math.ceil(height / pieces) + FRAME
    page.set_viewport_size({"width": WIDTH, "height": tall})
    for piece in range(pieces):
        page.evaluate(SCROLL, piece)
        page.wait_for_timeout(1000)  # pictures settle
        more = f"-{piece + 1}" if piece else ""
        page.screenshot(path=picture.with_name(f"{picture.name}{more}.png"))


def row(name: str, plain: Visit, solved: Visit) -> dict[str, Any]:
    """Return the line of the table for the two runs of one notebook."""
    first = plain if plain.moves else solved
    problems = plain.problems + [f"solved: {what}" for what in solved.problems]
    return {
        "notebook": name,
        "cells run": plain.cells,
        "claims hold": plain.claims,
        "cells run, solved": solved.cells,
        "claims hold, solved": solved.claims,
        "exercises passed": solved.exercises,
        "widgets that change what is shown": first.moved(
            "slider", "list", "button", "box"
        ),
        "folds that open": first.moved("fold"),
        "console errors": len(plain.console) + len(solved.console),
        "found": "; ".join(problems) or "nothing",
    }


@contextmanager
def course(folders: set[Path]) -> Iterator[tuple[Path, str, BrowserContext]]:
    """Serve a copy of *folders*; yield it, its address and a browser."""
    with tempfile.TemporaryDirectory() as home, course_environment():
        os.environ["COURSE_QUIET"] = "0"  # as a reader has it, with widgets
        copy, extra = Path(home) / "course", Path(home) / "jupyter"
        extra.mkdir()
        for folder in filter(Path.exists, {ROOT / "data", *folders}):
            shutil.copytree(folder, copy / folder.name, dirs_exist_ok=True)
        with chromium(Path(home) / "profile") as browser, lab(copy, extra) as address:
            yield copy, address, browser


def look(
    chosen: list[Path], runs: tuple[bool, ...], pictures: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Yield a row for each notebook; *runs* has False for as it is, True for solved."""
    with course({path.parent for path in chosen}) as (copy, address, browser):
        for path in chosen:
            visits = {False: Visit(), True: Visit()}
            for solved in runs:
                where = copy / path.parent.name / path.name
                if solved:
                    where = where.with_stem(f"{path.stem}_solved")
                    where.write_text(as_text(answered(path)), encoding="utf-8")
                target = address.format(where.relative_to(copy).as_posix())
                picture = pictures / where.stem if pictures else None
                first = solved == runs[0]
                visits[solved] = _looked(browser, target, solved, first, picture)
            yield row(path.stem, visits[False], visits[True])


def _looked(browser: BrowserContext, *asked: Any) -> Visit:
    from playwright.sync_api import Error

    page = browser.new_page()
    page.set_default_timeout(SECONDS_PER_NOTEBOOK * 1000)
    try:
        return visit(page, *asked)
    except Error as error:
        return Visit(wrong=[f"browser: {error.message}"])
    finally:
        page.close()


def answered(path: Path) -> nbformat.NotebookNode:
    """Return the notebook with the answers in its exercise cells."""
    from tests.test_exercises import CHAPTERS

    [chapter] = [chapter for chapter in CHAPTERS if chapter.notebook == path]
    answers = {key: source for key, _, source in chapter.cells("solutions")}
    notebook = read(path)
    for cell in notebook.cells:
        if "exercise" in tags(cell):
            cell.source = "\n\n".join(answers[key] for key in keys(cell))
    return notebook


def main(arguments: list[str]) -> int:
    """Look at the notebooks; return 1 when something was found."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof browser",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("notebook", nargs="*", type=Path, default=notebooks())
    parser.add_argument("--unsolved", action="store_true", help="only as they are")
    parser.add_argument("--solved", action="store_true", help="only with the answers")
    parser.add_argument(
        "--pictures", type=Path, help="folder for pictures of the pages"
    )
    parser.add_argument("--record", action="store_true", help="keep the table")
    parser.add_argument("--self-test", action="store_true", help="must find faults")
    given = parser.parse_args(arguments)
    if given.self_test:
        from tests.proof.spoilt import refused

        return refused()
    only = given.solved != given.unsolved
    runs = (given.solved,) if only else (False, True)
    if given.pictures:
        given.pictures.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    before = (common.read("browser") or {}).get("rows", [])
    kept = {row["notebook"]: row for row in before}
    for each in look([path.resolve() for path in given.notebook], runs, given.pictures):
        rows.append(each)
        print(f"{each['notebook']}: {each['found']}", flush=True)
        if given.record:
            kept[each["notebook"]] = each
            order = [kept[p.stem] for p in notebooks() if p.stem in kept]
            common.record("browser", order, "browser --record")
    print(markdown(rows) if rows else "there are no notebooks")
    return int(any(each["found"] != "nothing" for each in rows))
