"""What a strict run found: in which cell, under which heading, and what was said.

    python tests/strict.py --junitxml report.xml
    python -m tests.failing report.xml ...   # Markdown, as an issue wants it

Differences of another torch that tests/known.toml explains are only counted.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from helpers.results import version_of
from tests.refresh import texts

KNOWN = Path(__file__).with_name("known.toml")
COLOUR = re.compile(r"(?:\x1b|#x1B)\[[\d;]*m")
LONGEST = 160  # characters of a line in a report


@dataclass(frozen=True)
class Failure:
    """A cell, or a test, that failed.

    *lines* say how: `claim: text`, `error: Type: message`, or each line of output that
    was wanted (`- `) and that came instead (`+ `), with the kind of output in front.
    """

    where: str  # the file of the notebook, or the module of a test
    cell: str
    heading: str
    torch: str
    lines: tuple[str, ...]
    triton: bool = True  # whether it is installed there

    @property
    def notebook(self) -> str:
        """Return the number of the notebook, like 04; "" for a test."""
        return self.where[:2] if self.where.endswith(".ipynb") else ""

    @property
    def claim(self) -> str:
        """Return what the claim said that does not hold, and why it should."""
        return next((ln[7:] for ln in self.lines if ln.startswith("claim: ")), "")

    @property
    def ended(self) -> bool:
        """Return whether the cell came to no end of its own."""
        return self.lines[0].startswith(("claim: ", "error: "))


# --- written by a strict run ------------------------------------------------------


def properties(item: Any, error: BaseException) -> list[tuple[str, str]]:
    """Return what the report keeps of a cell of nbval that failed with *error*."""
    lines = list(_raised(item.test_outputs or []))
    if not lines:
        wanted, got = _said(item, item.cell.outputs), _said(item, item.test_outputs)
        lines = list(_differing(wanted, got))
    return [
        ("torch", version_of("torch") or "none"),
        ("triton", version_of("triton") or "none"),
        ("heading", _heading(item)),
        *(("line", line) for line in lines or [f"error: {_first(str(error))}"]),
    ]


def _raised(outputs: list[Any]) -> Iterator[str]:
    for output in outputs:
        if output.output_type == "error":
            said = COLOUR.sub("", output.evalue).strip()
            failed = output.ename == "ClaimFailed"
            yield f"claim: {said}" if failed else f"error: {output.ename}: {said}"


def _said(item: Any, outputs: list[Any] | None) -> dict[str, list[str]]:
    """Return the lines of each kind of output that is compared, as it is compared."""
    kept: dict[str, list[str]] = {}
    for kind, text in texts({"outputs": outputs or []}):
        if kind not in item.parent.skip_compare:
            kept.setdefault(kind, []).extend(item.sanitize(text).splitlines())
    return kept


def _differing(wanted: dict[str, list[str]], got: dict[str, list[str]]) -> list[str]:
    found = []
    for kind in dict.fromkeys([*wanted, *got]):
        pair = wanted.get(kind, []), got.get(kind, [])
        lines = [line for line in difflib.ndiff(*pair) if line[0] in "-+"]
        found += [f"{kind} {line}" for line in lines]
    return found


def _heading(item: Any) -> str:
    """Return the heading that the cell stands under."""
    heading = "the first cell"
    for cell in item.parent.nb.cells:
        if cell is item.cell:
            break
        if cell.cell_type == "markdown":
            found = re.findall(r"^#+ (.+)$", cell.source, re.MULTILINE)
            heading = found[-1] if found else heading
    return heading


def _first(text: str) -> str:
    lines = [ln.strip() for ln in COLOUR.sub("", text).splitlines() if ln.strip()]
    return lines[0] if lines else ""


# --- read from its report ---------------------------------------------------------


def read(report: Path) -> list[Failure]:
    """Return what failed, from a report in JUnit's XML.

    ValueError says that the file is no such report, as after a run that was killed.
    """
    return [
        _failure(case, problem)
        for case in _cases(report)
        for problem in [*case.findall("failure"), *case.findall("error")][:1]
    ]


def not_run(report: Path) -> list[str]:
    """Return the cells that had no turn, because one before them had no end."""
    cases = _cases(report)
    return [c.get("name", "") for c in cases if c.find("skipped") is not None]


def _cases(report: Path) -> list[ElementTree.Element]:
    try:
        return list(ElementTree.parse(report).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError) as error:
        raise ValueError(f"{report}: no report can be read from it: {error}") from None


def _failure(case: ElementTree.Element, problem: ElementTree.Element) -> Failure:
    kept = [(p.get("name"), p.get("value", "")) for p in case.iter("property")]
    one = dict(kept)
    lines = tuple(value for name, value in kept if name == "line")
    return Failure(
        # JUnit has a module there, and so a dot for each folder.
        where=re.sub(r"^.*\.(?=\w+\.ipynb$)", "", case.get("classname", "")),
        cell=case.get("name", ""),
        heading=one.get("heading", ""),
        torch=one.get("torch", ""),
        lines=lines or (f"error: {_first(problem.get('message', ''))}",),
        triton=one.get("triton") != "none",
    )


# --- and explained ------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """A difference of some versions of torch, or of no Triton, that is understood."""

    torch: SpecifierSet
    without_triton: bool
    notebook: str
    patterns: tuple[re.Pattern[str], ...]
    why: str

    def covers(self, failure: Failure, line: str) -> bool:
        """Return whether this is why *failure* says *line*."""
        return (
            self.notebook in ("", failure.notebook)
            and _is(failure.torch, self.torch)
            and not (self.without_triton and failure.triton)
            and any(pattern.search(line) for pattern in self.patterns)
        )


def _is(torch: str, wanted: SpecifierSet) -> bool:
    try:
        return wanted.contains(Version(torch).public, prereleases=True)
    except InvalidVersion:
        return False


def known(path: Path = KNOWN) -> list[Known]:
    """Return the differences that the repository explains."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Known(
            SpecifierSet(entry["torch"]),
            not entry.get("triton", True),
            entry.get("notebook", ""),
            tuple(re.compile(pattern) for pattern in entry["lines"]),
            " ".join(filter(None, [entry["why"], entry.get("source")])),
        )
        for entry in table["difference"]
    ]


