"""Run notebooks and compare what they print, to the letter, with what is stored.

    python -m tests.strict                      # every notebook of the course
    python -m tests.strict notebooks/01_*.ipynb -x
    python -m tests.strict -n 2 --dist loadfile    # two pages at a time
    python -m tests.strict --junitxml report.xml   # read it with tests.failing

This is nbval in strict mode.  Only text between marks may differ; HTML and pictures
are not compared, because each result says the same in plain text.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.results import version_of
from tests.failing import first_line, heading, uncoloured
from tests.refresh import course_environment, texts
from tools.alone import shown
from tools.commands import command

ROOT = Path(__file__).resolve().parents[1]

NOT_COMPARED = ("text/html", "image/svg+xml", "image/png", "image/jpeg")


STRICT = (
    "--nbval",
    "--nbval-current-env",
    f"--nbval-sanitize-with={ROOT / 'tests' / 'sanitize.cfg'}",
    "--nbval-cell-timeout=600",
    "--nbval-kernel-startup-timeout=120",
    # Python files lie beside the notebooks: only notebooks are wanted here.
    "--override-ini=python_files=",
    "--override-ini=testpaths=",
    # The hooks below, by name: a process of pytest-xdist imports them, too.
    "-p",
    "tests.strict",
)


def pytest_configure(config: pytest.Config) -> None:
    """Give each of several processes a reader's progress of its own."""
    if worker := getattr(config, "workerinput", None):
        home = Path(os.environ["COURSE_HOME"]) / worker["workerid"]
        home.mkdir()
        os.environ["COURSE_HOME"] = str(home)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Leave out of the comparison what nbval has no option for."""
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += NOT_COMPARED


def pytest_itemcollected(item: pytest.Item) -> None:
    """Compare no answer that a click would show, for it is no HTML here."""
    if hasattr(item, "cell"):
        item.cell.outputs = [shown(output) for output in item.cell.outputs]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put what a failing cell said into the report of --junitxml."""
    if call.when == "call" and call.excinfo and hasattr(item, "cell"):
        lines = [*_raised(item)] or [*_differing(item)]
        lines = lines or [f"error: {first_line(str(call.excinfo.value))}"]
        item.user_properties += [
            ("torch", version_of("torch") or ""),
            ("triton", version_of("triton") or ""),
            ("heading", heading(item.parent.nb.cells, item.cell)),
            *(("line", line) for line in lines),
        ]
    return (yield)


def _raised(item: Any) -> Iterator[str]:
    for output in item.test_outputs or []:
        if output.output_type == "error":
            is_claim = output.ename == "ClaimFailed"
            kind = "claim" if is_claim else f"error: {output.ename}"
            yield f"{kind}: {uncoloured(output.evalue).strip()}"


def _differing(item: Any) -> Iterator[str]:
    """Yield the lines that differ of each kind of output, as they are compared."""
    stored, ran = (_lines(item, o) for o in (item.cell.outputs, item.test_outputs))
    for kind in dict.fromkeys([*stored, *ran]):
        for line in difflib.ndiff(stored.get(kind, []), ran.get(kind, [])):
            if line[0] in "-+":
                yield f"{kind} {line}"


def _lines(item: Any, outputs: list[Any] | None) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for kind, text in texts({"outputs": outputs or []}):
        if kind not in item.parent.skip_compare:
            lines.setdefault(kind, []).extend(item.sanitize(text).splitlines())
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Compare the notebooks that are named, or all; return pytest's exit status."""
    about = f"{__doc__}\nOptions that are not listed go to pytest."
    parser = command("tests.strict", about, "a cell differs")
    _, arguments = parser.parse_known_args(arguments)
    if not any(
        Path(a).suffix in (".ipynb", ".py") or Path(a).is_dir() for a in arguments
    ):
        arguments.append(str(ROOT / "notebooks"))
    with course_environment():
        return int(pytest.main([*STRICT, *arguments]))


if __name__ == "__main__":
    sys.exit(main())
