"""The same program side by side: your code, the FX graph, C++, Triton and PTX."""

from __future__ import annotations

import ast
import html
import inspect
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from helpers import _torch
from helpers.codegen import Code, output_code, program_line
from helpers.errors import InputError
from helpers.gpu import gpus
from helpers.gpu.compile import compile_kernel
from helpers.gpu.dump import Dump, DumpedKernel, dump_triton
from helpers.results import Result
from helpers.text import Table, mark, pre

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


# --- how Inductor prints an operation -----------------------------------------------

_UNARY = "sin cos tan exp exp2 expm1 log log2 log1p abs floor ceil erf tanh sqrt rsqrt"
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "gt": ">", "lt": "<"}
_INFIX |= {"ge": ">=", "le": "<=", "eq": "==", "ne": "!="}
_ANY_ORDER = {"add", "mul", "relu", "maximum", "minimum", "clamp_min", "clamp_max"}
# @ is a value or a number.
_PRINTED = {
    **{op: rf"[\w.:]+\b{op}(?:_rn)?\(@\)|@\.{op}\(\)" for op in _UNARY.split()},
    **{op: rf"@ {re.escape(sign)} @" for op, sign in _INFIX.items()},
    "rsqrt": r"libdevice\.rsqrt\(@\)|@\.rsqrt\(\)|@ / std::sqrt\(@\)",
    "neg": r"-@|@\.neg\(\)",
    "reciprocal": r"@ / @|@\.reciprocal\(\)",
    "sigmoid": r"tl\.sigmoid\(@\)|\(@\) ?/ ?\(\(@\) \+ "
    r"(?:@\.neg\(\)\.exp\(\)|std::exp\(-@\))\)",
    "maximum": r"triton_helpers\.maximum\(@, @\)|(?:at::vec::maximum|at::vec::clamp_min"
    r"|max_propagate_nan|std::max)\(@, \(?@\)?\)",
    "minimum": r"triton_helpers\.minimum\(@, @\)|(?:at::vec::minimum|at::vec::clamp_max"
    r"|min_propagate_nan|std::min)\(@, \(?@\)?\)",
    "where": r"tl\.where\(@, @, @\)|::blendv\(@, @, @\.template cast\(\)\)|@ \? @ : @",
    "convert_element_type": r"@\.to\(tl\.\w+\)|(?:at::vec|c10)::convert\(@\)",
}
_PRINTED |= {"relu": _PRINTED["maximum"], "clamp_min": _PRINTED["maximum"]}
_PRINTED |= {"clamp_max": _PRINTED["minimum"], "pow": _PRINTED["mul"]}
# A reduction: of a block, of what was summed up so far, and in C++.
_REDUCED = {
    "sum": (r"tl\.sum\(@, @\)", r"@ \+ @", r"@ \+ .*|(?:sum_masked|cascade_sum)_.*"),
    "amax": (r"triton_helpers\.max2\(@, @\)", _PRINTED["maximum"], r".*max.*\(.*\)"),
    "amin": (r"triton_helpers\.min2\(@, @\)", _PRINTED["minimum"], r".*min.*\(.*\)"),
}
# The same values in another form.
_SAME = {"convert_element_type", "view", "reshape", "_unsafe_view", "squeeze", "clone"}
_SAME |= {"unsqueeze", "expand", "permute", "alias", "detach", "select", "slice"}
_PASSED_ON = re.compile(
    r"@|\(@\)|tl\.broadcast_to\(@, \[.*\]\)|tl\.where\([^@]*, @, (?:@|[^@]*)\)"
    r"|@\.to\(tl\.\w+\)|tl\.reshape\(@, .*\)|(?:at::vec|c10)::convert\(@\)"
    r"|at::vec::VectorizedN?\(@\)"
)
_STORED = re.compile(r"(?:\w+\.)?store\((.*)\)")
_VALUE = re.compile(
    r"\b(?:masked)?_?tmp\w*\b|(?<![\w.\])])\d+\.?\d*(?:e-?\d+)?(?![\w.])"
)
_RUNNING = re.compile(r"(?:masked_)?(tmp_acc\d+)\w*")  # all parts of one C++ reduction


