"""The same program side by side: your code, the FX graph, Triton, PTX, and the C++.

Inductor prints a kernel as assignments, so graph and kernel are flows of values.  A
line computes a node of the graph when it prints that operation, and every value it
reads is known to be an argument of the node, back to the tensors that the kernel loads.
What cannot be followed so has no line: nothing is guessed from order or from names.
The PTX says by itself which line of Triton an instruction comes from.
"""

from __future__ import annotations

import ast
import html
import inspect
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from helpers import _torch
from helpers.codegen import output_code, program_line
from helpers.errors import InputError
from helpers.gpu import gpus
from helpers.gpu.compile import compile_kernel
from helpers.gpu.dump import Dump, DumpedKernel, dump_triton
from helpers.gpu.tidy import called
from helpers.results import Result
from helpers.text import Table, mark, pre

NONE = "not a line of its own"


def stages(
    fn: Callable[..., Any],
    *inputs: Any,
    kwargs: dict[str, Any] | None = None,
    gpu: str = "h100",
    kernel: str | int = 0,
) -> Stages:
    """Return ``fn(*inputs, **kwargs)`` at every stage, with each operation lined up.

    The FX graph is what Inductor made the kernel from; the Triton kernel and its PTX
    are for *gpu*, the C++ for this machine's CPU.  *kernel* is its number among the
    generated kernels, or a part of its name.  Source: stack traces of the FX nodes, the
    flow of values through the kernel, and the line numbers in the PTX.  An operation
    without a line has none: it was fused away, or moves nothing.

    Raises InputError and Unavailable as `dump_triton` does, and InputError where there
    is no such kernel.
    """
    dump = dump_triton(fn, *inputs, kwargs=kwargs, gpu=gpu)
    chosen = _choose(dump, kernel)
    graph = next(g for g in dump._captured if g.index == chosen.graph)
    nodes = _nodes(graph.source)
    flow = Flow([node for group in nodes.values() for node in group])
    for node in graph.aten.graph.find_nodes(op="placeholder"):
        flow.buffers[node.name] = {node.name}
    for other in dump.kernels:  # those before it fill the buffers that it reads
        if other.graph == chosen.graph:
            lines = flow.follow(other)
        if other is chosen:
            break

    shown = nodes.get(chosen.name, ())
    traces = {n.name: program_line(n) for n in graph.aten.graph.nodes}
    program, first, numbers = _program(fn, [traces.get(n.name, "") for n in shown])
    ptx, ptx_lines = _ptx(chosen)
    steps = []
    for key, op, line, fx in _rows(shown, lines, numbers):
        triton = tuple(sorted(lines.get(key, ())))
        instructions = {n for line in triton for n in ptx_lines.get(line, ())}
        steps.append(Step(op, line, fx, triton, tuple(sorted(instructions))))
    with torch.no_grad():
        cpp = output_code(fn, *inputs, **({"kwargs": kwargs} if kwargs else {}))
    return Stages(
        chosen.gpu,
        chosen.name,
        tuple(k.name for k in dump.kernels if k is not chosen),
        first,
        program,
        "".join(f"{node.text}\n" for node in shown),
        chosen.source,
        ptx,
        "\n".join(f"// {name}\n{cpp.kernel(name)}" for name in cpp.names),
        tuple(steps),
    )


def _choose(dump: Dump, kernel: str | int) -> DumpedKernel:
    if isinstance(kernel, int):
        matches = dump.kernels[kernel : kernel + 1] if kernel >= 0 else ()
    else:
        matches = [each for each in dump.kernels if kernel in each.name]
    if not matches:
        names = ", ".join(f"{i}: {k.name}" for i, k in enumerate(dump.kernels))
        raise InputError(f"no kernel {kernel!r}: there are {names or 'none'}")
    return matches[0]


def _rows(
    nodes: Sequence[Node],
    lines: dict[str, set[int]],
    numbers: Sequence[tuple[int, ...]],
) -> Iterator[tuple[str, str, tuple[int, ...], tuple[int, ...]]]:
    """Yield key, name, and lines in program and graph: of loads, nodes, then stores."""
    loads = [key for key in lines if key.startswith("load ")]
    stores = [f"store {node.name}" for node in nodes if f"store {node.name}" in lines]
    yield from ((key, key, (), ()) for key in loads)
    for at, node in enumerate(nodes):
        yield node.name, node.op, numbers[at], (at + 1,)
    yield from ((key, key, (), ()) for key in stores)


# --- the nodes of a kernel ------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """A node of the FX graph: its arguments are names of nodes, and numbers."""

    name: str
    op: str  # "sin", without the name of the overload
    arguments: tuple[str | float, ...]
    text: str


