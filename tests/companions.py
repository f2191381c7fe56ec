"""What the pages beside the notebooks rest on, read from the notebooks themselves.

    python -m tests.companions      # make the tables of the workshop anew

The minutes come from the notebooks' metadata.  A notebook's reading minutes are
shared out to its sections by their cells; an exercise says its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from helpers.results import write_atomically
from tests.form import Lesson, keys
from tests.refresh import ROOT, notebooks, read

FOLDER = ROOT / "notebooks"
WORKSHOP = FOLDER / "workshop"
LESSONS = {path.name[:2]: Lesson(read(path), path) for path in notebooks()}
OPENING = "the opening"


@dataclass(frozen=True)
class Stop:
    """A notebook on a route: the sections left out, and the exercises done."""

    lesson: str
    exercises: tuple[str, ...]
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Break:
    """Minutes of a route in which nobody reads."""

    minutes: int
    what: str = "break"


# The first number is the minutes of the whole route; what the stops do not take is
# left for polls and questions.
ROUTES: dict[str, tuple[int, tuple[Stop | Break, ...]]] = {
    "2 hours": (
        120,
        (
            Stop("00", ("00.2",)),
            Stop(
                "01",
                ("01.1",),
                ("A checkpoint from a compiled model", "Proof for a running service"),
            ),
            Stop(
                "02",
                (),
                ("The launch is not the work", "Where is the turning point?"),
            ),
            Break(5),
            Stop(
                "03",
                ("03.1",),
                (
                    "fullgraph=True is another program",
                    "A model somebody else wrote",
                ),
            ),
        ),
    ),
    "half a day": (
        240,
        (
            Stop("00", ("00.1",)),
            Stop("01", ("01.1",)),
            Stop("02", ("02.1",)),
            Break(15),
            Stop("03", ("03.2",)),
            Break(5),
            Stop(
                "08",
                ("08.1",),
                ("Promises about a dimension",),
            ),
            Stop(
                "06",
                (),
                (
                    "How wide is a load?",
                    "A row, whole or in pieces",
                    "A whole model, and its numbers",
                ),
            ),
        ),
    ),
    "a day": (
        420,
        (
            Stop("00", ("00.1",)),
            Stop("01", ("01.1",)),
            Stop("02", ("02.1",)),
            Break(15),
            Stop("03", ("03.2",)),
            Stop("04", (), ("A pass rewrites it", "Keep it, or compute it again?")),
            Stop("05", ("05.1",), ("Random numbers",)),
            Break(15),
            Stop(
                "06",
                (),
                (
                    "How wide is a load?",
                    "A row, whole or in pieces",
                    "A whole model, and its numbers",
                ),
            ),
            Stop("07", ("07.2",)),
            Stop("08", ("08.1",)),
            Stop(
                "10",
                (),
                ("What it says when asked", "The errors people meet"),
            ),
        ),
    ),
}


def sections(lesson: Lesson) -> dict[str, int]:
    """Return the minutes of reading of each H2 of a lesson, and of its opening.

    The cells of exercises do not count: their minutes are the exercises' own.
    Each section gets at least a minute, and the sum is the metadata's.
    """
    cells: dict[str, int] = {OPENING: 0}
    now, task = OPENING, False
    for cell in lesson.cells:
        if cell.cell_type == "markdown":
            titles = re.findall(r"^## +(.+)$", cell.source, re.MULTILINE)
            now = titles[-1].strip() if titles else now
            task = bool(re.search(r"Exercise \d\d\.\d", cell.source))
        if not task and not keys(cell):
            cells[now] = cells.get(now, 0) + 1
    return _shared(lesson.course["minutes"]["read"], cells)


def _shared(minutes: int, weights: dict[str, int]) -> dict[str, int]:
    """Share whole *minutes* by weight: nobody gets less than one."""
    total = sum(weights.values())
    ends = [round(minutes * done / total) for done in accumulate(weights.values())]
    parts = [b - a for a, b in zip([0, *ends], ends, strict=False)]
    for n, part in enumerate(parts):
        if part < 1:
            parts[n], parts[parts.index(max(parts))] = 1, max(parts) - 1 + part
    return dict(zip(weights, parts, strict=True))


def exercises(lesson: Lesson) -> dict[str, int]:
    """Return the minutes that each exercise of a lesson says it takes."""
    text = "\n\n".join(cell.source for cell in lesson.words)
    said = re.findall(r"Exercise (\d\d\.\d)\b.{0,90}?\b(\d+) minutes", text, re.DOTALL)
    return {key: int(minutes) for key, minutes in said}


@dataclass(frozen=True)
class Poll:
    """A prediction as the stored outputs show it."""

    question: str
    options: tuple[str, ...]
    revealed: str


def polls(lesson: Lesson) -> dict[str, Poll]:
    """Return the predictions of a lesson by key, from its stored outputs."""
    text = "\n".join(
        output.text
        for cell in lesson.code
        for output in cell.outputs
        if output.output_type == "stream"
    )
    revealed = dict(re.findall(r"^(\d\d\.p\d+)  The machine says: (.+)$", text, re.M))
    asked = re.findall(
        r"^(\d\d\.p\d+)  (?!The machine says)(.+)\n((?:  \d+\. .+\n)+)", text, re.M
    )
    return {
        key: Poll(
            question,
            tuple(re.findall(r"^  \d+\. (.+)$", options, re.M)),
            revealed.get(key, ""),
        )
        for key, question, options in asked
    }


def link(lesson: Lesson, words: str | None = None, up: str = "../") -> str:
    """Return a Markdown link to a lesson, by its number and title."""
    title = words or f"{lesson.id} · {lesson.course['title']}"
    return f"[{title}]({up}{lesson.file.name})"


def table(headings: str, rows: Iterator[tuple[object, ...]]) -> str:
    names = headings.split(", ")
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def timing(lesson: Lesson) -> str:
    """Return the table of a facilitator's page: what takes how many minutes."""
    rows: list[tuple[object, ...]] = [*sections(lesson).items()]
    rows += [(f"exercise {key}", n) for key, n in exercises(lesson).items()]
    rows.append(("running it all", lesson.course["minutes"]["run"]))
    rows.append(("**together**", f"**{sum(n for _, n in rows)}**"))
    return table("section, minutes", iter(rows))


