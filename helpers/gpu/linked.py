"""One page on which a line of the program leads down to the machine code, and back.

Every stage keeps marks that lead to lines of the Triton kernel, and each value of that
kernel comes from nodes of the graph, which have their lines of the program.  So a row
of any column is its text, and the lines of Triton that it belongs to; two rows with a
line in common belong together.
"""

from __future__ import annotations

import re
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from itertools import chain
from typing import Any

from jinja2 import Environment

from ..errors import InputError
from ..text import Table, count, mark
from .compile import FILE, MachineCode, compile_kernel, read_by
from .gpus import find
from .roofline import says

Row = tuple[str, frozenset[int]]
NONE: frozenset[int] = frozenset()
_WIDTH = 72  # of a line in a table
_MEMORY = re.compile(r"\btt\.(load|store)\b|\b(ld|st)\.global|\b(LDG|STG)\b")


@dataclass(frozen=True)
class Linked:
    """One kernel: what it needs of a GPU, and the rows of each column."""

    name: str
    needs: str
    columns: dict[str, list[Row]]


@dataclass(frozen=True, repr=False)
class Page:
    """Kernels as HTML that needs no network: a tab for each, a column for each stage.

    A click on a line, or Enter, marks what belongs to it in the other columns.
    """

    title: str
    kernels: tuple[Linked, ...]

    @cached_property
    def html(self) -> str:
        """The whole page."""
        template = (files(__package__) / "linked.html").read_text("utf-8")
        how = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        how.policies["json.dumps_kwargs"] = {"default": sorted}  # the lines of a row
        kernels = [*map(vars, self.kernels)]
        return how.from_string(template).render(title=self.title, kernels=kernels)

    def way(self, words: str) -> Table:
        """Return a line of each stage that belongs to the first one with *words* in it.

        One that accesses memory, or else the longest.  Raises InputError where no line
        has these words.
        """
        for kernel in self.kernels:
            for text, lines in chain(*kernel.columns.values()):
                if words in text and lines:
                    return _way(kernel, lines)
        raise InputError(f"no line of these kernels has {words!r}")

    def __repr__(self) -> str:
        return f"{self.title}, from your lines to machine code"

    def _repr_html_(self) -> str:
        look = "width:100%;height:42rem;border:1px solid #8888"
        page = "data:text/html;base64," + b64encode(self.html.encode()).decode()
        return f'<iframe title="{self}" style="{look}" src="{page}"></iframe>'


def _way(kernel: Linked, lines: frozenset[int]) -> Table:
    rows = []
    for title, column in kernel.columns.items():
        found = [text.strip() for text, own in column if own & lines]
        line = max(found, key=lambda x: (bool(_MEMORY.search(x)), len(x)), default="")
        rows.append((title, mark(line[:_WIDTH])))
    return Table.of(("stage", "line"), rows)


def page(dump: Any) -> Page:
    """Return the page of all kernels of a dump, each compiled with its lines."""
    kernels: dict[tuple[int, str, str], Any] = {}
    for kernel in dump.kernels:
        kernels.setdefault((kernel.graph, kernel.phase, kernel.name), kernel)
    linked = tuple(map(_linked, kernels.values()))
    return Page(f"{count(len(linked), 'kernel')} for {find(dump.gpu).title}", linked)


def _linked(kernel: Any) -> Linked:
    try:
        code = compile_kernel(kernel.generated, find(kernel.gpu), lines=True)
        needs = "; ".join([str(code.config), *str(code).splitlines()[1:3]])
    except InputError as error:
        code, needs = None, str(error)
    about = [f"graph {kernel.graph} {kernel.phase}, {kernel.kind}"]
    with suppress(InputError):  # the chip has no peaks
        about.append(says(kernel, find(kernel.gpu)))
    return Linked(kernel.name, "; ".join([*about, needs]), columns(kernel, code))


def columns(kernel: Any, code: MachineCode | None) -> dict[str, list[Row]]:
    """Return the rows of each column: what they say, and their lines of Triton."""
    triton = list(_triton(kernel.generated))
    nodes, lines = _graph(kernel, triton)
    found = {"Python": lines, "Graph": nodes, "Triton": triton}
    if code is not None:
        stages = ("TTIR", _mlir, code.ttir), ("TTGIR", _mlir, code.ttgir)
        stages += ("LLVM IR", _llvm, code.llir), ("PTX", _ptx, code.ptx)
        found |= {title: list(read(text)) for title, read, text in stages}
        found["SASS"] = list(_sass(code.cubin))
        for title in ("PTX", "SASS"):
            found[title] = _with_products(found[title], triton, found["LLVM IR"])
    return found


def _triton(source: str) -> Iterator[Row]:
    """Yield the functions of a module with one kernel, without what configures it."""
    lines = source.splitlines()
    first = next((n for n, text in enumerate(lines) if text == "@triton.jit"), 0)
    for number, text in enumerate(lines[first:], first + 1):
        if text.strip():
            yield text, frozenset([number])


