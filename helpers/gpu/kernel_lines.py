"""Generated code as data: the nodes behind a kernel, its assignments, its PTX by line.

fragments(source)           the FX nodes that Inductor put into each Triton kernel
triton_lines, cpp_lines     a kernel as assignments and stores
located(ptx, first)         PTX for reading, and the line behind each instruction
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

# A tensor as a kernel calls it.
TENSOR = re.compile(r"\b(?:(?:in_out|in|out)_ptr|local_buffer_data_)\d+\b")


@dataclass(frozen=True)
class Node:
    """A node of the FX graph: its arguments are names of nodes, and numbers."""

    name: str
    op: str  # "sin", without the name of the overload
    arguments: tuple[str | float, ...]
    text: str


@dataclass(frozen=True)
class Line:
    """An assignment or a store; *first* and *last* count the lines of the kernel."""

    first: int
    last: int
    target: str  # "" for a store
    text: str
    new: bool = True  # False where C++ goes on with a variable


_KERNEL = re.compile(r"((?:^#.*\n)+)(\w+) = async_compile\.triton\(", re.M)
_CALL = re.compile(
    r"^#   %(\w+) : .*?call_function\[target=([\w.]+)\]"
    r"\(args = \((.*)\), kwargs = \{(.*)\}\)",
    re.M,
)
_WORD = re.compile(r"%(\w+)|(?<![\w.])(-?\d+\.?\d*(?:e-?\d+)?)(?![\w.])")


def fragments(source: str) -> dict[str, tuple[Node, ...]]:
    """Return the nodes of each kernel, from the comments that Inductor writes."""
    return {name: tuple(_nodes(said)) for said, name in _KERNEL.findall(source)}


def _nodes(comments: str) -> Iterator[Node]:
    for name, target, given, more in _CALL.findall(comments):
        op = target.removeprefix("torch.ops.").split(".")[1:2] or [target]
        words = tuple(a or float(b) for a, b in _WORD.findall(given))
        call = f"{name} = {op[0]}({given.replace('%', '').rstrip(',')}"
        text = f"{call}{', ' + more.replace('%', '') if more else ''})"
        yield Node(name, op[0], words, text)


def triton_lines(source: str) -> list[Line]:
    """Return the assignments and stores of a Triton kernel, in order."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            target, value = node.targets[0].id, node.value
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            target, value = "", node.value
        else:
            continue
        found.append(Line(node.lineno, node.end_lineno, target, ast.unparse(value)))
    return sorted(found, key=lambda line: line.first)


_ASSIGNED = re.compile(r"^\s*([\w:<>, ]+ )?(\w+)(\[.*?\])? = (.*);$")
_WRITTEN = re.compile(r"^\s*(\w+\.store\(.*\));$")


def cpp_lines(source: str) -> list[Line]:
    """Return the assignments and stores of a C++ kernel, in order."""
    found = []
    for number, text in enumerate(source.splitlines(), 1):
        if written := _WRITTEN.match(text):
            found.append(Line(number, number, "", written[1]))
        elif assigned := _ASSIGNED.match(text):
            kind, target, index, value = assigned.groups()
            if index and TENSOR.fullmatch(target):
                target, value = "", f"store({target}, {value})"
            found.append(Line(number, number, target, value, bool(kind)))
    return found


# --- machine code -------------------------------------------------------------------

_PLACE = re.compile(r"^\s*\.loc\s.*<generated kernel>:(\d+)(?!.*<generated kernel>)")


def located(ptx: str, first: int) -> tuple[str, dict[int, list[int]]]:
    """Return PTX without debug information, and the PTX lines of each Triton line.

    *first* is the line of the compiled module at which the Triton text begins.
    """
    kept, places, now = [], defaultdict(list), 0
    for text in ptx.split("\t.file\t")[0].splitlines():
        if place := _PLACE.match(text):
            now = int(place[1]) - first + 1 if place[1] != "0" else 0
        text = re.sub(r"\s*//.*", "", text)
        if not text.strip() or re.match(r"\s*\.loc|\$L__(tmp|func)", text):
            continue
        kept.append(text.expandtabs(4))
        if now > 0 and re.match(r"\s+(@!?%\w+ )?[a-z][\w.]*\b.*;", text):
            places[now].append(len(kept))
    return "\n".join(kept) + "\n", dict(places)
