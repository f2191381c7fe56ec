"""The pages that the site makes of other files: what the README says, and answers."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tools.alone import address, ways_in
from tools.site import since
from tools.site.lessons import with_links

HERE = Path(__file__).parent


class Entry(NamedTuple):
    """A lesson as the README lists it."""

    title: str  # with its number
    page: str
    minutes: str


def pages(course: Path) -> dict[str, str]:
    """Return the text of each such page, by its name, from the checkout *course*."""
    notebooks, checkup = course / "notebooks", course / "torch_checkup"
    readme = (course / "README.md").read_text("utf-8")
    parts = listed(readme)
    lessons = {entry.page[:2]: entry for part in parts.values() for entry in part}
    made = {"index.md": index(readme, parts)}
    for path in (notebooks / "solutions").glob("ch*.py"):
        page = answers(path.read_text("utf-8"), lessons[path.stem.removeprefix("ch")])
        made[f"solutions/{path.stem}.md"] = page
    made["checkup.md"] = checkup_page((checkup / "README.md").read_text("utf-8"))
    skill = (checkup / "SKILL.md").read_text("utf-8")
    made["agents.md"] = with_links(skill.partition("\n---\n\n")[2])
    entries = tomllib.loads((checkup / "errors.toml").read_text("utf-8"))["entry"]
    made["messages.md"] = messages(entries, lessons)
    titles = {number: entry.title for number, entry in lessons.items()}
    made["since.md"] = since.page(course / "data" / "since" / "table.json", titles)
    published = course / "data" / "published" / "README.md"
    made["published.md"] = with_links(published.read_text("utf-8"))
    routes = (notebooks / "workshop" / "routes.md").read_text("utf-8")
    made["workshop/routes.md"] = with_links(routes) + "\n" + toctree("", ["[0-9]*"])
    return made


def listed(readme: str) -> dict[str, list[Entry]]:
    """Return the lessons by part, as the README has them."""
    parts: dict[str, list[Entry]] = {}
    lesson = r"^- \[(\d\d · .+?)\]\(notebooks/(.+?)\.ipynb\) (\d+)$"
    for part, text in re.findall(r"^\*\*(.+)\*\*\n\n((?:- .+\n)+)", readme, re.M):
        if entries := [Entry(*found) for found in re.findall(lesson, text, re.M)]:
            parts[part] = entries
    return parts


def toctree(caption: str, entries: Iterable[str]) -> str:
    """Return pages for the list at the left; without a caption, only there."""
    options = f":caption: {caption}" if caption else ":hidden:\n:glob:"
    lines = "\n".join(entries)
    return f"```{{toctree}}\n{options}\n:maxdepth: 1\n\n{lines}\n```\n"


def index(readme: str, parts: dict[str, list[Entry]]) -> str:
    """Return the first page: what the README says, and its lists of lessons."""
    opening = readme.partition("\n\n")[2].partition("\n\n")[0]
    routes = readme.partition("## Which lessons\n\n")[2].partition("\n\n")[0]
    routes = with_links(routes.replace("](notebooks/", "]("))
    lists = [
        toctree(part, [f"{e.title} · {e.minutes} min <{e.page}>" for e in entries])
        for part, entries in parts.items()
    ]
    page = (HERE / "index.md").read_text("utf-8")
    blanks = {"OPENING": opening, "ROUTES": routes, "LESSONS": "\n".join(lists)}
    where = address()
    blanks["COURSE"] = f"[the course]({where})" if where else "the course"
    blanks["OPEN"] = f" Or open lesson 00 in {ways_in(where)}." if where else ""
    return re.sub(r"\{([A-Z]+)\}", lambda blank: blanks[blank[1]], page)


def answers(source: str, lesson: Entry) -> str:
    """Return the answers to a lesson's exercises, a section for each."""
    head, *cut = re.split(r"^# %% *(.+)\n", source, flags=re.M)
    advice = " ".join(re.findall(r"^# (.+)", head, re.M))
    parts = "".join(
        f"\n## {title}\n\n```python\n{code.strip()}\n```\n"
        for title, code in zip(cut[::2], cut[1::2], strict=True)
    )
    link = f"[{lesson.title}](../{lesson.page}.ipynb)"
    hidden = "---\norphan: true\nnosearch: true\n---\n"  # nobody meets it by chance
    return f"{hidden}# Answers to {lesson.title}\n\n{advice} Back to {link}.\n{parts}"


def checkup_page(readme: str) -> str:
    """Return the check-up's own page, without what is of use in the repository only."""
    text = re.sub(r"<!-- checkup -->.*?<!-- /checkup -->\n\n", "", readme, flags=re.S)
    return with_links(text.replace("](../notebooks/", "]("))


def messages(entries: list[dict[str, Any]], lessons: dict[str, Entry]) -> str:
    """Return the page of messages: each message, its meaning, and its lesson."""
    page = (HERE / "messages.md").read_text("utf-8")
    for entry in sorted(entries, key=lambda entry: entry["name"].lower()):
        lesson = lessons[entry["lesson"]]
        seen = "\n".join(f"    {words}" for words in _readable(entry))
        page += f"\n## {entry['name'][0].upper()}{entry['name'][1:]}\n\n{seen}\n\n"
        page += f"{entry['why']}\n\n**What to do:** {entry['mend']}\n\n"
        page += f"Lesson [{lesson.title}]({lesson.page}.ipynb).\n"
    return page


def _readable(entry: dict[str, Any]) -> list[str]:
    """Return the message by which an entry is known, as a person would read it."""
    if "text" in entry:
        return entry["text"].strip().splitlines()
    pattern = re.sub(r"\(\?m\)|\(\?!.*?\)|\$$", "", entry["says"])
    words = re.sub(r"\\(.)", r"\1", re.sub(r"\.\*\??|\\[wdsS][*+]?", "…", pattern))
    return [words] if re.search(r"[\[(][^])]*\|", words) else words.split("|")