def _graph(kernel: Any, triton: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return the nodes of the graph behind a kernel, and the lines of the program."""
    origins = kernel.origins
    of_node: dict[str, set[int]] = {name: set() for name in origins.nodes}
    of_line: dict[str, set[int]] = {}
    for text, numbers in triton:
        names = {n for v in _values(text) for n in origins.values.get(v, ())}
        for name in names or origins.values.get("", ()):  # a template's own lines
            of_node[name] |= numbers
    for name, (_, line) in origins.nodes.items():
        of_line.setdefault(line, set()).update(of_node[name])
    if not origins.nodes:  # your own Triton kernel
        whole = set().union(*(numbers for _, numbers in triton))
        of_line = dict.fromkeys(kernel.lines, whole)
    ordered = sorted(filter(None, of_line), key=lambda x: (x.find(":"), x))  # 9, 10
    first = sorted(of_node, key=lambda name: min(of_node[name], default=0))
    nodes = [(origins.nodes[name][0], frozenset(of_node[name])) for name in first]
    return nodes, [(line, frozenset(of_line[line])) for line in ordered]


def _values(text: str) -> list[str]:
    """Return the values that a line of Triton sets, or stores."""
    names = re.compile(r"\b_?(tmp\d+)")
    left, equals, _ = text.partition(" = ")
    if equals:
        return names.findall(left)
    return names.findall(text) if re.search(r"tl\.(store|atomic_\w+)\(", text) else []


def _mlir(text: str) -> Iterator[Row]:
    """Yield the rows of TTIR or TTGIR: ``loc(#loc7)`` names a mark at the end."""
    marks = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.M))

    @cache
    def lines(mark: str) -> frozenset[int]:
        own = frozenset(map(int, re.findall(rf'"{FILE}":(\d+):', mark)))
        inner = (marks.get(name, "") for name in re.findall(r"#loc\d*", mark))
        return own.union(*map(lines, inner))

    rows: list[Row] = []
    opened: list[int] = []  # rows whose mark comes where their block closes
    for row in text.splitlines():
        if row.startswith("#loc") or not row.strip():
            continue
        pattern = r" loc\(((?:[^()]|\([^()]*\))*)\)"
        found = NONE.union(*(lines(mark) for mark in re.findall(pattern, row)))
        shown = re.sub(pattern, "", row)
        if shown.lstrip().startswith("}") and opened:
            place = opened.pop()
            rows[place] = rows[place][0], rows[place][1] | found
        if shown.endswith("{"):
            opened.append(len(rows))
        rows.append((shown, found))
    yield from rows


def _llvm(text: str) -> Iterator[Row]:
    """Yield the rows of LLVM IR: ``!dbg !7`` names a note at the end."""
    notes = dict(re.findall(r"^(!\d+) = (.*)$", text, re.M))

    def field(note: str, name: str) -> str:
        found = re.search(rf"\b{name}: (!?\d+|\"[^\"]*\")", notes.get(note, ""))
        return found[1] if found else ""

    @cache
    def file(note: str) -> str:
        if named := field(note, "file"):
            return field(named, "filename").strip('"')
        return file(field(note, "scope")) if note else ""

    @cache
    def lines(note: str) -> frozenset[int]:
        own = [int(field(note, "line") or 0)] if file(note) == FILE else []
        around = field(note, "inlinedAt")
        return frozenset(own) | (lines(around) if around else NONE)

    for row in text.splitlines():
        if row.strip() and not row.startswith(("!", "source_filename", "; ModuleID")):
            marks = re.findall(r",? !dbg (!\d+)", row)
            shown = re.sub(r",? !dbg !\d+", "", row)
            yield shown, NONE.union(*map(lines, marks))


def _ptx(text: str) -> Iterator[Row]:
    """Yield the rows of PTX: a line ``.loc`` holds for those that follow it."""
    names = dict(re.findall(r'^\s*\.file\s+(\d+)\s+"(.*)"', text, re.M))
    seen: dict[tuple[str, ...], frozenset[int]] = {}
    now = NONE
    for row in text.partition("\t.section")[0].splitlines():
        if found := re.match(r"\s*\.loc\s+(\d+) (\d+) (\d+)(.*)", row):
            *place, rest = found.groups()
            now = _own(names.get(place[0], ""), place[1])
            if around := re.search(r"inlined_at (\d+) (\d+) (\d+)", rest):
                other = around.groups()
                now |= seen.get(other, _own(names.get(other[0], ""), other[1]))
            seen[tuple(place)] = now
        elif row.strip() and not re.match(r"\s*(\.file|\$L__(tmp|func)\w+:)", row):
            is_code = re.match(r"\s+(\{ )?(@|[a-z])", row)
            yield row.expandtabs(4), now if is_code else NONE


def _with_products(rows: list[Row], triton: list[Row], llvm: list[Row]) -> list[Row]:
    """Give a product that became part of a fused multiply-add the row of that.

    LLVM writes one instruction for both, and gives it the line of the sum alone.
    """
    known, code = (NONE.union(*(own for _, own in each)) for each in (rows, llvm))
    for place, (text, lines) in enumerate(triton):
        if lines & known or not lines & code:
            continue
        names, sums = {*_values(text)}, NONE
        for other, own in triton[place + 1 :]:
            if names & {*re.findall(r"\btmp\d+", other.partition(" = ")[2])}:
                names |= {*_values(other)} if not own & known else set()
                sums |= own & known
        fused = re.compile(r"\bfma\.|\b[FDH]FMA")
        rows = [(r, o | lines if o & sums and fused.search(r) else o) for r, o in rows]
    return rows


def _own(file: str, line: str) -> frozenset[int]:
    return frozenset([int(line)]) if file.endswith(FILE) else NONE


def _sass(cubin: str) -> Iterator[Row]:
    """Yield the rows of SASS: comments name the line of those that follow."""
    try:
        text = read_by("nvdisasm", b64decode(cubin), "--print-line-info-inline", "-c")
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        yield f"not disassembled, for want of nvdisasm: {error}", NONE
        return
    now, fresh = NONE, True
    for row in text.splitlines():
        if row.lstrip().startswith("//## File"):
            places = re.findall(r'"([^"]*)", line (\d+)', row)
            now = (NONE if fresh else now).union(*(_own(*place) for place in places))
            fresh = False
        elif found := re.match(r"\s+/\*(\w+)\*/\s+(.*?;)", row):
            yield f"{found[1]}  {found[2]}", now
            fresh = True
