"""What a strict run found: in which cell, under which heading, and what was said.

    python -m tests.strict --junitxml report.xml
    python -m tests.failing report.xml ...   # Markdown, as an issue wants it

Differences of another torch that tests/known.toml explains are only counted.  This
needs no package but packaging, so that a machine without the course can read reports.
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from packaging.specifiers import SpecifierSet

from tools.commands import command

KNOWN = Path(__file__).with_name("known.toml")


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


def read(report: Path) -> list[Failure]:
    """Return what failed, from a report in JUnit's XML.

    ValueError says that the file is no such report, as after a run that was killed.
    """
    try:
        cases = [*ElementTree.parse(report).getroot().iter("testcase")]
    except (OSError, ElementTree.ParseError) as error:
        raise ValueError(f"{report}: no report can be read from it: {error}") from None
    failures = []
    for case in cases:
        problem = next(
            (part for part in case if part.tag in ("failure", "error")), None
        )
        if problem is None:
            continue
        lines = case.iterfind("properties/property[@name='line']")
        values = {p.get("name"): p.get("value") for p in case.iter("property")}
        failures.append(
            Failure(
                # JUnit has a module there, and so a dot for each folder.
                re.sub(r"^.*\.(?=\w+\.ipynb$)", "", case.get("classname", "")),
                case.get("name", ""),
                values.get("heading", ""),
                values.get("torch", ""),
                tuple(line.get("value") for line in lines)
                or (f"error: {first_line(problem.get('message', ''))}",),
                triton=values.get("triton") != "",
            )
        )
    return failures


def known(path: Path = KNOWN) -> list[dict[str, Any]]:
    """Return the differences that the repository explains."""
    return tomllib.loads(path.read_text(encoding="utf-8"))["difference"]


def reference() -> str:
    """Return the torch that the stored outputs come from."""
    pins = Path(__file__).parents[1] / "requirements.txt"
    return re.search(r"^torch==([\d.]+)", pins.read_text("utf-8"), re.MULTILINE)[1]


def turned(line: str) -> str:
    """Return a line of output with its sign turned; "" for any other line."""
    signs = {"-": "+", "+": "-"}
    kind, sign, rest = [*line.split(" ", 2), "", ""][:3]
    return f"{kind} {signs[sign]} {rest}" if sign in signs else ""


def covers(entry: dict[str, Any], failure: Failure, line: str) -> bool:
    """Return whether an entry of known.toml is why *failure* says *line*.

    An entry names one side of a change, and explains a run on the other side than the
    reference's.  Where it names the reference's side, wanted and came change places.
    """
    if "torch" in entry:
        public = failure.torch.split("+")[0]
        named = SpecifierSet(entry["torch"])
        has, wanted = (named.contains(v, True) for v in (public or "0", reference()))
        if not public or has == wanted:
            return False
        line = turned(line) if wanted else line
    notebooks = entry.get("notebook", "")
    if isinstance(notebooks, str):
        notebooks = [notebooks]
    return (
        failure.where.startswith(tuple(notebooks))
        and not (failure.triton and not entry.get("triton", True))
        and any(re.search(pattern, line) for pattern in entry["lines"])
    )


def explanation(failure: Failure, table: list[dict[str, Any]]) -> str:
    """Return why the cell differs, or "" where any line of it is not explained."""
    reasons: list[str] = []
    for line in failure.lines:
        entry = next((e for e in table if covers(e, failure, line)), None)
        if entry is None:
            return ""
        reasons.append(f"{entry['why']} {entry.get('source', '')}".strip())
    return " ".join(dict.fromkeys(reasons))


# --- for people -------------------------------------------------------------------


def uncoloured(text: str) -> str:
    """Return *text* without a terminal's colours, as printed or as XML has them."""
    return re.sub(r"(?:\x1b|#x1B)\[[\d;]*m", "", text)


def first_line(text: str) -> str:
    """Return the first line that says anything."""
    lines = [line.strip() for line in uncoloured(text).splitlines()]
    return next(filter(None, lines), "")


def short(text: str, longest: int = 160) -> str:
    """Return *text* on one line that is not too long."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def heading(cells: list[Any], until: Any) -> str:
    """Return the heading that a cell of a notebook stands under."""
    before = cells[: next(n for n, cell in enumerate(cells) if cell is until)]
    words = "\n".join(c.source for c in before if c.cell_type == "markdown")
    titles = re.findall(r"^#+ (.+)$", words, re.MULTILINE)
    return titles[-1] if titles else "the first cell"


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
    parser = command("tests.failing", __doc__, "a report cannot be read")
    parser.add_argument("report", nargs="+", type=Path, help="or folders of them")
    unread, explained, table = 0, 0, known()
    for path in parser.parse_args(arguments).report:
        for report in sorted(path.rglob("*.xml")) if path.is_dir() else [path]:
            try:
                failures = read(report)
            except ValueError as error:
                unread += 1
                print(f"{error}\n")
                continue
            new = [failure for failure in failures if not explanation(failure, table)]
            explained += len(failures) - len(new)
            if new:
                print(f"## {report.relative_to(path.parent)}\n{markdown(new)}\n")
    print(f"Known differences that are not listed: {explained}")
    return 1 if unread else 0


if __name__ == "__main__":
    sys.exit(main())
