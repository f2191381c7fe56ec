"""Generated C++, shortened to what a lesson reads in it."""

from __future__ import annotations

import re
from textwrap import dedent

from helpers.text import mark


def _loops(source: str) -> list[str]:
    """Return the lines of a file's only kernel, without casts and lone braces."""
    text = re.search(r"r'''(.*?)'''", source, re.S)[1]
    text = re.sub(r"static_cast<\w+>\((.*?)\)", r"\1", text)
    text = re.sub(r"\b(\d+)L\b", r"\1", text).replace("at::vec::", "")
    lines = [line for line in text.split("\n") if line.strip(" {}")]
    first = next(n for n, line in enumerate(lines) if "for(" in line)
    return dedent("\n".join(lines[first:])).split("\n")


def step(source: str) -> int:
    """Return by how many elements the innermost loop moves on."""
    return int(re.findall(r"x\d\+=(\d+)", "\n".join(_loops(source)))[-1])


def branches(source: str, size: int) -> str:
    """Return the loop, its branches, loads and stores; widths are marked."""
    lines = [ln for ln in _loops(source) if re.search("for|if|loadu|store", ln)]
    lines = [line for line in lines if "integer_div" not in line]
    rest = size % step(source)
    own = rf"\b({step(source)}|{size - rest}|{rest})\b"
    return re.sub(own, lambda match: mark(match[0]), "\n".join(lines))
