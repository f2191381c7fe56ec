"""Puts what the benchmarks recorded into the README, word for word."""

from __future__ import annotations

from pathlib import Path

from helpers.results import write_atomically
from tests.benchmarks import dumps
from tests.benchmarks.common import read
from tests.records import markdown, origin

README = Path(__file__).parents[2] / "README.md"
NAMES = ("aa", "ratio", "bandwidth", "startup", "lessons", "picture", "kernel", "dumps")
NAMES += ("lines", "checkup")
PICTURES = {"picture": "three_fates.png", "checkup": "checkup.png"}


def section(name: str) -> str:
    """Return the Markdown between the marks of one benchmark."""
    kept = read(name)
    if kept is None:
        return f"*Not measured yet: `python -m tests.benchmarks {name}`.*"
    if name in PICTURES:
        alt = kept["settings"]["alt"]
        return f"![{alt}](data/benchmarks/{PICTURES[name]})\n\n{origin(kept)}"
    if name == "kernel":
        code, shown = kept["rows"][0]["code"], kept["rows"][0]["shown"]
        return f"```python\n{code}```\n\n```python\n{shown}\n```\n\n{origin(kept)}"
    rows = dumps.versions() if name == "dumps" else kept["rows"]
    return f"{markdown(rows)}\n\n{origin(kept)}"


def render(text: str) -> str:
    """Return *text* with what stands between each pair of marks made anew."""
    for name in NAMES:
        before, after = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if before not in text or after not in text:
            raise ValueError(f"the README has no place for {name}")
        head, rest = text.split(before, 1)
        text = head + before + section(name) + "\n" + after + rest.split(after, 1)[1]
    return text


def main() -> None:
    """Write the recorded tables into the README."""
    write_atomically(README, render(README.read_text(encoding="utf-8")))