_KERNEL = re.compile(r"((?:^#.*\n)+)(\w+) = async_compile\.triton\(", re.M)
_CALL = re.compile(
    r"^#   %(\w+) : .*?call_function\[target=([\w.]+)\]"
    r"\(args = \((.*)\), kwargs = \{(.*)\}\)",
    re.M,
)
_WORD = re.compile(r"%(\w+)|(?<![\w.])(-?\d+\.?\d*(?:e-?\d+)?)(?![\w.])")


def _nodes(source: str) -> dict[str, tuple[Node, ...]]:
    """Return the nodes behind each kernel, from the comments that Inductor writes."""

    def of(comments: str) -> Iterator[Node]:
        for name, target, args, kwargs in _CALL.findall(comments):
            op = target.removeprefix("torch.ops.").split(".")[1:2] or [target]
            arguments = tuple(a or float(b) for a, b in _WORD.findall(args))
            call = f"{name} = {op[0]}({args.replace('%', '').rstrip(',')}"
            more = f", {kwargs.replace('%', '')}" if kwargs else ""
            yield Node(name, op[0], arguments, f"{call}{more})")

    return {name: tuple(of(comments)) for comments, name in _KERNEL.findall(source)}


# --- following values -----------------------------------------------------------------

# What Triton calls an operation of aten: a function, or Python's name of an operator.
_PRINTED = {
    "add": "Add", "sub": "Sub", "mul": "Mult", "div": "Div", "neg": "USub",
    "gt": "Gt", "lt": "Lt", "ge": "GtE", "le": "LtE", "eq": "Eq", "ne": "NotEq",
    "relu": "maximum", "clamp_min": "maximum", "clamp_max": "minimum",
    "pow": "Mult", "reciprocal": "Div", "convert_element_type": "to",
    "amax": "max2", "amin": "min2",
}  # fmt: skip
_ANY_ORDER = {"add", "mul", "relu", "maximum", "minimum", "clamp_min", "clamp_max"}
# How a reduction adds up what it has so far, in a loop.
_RUNNING = {"sum": "Add", "amax": "maximum", "amin": "minimum"}
# The same values in another form: of a node, and as Triton prints it.
_SAME = {"convert_element_type", "view", "reshape", "_unsafe_view", "squeeze", "clone"}
_SAME |= {"unsqueeze", "expand", "permute", "alias", "detach", "select", "slice"}
_PASSED_ON = {"to", "broadcast_to", "reshape", "where", "expand_dims"}

# What a value is known to be: the nodes that have it, or a number.
Value = set[str] | float