def explanation(failure: Failure, table: Iterable[Known]) -> str:
    """Return why the cell differs, or "" where any line of it is not explained."""
    reasons: dict[str, None] = {}
    entries = list(table)
    for line in failure.lines:
        why = next((one.why for one in entries if one.covers(failure, line)), None)
        if why is None:
            return ""
        reasons[why] = None
    return " ".join(reasons)


# --- for people -------------------------------------------------------------------


def short(text: str) -> str:
    """Return *text* on one line that is not too long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def markdown(failures: list[Failure]) -> str:
    """Return what failed as nested lists: notebook, cell, and what it said."""
    parts = []
    for where, group in groupby(failures, key=lambda f: (f.where, f.torch)):
        parts.append(f"### {where[0]}" + (f", torch {where[1]}" if where[1] else ""))
        for one in group:
            parts.append(f"- **{one.cell}**" + (one.heading and f": {one.heading}"))
            parts += [f"  - {_code(line)}" for line in one.lines[:6]]
            more = len(one.lines) - 6
            parts += [f"  - and {more} more lines"] if more > 0 else []
    return "\n".join(parts)


def _code(line: str) -> str:
    return f"`` {short(line)} ``"


def main(arguments: list[str] | None = None) -> int:
    """Print what the reports hold; 1 when a report cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("report", nargs="+", type=Path, help="or folders of them")
    chosen = parser.parse_args(arguments)
    table, known_ones, unread = known(), 0, 0
    for folder, reports in _gathered(chosen.report):
        found = []
        for report in reports:
            try:
                found += read(report)
            except ValueError as error:
                unread += 1
                print(f"{error}\n")
        new = [one for one in found if not explanation(one, table)]
        known_ones += len(found) - len(new)
        if new:
            print(f"## {folder}\n\n{markdown(new)}\n")
    print(f"Known differences that are not listed: {known_ones}")
    return 1 if unread else 0


def _gathered(paths: list[Path]) -> Iterator[tuple[str, list[Path]]]:
    """Yield the reports of each folder below *paths*, under the folder's name."""
    for path in paths:
        if not path.is_dir():
            yield path.name, [path]
            continue
        yield path.name, sorted(path.glob("*.xml"))
        for folder in sorted(child for child in path.iterdir() if child.is_dir()):
            yield folder.name, sorted(folder.rglob("*.xml"))


if __name__ == "__main__":
    sys.exit(main())
