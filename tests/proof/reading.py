"""Use the course as a reader does: `make lab` in a browser, then the site.

    python -m tests.proof reading                        # all of it
    python -m tests.proof reading update --pictures folder

It works on a copy of the course, in a folder with a space in its name.  `site`
leaves the network, so on Linux it wants root or a container.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import nbformat
from nbformat.v4 import new_markdown_cell

from tests.proof import common
from tests.proof.browser import Desk, Opened, desk, page_of
from tools.commands import command
from tools.lab import deliver

if TYPE_CHECKING:
    from playwright.sync_api import Page

FIRST = "00_what_can_one_line_buy.ipynb"
MINE = "# mine, and not to be lost"
DIALOG = ".jp-Dialog-content, .Toastify__toast"  # a question, a notice
THEME = "(theme) => jupyterapp.commands.execute('apputils:change-theme', {theme})"
OPEN = "(path) => { jupyterapp.commands.execute('docmanager:open', {path}); }"

# What people look for, and the lesson that they want, or either of two.
SYMPTOMS = {"mark_dynamic": "14", "overwritten": "12 35", "recompile": "13"}
SYMPTOMS |= {"graph break": "04", "guard": "13"}
FOLD = "<div role=main><details><summary>a fold</summary>the excerpt</details>"

# Text that is hard to tell from what lies behind it: a contrast below 3 to 1.
FAINT = """() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map(v => v / 255).map(
      v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4
    ).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = numbers(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.9) return light(colour);
    }
    return 1;
  };
  const faint = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.data.trim(), node = walk.currentNode.parentElement;
    if (!text || !node.checkVisibility({visibilityProperty: true})) continue;
    const both = [light(numbers(getComputedStyle(node).color)), behind(node)].sort();
    if ((both[1] + 0.05) / (both[0] + 0.05) < 3) faint.push(text.slice(0, 40));
  }
  return faint;
}"""


def type_into(lesson: Opened, number: int, text: str) -> None:
    """Replace a cell's source by keyboard, as a reader does."""
    editor = lesson.page.locator(".jp-Notebook .jp-Cell").nth(number)
    editor.locator(".cm-content").click()
    lesson.page.keyboard.press("Control+a")
    lesson.page.keyboard.insert_text(text)
    assert lesson.notebook.cells[number].source == text


def save(lesson: Opened) -> str:
    """Save by keyboard; return what JupyterLab asks or complains of, if anything."""
    lesson.page.keyboard.press("Control+s")
    lesson.page.wait_for_timeout(3000)
    dialogs = lesson.page.locator(DIALOG)
    return " ".join(dialogs.first.inner_text().split()) if dialogs.count() else ""


# --- what a reader does: each returns what was seen --------------------------------


def opening(desk: Desk) -> str:
    """Types `make lab` for the first time, reads on, and again on the next day."""
    began, load = time.monotonic(), os.getloadavg()[0]
    with desk.lab() as address:
        served = time.monotonic()
        page = desk.page()
        page.goto(address)
        page.wait_for_selector(".jp-Notebook .jp-RenderedMarkdown h1")
        shown = time.monotonic()
        contents = page.locator(".jp-TableOfContents-content")
        contents.get_by_text("And in seconds?").wait_for(timeout=10_000)
        page.wait_for_timeout(5000)  # what comes late: dialogs, news
        assert FIRST.startswith(open_tab(page)), open_tab(page)
        assert not page.locator(DIALOG).count(), "a dialog"
        for theme in ("Dark", "Light"):
            page.evaluate(THEME, f"JupyterLab {theme}")
            page.wait_for_timeout(2000)
            desk.picture(page, f"opening-{theme.lower()}")
        second = next(desk.own.glob("01*.ipynb")).name
        page.evaluate(OPEN, f"lessons/{second}")
        page.wait_for_timeout(5000)  # JupyterLab keeps its layout
        page.close()
    with desk.lab() as address:
        page = desk.page()
        page.goto(address)
        page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell")
        # Also because a server that is told to end while it starts a kernel may hang.
        page.wait_for_timeout(15_000)
        assert second.startswith(open_tab(page)), open_tab(page)
        page.close()
    return (
        f"lesson 00 after {shown - began:.1f} s ({served - began:.1f} s until the "
        f"address is printed; load {load:.0f} on {os.cpu_count()} cores), its table of "
        "contents at the left, no dialog, no news; then the lesson that was open"
    )


def open_tab(page: Page) -> str:
    """Return the first letters of the tab in front."""
    return page.locator(".lm-DockPanel-tabBar .lm-mod-current").inner_text()[:10]


