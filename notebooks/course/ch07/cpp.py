"""Generated C++, shortened to what a lesson reads in it."""

from __future__ import annotations

import itertools
import re
from textwrap import dedent

from helpers.codegen import Code, folded
from helpers.text import mark


class WholeFile:
    """A generated file in its own order: folded, and each part in its colours."""

    def __init__(self, code: Code) -> None:
        self._code = code

    def __repr__(self) -> str:
        return self._code.text

    def _repr_html_(self) -> str:
        between = re.split(r"(?<=r''')(.*?)(?=''')", self._code.text, flags=re.S)
        languages = itertools.cycle(("python", "cpp"))
        parts = zip(languages, (text.strip("\n") for text in between), strict=False)
        return folded("The file that Inductor wrote", parts, shut=True)


def loops_of(source: str) -> list[str]:
    """Return the loops of a kernel, without casts and lone braces."""
    text = re.sub(r"static_cast<\w+>\((.*?)\)", r"\1", source)
    text = re.sub(r"\b(\d+)L\b", r"\1", text).replace("at::vec::", "")
    lines = [line for line in text.split("\n") if line.strip(" {}")]
    first = next(n for n, line in enumerate(lines) if "for(" in line)
    body = [line for line in lines[first:] if "integer_div" not in line]
    return dedent("\n".join(body)).split("\n")


def step(source: str) -> int:
    """Return by how many elements the innermost loop of a kernel moves on."""
    return int(re.findall(r"x\d\+=(\d+)", "\n".join(loops_of(source)))[-1])


def branches(source: str, size: int) -> str:
    """Return the loop, its branches, loads and stores; widths are marked."""
    kept = "for|if|loadu|store"
    lines = [line for line in loops_of(source) if re.search(kept, line)]
    rest = size % step(source)
    own = rf"\b({step(source)}|{size - rest}|{rest})\b"
    return re.sub(own, lambda match: mark(match[0]), "\n".join(lines))
