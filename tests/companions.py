"""What the pages beside the notebooks rest on, read from the notebooks themselves.

    python -m tests.companions      # make the tables of the workshop anew

The minutes come from the notebooks' metadata.  A notebook's reading minutes are
shared out to its sections by their text; an exercise says its own.
"""

from __future__ import annotations

import re
import sys
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from helpers.results import write_atomically
from tests.form import Lesson, keys
from tests.records import table
from tests.refresh import ROOT, notebooks, read
from tools.commands import command

FOLDER = ROOT / "notebooks"
WORKSHOP = FOLDER / "workshop"
PAGES = [ROOT / "README.md", *sorted(WORKSHOP.glob("*.md"))]


class Stop(NamedTuple):
    """A notebook on a route: the exercises done, and the sections left out."""

    lesson: str
    exercises: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def stops(words: str) -> tuple[Stop | int, ...]:
    """Return the stops of "01.1 +15 05": an exercise, a break, a lesson without one."""
    return tuple(
        int(word)
        if word.startswith("+")
        else Stop(word[:2], (word,) if "." in word else ())
        for word in words.split()
    )


# The lessons, part by part.
PARTS = {
    "Start": "00 01 02 03",
    "Mechanism": "04 05 06 07 08 09",
    "Speed": "10 11 12 13",
    "Shapes and control flow": "14 15 16 17",
    "Debugging": "18 19",
    "Training": "20 21 22 23 24",
    "Shipping": "25 26 27",
    "Real models": "28 29 30",
}
_FILES = {path.name[:2]: path for path in notebooks()}
LESSONS = {
    key: Lesson(read(_FILES[key]), _FILES[key])
    for part in PARTS.values()
    for key in part.split()
}

# The first number is the minutes of the whole route, and a number among the stops those
# of a break; what they do not take is left for polls and questions.
ROUTES: dict[str, tuple[int, tuple[Stop | int, ...]]] = {
    "2 hours": (120, stops("00 01.1 +5 03 04 05.1 14")),
    "half a day": (240, stops("00 01.1 03.1 +10 04 05.1 14.1 15 +10 18 25 28.1")),
    "a day": (
        420,
        stops(
            "00.1 01.1 02.1 +15 03 04.1 05.1 14.1 15.1 +15 "
            "06 07.1 10.1 12.1 +15 18.1 25.1 28.1"
        ),
    ),
    "practice": (180, stops("19 20.1 21.1 +10 22.1 16.1 +8 26.1")),
    "real models": (180, stops("27.1 29.1 30.1 +10 17.1 08 +8 23.1")),
}
# Whose lessons its people have done.
FOLLOWS = {"practice": "a day", "real models": "practice"}


def reading(cell: Any) -> float:
    """Return the seconds for a cell: 200 words or 20 lines of code a minute.

    A prediction takes half a minute more.  What is folded is not read.
    """
    if cell.cell_type == "markdown":
        return 60 * len(cell.source.split()) / 200
    if cell.metadata.get("jupyter", {}).get("source_hidden"):
        return 0
    return 3 * len(cell.source.splitlines()) + 30 * ("predict(" in cell.source)


def sections(lesson: Lesson) -> dict[str, int]:
    """Return the minutes of reading of each H2 of a lesson, and of its opening.

    The cells of exercises do not count: their minutes are the exercises' own.
    Each section gets at least a minute, and the sum is the metadata's.
    """
    section, in_exercise = "the opening", False
    seconds: dict[str, float] = {section: 0}
    for cell in lesson.cells:
        if cell.cell_type == "markdown":
            titles = re.findall(r"^## +(.+)$", cell.source, re.MULTILINE)
            section = titles[-1].strip() if titles else section
            in_exercise = bool(re.search(r"Exercise \d\d\.\d", cell.source))
        if not in_exercise and not keys(cell):
            seconds[section] = seconds.get(section, 0) + reading(cell)
    # Whole minutes by weight: the sum up to each section is rounded, not its share.
    total, minutes = sum(seconds.values()), lesson.course["minutes"]["read"]
    ends = [round(minutes * done / total) for done in accumulate(seconds.values())]
    parts = [b - a for a, b in zip([0, *ends], ends, strict=False)]
    for n, part in enumerate(parts):
        if part < 1:
            parts[n], parts[parts.index(max(parts))] = 1, max(parts) - 1 + part
    return dict(zip(seconds, parts, strict=True))


def exercises(lesson: Lesson) -> dict[str, int]:
    """Return the minutes that each exercise of a lesson says it takes."""
    text = "\n\n".join(cell.source for cell in lesson.words)
    stated = re.findall(r"Exercise (\d\d\.\d)\b.{0,90}?\b(\d+) minutes", text, re.S)
    return {key: int(minutes) for key, minutes in stated}


class Poll(NamedTuple):
    """A prediction as the stored outputs show it."""

    question: str
    options: tuple[str, ...]
    revealed: str