def updating(desk: Desk) -> str:
    """Updates the course while a lesson is open in the browser, and not saved."""
    opened = desk.course / "notebooks" / FIRST
    with desk.lab() as address:
        lesson = Opened(desk.page(), page_of(address, f"lessons/{FIRST}"))
        start = next(
            n for n, one in enumerate(lesson.notebook.cells) if "start(" in one.source
        )
        type_into(lesson, start, MINE)
        changed = nbformat.read(opened, as_version=4)  # as an update does
        changed.cells.append(new_markdown_cell("An update."))
        nbformat.write(changed, opened)
        assert [*deliver(desk.course / "notebooks", desk.own)]
        asked = save(lesson)
        desk.picture(lesson.page, "update-while-open")
        assert "Overwrite" in asked, f"saved over the new lesson in silence: {asked!r}"
        lesson.page.get_by_role("button", name="Overwrite").click()
        lesson.page.wait_for_timeout(3000)
        assert MINE in (desk.own / FIRST).read_text("utf-8")
        lesson.page.close()
    return f"on save it asks: {asked}"


# --- the site ------------------------------------------------------------------------


def site(desk: Desk) -> str:
    """Builds the site without a network, and reads it on a laptop and on a phone."""
    build = ["unshare", "-n", sys.executable, "-m", "tools.site"]
    done = subprocess.run(build, cwd=desk.course, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    html = desk.course / ".cache" / "site" / "html"
    page, asked = desk.browser.new_page(), set()
    page.on("request", lambda request: asked.add(request.url.split(":")[0]))
    names = sorted(path.relative_to(html).as_posix() for path in html.rglob("*.html"))
    unfit = []
    for name in names:
        page.goto((html / name).as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = 1)")
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 900})
            over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            unfit += [f"{name} is {over} too wide at {width}"] * (over > 0)
            for colours in ("light", "dark"):
                page.emulate_media(color_scheme=colours)
                if faint := page.evaluate(FAINT):
                    unfit.append(f"{name} is faint in {colours}: {faint[0]}")
                if name in ("index.html", "00_what_can_one_line_buy.html"):
                    desk.picture(page, f"site-{name[:5]}-{width}-{colours}")
    assert not unfit, unfit

    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto((html / FIRST).with_suffix(".html").as_uri())
    folded = page.locator("details.hide:has-text('The machine says')").first
    assert not folded.get_by_text("The machine says").is_visible()
    folded.locator("summary").click()
    assert folded.get_by_text("The machine says").is_visible()
    page.locator("a[href*='glossary.html#term-']").first.click()
    page.wait_for_url("**/glossary.html#term-*")
    for symptom, lesson in SYMPTOMS.items():
        first = found(page, html, symptom)[:3]
        lessons = [name for name in first if name[0].isdigit()]
        assert lessons[0][:2] in lesson.split(), (symptom, first)
        assert {*first} & {"cheat_sheet", "messages"}, (symptom, first)
    said = page.evaluate(f"Search.htmlToText({FOLD!r}, '')")
    assert said == "the excerpt", said
    desk.picture(page, "site-search")
    page.close()
    assert asked <= {"file", "data"}, f"asks another host: {asked}"
    words = ", ".join(f"{symptom!r} {lesson}" for symptom, lesson in SYMPTOMS.items())
    return (
        f"{len(names)} pages; the search's first lesson, with the cheat sheet: "
        f"{words}; no other host asked"
    )


def found(page: Page, html: Path, words: str) -> list[str]:
    """Return the pages that the search finds, the best first."""
    page.goto(f"{(html / 'search.html').as_uri()}?q={quote(words)}")
    ended = "document.querySelector('.search-summary')?.innerText"
    page.wait_for_function(ended, timeout=30_000)
    links = page.locator("#search-results li a").all()
    names = [link.get_attribute("href").partition(".html")[0] for link in links]
    return [*dict.fromkeys(names)]


STEPS = {"opening": opening, "update": updating, "site": site}


def main(arguments: list[str]) -> int:
    """Take the steps and record them; return 1 when one did not go as it should."""
    parser = command("tests.proof reading", __doc__, "a step went wrong")
    parser.add_argument("step", nargs="*", default=[*STEPS], help=", ".join(STEPS))
    parser.add_argument("--pictures", type=Path, help="folder for pictures")
    asked = parser.parse_args(arguments)
    if asked.pictures:
        asked.pictures.mkdir(parents=True, exist_ok=True)
    bad = 0
    for name in asked.step:
        step = STEPS[name]
        with desk(asked.pictures) as place:
            try:
                saw, found = step(place), "nothing"
            except Exception as error:  # whatever stands in the reader's way
                saw, found = "", f"{type(error).__name__}: {error}"
        bad += found != "nothing"
        does = step.__doc__.rstrip(".")
        row = {"step": name, "a reader": does, "sees": saw, "found": found}
        print(name, saw, found, sep=": ", flush=True)
        common.put("reading", "step", row, STEPS)
    return int(bad > 0)
