"""The same program side by side: your code, the FX graph, Triton and PTX.

Inductor prints a kernel as assignments, so graph and kernel are flows of values.  A
line computes a node of the graph when it prints that operation on values that are the
node's arguments, back to the tensors that the kernel loads.  What cannot be followed so
has no line: nothing is guessed from order or from names.  The PTX says by itself which
line of Triton an instruction comes from.
"""

from __future__ import annotations

import ast
import html
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch.fx import Graph, Node

from helpers.codegen import program_line
from helpers.errors import InputError
from helpers.gpu import gpus
from helpers.gpu.compile import compile_kernel
from helpers.gpu.dump import DumpedKernel, dump_triton
from helpers.gpu.fake_gpu import LoweredGraph
from helpers.gpu.tidy import called
from helpers.results import TableResult
from helpers.text import Table, mark, pre

NONE = "not a line of its own"
Lines = tuple[int, ...]  # numbers of lines, from 1


def stages(
    fn: Callable[..., Any],
    *inputs: Any,
    gpu: str = "h100",
    kernel: int = 0,
) -> Stages:
    """Return ``fn(*inputs)`` at every stage, with each operation lined up.

    The FX graph is what Inductor made the kernel from; the Triton kernel and its PTX
    are for *gpu*.  *kernel* is its number among the generated kernels.  Source: stack
    traces of the FX nodes, the flow of values through the kernel, and the line numbers
    in the PTX.  An operation without a line has none: it was fused away, or moves
    nothing.

    Raises InputError and Unavailable as `dump_triton` does, and InputError where there
    is no such kernel.
    """
    dump = dump_triton(fn, *inputs, gpu=gpu)
    if kernel not in range(len(dump.kernels)):
        names = ", ".join(f"{i}: {k.name}" for i, k in enumerate(dump.kernels))
        raise InputError(f"no kernel {kernel!r}: there are {names or 'none'}")
    chosen = dump.kernels[kernel]
    graph = next(g for g in dump.lowered if g.index == chosen.graph)
    flow = Flow(graph.final)
    for launch in dump.kernels[: kernel + 1]:  # the first ones fill the last's buffers
        if launch.graph == chosen.graph:
            lines = flow.follow(launch)

    shown = _nodes(graph, chosen.name)
    if chosen.name in [k.name for k in dump.kernels[:kernel]]:  # of its first launch
        shown = [node for node in graph.final.nodes if node.name in lines]
    traces = [program_line(node) for node in shown]
    program = list(dict.fromkeys(filter(None, traces)))
    ptx, ptx_lines = _ptx(chosen)

    def step(key: str, op: str, place: Lines = (), fx: Lines = ()) -> Step:
        triton = tuple(sorted(lines.get(key, ())))
        instructions = {n for line in triton for n in ptx_lines[line]}
        return Step(op, place, fx, triton, tuple(sorted(instructions)))

    steps = [step(key, key) for key in lines if key.startswith("load ")]
    for number, (node, trace) in enumerate(zip(shown, traces, strict=True), 1):
        place = (program.index(trace) + 1,) if trace else ()
        steps.append(step(node.name, _op(node), place, (number,)))
    writes = "store ", "atomic_add "
    steps += [step(key, key) for key in lines if key.startswith(writes)]
    return Stages(
        gpu=chosen.gpu,
        kernel=chosen.name,
        others=tuple(k.name for k in dump.kernels if k is not chosen),
        program="\n".join(program),
        fx="\n".join(map(_call, shown)),
        triton=chosen.source,
        ptx=ptx,
        steps=tuple(steps),
    )


# --- following values from the graph through the kernels ------------------------------


def _nodes(graph: LoweredGraph, kernel: str) -> list[Node]:
    """Return the nodes behind a kernel: Inductor names them in comments above it."""
    known = {node.name: node for node in graph.final.nodes}
    above = rf"((?:^#.*\n)+){kernel} = async_compile\.triton\("
    [comments] = re.findall(above, graph.source, re.M)
    names = re.findall(r"^#   %(\w+) : .*call_function", comments, re.M)
    return [known[name] for name in names]


