"""Read every page as a reader does: JupyterLab, Run All, then the exercises.

    python -m tests.proof browser                        # the whole course
    python -m tests.proof browser notebooks/06_*.ipynb --pictures folder

Every slider, list, button and fold is moved, and then every exercise solved.  A cell
that does not run, an error, a claim that fails, something moved that changes nothing,
an answer of ours that does not pass and an error in the browser's console are all
faults.  It works on a copy, so the stored notebooks stay as they are.
Needs `pip install playwright` and a Chromium (CHROMIUM names it when it is not found).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING, Any

import nbformat

from tests import records
from tests.form import keys, parts, tags
from tests.refresh import (
    ROOT,
    a_notebook,
    course_environment,
    key_of,
    normalised,
    pages,
    unfit,
)
from tools.commands import command

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

    Row = dict[str, Any]

PATIENCE = 600_000  # milliseconds: what is run or moved may compile first
AREA = ".jp-Cell-outputArea"  # all outputs of one cell
CONTROLS = {"slider": ".noUi-handle", "list": "select", "button": "button"}
CONTROLS |= {"box": "input[type=checkbox], input[type=radio]"}
FOLD = "details > summary"
ASKS = Path(__file__).with_suffix(".js")  # course.run and the like, on each page


def judged(notebook: nbformat.NotebookNode) -> tuple[str, list[str]]:
    """Return how many cells ran, and what is wrong with a notebook after a run."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    rest = [cell.source[:50] for cell in code if cell.execution_count is None]
    wrong = [f"{len(rest)} cells did not run, from {rest[0]!r}"] if rest else []
    for cell in code:
        for output in cell.outputs:
            if output.output_type == "error" and "raises-exception" not in tags(cell):
                wrong.append(f"{output.ename}: {output.evalue[:200]}")
            if "✗ does not hold" in (text := printed(output)):
                wrong.append(text.strip().split("\n")[0])
    wrong += unfit(normalised(notebook))
    return f"{len(code) - len(rest)} of {len(code)}", wrong


def printed(output: nbformat.NotebookNode) -> str:
    """Return what an output says in plain text: a stream, or what stands for a box."""
    return output.get("text") or output.get("data", {}).get("text/plain", "")


