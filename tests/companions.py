"""What the pages beside the notebooks rest on, read from the notebooks themselves.

    python -m tests.companions      # make the tables of the workshop anew

The minutes come from the notebooks' metadata; an exercise says its own.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from helpers.results import write_atomically
from tests import records
from tests.form import Lesson
from tests.records import table
from tests.refresh import ROOT, notebooks, read
from tools.commands import command

FOLDER = ROOT / "notebooks"
WORKSHOP = FOLDER / "workshop"
PAGES = [ROOT / "README.md", WORKSHOP / "routes.md"]

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

# The minutes of the whole route, and its steps: a lesson, a lesson with an exercise, a
# break of minutes.  What they do not take is left for polls and questions.
ROUTES = {
    "2 hours": (120, "00 01.1 +10 03 04 05.1 14"),
    "half a day": (240, "00.1 01.1 03.1 +10 04 05.1 14.1 15 +15 18 25 28.1"),
    "a day": (
        420,
        "00.1 01.1 02.1 +15 03 04.1 05.1 14.1 15.1 +15 "
        "06.1 07.1 10.1 12.1 +15 18.1 25.1 28.1",
    ),
    "practice": (180, "19.1 20.1 21.1 +10 22.1 16.1 +8 26.1"),
    "real models": (180, "27.1 29.1 30.1 +15 17.1 08.1 +15 23.1"),
}
# Whose lessons its people have done.
FOLLOWS = {"practice": "a day", "real models": "practice"}


def exercises(lesson: Lesson) -> dict[str, int]:
    """Return the minutes that each exercise of a lesson says it takes."""
    text = "\n\n".join(cell.source for cell in lesson.words)
    stated = re.findall(r"Exercise (\d\d\.\d)\b.{0,90}?\b(\d+) minutes", text, re.S)
    return {key: int(minutes) for key, minutes in stated}


# --- the tables -------------------------------------------------------------------


def link(lesson: Lesson) -> str:
    """Return a Markdown link to a lesson from a page of the workshop."""
    return f"[{lesson.id} · {lesson.course['title']}](../{lesson.file.name})"


def minutes(step: str) -> tuple[int, ...]:
    """Return the minutes to read, to run and for the exercise of a step of a route."""
    if step.startswith("+"):
        return (int(step),)
    lesson = LESSONS[step[:2]]
    whole = lesson.course["minutes"]
    return whole["read"], whole["run"], exercises(lesson).get(step, 0)


def spare(name: str) -> int:
    """Return the minutes of a route that its steps leave over."""
    whole, steps = ROUTES[name]
    return whole - sum(sum(minutes(step)) for step in steps.split())


def route(name: str) -> str:
    """Return the table of a route."""
    rows, gone = [], 0
    for step in [*ROUTES[name][1].split(), "talk"]:
        parts = (spare(name),) if step == "talk" else minutes(step)
        what, exercise, sums = "break", "", ""
        if step == "talk":
            what = "polls and questions"
        elif not step.startswith("+"):
            what, sums = link(LESSONS[step[:2]]), " + ".join(map(str, parts))
            exercise = step if "." in step else "none"
        rows.append((f"{gone // 60}:{gone % 60:02}", what, exercise, sums, sum(parts)))
        gone += sum(parts)
    rows.append((f"{gone // 60}:{gone % 60:02}", "**end**", "", "", f"**{gone}**"))
    headings = "from, what, exercise, read + run + exercise, minutes"
    return table(headings.split(", "), rows)


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
    return route(mark)


_MARKS = "|".join(("contents", "pages", *ROUTES))


def renewed(page: Path) -> str:
    """Return the text of a page with what stands between its marks made anew."""
    text = page.read_text(encoding="utf-8")
    for mark in re.findall(rf"<!-- ({_MARKS}) -->", text):
        text = records.renewed(text, mark, block(mark))
    return text


def main(arguments: list[str] | None = None) -> int:
    """Write the tables into the README and the routes of the workshop."""
    command("tests.companions", __doc__).parse_args(arguments)
    for page in PAGES:
        write_atomically(page, renewed(page))
    return 0


if __name__ == "__main__":
    sys.exit(main())