class Flow:
    """Follows values through the kernels of one graph.

    *buffers* holds the nodes whose value each buffer of the generated module has.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = list(dict.fromkeys(nodes))
        self.buffers: dict[str, set[str]] = {}

    def follow(self, kernel: DumpedKernel) -> dict[str, set[int]]:
        """Return the lines of each node, and of ``load X`` and ``store X``, from 1."""
        function = ast.parse(kernel.source).body[-1]
        names = [a.arg for a in function.args.args if a.annotation is None]
        arguments = dict(zip(names, kernel.arguments, strict=False))
        self.values: dict[str, Value] = {}
        self.computed: dict[str, set[int]] = defaultdict(set)
        statements = [n for n in ast.walk(function) if hasattr(n, "value")]
        statements = [n for n in statements if isinstance(n, (ast.Assign, ast.Expr))]
        for line in sorted(statements, key=lambda n: n.lineno):
            self.lines = range(line.lineno, line.end_lineno + 1)
            self._statement(line, arguments)
        return dict(self.computed)

    def _statement(self, line: ast.stmt, arguments: dict[str, str]) -> None:
        call = called(line.value)
        if call in ("load", "store", "atomic_add"):
            pointers = (n.id for n in ast.walk(line.value) if isinstance(n, ast.Name))
            pointer = next((n for n in pointers if "_ptr" in n), "")
            buffer = arguments.get(pointer, pointer)
            if call == "load":
                value = set(self.buffers.get(buffer, ()))
            else:
                value = self._value(line.value.args[1])
                value = value if isinstance(value, set) else set()
                self.buffers[buffer] = value
            for name in value:
                self.computed[f"{call.split('_')[0]} {name}"].update(self.lines)
        else:
            value = self._value(line.value)
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            self.values[line.targets[0].id] = value

    def _value(self, node: ast.expr) -> Value:
        """Return what an expression is; note that its line computes the nodes in it."""
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return float(node.value)
        if isinstance(node, ast.Name):
            return self.values.get(node.id, set())
        if isinstance(node, ast.Subscript):
            return self._value(node.value)
        # sqrt_rn and div_rn are rounded to nearest.
        op, operands = called(node).removesuffix("_rn"), []
        if isinstance(node, ast.Call):
            operands = [*node.args]
            if op == "to":
                operands = [node.func.value]
            elif op == "full":
                return self._value(node.args[1])
        elif isinstance(node, ast.BinOp):
            op, operands = type(node.op).__name__, [node.left, node.right]
        elif isinstance(node, ast.UnaryOp):
            op, operands = type(node.op).__name__, [node.operand]
        elif isinstance(node, ast.Compare):
            op, operands = type(node.ops[0]).__name__, [node.left, *node.comparators]
        values = [self._value(operand) for operand in operands]
        if op == "USub" and isinstance(values[0], float):
            return -values[0]
        nodes = {n.name for n in self.nodes if _prints(n, op, values)}
        for name in nodes:
            self.computed[name].update(self.lines)
        if op in _PASSED_ON:  # a mask comes first, and says nothing of the value
            passed = values[1:2] if op == "where" else values[:1]
            nodes = nodes.union(*(v for v in passed if isinstance(v, set)))
        return self._with_other_forms(nodes)

    def _with_other_forms(self, names: set[str]) -> set[str]:
        same = {n.name for n in self.nodes if n.op in _SAME and names & {*n.arguments}}
        return names if same <= names else self._with_other_forms(names | same)


def _prints(node: Node, op: str, values: list[Value]) -> bool:
    """Return whether *op* on *values* is this node's operation on its arguments."""
    wanted: list[Any] = list(node.arguments)
    if node.op in _RUNNING:
        values = [v for v in values if isinstance(v, set)]
        known = bool(values) and all({wanted[0], node.name} & v for v in values)
        running = op == _RUNNING[node.op] and known and len(values) == 1
        return running or (op == _PRINTED.get(node.op, node.op) and known)
    if op != _PRINTED.get(node.op, node.op):
        return False
    if node.op == "pow":
        wanted = [wanted[0], wanted[0]] if wanted[1:] == [2] else [None]
    elif node.op == "relu":
        wanted = [0.0, *wanted]
    elif node.op == "reciprocal":
        wanted = [1.0, *wanted]
    elif node.op == "convert_element_type":
        wanted = wanted[:1]
    orders = [wanted, wanted[::-1]] if node.op in _ANY_ORDER else [wanted]
    return any(_equal(order, values) for order in orders)


def _equal(wanted: list[str | float], values: list[Value]) -> bool:
    if len(wanted) != len(values):
        return False
    pairs = zip(wanted, values, strict=True)
    return all(w in v if isinstance(v, set) else w == v for w, v in pairs)


# --- PTX and the program --------------------------------------------------------------

_PLACE = re.compile(r"^\s*\.loc\s.*<generated kernel>:(\d+)(?!.*<generated kernel>)")


def _ptx(kernel: DumpedKernel) -> tuple[str, dict[int, list[int]]]:
    """Return the PTX of the text that is shown, and its lines by line of Triton."""
    start = kernel.generated.rindex("@triton.jit\n")
    last = kernel.source.rindex("@triton.jit\n")  # what it calls is in the head
    module = kernel.generated[:start] + kernel.source[last:]
    gpu = gpus.find(kernel.gpu)
    code = compile_kernel(module, gpu, kernel.chosen, lines=True)
    before = kernel.generated[:start].count("\n") - kernel.source[:last].count("\n")
    return _located(code.ptx, before + 1)


def _located(ptx: str, first: int) -> tuple[str, dict[int, list[int]]]:
    """Return PTX without debug information, and the PTX lines of each Triton line.

    *first* is the line of the compiled module at which the Triton text begins.
    """
    shown, places, line = [], defaultdict(list), 0
    for text in ptx.split("\t.file\t")[0].splitlines():
        if place := _PLACE.match(text):
            line = int(place[1]) - first + 1 if place[1] != "0" else 0
        text = re.sub(r"\s*//.*", "", text)
        if not text.strip() or re.match(r"\s*\.loc|\$L__(tmp|func)", text):
            continue
        shown.append(text.expandtabs(4))
        if line > 0 and re.match(r"\s+(@!?%\w+ )?[a-z][\w.]*\b.*;", text):
            places[line].append(len(shown))
    return "\n".join(shown) + "\n", dict(places)


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


# --- what is shown --------------------------------------------------------------------

_TITLES = ("program", "FX graph", "Triton", "PTX", "C++ on this CPU")
# Okabe & Ito, Color Universal Design, 2008, without black; a number goes with each.
_COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")