def polls(lesson: Lesson) -> dict[str, Poll]:
    """Return the predictions of a lesson by key, from its stored outputs."""
    streams = (o for cell in lesson.code for o in cell.outputs if "text" in o)
    text = "\n".join(stream.text for stream in streams)
    revealed = dict(re.findall(r"^(\d\d\.p\d+)  The machine says: (.+)$", text, re.M))
    asked = re.findall(
        r"^(\d\d\.p\d+)  (?!The machine says)(.+)\n((?:  \d+\. .+\n)+)", text, re.M
    )
    found = {}
    for key, question, options in asked:
        choices = tuple(re.findall(r"^  \d+\. (.+)$", options, re.M))
        found[key] = Poll(question, choices, revealed.get(key, ""))
    return found


# --- the tables -------------------------------------------------------------------


def link(lesson: Lesson) -> str:
    """Return a Markdown link to a lesson from a page of the workshop."""
    return f"[{lesson.id} · {lesson.course['title']}](../{lesson.file.name})"


def timing(lesson: Lesson) -> str:
    """Return the table of a facilitator's page: what takes how many minutes."""
    rows: list[tuple[object, ...]] = [*sections(lesson).items()]
    rows += [(f"exercise {key}", n) for key, n in exercises(lesson).items()]
    rows.append(("running it all", lesson.course["minutes"]["run"]))
    rows.append(("**together**", f"**{sum(n for _, n in rows)}**"))
    return table(["section", "minutes"], rows)


def minutes(stop: Stop) -> tuple[int, int, int]:
    """Return the minutes to read, to run and for the exercises of a stop."""
    lesson = LESSONS[stop.lesson]
    read, tasks = sections(lesson), exercises(lesson)
    left_out = sum(read[name] for name in stop.without)
    work = sum(tasks[key] for key in stop.exercises)
    whole = lesson.course["minutes"]
    return whole["read"] - left_out, whole["run"], work


def spare(name: str) -> int:
    """Return the minutes of a route that its steps leave over."""
    whole, steps = ROUTES[name]
    took = [step if isinstance(step, int) else sum(minutes(step)) for step in steps]
    return whole - sum(took)


def route(name: str) -> str:
    """Return the table of a route."""
    rows, gone = [], 0

    def add(*cells: object, took: int) -> None:
        nonlocal gone
        rows.append((f"{gone // 60}:{gone % 60:02}", *cells, took))
        gone += took

    for step in ROUTES[name][1]:
        if isinstance(step, int):
            add("break", "", "", "", took=step)
            continue
        titles = ", ".join(f"*{title}*" for title in step.without)
        parts = minutes(step)
        add(
            link(LESSONS[step.lesson]),
            f"all but {titles}" if titles else "all",
            ", ".join(step.exercises) or "none",
            " + ".join(map(str, parts)),
            took=sum(parts),
        )
    add("polls and questions", "", "", "", took=spare(name))
    end = f"{gone // 60}:{gone % 60:02}", "**end**", "", "", "", f"**{gone}**"
    headings = "from, what, sections, exercises, read + run + exercises, minutes"
    return table(headings.split(", "), [*rows, end])


def contents() -> str:
    """Return the lessons for the README, with minutes; the last line adds them up."""
    lines, total = [], 0
    for part, numbers in PARTS.items():
        lines.append(f"\n**{part}**\n")
        for key in numbers.split():
            lesson = LESSONS[key]
            took = sum(lesson.course["minutes"].values())
            total += took
            title = f"{key} · {lesson.course['title']}"
            lines.append(f"- [{title}](notebooks/{lesson.file.name}) {took}")
    return "\n".join([*lines, f"\nAll of it: {total / 60:.0f} hours."]) + "\n"


def block(mark: str) -> str:
    """Return what stands between a pair of marks."""
    if mark == "contents":
        return contents()
    if mark == "pages":
        rows = ((f"[{key}]({key}.md)", L.course["title"]) for key, L in LESSONS.items())
        return table(["page", "lesson"], rows)
    kind, _, key = mark.partition(" ")
    return timing(LESSONS[key]) if kind == "timing" else route(mark)


_MARKS = "|".join(("contents", "pages", r"timing \d\d", *ROUTES))


def renewed(page: Path) -> str:
    """Return the text of a page with what stands between its marks made anew."""
    text = page.read_text(encoding="utf-8")
    for mark in re.findall(rf"<!-- ({_MARKS}) -->", text):
        head, rest = text.split(f"<!-- {mark} -->\n", 1)
        tail = rest.split(f"<!-- /{mark} -->", 1)[1]
        text = f"{head}<!-- {mark} -->\n{block(mark)}\n<!-- /{mark} -->{tail}"
    return text


def main(arguments: list[str] | None = None) -> int:
    """Write the tables of routes and timings into the pages of the workshop."""
    command("tests.companions", __doc__).parse_args(arguments)
    for page in PAGES:
        write_atomically(page, renewed(page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