class Opened:
    """A notebook that is open in JupyterLab."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        page.goto(address)
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        page.wait_for_function("course.idle")

    @property
    def notebook(self) -> nbformat.NotebookNode:
        """What is in it now, saved or not."""
        return nbformat.reads(self.page.evaluate("course.notebook"), as_version=4)

    def run(self, number: int) -> str:
        """Run one cell; return what it printed."""
        self.page.evaluate("course.run", number)
        outputs = self.notebook.cells[number].get("outputs", [])
        return "\n".join(map(printed, outputs))


def visit(page: Page, address: str, answers: str, picture: Path | None) -> Row:
    """Open one notebook, run all of it, move what can be moved, solve it."""
    console: list[str] = []
    page.on("console", lambda m: console.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: console.append(str(error)))
    lesson = Opened(page, address)
    page.evaluate("course.runAll")
    ran, wrong = judged(lesson.notebook)
    if picture:
        page.screenshot(path=picture, full_page=True)
    moves = [*moved(page)]
    told = [*solved(lesson, answers)]
    page.evaluate("course.stop")
    # The place of a bar may come first, where a check took long.
    passed = [text for text in told if re.search(r"^\S+ passed\.", text, re.M)]
    found = [*wrong, *filter(None, moves), *(t for t in told if t not in passed)]
    found += [f"console: {text}" for text in console]
    good = sum(not fault for fault in moves)
    return {
        "cells run": ran,
        "what moves": f"{good} of {len(moves)}" if moves else "none",
        "solved": f"{len(passed)} of {len(told)}",
        "found": "; ".join(found) or "nothing",
    }


def solved(lesson: Opened, answers: str) -> Iterator[str]:
    """Write each answer into its cell and run what belongs to it; yield the verdict."""
    cells = lesson.notebook.cells
    for key, _, answer in parts(answers):
        for number, cell in enumerate(cells):
            if key in keys(cell):
                if "exercise" in tags(cell):
                    lesson.page.evaluate("course.write", [number, answer])
                told = lesson.run(number)
                if "check" in tags(cell):
                    yield told or f"{key}: the check said nothing"


def moved(page: Page) -> Iterator[str]:
    """Move each control and fold of each output; yield what is wrong, or ''."""
    for area in page.locator(AREA).all():
        for kind, selector in {**CONTROLS, "fold": FOLD}.items():
            for control in area.locator(selector).all():
                if control.is_visible() and control.is_enabled():
                    before = look(area)
                    move(kind, control)
                    page.wait_for_function("course.idle")
                    until = time.monotonic() + 60
                    while look(area) == before and time.monotonic() < until:
                        page.wait_for_timeout(200)
                    yield "" if look(area) != before else f"a {kind} changes nothing"


def look(area: Locator) -> tuple[str, list[str]]:
    """Return what is in an output, and what of it can be seen."""
    return area.evaluate("course.look"), area.locator("details").all_inner_texts()


def move(kind: str, control: Locator) -> None:
    if kind == "slider":
        now, most = map(control.get_attribute, ("aria-valuenow", "aria-valuemax"))
        control.focus()
        control.press("ArrowLeft" if now == most else "ArrowRight")
    elif kind == "list":
        chosen, options = control.evaluate(
            "node => [node.selectedIndex, node.options.length]"
        )
        control.select_option(index=(chosen + 1) % options)
    else:
        control.click()


@contextmanager
def chromium(profile: Path) -> Iterator[BrowserContext]:
    """Open a browser without a window; SystemExit says what is missing."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit("browser: playwright is not installed: pip install playwright")
    names = (os.environ.get("CHROMIUM", ""), "chromium", "google-chrome", "chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        sys.exit("browser: no Chromium here: install it (Debian: apt install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            profile, executable_path=program, headless=True, args=["--no-sandbox"]
        )
        browser.set_default_timeout(PATIENCE)
        browser.add_init_script(path=ASKS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def lab(course: Path) -> Iterator[str]:
    """Run `python -m tools.lab` in *course*; yield the address that it prints.

    The address comes with what the checks need to look into the page.
    """
    command = [sys.executable, "-m", "tools.lab", "--no-browser"]
    command += ["--LabApp.expose_app_in_browser=True"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    server = subprocess.Popen(command, cwd=course, **pipes)
    try:
        yield _address(server.stdout)
    finally:
        server.terminate()
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            raise


def _address(log: IO[str]) -> str:
    """Wait for the address with its token; what is said later is thrown away."""
    said = ""
    for line in log:
        if found := re.search(r"http://\S+token=\w+", line):
            Thread(target=log.read, daemon=True).start()
            return found[0]
        said += line
    raise AssertionError(f"tools.lab ended: {said}")


def page_of(address: str, path: str) -> str:
    """Return where JupyterLab shows *path* alone, by the address that it printed."""
    server, _, token = re.fullmatch(r"(http://[^/]+)/(.+)\?(.+)", address).groups()
    return f"{server}/lab/tree/{path}?reset&{token}"


@contextmanager
def desk() -> Iterator[tuple[str, BrowserContext]]:
    """Open the lessons of a copy of the course, as `git clone` would lay it out.

    Yields the address of JupyterLab, and a browser.
    """
    listed = ["git", "ls-files", "-z"]
    names = subprocess.check_output(listed, cwd=ROOT, text=True).rstrip("\0")
    with tempfile.TemporaryDirectory() as home, course_environment():
        course = Path(home) / "a course"
        for name in names.split("\0"):
            (course / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, course / name)
        own = os.pathsep.join(map(str, (course, course / "notebooks")))
        os.environ |= {"PYTHONPATH": own, "HELPERS_QUIET": "0"}
        os.environ["COURSE_STRICT"] = "0"
        with chromium(Path(home) / "profile") as browser, lab(course) as address:
            yield address, browser


def main(arguments: list[str]) -> int:
    """Look at the notebooks and record; return 1 when something was found."""
    parser = command("tests.proof browser", __doc__, "something is wrong, and named")
    parser.add_argument("notebook", nargs="*", type=a_notebook, default=pages())
    parser.add_argument("--pictures", type=Path, help="folder for pictures")
    asked = parser.parse_args(arguments)
    if asked.pictures:
        asked.pictures.mkdir(parents=True, exist_ok=True)
    bad = 0
    with desk() as (address, browser):
        for path in asked.notebook:
            page = browser.new_page()
            picture = asked.pictures and asked.pictures / f"{path.stem}.png"
            where = page_of(address, path.relative_to(ROOT).as_posix())
            answers = ROOT / "notebooks" / "solutions" / f"ch{key_of(path)}.py"
            solved = answers.read_text("utf-8") if answers.exists() else ""
            row = {"notebook": path.stem} | visit(page, where, solved, picture)
            page.close()
            bad += row["found"] != "nothing"
            print(*row.values(), sep=": ", flush=True)
            order = [each.stem for each in pages()]
            records.put("proofs/browser", "notebook", row, order)
    return int(bad > 0)