def _bare(text: str) -> str:
    """Return an expression without what gives it only its type or shape."""
    while text != (text := re.sub(r"(?<=\w)<[\w:, ]*>", "", text)):
        pass  # templates within templates
    text = re.sub(r"decltype\(\w+\)", "", text)
    text = re.sub(r"(?<=\))\[:, None\](?:\.to\(tl\.float32\))?$", "", text)
    full = re.fullmatch(r"tl\.full\(\[.*\], (.*), tl\.\w+\)", text)
    text = full[1] if full else text
    wrapped = re.fullmatch(
        r"(?:float|double|bool|static_cast|at::vec::VecMask|)\((.*)\)", text
    )
    whole = wrapped and "(" not in wrapped[1].replace("()", "")
    return wrapped[1] if whole else text


# --- following values ---------------------------------------------------------------


@dataclass
class Flow:
    """Follows values through the kernels of one graph.

    *tensors* holds the nodes whose value each buffer of the generated module has.
    """

    nodes: tuple[Node, ...]
    tensors: dict[str, set[str]] = field(default_factory=dict)

    def follow(
        self, lines: Iterable[Line], arguments: Mapping[str, str]
    ) -> dict[str, list[Line]]:
        """Return the lines of each node, and of ``load X`` and ``store X``.

        *arguments* is the buffer behind each parameter of the kernel.
        """
        self._values: dict[str, set[str] | float] = {}
        self._ways: dict[str, list[Line]] = {}
        self._running: dict[str, str] = {}  # which node a C++ variable sums up for
        found: dict[str, list[Line]] = defaultdict(list)
        for line in lines:
            for key in self._one(line, arguments):
                found[key] += self._taken(key, line)
        return {key: list(dict.fromkeys(each)) for key, each in found.items()}

    def _taken(self, key: str, line: Line) -> list[Line]:
        ops = {node.name: node.op for node in self.nodes}
        before = self._before if ops.get(key) in _REDUCED else []
        return [*before, line]

    def _one(self, line: Line, arguments: Mapping[str, str]) -> list[str]:
        """Note what a line's target is; return the nodes the line computes."""
        self._before: list[Line] = []
        tensor = TENSOR.search(line.text)
        buffer = tensor and arguments.get(tensor[0], tensor[0])
        stored = _STORED.match(line.text.removeprefix("tl."))
        if buffer and stored:
            written = [self._of(name) for name in _VALUE.findall(line.text)]
            held = next((value for value in written if isinstance(value, set)), set())
            self.tensors[buffer] = set(held)
            return [f"store {name}" for name in sorted(held)]
        target = self._name(line.target)
        if buffer:
            self._values[target] = set(self.tensors.get(buffer, ()))
            return [f"load {name}" for name in sorted(self._values[target])]
        text = _bare(line.text.replace("float('-inf')", "1e999"))
        words = _VALUE.findall(text)
        shape, values = _VALUE.sub("@", text), [self._of(word) for word in words]
        if not line.new:
            return self._reduced_in_cpp(target, shape, values)
        if shape == "@" and isinstance(values[0], float):
            self._values[target] = values[0]
            self._running.pop(target, None)
            return []
        self._before = [way for word in words for way in self._ways.get(word, ())]
        goes_on = bool(words) and words[0].startswith("_tmp")
        made = {n.name for n in self.nodes if self._prints(n, shape, values, goes_on)}
        self._values[target] = self._closed(made)
        if _PASSED_ON.fullmatch(shape):
            passed = [value for value in values if isinstance(value, set)]
            kept = passed[0] if passed else values[0]
            if isinstance(kept, set):
                self._values[target] |= kept
                self._ways[target] = [*self._before, line]
            else:
                self._values[target] = kept
        self._running.pop(target, None)
        return sorted(made)

    def _reduced_in_cpp(self, target: str, shape: str, values: list) -> list[str]:
        name = self._running.get(target)
        for node in self.nodes:
            given = [value for value in values if isinstance(value, set)]
            fits = node.op in _REDUCED and re.fullmatch(_REDUCED[node.op][2], shape)
            if not name and fits and any(node.arguments[0] in each for each in given):
                name = self._running[target] = node.name
        self._values[target] = self._closed({name} if name else set())
        return [name] if name else []

    def _name(self, word: str) -> str:
        running = _RUNNING.fullmatch(word)
        return running[1] if running else word

    def _of(self, word: str) -> set[str] | float:
        number = re.fullmatch(r"[\d.e-]+", word)
        return float(word) if number else self._values.get(self._name(word), set())

    def _closed(self, names: set[str]) -> set[str]:
        """Return the nodes *names*, and those that are the same in another form."""
        same = {n.name for n in self.nodes if n.op in _SAME and names & {*n.arguments}}
        return set(names) if same <= names else self._closed(names | same)

    def _prints(
        self, node: Node, shape: str, values: list[set[str] | float], goes_on: bool
    ) -> bool:
        """Return whether an expression is this node's operation on its arguments."""
        wanted = list(node.arguments)
        if node.op in _REDUCED and re.fullmatch(_REDUCED[node.op][goes_on], shape):
            given = [value for value in values if isinstance(value, set)]
            return bool(given) and all({wanted[0], node.name} & each for each in given)
        if not re.fullmatch(_PRINTED.get(node.op, "$^"), shape):
            return False
        if node.op == "pow":
            wanted = [wanted[0], wanted[0]] if wanted[1:] == [2] else [None]
        elif node.op == "relu":
            wanted = [0.0, *wanted]
        elif node.op in ("reciprocal", "rsqrt") and " / " in shape:
            wanted = [1.0, *wanted]
        elif node.op == "sigmoid" and "/" in shape:
            wanted = [1.0, 1.0, *wanted]
        elif "blendv" in shape:
            wanted.reverse()
        elif node.op == "convert_element_type":
            wanted = wanted[:1]
        orders = [wanted, wanted[::-1]] if node.op in _ANY_ORDER else [wanted]
        return any(_equal(order, values) for order in orders)