@dataclass(frozen=True, repr=False)
class Step(Result):
    """One operation, and the lines it became, counted from 1 in each text of Stages."""

    op: str
    program: tuple[int, ...]
    fx: tuple[int, ...]
    triton: tuple[int, ...]
    ptx: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class Stages(Result):
    """A kernel at every stage: the whole texts, and a step for each operation.

    *first* is the number that the program's first line has in its file or cell;
    *others* are the program's kernels that are not shown; *cpp* is the whole program's,
    without lines: C++ has other kernels.
    """

    gpu: str
    kernel: str
    others: tuple[str, ...]
    first: int
    program: str
    fx: str
    triton: str
    ptx: str
    cpp: str
    steps: tuple[Step, ...]

    def table(self) -> Table:
        """Return a row for each operation; the PTX depends on the compiler."""
        rows = []
        for step in self.steps:
            program = _statement(self.program, step.program)
            if step.program:
                program = f"{step.program[0] + self.first - 1}: {program}"
            fx, triton = (
                _statement(self.fx, step.fx),
                _statement(self.triton, step.triton),
            )
            rows.append((step.op, program, fx, triton, mark(self._counted(step.ptx))))
        return Table.of(("op", "program", "FX graph", "Triton", "PTX"), rows)

    def _counted(self, numbers: Sequence[int]) -> str:
        """Return how many instructions of which kind there are, memory first."""
        lines = self.ptx.splitlines()
        words = [lines[n - 1].split() for n in numbers]
        ops = Counter(w[1] if w[0][0] == "@" else w[0].rstrip(";") for w in words)
        memory = ("ld.global", "st.global")
        order = sorted(ops, key=lambda op: (not op.startswith(memory), -ops[op]))
        shown = [f"{ops[op]} {op}" for op in order[:3]] + ["…"] * (len(ops) > 3)
        return ", ".join(shown) or NONE

    def _last(self) -> str:
        more = f"; not shown: {', '.join(self.others)}" if self.others else ""
        return f"{gpus.find(self.gpu).title}: {self.kernel}{more}"

    def __str__(self) -> str:
        return f"{self.table()}\n{self._last()}"

    def _repr_html_(self) -> str:
        texts = (self.program, self.fx, self.triton, self.ptx, self.cpp)
        names = ("program", "fx", "triton", "ptx")
        head = body = ""
        for i, (title, text) in enumerate(zip(_TITLES, texts, strict=True)):
            steps: dict[int, list[int]] = defaultdict(list)
            for number, step in enumerate(self.steps):
                for line in getattr(step, names[i]) if i < len(names) else ():
                    steps[line].append(number)
            # Room is scarce, and C++ lies ten levels deep.
            text = re.sub(r"^ +", lambda m: m[0][::4], text, flags=re.M)
            start = self.first if title == "program" else 1
            head += f'<th style="text-align:left;width:{_WIDTHS[i]}%">{title}</th>'
            body += f'<td style="{_CELL}">{_column(text, steps, start)}</td>'
        table = f"<thead><tr>{head}</tr></thead><tbody><tr>{body}</tr></tbody>"
        table = f'<table style="{_TABLE}">{table}</table>'
        return f'<div style="overflow-x:auto">{table}</div>{pre(self._last())}'


def _statement(text: str, numbers: Sequence[int]) -> str:
    """Return a statement, which may go on for lines, as one short line."""
    lines, shown, end = text.splitlines(), "", 0
    for number in numbers:
        if shown and (number != end + 1 or shown.count("(") == shown.count(")")):
            break
        shown, end = f"{shown} {lines[number - 1].strip()}".strip(), number
    return f"{shown[:47]}…" if len(shown) > 48 else shown or NONE


# All columns fit the page: lines go on below, indented, and a column scrolls by itself.
_TABLE = "table-layout:fixed;width:100%;min-width:70em"
_CELL = "vertical-align:top;text-align:left;padding:4px"
_WIDTHS = (18, 20, 24, 16, 22)
_BOX = "max-height:48em;overflow-y:auto;white-space:pre-wrap;overflow-wrap:anywhere;"
_BOX += "font:12px/1.5 var(--jp-code-font-family,monospace)"


def _column(text: str, steps: dict[int, list[int]], start: int) -> str:
    """Return *text* as HTML, with the *steps* of each line, numbered from *start*."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        look, tags = "padding-left:4em;text-indent:-4em;border-left:6px solid ", ""
        if of := steps.get(number):
            # A light tint behind black letters, and the colour itself at the edge.
            colour = _COLOURS[of[0] % len(_COLOURS)]
            look += f"{colour};background:{colour}44"
            tags = f"<b>[{', '.join(str(step + 1) for step in of)}]</b> "
        else:
            look += "transparent"
        count = f'<span style="opacity:.6">{number + start - 1:>3}</span> '
        rows.append(f'<div style="{look}">{count}{tags}{html.escape(line)}</div>')
    return f'<div style="{_BOX}">{"".join(rows)}</div>'