def _op(node: Node) -> str:
    """Return ``sin`` for ``aten.sin.default``."""
    return node.target.__name__.split(".")[0]


def _call(node: Node) -> str:
    """Return a node as its text: ``add = add(mul, 1)``."""
    options = (f"{name}: {value}" for name, value in node.kwargs.items())
    return f"{node.name} = {_op(node)}({', '.join([*map(str, node.args), *options])})"


# What Triton and Python's syntax call an operation of aten.
_ATEN = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "div", "USub": "neg",
    "Gt": "gt", "Lt": "lt", "GtE": "ge", "LtE": "le", "Eq": "eq", "NotEq": "ne",
    "max2": "amax", "min2": "amin", "sqrt_rn": "sqrt", "div_rn": "div",
}  # fmt: skip
# A reduction, by how a loop adds to what it has so far.
_RUNNING = {"add": "sum", "maximum": "amax", "minimum": "amin"}
# The same values in another form: of a node, and as Triton prints it.
_SAME = {"convert_element_type", "view", "reshape", "_unsafe_view", "squeeze", "clone"}
_SAME |= {"unsqueeze", "expand", "permute", "alias", "detach", "select", "slice"}
_PASSED_ON = {"to", "broadcast_to", "reshape", "expand_dims"}

# What an expression is known to be: the node whose value it has, or a number.
Value = str | float | None


def _printed(op: str, *arguments: Value) -> tuple[Value, ...]:
    """Return an operation of aten in the form in which Inductor prints it."""
    match op, *arguments:
        case "pow", x, 2.0:
            return "mul", x, x
        case "reciprocal", x:
            return "div", 1.0, x
        case "relu", x:
            return "maximum", 0.0, x
        case "clamp_min", x, number:
            return "maximum", number, x
        case "clamp_max", x, number:
            return "minimum", number, x
        case "convert_element_type", x, *_:
            return "to", x
        case (("sum" | "amax" | "amin"), x, *_):  # and dimensions, written in many ways
            return op, x
    return op, *arguments


