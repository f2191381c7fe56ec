"""Check up models of real libraries, and look at each report in a browser.

    python -m tests.proof checkups         # all of them, and their training
    python -m tests.proof checkups bert    # one of them
    python -m tests.proof checkups --quick # more models: are answers called wrong?

A report must be below 2 MB, need no network, put nothing on the browser's console and
fit on a telephone.  Needs what ``python -m tests.proof browser`` needs.  With --quick,
no more than the parts that compile or count is asked, no browser, and the table is
``answers``.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course.models import MAKERS
from tests.models.targets import HEALTHY
from tests.proof import common
from tests.proof.browser import chromium
from tests.refresh import ROOT
from tools.commands import command
from torch_checkup.report import Checkup, checkup, write_report

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

MODELS = ("bert", "llama", "vit", "resnet", "unet", "lora", "detector")
QUICK = ("matches", "capture", "recompiles", "silent")
TARGETS = ROOT / "tests" / "models" / "targets.py"
WIDTHS = (390, 1200)


def looked_at(
    browser: BrowserContext, report: Path, width: int, picture: Path | None = None
) -> list[str]:
    """Return what is wrong with a report in a window of *width* pixels."""
    page = browser.new_page()
    page.set_viewport_size({"width": width, "height": 844})
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda one: wrong.append(one.url[:80]) if ":" in one.url and not
            one.url.startswith(("file:", "data:")) else None)  # fmt: skip
    page.goto(report.as_uri())
    scrolls = page.evaluate("document.documentElement.scrollWidth")
    if scrolls > width:
        wrong.append(f"it is {scrolls} wide where the window has {width}")
    if picture:
        page.screenshot(path=picture, full_page=True)
    page.close()
    return wrong


def row(found: Checkup, seconds: float) -> dict[str, Any]:
    """Return what is recorded of one checkup."""
    verdicts = [f"{part.name} {part.verdict}" for part in found.parts]
    return {
        "model": found.target.rpartition(":")[2],
        "verdicts": ", ".join(verdicts),
        "graphs": found.counts.get("graphs"),
        "breaks": found.counts.get("breaks"),
        "took": f"{seconds:.0f} s",
    }


def quick(names: list[str]) -> int:
    """Ask of each model what needs no clock; return 1 where a part is bad or failed."""
    every = [name + way for name in MAKERS for way in ("", "_training")]
    bad, order = 0, [*every, *HEALTHY]
    for name in names or order:
        begin = time.monotonic()
        train = name.endswith("_training")
        how = {"only": QUICK, "train": train, "timeout": 900}
        found = checkup(f"{TARGETS}:{name}", search=False, **how)
        if found.interrupted:
            raise KeyboardInterrupt
        wrong = {p.name: p.says for p in found.parts if p.verdict in ("bad", "failed")}
        said = {"what is wrong": "; ".join(wrong.values()) or "nothing"}
        one = row(found, time.monotonic() - begin) | said
        print(*one.values(), sep=" | ", flush=True)
        bad += bool(wrong)
        common.put("answers", "model", one, order, "checkups --quick")
    return int(bad > 0)


def main(arguments: list[str]) -> int:
    """Check what was asked; return 1 where a part failed or a page is wrong."""
    parser = command("tests.proof checkups", __doc__, "a part or a page is wrong")
    parser.add_argument("model", nargs="*")
    parser.add_argument("--reports", type=Path, help="a folder to keep them in")
    parser.add_argument("--quick", action="store_true", help="answers and counts alone")
    asked = parser.parse_args(arguments)
    if asked.quick:
        return quick(asked.model)
    rows = common.kept("checkups", "model")
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        reports = asked.reports or Path(folder)
        reports.mkdir(exist_ok=True)
        with chromium(Path(folder) / "profile") as browser:
            for name in (
                model + way
                for model in asked.model or MODELS
                for way in ("", "_training")
            ):
                begin = time.monotonic()
                train = name.endswith("_training")
                how = {"train": train, "gpu": "h100", "budget": 2}
                found = checkup(f"{TARGETS}:{name}", **how)
                took = time.monotonic() - begin
                report = write_report(found, reports / f"{name}.html")
                wrong = [
                    *looked_at(browser, report, WIDTHS[0], reports / f"{name}.png"),
                    *looked_at(browser, report, WIDTHS[1]),
                ]
                rows[name] = row(found, took) | {
                    "report": f"{report.stat().st_size / 1024:.0f} KiB",
                    "in a browser": "; ".join(wrong) or "nothing wrong",
                }
                bad += bool(wrong) or "failed" in rows[name]["verdicts"]
                print(*rows[name].values(), sep=" | ", flush=True)
                common.record("checkups", [rows[key] for key in sorted(rows)])
    return int(bad > 0)
