"""The README's picture of a report: what a checkup says of a detector.

Needs what ``python -m tests.proof browser`` needs.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from helpers.text import plain
from tests import records
from tests.proof.browser import chromium
from tests.refresh import ROOT
from torch_checkup.report import checkup, write_report

PICTURE = records.DATA / "benchmarks" / "checkup.png"
TARGET = f"{ROOT / 'tests' / 'models' / 'targets.py'}:detector"


def main() -> None:
    """Check the model up, and keep the first table of the page, and its text."""
    found = checkup(TARGET)
    with tempfile.TemporaryDirectory() as folder:
        report = write_report(found, Path(folder) / "report.html")
        with chromium(Path(folder) / "profile") as browser:
            page = browser.new_page()
            page.set_viewport_size({"width": 900, "height": 1200})
            page.goto(report.as_uri())
            box = page.locator("table").first.bounding_box()
            height = box["y"] + box["height"] + 12
            clip = {"x": 0, "y": 0, "width": 900, "height": height}
            page.screenshot(path=PICTURE, clip=clip)
    rows = [{"part": p.name, "verdict": p.verdict, "says": p.says} for p in found.parts]
    said = "; ".join(f"{p.name}: {p.verdict}, {plain(p.says)}" for p in found.parts)
    records.write(
        "benchmarks/checkup", rows, alt=f"The first table of a report. {said}."
    )
    print(found)