def minutes(step: Stop | Break) -> tuple[int, int, int]:
    """Return the minutes to read, to run and for the exercises of a step."""
    if isinstance(step, Break):
        return step.minutes, 0, 0
    lesson = LESSONS[step.lesson]
    read, tasks = sections(lesson), exercises(lesson)
    if unknown := {*step.without, *step.exercises} - {*read, *tasks}:
        raise ValueError(f"notebook {lesson.id} has no {', '.join(sorted(unknown))}")
    left = sum(read[name] for name in step.without)
    work = sum(tasks[key] for key in step.exercises)
    whole = lesson.course["minutes"]
    return whole["read"] - left, whole["run"], work


def spare(name: str) -> int:
    """Return the minutes of a route that its steps leave over."""
    whole, steps = ROUTES[name]
    return whole - sum(sum(minutes(step)) for step in steps)


def _clock(total: int) -> str:
    return f"{total // 60}:{total % 60:02}"


def _visit(stop: Stop) -> tuple[str, ...]:
    out = ", ".join(f"*{title}*" for title in stop.without)
    done = ", ".join(stop.exercises) or "none"
    parts = " + ".join(map(str, minutes(stop)))
    return link(LESSONS[stop.lesson]), f"all but {out}" if out else "all", done, parts


def route(name: str) -> str:
    """Return the table of a route."""
    rows, gone = [], 0
    for step in ROUTES[name][1]:
        took = minutes(step)
        what = (step.what, "", "", "") if isinstance(step, Break) else _visit(step)
        rows.append((_clock(gone), *what, sum(took)))
        gone += sum(took)
    rows.append((_clock(gone), "polls and questions", "", "", "", spare(name)))
    gone += spare(name)
    rows.append((_clock(gone), "**end**", "", "", "", f"**{gone}**"))
    heads = "from, what, sections, exercises, read + run + exercises, minutes"
    return table(heads, iter(rows))


def facilitators() -> str:
    """Return the links to the facilitator's pages."""
    rows = (
        (f"[{key}]({key}.md)", each.course["title"]) for key, each in LESSONS.items()
    )
    return table("page, chapter", rows)


def block(mark: str) -> str:
    """Return what stands between a pair of marks."""
    if mark == "pages":
        return facilitators()
    kind, _, key = mark.partition(" ")
    return timing(LESSONS[key]) if kind == "timing" else route(mark)


def made(page: Path) -> str:
    """Return a page with what stands between its marks made anew."""
    text = page.read_text(encoding="utf-8")
    for mark in re.findall(r"<!-- (?!/)(.+?) -->", text):
        new = block(mark)
        head, rest = text.split(f"<!-- {mark} -->\n", 1)
        _, tail = rest.split(f"<!-- /{mark} -->", 1)
        text = f"{head}<!-- {mark} -->\n{new}\n<!-- /{mark} -->{tail}"
    return text


def main() -> None:
    """Write the tables of routes and timings into the pages of the workshop."""
    for page in sorted(WORKSHOP.glob("*.md")):
        write_atomically(page, made(page))


if __name__ == "__main__":
    main()
