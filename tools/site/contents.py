"""The pages that the site makes of other files: what the README says, and answers."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from tools.alone import address, ways_in
from tools.site import TEMPLATES, since
from tools.site.lessons import with_links

TEACHING = "```{toctree}\n:hidden:\n:glob:\n:maxdepth: 1\n\n[0-9]*\n```\n"


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
    made["workshop/routes.md"] = f"{with_links(routes)}\n{TEACHING}"
    return made


def listed(readme: str) -> dict[str, list[Entry]]:
    """Return the lessons by part, as the README has them."""
    parts: dict[str, list[Entry]] = {}
    lesson = r"^- \[(\d\d · .+?)\]\(notebooks/(.+?)\.ipynb\) (\d+)$"
    for part, text in re.findall(r"^\*\*(.+)\*\*\n\n((?:- .+\n)+)", readme, re.M):
        if entries := [Entry(*found) for found in re.findall(lesson, text, re.M)]:
            parts[part] = entries
    return parts


def index(readme: str, parts: dict[str, list[Entry]]) -> str:
    """Return the first page: what the README says, and its lists of lessons."""
    routes = readme.partition("## Which lessons\n\n")[2].partition("\n\n")[0]
    where = address()
    return TEMPLATES.get_template("index.md").render(
        opening=readme.partition("\n\n")[2].partition("\n\n")[0],
        routes=with_links(routes.replace("](notebooks/", "](")),
        where=where,
        ways=ways_in(where),
        parts=parts,
    )


def answers(source: str, lesson: Entry) -> str:
    """Return the answers to a lesson's exercises, a section for each."""
    head, *cut = re.split(r"^# %% *(.+)\n", source, flags=re.M)
    advice = " ".join(re.findall(r"^# (.+)", head, re.M))
    parts = zip(cut[::2], cut[1::2], strict=True)
    page = TEMPLATES.get_template("answers.md")
    return page.render(lesson=lesson, advice=advice, parts=parts)


def checkup_page(readme: str) -> str:
    """Return the check-up's own page, without what is of use in the repository only."""
    text = re.sub(r"<!-- checkup -->.*?<!-- /checkup -->\n\n", "", readme, flags=re.S)
    return with_links(text.replace("](../notebooks/", "]("))


def messages(entries: list[dict[str, Any]], lessons: dict[str, Entry]) -> str:
    """Return the page of messages: each message, its meaning, and its lesson."""
    entries = sorted(entries, key=lambda entry: entry["name"].lower())
    page = TEMPLATES.get_template("messages.md")
    return page.render(entries=entries, lessons=lessons, seen=_readable)


def _readable(entry: dict[str, Any]) -> list[str]:
    """Return the message by which an entry is known, as a person would read it."""
    if "text" in entry:
        return entry["text"].strip().splitlines()
    pattern = re.sub(r"\(\?m\)|\(\?!.*?\)|\$$", "", entry["says"])
    words = re.sub(r"\\(.)", r"\1", re.sub(r"\.\*\??|\\[wdsS][*+]?", "…", pattern))
    return [words] if re.search(r"[\[(][^])]*\|", words) else words.split("|")