class Flow:
    """Follows values through the kernels of one graph.

    *buffers* holds what each buffer of the generated module is known to be: at first
    the graph's inputs.
    """

    def __init__(self, graph: Graph) -> None:
        self.buffers: dict[str, Value] = {}
        # By the operation, as printed; None where it may be one of several.
        self.nodes: dict[tuple[Value, ...], str | None] = {}
        same: dict[str, Value] = {}  # what a node has that changes no value
        firsts: dict[tuple[Value, ...], Node] = {}
        for node in graph.nodes:
            if node.op == "placeholder":
                self.buffers[node.name] = node.name
            if node.op != "call_function":
                continue
            arguments = [a if isinstance(a, int | float) else str(a) for a in node.args]
            arguments = [same.get(a, a) for a in arguments]
            if _op(node) in _SAME:
                same[node.name] = arguments[0]
            op, *values = _printed(_op(node), *arguments)
            forms = {(op, *values)}
            if op in ("add", "mul", "maximum", "minimum"):  # in any order
                forms.add((op, *values[::-1]))
            for form in forms:  # the same of two parts of a tensor looks alike
                first = firsts.setdefault(form, node)
                self.nodes[form] = first.name if first.args == node.args else None

    def follow(self, kernel: DumpedKernel) -> dict[str, set[int]]:
        """Return the lines of each node, and of ``load X`` and ``store X``, from 1."""
        function = ast.parse(kernel.source).body[-1]
        names = [a.arg for a in function.args.args if a.annotation is None]
        self.pointers = dict(zip(names, kernel.arguments, strict=False))
        self.values: dict[str, Value] = {}
        lines: dict[str, set[int]] = defaultdict(set)
        kinds = (ast.Assign, ast.Expr)
        statements = [n for n in ast.walk(function) if isinstance(n, kinds)]
        for statement in sorted(statements, key=lambda n: n.lineno):
            self.computed: list[str] = []  # by this statement
            value = self._value(statement.value)
            if isinstance(statement, ast.Assign):
                self.values[ast.unparse(statement.targets[0])] = value
            for name in self.computed:
                lines[name].update(range(statement.lineno, statement.end_lineno + 1))
        return dict(lines)

    def _value(self, node: ast.expr) -> Value:
        """Return what an expression is; note the nodes that it computes."""
        match node:
            case ast.Constant(value=int() | float() as number):
                return float(number)
            case ast.Name(id=name):
                return self.values.get(name)
            case ast.Subscript(value=inner):
                return self._value(inner)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=number)):
                return -float(number)
            case ast.UnaryOp(op=kind, operand=inner):
                return self._operation(type(kind).__name__, [inner])
            case (
                ast.BinOp(left=left, op=kind, right=right)
                | ast.Compare(left=left, ops=[kind], comparators=[right])
            ):
                return self._operation(type(kind).__name__, [left, right])
            case ast.Call(func=ast.Attribute(value=inner, attr="to")):
                return self._operation("to", [inner])
            case ast.Call(args=[_, number, *_]) if called(node) == "full":
                return self._value(number)
            case ast.Call(args=operands):
                # An attribute is a setting, such as tl.PropagateNan.ALL.
                values = [o for o in operands if not isinstance(o, ast.Attribute)]
                return self._operation(called(node), values)

    def _operation(self, op: str, operands: list[ast.expr]) -> Value:
        if op in ("load", "store", "atomic_add"):
            names = {n.id for n in ast.walk(operands[0]) if isinstance(n, ast.Name)}
            buffer = next((b for name, b in self.pointers.items() if name in names), "")
            if op != "load":
                self.buffers[buffer] = self._value(operands[1])
            value = self.buffers.get(buffer)
            if isinstance(value, str):
                self.computed.append(f"{op} {value}")
            return value
        op = _ATEN.get(op, op)
        # What a loop has so far has a name that begins so.
        added = [x for x in operands if not getattr(x, "id", "").startswith("_tmp")]
        running = op in _RUNNING and len(added) < len(operands)
        if running:
            op, operands = _RUNNING[op], added
        values = [self._value(operand) for operand in operands]
        computed = self.nodes.get(_printed(op, *values))
        if computed:
            self.computed.append(computed)
        if running or op in _PASSED_ON:
            return values[0]
        if op == "where" and values[0] is None:  # a mask says nothing of the value
            return values[1]
        return computed


# --- PTX ------------------------------------------------------------------------------

_PLACE = re.compile(r"^\s*\.loc\s.*<generated kernel>:(\d+)(?!.*<generated kernel>)")


def _ptx(kernel: DumpedKernel) -> tuple[str, dict[int, list[int]]]:
    """Return PTX without debug information, and its lines by line of the Triton text.

    Compiled is the text that is shown, in the place of the one that Inductor wrote.
    """
    before = kernel.module.count("\n") - kernel.source.count("\n")
    gpu = gpus.find(kernel.gpu)
    code = compile_kernel(kernel.module, gpu, kernel.chosen, lines=True)
    shown, places, line = [], defaultdict(list), 0
    for text in code.ptx.split("\t.file\t")[0].splitlines():
        if place := _PLACE.match(text):
            line = int(place[1]) - before
        text = re.sub(r"\s*//.*", "", text)
        if not text.strip() or re.match(r"\s*\.loc|\$L__(tmp|func)", text):
            continue
        shown.append(text.expandtabs(4))
        if line > 0 and re.match(r"\s+(@!?%\w+ )?[a-z][\w.]*\b.*;", text):
            places[line].append(len(shown))
    return "\n".join(shown) + "\n", places


# --- what is shown --------------------------------------------------------------------

