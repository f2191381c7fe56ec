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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from packaging.specifiers import SpecifierSet

from helpers.results import version_of
from tests.refresh import texts

KNOWN = Path(__file__).with_name("known.toml")
COLOUR = re.compile(r"(?:\x1b|#x1B)\[[\d;]*m")


@dataclass(frozen=True)
class Failure:
    """A cell, or a test, that failed.

    *lines* say how: `claim: text`, `error: Type: message`, or each line of output that
    was wanted (`- `) and that came instead (`+ `), with the kind of output in front.
    """

    where: str  # the file of the notebook, or the module of a test
    cell: str
    heading: str
    torch: str  # "" where none is installed
    lines: tuple[str, ...]
    triton: bool = True  # whether it is installed there


# --- written by a strict run ------------------------------------------------------


def properties(item: Any, error: BaseException) -> list[tuple[str, str]]:
    """Return what the report keeps of a cell of nbval that failed with *error*."""
    lines = [*_raised(item.test_outputs or [])]
    lines = lines or [*_differing(item)] or [f"error: {_first(str(error))}"]
    return [
        ("torch", version_of("torch") or ""),
        ("triton", version_of("triton") or ""),
        ("heading", heading(item.parent.nb.cells, item.cell)),
        *(("line", line) for line in lines),
    ]


def _raised(outputs: list[Any]) -> Iterator[str]:
    for output in outputs:
        if output.output_type == "error":
            is_claim = output.ename == "ClaimFailed"
            kind = "claim" if is_claim else f"error: {output.ename}"
            yield f"{kind}: {COLOUR.sub('', output.evalue).strip()}"


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


def heading(cells: list[Any], until: Any) -> str:
    """Return the heading that a cell stands under."""
    before = cells[: next(n for n, cell in enumerate(cells) if cell is until)]
    words = "\n".join(c.source for c in before if c.cell_type == "markdown")
    found = re.findall(r"^#+ (.+)$", words, re.MULTILINE)
    return found[-1] if found else "the first cell"


def _first(text: str) -> str:
    lines = [line.strip() for line in COLOUR.sub("", text).splitlines()]
    return next(filter(None, lines), "")


# --- read from its report ---------------------------------------------------------


def read(report: Path) -> list[Failure]:
    """Return what failed, from a report in JUnit's XML.

    ValueError says that the file is no such report, as after a run that was killed.
    """
    try:
        cases = [*ElementTree.parse(report).getroot().iter("testcase")]
    except (OSError, ElementTree.ParseError) as error:
        raise ValueError(f"{report}: no report can be read from it: {error}") from None
    failed = []
    for case in cases:
        for problem in [*case.findall("failure"), *case.findall("error")][:1]:
            said = case.iterfind("properties/property[@name='line']")
            values = {p.get("name"): p.get("value") for p in case.iter("property")}
            lines = [line.get("value") for line in said]
            failed.append(
                Failure(
                    # JUnit has a module there, and so a dot for each folder.
                    re.sub(r"^.*\.(?=\w+\.ipynb$)", "", case.get("classname", "")),
                    case.get("name", ""),
                    values.get("heading", ""),
                    values.get("torch", ""),
                    tuple(lines) or (f"error: {_first(problem.get('message', ''))}",),
                    triton=values.get("triton") != "",
                )
            )
    return failed


# --- and explained ------------------------------------------------------------------


def known(path: Path = KNOWN) -> list[dict[str, Any]]:
    """Return the differences that the repository explains."""
    return tomllib.loads(path.read_text(encoding="utf-8"))["difference"]


def covers(entry: dict[str, Any], failure: Failure, line: str) -> bool:
    """Return whether an entry of known.toml is why *failure* says *line*."""
    public = failure.torch.split("+")[0]
    return (
        failure.where.startswith(entry.get("notebook", ""))
        and public != ""
        and SpecifierSet(entry["torch"]).contains(public, prereleases=True)
        and not (failure.triton and not entry.get("triton", True))
        and any(re.search(pattern, line) for pattern in entry["lines"])
    )


def explanation(failure: Failure, table: list[dict[str, Any]]) -> str:
    """Return why the cell differs, or "" where any line of it is not explained."""
    reasons: list[str] = []
    for line in failure.lines:
        entries = [entry for entry in table if covers(entry, failure, line)]
        if not entries:
            return ""
        reasons.append(f"{entries[0]['why']} {entries[0].get('source', '')}".strip())
    return " ".join(dict.fromkeys(reasons))


# --- for people -------------------------------------------------------------------


def short(text: str, longest: int = 160) -> str:
    """Return *text* on one line that is not too long."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def markdown(failures: list[Failure]) -> str:
    """Return failures as lists, one for each notebook and version of torch."""
    lines, before = [], ""
    for failure in failures:
        title = f"### {failure.where}" + (failure.torch and f", torch {failure.torch}")
        lines += ["", title, ""] if title != before else []
        before = title
        name = f"**{failure.cell}**" + (failure.heading and f": {failure.heading}")
        lines.append(f"- {name}")
        lines += [f"  - `` {short(line)} ``" for line in failure.lines[:6]]
        more = len(failure.lines) - 6
        lines += [f"  - and {more} more lines"] if more > 0 else []
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print what the reports hold; 1 when a report cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("report", nargs="+", type=Path, help="or folders of them")
    unread = explained = 0
    for path in parser.parse_args(arguments).report:
        for report in sorted(path.rglob("*.xml")) if path.is_dir() else [path]:
            try:
                failures = read(report)
            except ValueError as error:
                unread += 1
                print(f"{error}\n")
                continue
            new = [one for one in failures if not explanation(one, known())]
            explained += len(failures) - len(new)
            if new:
                print(f"## {report.relative_to(path.parent)}\n{markdown(new)}\n")
    print(f"Known differences that are not listed: {explained}")
    return 1 if unread else 0


if __name__ == "__main__":
    sys.exit(main())
