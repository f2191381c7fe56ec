"""Hold the pages against the rules of axe-core: can everybody read and use them?

    python -m tests.proof access                  # pages of the site, and a report
    python -m tests.proof access cheat_sheet

The rules are those of WCAG 2.2, A and AA, and axe's own good practice.  Each page is
looked at on a laptop and on a phone, light and dark, by the system's choice and by the
page's own switch, with every fold open.  Reads the site that `make site` built.
Needs what ``python -m tests.proof browser`` needs, and the dependency group `proof`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import records
from tests.proof.browser import chromium
from tests.refresh import ROOT
from tools.commands import command
from torch_checkup.report import checkup, write_report

if TYPE_CHECKING:
    from playwright.sync_api import Page

SITE = ROOT / ".cache" / "site" / "html"
PAGES = {
    "index": "index.html",
    "lesson 00": "00_what_can_one_line_buy.html",
    "lesson 07": "07_how_does_a_graph_become_a_kernel.html",
    "lesson 14": "14_why_did_it_compile_again.html",
    "cheat sheet": "cheat_sheet.html",
    "messages": "messages.html",
    "search": "search.html?q=recompile",
    "glossary": "glossary.html",
    "claims": "claims.html",
    "check-up": "",  # a report, made here
}
MODEL = f"{ROOT / 'tests' / 'torch_checkup' / 'broken_models.py'}:breaks"
PARTS = ("matches", "capture", "recompiles", "silent", "traffic")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
OPTIONS = {"runOnly": RULES, "resultTypes": ["violations"]}
WIDTHS = (1440, 390)
LOOKS = {"light": ("light", ""), "dark": ("dark", ""), "switched": ("light", "dark")}


def violations(page: Page, address: str) -> Iterator[tuple[str, str]]:
    """Yield each rule that the page breaks, and where, for each width and look."""
    from axe_playwright_python.sync_playwright import Axe

    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for look, (system, switch) in LOOKS.items():
            page.emulate_media(color_scheme=system)
            page.goto(address)
            if "search" in address:
                first = page.locator("#search-results li:first-child > a")
                first.filter(has_text="Why did it compile again?").wait_for()
            page.evaluate("course.open", switch)
            page.wait_for_timeout(300)  # for what follows a change of size
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > width:
                yield "wider than its window", f"{wide} where there are {width}, {look}"
            found = Axe().run(page, options=OPTIONS).response["violations"]
            for rule in found:
                what = " ".join(rule["nodes"][0]["html"].split())
                yield (
                    rule["id"],
                    f"{width}, {look}, {len(rule['nodes'])} of `{what[:90]}`",
                )


def row(page: Page, name: str, address: str) -> dict[str, Any]:
    """Return what is recorded of one page."""
    broken: dict[str, str] = {}
    for rule, where in violations(page, address):
        broken.setdefault(rule, where)
    found = "; ".join(f"{rule} ({where})" for rule, where in broken.items())
    return {
        "page": name,
        "widths": " and ".join(map(str, WIDTHS)),
        "looks": ", ".join(LOOKS),
        "found": found or "nothing",
    }


def main(arguments: list[str]) -> int:
    """Look at the pages and record; return 1 when a rule is broken."""
    parser = command("tests.proof access", __doc__, "a rule is broken")
    parser.add_argument("page", nargs="*", default=[*PAGES], help=", ".join(PAGES))
    asked = parser.parse_args(arguments)
    if not (SITE / "index.html").exists():
        sys.exit("access: there is no site yet: make site")
    bad = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        chromium(Path(folder) / "profile") as browser,
    ):
        for name in asked.page:
            address = f"{SITE.as_uri()}/{PAGES[name]}"
            if name == "check-up":
                found = checkup(MODEL, only=PARTS)
                address = write_report(found, Path(folder) / "report.html").as_uri()
            page = browser.new_page()
            told = row(page, name, address)
            page.close()
            bad += told["found"] != "nothing"
            print(name, told["found"], sep=": ", flush=True)
            records.put("proofs/access", "page", told, PAGES)
    return int(bad > 0)