_COLUMNS = {"program": "program", "fx": "FX graph", "triton": "Triton", "ptx": "PTX"}
# Okabe & Ito, Color Universal Design, 2008, without black; a number goes with each.
_COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
# All columns fit the page: lines go on below, and a column scrolls by itself.
_TABLE = "table-layout:fixed;width:100%;min-width:70em"
_BOX = "max-height:48em;overflow-y:auto;white-space:pre-wrap;overflow-wrap:anywhere;"
_BOX += "text-align:left;font:12px/1.5 var(--jp-code-font-family,monospace)"


@dataclass(frozen=True)
class Step:
    """One operation, and the lines it became, counted from 1 in each text of Stages."""

    op: str
    program: Lines
    fx: Lines
    triton: Lines
    ptx: Lines


@dataclass(frozen=True, repr=False)
class Stages(TableResult):
    """A kernel at every stage: the whole texts, and a step for each operation.

    *program* has the lines that the operations come from, each with its number in its
    file or cell; *others* are the program's kernels that are not shown.
    """

    gpu: str
    kernel: str
    others: tuple[str, ...]
    program: str
    fx: str
    triton: str
    ptx: str
    steps: tuple[Step, ...]

    def table(self) -> Table:
        """Return a row for each operation; the PTX depends on the compiler."""
        rows = []
        for step in self.steps:
            texts = [
                _shortened(getattr(self, name), getattr(step, name))
                for name in ("program", "fx", "triton")
            ]
            rows.append((step.op, *texts, mark(self._counted(step.ptx))))
        return Table.of(("op", "program", "FX graph", "Triton", "PTX"), rows)

    def _counted(self, numbers: Sequence[int]) -> str:
        """Return how many instructions of which kind there are, memory first."""
        lines = self.ptx.splitlines()
        words = [re.sub(r"^@\S+ ", "", lines[n - 1].strip()).split() for n in numbers]
        ops = Counter(word.rstrip(";") for word, *_ in words)
        memory = ("ld.global", "st.global")
        order = sorted(ops, key=lambda op: (not op.startswith(memory), -ops[op]))
        shown = [f"{ops[op]} {op}" for op in order[:3]]
        if len(ops) > 3:
            shown.append("…")
        return ", ".join(shown) or NONE

    def _last(self) -> str:
        more = f"; not shown: {', '.join(self.others)}" if self.others else ""
        return f"{gpus.find(self.gpu).title}: {self.kernel}{more}"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{title}</th>" for title in _COLUMNS.values())
        body = "".join(f"<td>{self._column(name)}</td>" for name in _COLUMNS)
        table = f'<table style="{_TABLE}"><tr>{head}</tr>'
        table += f'<tr style="vertical-align:top">{body}</tr></table>'
        return f'<div style="overflow-x:auto">{table}</div>{pre(self._last())}'

    def _column(self, name: str) -> str:
        """Return one text as HTML; lines have their step's number and colour."""
        numbers = defaultdict(list)  # of the steps, by line
        for number, step in enumerate(self.steps):
            for line in getattr(step, name):
                numbers[line].append(number)
        rows = []
        for place, line in enumerate(getattr(self, name).splitlines(), 1):
            look = tags = ""
            if of := numbers[place]:
                # A light tint behind black letters, and the colour itself at the edge.
                colour = _COLOURS[of[0] % len(_COLOURS)]
                look = f"border-left:6px solid {colour};background:{colour}44"
                tags = f"<b>[{', '.join(str(number + 1) for number in of)}]</b> "
            line = re.sub(r"^ +", lambda m: m[0][::4], line)  # room is scarce
            rows.append(f'<div style="{look}">{tags}{html.escape(line)}&nbsp;</div>')
        return f'<div style="{_BOX}">{"".join(rows)}</div>'


def _shortened(text: str, numbers: Lines) -> str:
    """Return the first of these lines, short enough for a cell."""
    if not numbers:
        return NONE
    line = text.splitlines()[numbers[0] - 1].strip()
    return f"{line[:47]}…" if len(line) > 48 else line