def _equal(wanted: list[str | float], values: list[set[str] | float]) -> bool:
    def same(want: str | float, value: set[str] | float) -> bool:
        return want in value if isinstance(value, set) else want == value

    return len(wanted) == len(values) and all(map(same, wanted, values))


NONE = "not a line of its own"
_TITLES = ("program", "FX graph", "C++ on this CPU", "Triton", "PTX")
# Okabe & Ito, Color Universal Design, 2008, without black; a number goes with each.
_COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")


@dataclass(frozen=True, repr=False)
class Step(Result):
    """One operation, and the lines it became, counted from 1 in each text of Stages."""

    op: str
    program: tuple[int, ...]
    fx: tuple[int, ...]
    cpp: tuple[int, ...]
    triton: tuple[int, ...]
    ptx: tuple[int, ...]

    @property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """The lines in each column, from left to right."""
        return self.program, self.fx, self.cpp, self.triton, self.ptx


@dataclass(frozen=True, repr=False)
class Stages(Result):
    """A kernel at every stage: the whole texts, and a step for each operation.

    *first* is the number that the program's first line has in its file or cell;
    *others* are the program's kernels that are not shown.
    """

    gpu: str
    kernel: str
    others: tuple[str, ...]
    first: int
    program: str
    fx: str
    cpp: str
    triton: str
    ptx: str
    steps: tuple[Step, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the columns, from left to right."""
        return self.program, self.fx, self.cpp, self.triton, self.ptx

    def table(self) -> Table:
        """Return a row for each operation; C++ and PTX depend on the machine."""
        rows = []
        for step in self.steps:
            program, fx, cpp, triton = map(self._cell, self.texts, step.places[:4])
            if step.program:
                program = f"{step.program[0] + self.first - 1}: {program}"
            ptx = self._counted(step.ptx)
            rows.append((step.op, program, fx, triton, mark(cpp), mark(ptx)))
        return Table.of(("op", "program", "FX graph", "Triton", "C++", "PTX"), rows)

    @staticmethod
    def _cell(text: str, numbers: Sequence[int]) -> str:
        """Return a statement, which may go on for lines, as one short line."""
        lines = text.splitlines()
        shown, end = "", 0
        for number in numbers:
            if shown and (number != end + 1 or shown.count("(") == shown.count(")")):
                break
            shown, end = f"{shown} {lines[number - 1].strip()}".strip(), number
        shown = re.sub(r"^(auto|const auto|float) |;$", "", shown)
        return f"{shown[:47]}…" if len(shown) > 48 else shown or NONE

    def _counted(self, numbers: Sequence[int]) -> str:
        lines = self.ptx.splitlines()
        named = [lines[n - 1].split("//")[0].split() for n in numbers]
        ops = Counter(w[1] if w[0][0] == "@" else w[0].rstrip(";") for w in named)
        memory = [op for op in ops if op.startswith(("ld.global", "st.global"))]
        first = dict.fromkeys([*memory, *(op for op, _ in ops.most_common())])
        shown = [f"{ops[op]} {op}" for op in list(first)[:3]]
        return ", ".join([*shown, "…"] if len(ops) > 3 else shown) or NONE

    def _last(self) -> str:
        more = f"; not shown: {', '.join(self.others)}" if self.others else ""
        return f"{gpus.find(self.gpu).title}: {self.kernel}{more}"

    def __str__(self) -> str:
        return f"{self.table()}\n{self._last()}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        titles, cells = "", ""
        for i, (title, text) in enumerate(zip(_TITLES, self.texts, strict=True)):
            marks = [(n, k) for k, s in enumerate(self.steps) for n in s.places[i]]
            # Room is scarce, and what is marked in C++ lies ten levels deep.
            text = re.sub(r"^ +", lambda m: m[0][::4], text, flags=re.M)
            start = self.first if title == "program" else 1
            titles += f'<th style="text-align:left;width:{_WIDTHS[i]}%">{title}</th>'
            cells += f'<td style="{_CELL}">{_column(text, marks, start)}</td>'
        head, body = f"<thead><tr>{titles}</tr></thead>", f"<tr>{cells}</tr>"
        table = f'<table style="{_TABLE}">{head}<tbody>{body}</tbody></table>'
        return f'<div style="overflow-x:auto">{table}</div>{pre(self._last())}'


# All columns fit the page: lines go on below, indented, and a column scrolls by itself.
_TABLE = "table-layout:fixed;width:100%;min-width:70em"
_CELL = "vertical-align:top;text-align:left;padding:4px"
_WIDTHS = (18, 20, 22, 24, 16)
_BOX = "max-height:48em;overflow-y:auto;white-space:pre-wrap;overflow-wrap:anywhere;"
_BOX += "font:12px/1.5 var(--jp-code-font-family,monospace)"
_LINE = "padding-left:4em;text-indent:-4em"


def _column(text: str, marks: Sequence[tuple[int, int]], start: int) -> str:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        of = list(dict.fromkeys(step for at, step in marks if at == number))
        colour = _COLOURS[of[0] % len(_COLOURS)] if of else ""
        # A light tint behind black letters, and the colour itself at the edge.
        look = f"background:{colour}44;border-left:6px solid {colour}" if of else ""
        look = f"{_LINE};{look or 'border-left:6px solid transparent'}"
        tags = f"<b>[{_runs(of)}]</b> " if of else ""
        count = f'<span style="opacity:.6">{number + start - 1:>3}</span> '
        rows.append(f'<div style="{look}">{count}{tags}{html.escape(line)}</div>')
    return f'<div style="{_BOX}">{"".join(rows)}</div>'


def _runs(steps: Sequence[int]) -> str:
    """Return the numbers of steps, counted from 1: ``3-8, 10``."""
    runs: list[list[int]] = []
    for step in sorted(steps):
        if runs and step == runs[-1][1] + 1:
            runs[-1][1] = step
        else:
            runs.append([step, step])
    return ", ".join(f"{a + 1}" if a == b else f"{a + 1}-{b + 1}" for a, b in runs)


def stages(
    fn: Callable[..., Any],
    *inputs: Any,
    gpu: str = "h100",
    kernel: str | int = 0,
) -> Stages:
    """Return ``fn(*inputs)`` at every stage, with the same operation lined up.

    The FX graph is what Inductor made the kernel from; the C++ is for this machine's
    CPU, the Triton kernel and its PTX for *gpu*.  *kernel* is its number among the
    generated kernels, or a part of its name.  Source: stack traces of the FX nodes,
    the flow of values through each kernel (``helpers.gpu.align``), and the line numbers
    in the PTX.  An operation without a line has none: it was fused away, or moves
    nothing.

    Raises InputError and ``pretend.Missing`` as `dump_triton` does, and InputError
    where there is no such kernel.
    """
    dump = dump_triton(fn, *inputs, gpu=gpu)
    chosen = _choose(dump, kernel)
    graph = next(g for g in dump._captured if g.index == chosen.graph)
    parts = fragments(graph.source)
    nodes = tuple(
        {node.name: node for part in parts.values() for node in part}.values()
    )
    names = [node.name for node in graph.aten.graph.nodes if node.op == "placeholder"]

    flow = Flow(nodes, {name: {name} for name in names})
    for each in dump.kernels:  # those before it fill the buffers that it reads
        if each.graph == chosen.graph:
            lines = triton_lines(each.source)
            found = flow.follow(lines, _arguments(each))
            if each is chosen:
                break
    with torch.no_grad():
        code = output_code(fn, *inputs, backward=False)
    shown = parts.get(chosen.name, ())
    cpp, cpp_found = _cpp(code, chosen.graph, nodes, names, [n.name for n in shown])
    ptx, places = _ptx(chosen)

    traces = {n.name: program_line(n) for n in graph.aten.graph.nodes}
    program, first, numbers = _program(fn, [traces.get(n.name, "") for n in shown])
    steps = []
    for key, op, at in _rows(shown, found):
        triton = _numbers(found.get(key, ()))
        ptx_at = sorted({p for n in triton for p in places.get(n, ())})
        where = () if at is None else (at + 1,)
        line = numbers[at] if at is not None else ()
        c = _numbers(cpp_found.get(key, ()))
        steps.append(Step(op, line, where, c, triton, tuple(ptx_at)))
    fx = "".join(f"{node.text}\n" for node in shown)
    others = tuple(k.name for k in dump.kernels if k is not chosen)
    texts = (first, program, fx, cpp, chosen.source, ptx)
    return Stages(chosen.gpu, chosen.name, others, *texts, tuple(steps))


def _choose(dump: Dump, kernel: str | int) -> DumpedKernel:
    if isinstance(kernel, int):
        found = dump.kernels[kernel : kernel + 1] if kernel >= 0 else ()
    else:
        found = [each for each in dump.kernels if kernel in each.name]
    if not found:
        names = ", ".join(f"{i}: {k.name}" for i, k in enumerate(dump.kernels))
        raise InputError(f"no kernel {kernel!r}: there are {names or 'none'}")
    return found[0]


def _rows(
    nodes: Sequence[Node], found: dict[str, list[Line]]
) -> list[tuple[str, str, int | None]]:
    """Return key, name and place in the graph of each row: loads, nodes, stores."""
    at = {node.name: i for i, node in enumerate(nodes)}
    rows = [(key, key, None) for key in found if key.startswith("load ")]
    rows += [(node.name, node.op, i) for i, node in enumerate(nodes)]
    return rows + [
        (key, key, None)
        for key in found
        if key.startswith("store ") and key.removeprefix("store ") in at
    ]


def _numbers(lines: Sequence[Line]) -> tuple[int, ...]:
    return tuple(sorted({n for x in lines for n in range(x.first, x.last + 1)}))


def _arguments(kernel: DumpedKernel) -> dict[str, str]:
    parameters = re.findall(r"^def \w+\((.*?)\):$", kernel.source, re.M | re.S)[-1]
    names = [each.split(":")[0].strip() for each in parameters.split(",")]
    return dict(zip(names, kernel.arguments, strict=False))


def _cpp(
    code: Code,
    graph: int,
    nodes: tuple[Node, ...],
    names: Sequence[str],
    wanted: Sequence[str],
) -> tuple[str, dict[str, list[Line]]]:
    """Return the C++ kernels that compute *wanted*, and the lines of each node."""
    flow, shown, found = Flow(nodes, {n: {n} for n in names}), "", {}
    if graph >= len(code.sections):
        return "", {}
    section = Code((code.sections[graph],))
    for name in section.names:
        source = section.kernel(name)
        call = re.search(rf"^ +{name}\((.*)\)$", section.text, re.M)
        parameters = re.findall(r"\b\w*ptr\d+\b|\bks\d+\b", source.split("{")[0])
        given = dict(zip(parameters, call[1].split(", ") if call else (), strict=False))
        lines = flow.follow(cpp_lines(source), given)
        if set(lines) & set(wanted):
            start = len(shown.splitlines())
            shown += f"// {name}\n{source}\n"
            for key, each in lines.items():
                moved = [_moved(line, start + 1) for line in each]
                found[key] = [*found.get(key, ()), *moved]
    return shown, found


def _moved(line: Line, by: int) -> Line:
    return Line(line.first + by, line.last + by, line.target, line.text)


def _ptx(kernel: DumpedKernel) -> tuple[str, dict[int, list[int]]]:
    """Return the PTX of the text that is shown, and its lines by line of Triton."""
    start = kernel.generated.rindex("@triton.jit\n")
    last = kernel.source.rindex("@triton.jit\n")  # what it calls is in the head
    module = kernel.generated[:start] + kernel.source[last:]
    found = gpus.find(kernel.gpu)
    made = compile_kernel(module, found, kernel.chosen, lines=True)
    before = kernel.generated[:start].count("\n") - kernel.source[:last].count("\n")
    return located(made.ptx, before + 1)


def _program(
    fn: Callable[..., Any], traces: Sequence[str]
) -> tuple[str, int, list[tuple[int, ...]]]:
    """Return the text of *fn*, its first line's number, and the line of each trace.

    Lines of other functions, which *fn* calls, come after it.
    """
    fn = _torch.unwrap(fn)
    fn = fn.forward if isinstance(fn, torch.nn.Module) else fn
    try:
        lines, first = inspect.getsourcelines(fn)
        lines = [line.rstrip() for line in lines]
    except (OSError, TypeError):
        lines, first = [], 1
    numbers: list[tuple[int, ...]] = []
    for trace in traces:
        at, _, text = trace.partition(": ")
        inside = at.isdigit() and 0 <= int(at) - first < len(lines)
        if inside and text in lines[int(at) - first]:
            numbers.append((int(at) - first + 1,))
        elif trace:
            more = f"line {at}: {text}"
            lines += [] if more in lines else [more]
            numbers.append((lines.index(more) + 1,))
        else:
            numbers.append(())
    return "\n".join(lines) + "\n", first, numbers
