"""Pieces of captured graphs, and the program that shows the difference of one.

A piece is compiled while the rest runs eagerly, so that a search keeps the whole
program, with its calls, its backward and its judge, and asks of ever smaller pieces
whether they make it wrong.  The program has a few lines and one assertion.  It is
written from a piece, or calls the user's own ``make``, and it is run in its own process
before you get it.
"""

from __future__ import annotations

import ast
import inspect
import math
import operator
import re
import textwrap
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import fx

from . import sandbox
from .helpers._torch import needed_for
from .helpers.differences import Difference
from .helpers.tensors import clone, tensors, with_gaps
from .model import Model

with needed_for("the part of a graph that is wrong"):
    from torch._dynamo import lookup_backend
    from torch._functorch import config as functorch_config

# ------------------------------------------------------------------ pieces of a graph


@dataclass(frozen=True)
class Piece:
    """Operations *start* up to *stop* of one graph, counted from 0 as compiled."""

    graph: int
    start: int
    stop: int


@dataclass
class Captured:
    """A graph that Dynamo captured, or a piece of one, and what its runs were given."""

    module: fx.GraphModule
    runs: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def body(self) -> list[fx.Node]:
        """Its operations, in order."""
        return body(self.module.graph)

    @property
    def dynamic(self) -> bool:
        """Whether a size is a symbol in it."""
        values = [n.meta.get("example_value") for n in self.module.graph.nodes]
        sizes = [n for v in values if isinstance(v, torch.Tensor) for n in v.shape]
        return any(isinstance(one, torch.SymInt) for one in (*values, *sizes))


def body(graph: fx.Graph) -> list[fx.Node]:
    """Return the nodes of a graph that stand between its inputs and its output."""
    return [n for n in graph.nodes if n.op not in ("placeholder", "output")]


def cuts(graph: fx.Graph) -> list[int]:
    """Return before which operations a graph may be cut, from 0 to their number.

    Only tensors and numbers can go from piece to piece, and each piece begins and ends
    in the mode of the whole, such as autocast.
    """
    nodes, places, level = body(graph), list[int](), 0
    place = {node: i for i, node in enumerate(nodes)}
    open_until = -1  # so far, what cannot be handed over is still used
    now = grad = torch.is_grad_enabled()
    for i, node in enumerate(nodes):
        if i > open_until and not level and now == grad:
            places.append(i)
        value = node.meta.get("example_value")
        if node.op != "get_attr" and not isinstance(value, torch.Tensor | torch.SymInt):
            users = (place.get(user, len(nodes)) for user in node.users)
            open_until = max(open_until, *users, -1)
        name = getattr(node.target, "__name__", str(node.target))
        if re.match(r"_?(enter|push)_", name):
            level += 1
        elif re.match(r"_?(exit|pop)_", name):
            level -= 1
        elif name == "_set_grad_enabled":
            now = node.args[0]
    return [*places, len(nodes)]


def cut_out(graph: fx.Graph, start: int, stop: int) -> tuple[Any, ...]:
    """Return a module of some operations, the nodes it is given, and those it gives."""
    inside = {*body(graph)[start:stop]}

    def is_size(node: fx.Node) -> bool:
        known = node.meta.get("example_value")
        return node.op == "placeholder" and isinstance(known, torch.SymInt)

    others = [n for n in graph.nodes if n not in inside and n.op != "get_attr"]
    given = [n for n in others if is_size(n) or not inside.isdisjoint(n.users)]
    piece, twin = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in given:
        twin[node] = piece.placeholder(plain_name(node))
        twin[node].target, twin[node].meta = twin[node].name, dict(node.meta)
    gives = []
    for node in body(graph):
        if node.op == "get_attr":
            wanted = not inside.isdisjoint(node.users)
        elif wanted := node in inside:
            gives += [node] * (not inside.issuperset(node.users))
        if wanted:
            twin[node] = piece.node_copy(node, twin.__getitem__)
    piece.output(tuple(twin[node] for node in gives))
    return fx.GraphModule(graph.owning_module, piece), given, gives


def plain_name(node: fx.Node) -> str:
    """Return a short name for an input, such as ``weight``."""
    source = getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", "") if node.op == "placeholder" else node.name
    words = re.findall(r"[A-Za-z_]\w*", name)
    return words[-1].strip("_") or "x" if words else node.name


class OnePiece:
    """A backend that gives one piece to *stage*, and runs all else eagerly.

    *stage* is a name of a backend.  What it captured is in `graphs`; what the piece was
    given, if *keep*, in `piece`.
    """

    def __init__(
        self, stage: str, piece: Piece | None = None, keep: bool = False
    ) -> None:
        self.stage, self.chosen = lookup_backend(stage), piece
        self.keep, self.graphs = keep, list[Captured]()
        self.piece: Captured | None = None

    def __call__(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable:
        number, chosen = len(self.graphs), self.chosen
        self.graphs.append(Captured(graph))
        if chosen is None or number != chosen.graph:
            return graph.forward
        count = len(body(graph.graph))
        if (chosen.start, chosen.stop) == (0, count) and not self.keep:
            return self.stage(graph, inputs)  # as it is: no output is added
        return self._partly(graph, inputs, chosen)

    def _partly(
        self, graph: fx.GraphModule, inputs: Sequence[Any], chosen: Piece
    ) -> Callable:
        """Return *graph* with a call in the place of the chosen piece."""
        module, given, gives = cut_out(graph.graph, chosen.start, chosen.stop)
        known = dict(zip(graph.graph.find_nodes(op="placeholder"), inputs, strict=True))
        examples = [_apart(known.get(n, n.meta.get("example_value"))) for n in given]
        self.piece = Captured(module)
        run = module.forward if self.keep else self.stage(module, examples)

        def call(*values: Any) -> Any:
            if self.keep:
                self.piece.runs.append(clone(tuple(map(_apart, values))))
            return run(*values)

        whole, twin = fx.Graph(), dict[fx.Node, fx.Node]()
        whole.output(whole.graph_copy(graph.graph, twin))
        inside = [twin[n] for n in body(graph.graph)[chosen.start : chosen.stop]]
        with whole.inserting_before(inside[0]):
            result = whole.call_function(call, tuple(twin[n] for n in given))
            for place, node in enumerate(gives):
                item = whole.call_function(operator.getitem, (result, place))
                twin[node].replace_all_uses_with(item)
        for node in reversed(inside):
            if not node.users:
                whole.erase_node(node)
        return fx.GraphModule(graph, whole).forward


def _apart(value: Any) -> Any:
    """Return a tensor as a leaf of autograd, in the memory that it has."""
    if not isinstance(value, torch.Tensor) or value.is_leaf:
        return value
    return value.detach().requires_grad_(value.requires_grad)


# ------------------------------------------------------------------------ the program

_SHORT = 16
"""So many numbers of a tensor are written out; longer ones are made from a seed."""
_MOST_SAVED = 256 << 20  # bytes of inputs: more are kept in no file
_BUILT_IN = ("aten", "prims", "higher_order", "prim", "rngprims", "quantized", "mkldnn")
BACKWARD = (  # of a loss in which each number has its own weight
    "leaves = torch.utils._pytree.tree_leaves(out)",
    "roots = [t for t in leaves if torch.is_tensor(t) and t.requires_grad]",
    "places = [torch.arange(t.numel()).view(t.shape) for t in roots]",
    "loss = sum((t * (n % 13 - 6)).sum() for t, n in zip(roots, places))",
    "loss.backward()",
)
_USUAL = 1e-4
"""Torch's own tolerance decides where one side is nearer than this, the other not."""
_COMPARED = {  # of each field, what must hold of both sides
    "dtype": "compiled.dtype == eager.dtype, (compiled.dtype, eager.dtype)",
    "shape": "compiled.shape == eager.shape, (compiled.shape, eager.shape)",
    "requires_grad": "compiled.requires_grad == eager.requires_grad",
    "stride": "compiled.stride() == eager.stride()",
    "missing": "(compiled is None) == (eager is None)",
    "extra": "(compiled is None) == (eager is None)",
    "type": "type(compiled) is type(eager), (type(compiled), type(eager))",
    "identity": "compiled == eager, (compiled, eager)",
    "alias": "compiled == eager, (compiled, eager)",
    "sign of zero": "compiled.signbit().equal(eager.signbit())",
}
_DRAWS = re.compile(r"rand|dropout|bernoulli|multinomial|normal_|uniform|exponential")
_NAME, _DATA = "repro.py", "repro.pt"


@dataclass(frozen=True)
class Repro:
    """A program that shows a difference: what stands before its check, and the check.

    *saved* are inputs in a file next to it.
    """

    setup: str
    check: str
    raises: str = ""
    ends: str = ""
    saved: dict[str, torch.Tensor] | None = None
    control: str = ""

    @property
    def source(self) -> str:
        """The text of ``repro.py``."""
        return f"{self.setup}\n\n{self.check}\n"

    @property
    def lines(self) -> int:
        """How many lines it has, without those that make inputs, and empty ones."""
        text = re.sub(r"def inputs\(\):\n(?: .*\n|\n)*", "", self.source)
        return sum(bool(line.strip()) for line in text.splitlines())

    def write(self, folder: Path) -> None:
        """Write it, and what it loads, to a folder."""
        (folder / _NAME).write_text(self.source, "utf-8")
        (folder / _DATA).unlink(missing_ok=True)
        if self.saved:
            torch.save(self.saved, folder / _DATA)

    def fails(
        self,
        folder: Path,
        timeout: float,
        path: Sequence[str] = (),
        memory: int | None = None,
    ) -> bool:
        """Write it and run it; return whether it fails, and for this difference.

        Where the difference is that its process ends, or has no end, so must this one.
        With eager on both sides it has to pass.  It may have *memory* bytes.  Raises
        TimeoutError after *timeout* seconds, in any other case.
        """
        limits = {"timeout": max(timeout, 0.1), "memory": memory}
        self.write(folder)
        end = sandbox.ended(_NAME, folder=folder, path=path, **limits)
        return self._ended_so(end) and self.passes(folder, path, **limits)

    def passes(self, folder: Path, path: Sequence[str] = (), **limits: Any) -> bool:
        """Return whether it passes where both sides run eagerly."""
        if not self.control:
            return True
        replace(self, check=self.control).write(folder)
        end = sandbox.ended(_NAME, folder=folder, path=path, **limits)
        self.write(folder)
        return end.how == "status 0"

    def _ended_so(self, end: sandbox.End) -> bool:
        """Return whether a process ended as the difference says."""
        if self.ends:
            return end.how == self.ends
        if end.how == "time":
            raise TimeoutError
        expected = self.raises.split(":")[0] or "AssertionError"
        return end.how == "raised" and bool(
            re.search(rf"^(?:[\w.]+\.)?{re.escape(expected)}\b", end.says, re.M)
        )


@dataclass(frozen=True)
class Check:
    """An expression that shows a difference, and the assertion that fails for it.

    *found* is an expression of the names that the program has: ``out``, ``given``.
    *assertion* is a line, *raises* names the exception that is the difference, and
    *ends* says how it ends its process (`sandbox.End`), if it does.
    """

    found: str
    assertion: str = ""
    train: bool = False
    raises: str = ""
    ends: str = ""


def check_of_piece(
    found: Difference, module: fx.GraphModule, train: bool
) -> Check | None:
    """Return the check for a difference of a piece; None where there is none."""
    names = _names(module)
    place, gradient = found.place, found.place.startswith("gradient")
    if found.field in ("raises", "exception"):
        return _of_error(found, train and place == "the backward")
    if place.startswith("output"):
        return check_of(found, "out" + place.removeprefix("output"), train=False)
    match = re.match(r"(?:gradient of )?(?:input )?(\w+)", place)
    number = match[1] if match else ""
    number = names.index(number) if number in names else number
    if not str(number).isdigit():
        return None
    return check_of(found, f"given[{number}]" + ".grad" * gradient, train=gradient)


def _of_error(found: Difference, train: bool = False) -> Check:
    """Return the check for an exception: that of compiled code, if it raises."""
    if found.eager == "runs":
        left = re.match(r"SystemExit: (\d+)", found.compiled)
        ends = f"status {left[1]}" if left else found.ended
        return Check("out", train=train, raises=found.compiled, ends=ends)
    return Check("", "assert compiled == eager, (compiled, eager)", train)


def check_of(found: Difference, expression: str, train: bool) -> Check | None:
    """Return the check for *found* in an expression; None for an unknown field."""
    memory = "untyped_storage().data_ptr()"
    many = "[{} for one in (*given, *out){}]"
    if found.field == "identity":
        expression = many.format(f"one is {expression}", "")
    elif found.field == "alias":
        same = f"one.{memory} == {expression}.{memory}"
        expression = many.format(same, " if torch.is_tensor(one)")
    if found.field in ("values", "nan/inf"):
        return Check(expression, _close(found), train)
    compared = _COMPARED.get(found.field)
    return Check(expression, f"assert {compared}", train) if compared else None


def _close(found: Difference) -> str:
    """Return torch's own assertion on values, or a tighter one for small ones."""
    usual = "torch.testing.assert_close(compiled, eager, equal_nan=True)"
    eager, compiled = found.off_eager, found.off_compiled
    if eager is None or compiled is None or 4 * eager < _USUAL < compiled / 4:
        return usual
    limit = max(4 * eager, compiled / 4)
    tighter = f"{usual[:-1]}, rtol=0, atol={limit:.1g})"
    return tighter if limit < compiled else usual


def check_of_model(found: Difference, m: Model) -> Check | None:
    """Return the check for a difference of the user's model; None if there is none."""
    if found.field in ("raises", "exception"):
        return _of_error(found)
    expression = _in_model(found.place, m)
    check = check_of(found, expression, False) if expression else None
    return None if check and "given" in check.found else check


def _in_model(place: str, m: Model) -> str:
    """Return the expression for a place of the user's model or its inputs; or ''."""
    if place.startswith("output"):
        return "out" + place.removeprefix("output")
    if match := re.fullmatch(r"(gradient of )?input (\w+)(?: after the call)?", place):
        names = [*inspect.signature(getattr(m.fn, "forward", m.fn)).parameters]
        names = names[: len(m.calls[0][0])]
        key = names.index(match[2]) if match[2] in names else f'"{match[2]}"'
        return f"call[{key}]" + ".grad" * bool(match[1])
    owned = r"(gradient of|parameter|buffer) (\S+)(?: after the call)?"
    if match := re.fullmatch(owned, place):
        kind = "buffer" if match[1] == "buffer" else "parameter"
        end = ".grad" * match[1].startswith("gradient")
        return f'fn.get_{kind}("{match[2]}"){end}'
    return ""


def beside(target: str) -> list[str]:
    """Return the lines that import, and let a program find the module of *target*.

    It is run where the check-up was: no folder of this machine is written into it.
    """
    file, folder = Path(target.rpartition(":")[0]), Path()
    with suppress(ValueError):
        folder = file.parent.relative_to(Path.cwd())
    here = f"sys.path.append({folder.as_posix()!r})  # from where it is run"
    return ["import sys", "", "import torch", "", here]


def of_piece(
    module: fx.GraphModule,
    given: Sequence[Any],
    check: Check,
    compiling: str,
    exact: bool,
    target: str = "",
    settings: Sequence[str] = (),
) -> Repro:
    """Return the program of a piece of a graph, which is called with *given*.

    *compiling* is how it is compiled: ``torch.compile(f)``.  With *exact*, inputs have
    the values that they had, those that are long in a file; else these come from a
    seed.  *target* is the user's, whose module may register operators.  *settings* are
    the lines of those that its module left (`settings`).
    """
    names = _names(module)
    heads, functions = _code(module, target)
    draws = bool(_DRAWS.search("\n".join(functions)))
    making, saved = _inputs(names, given, exact)
    backward = BACKWARD if check.train and check.found else ()
    call = *["torch.manual_seed(0)"] * draws, "out = fn(*given)", *backward
    lines = textwrap.indent("\n".join(making), "    ")
    begin = "\n".join([*heads, *_set_so(settings, draws), "", "", *functions])
    setup = f"""{begin}
def inputs():
{lines}
    return ({", ".join(names)}{"," * (len(names) == 1)})


def seen(fn):
    given = inputs()
{_guarded(call, check)}
"""
    return _program(setup, check, ("f", compiling), saved)


def of_make(
    target: str,
    call: Sequence[str],
    check: Check,
    how: str,
    source: str = "",
    draws: bool = False,
    eager: str = "fn",
) -> Repro:
    """Return the program that calls the user's own *target*.

    *call* has the lines that call ``run``; *how* is what compiles ``fn``, and *eager*
    what runs it eagerly.  The program has the *source* of the target's file, or else
    imports it.  *draws*: it draws random numbers, the same on both sides.
    """
    name = target.rpartition(":")[2]
    begin = [*beside(target), importing(target, name)]
    if source:
        begin = [source.rstrip(), *["import torch"] * ("torch" not in source)]
    if draws:
        line = "torch._inductor.config.fallback_random = True"
        begin += ["import torch._inductor.config", "", line]
    begin = "\n".join(begin)
    setup = f"""{begin}


def seen(compiled):
    torch.manual_seed(0)
    fn, given, *loss = {name}()
    run = {how} if compiled else {eager}
{_guarded(call, check)}
"""
    return _program(setup, check, ("False", "True"))


def _guarded(lines: Sequence[str], check: Check) -> str:
    if check.found:
        return textwrap.indent("\n".join([*lines, f"return {check.found}"]), "    ")
    tried = textwrap.indent("\n".join(lines), "    ")
    handled = "except Exception as error:\n    return type(error).__name__"
    return textwrap.indent(f"try:\n{tried}\n{handled}", "    ")


def _program(
    setup: str,
    check: Check,
    sides: tuple[str, str],
    saved: dict[str, torch.Tensor] | None = None,
) -> Repro:
    """Return the program whose ``seen`` looks at both *sides*."""
    eager, compiled = (f"seen({side})" for side in sides)

    def shows(second: str, why: str = "") -> str:
        if check.raises:
            return f"{eager}\n{second}{why}"
        return f"eager, compiled = {eager}, {second}\n{check.assertion}"

    both = shows(compiled, f"  # {check.raises}"), shows(eager)
    how = check.raises, check.ends, saved
    return Repro(setup, both[0], *how, control=both[1])


def as_test(repro: Repro, name: str) -> str:
    """Return the same as a test of pytest."""
    words = "_".join(re.findall(r"[a-z0-9]+", name.lower()))
    check = textwrap.indent(repro.check, "    ")
    return f"{repro.setup}\n\ndef test_{words}():\n{check}\n"


_RANDOM = re.compile("fallback_random|use_numpy_random_stream")
_CONFIGS = torch._dynamo.config, torch._inductor.config, functorch_config


def settings() -> list[str]:
    """Return the lines that set what torch's compiler has not by default."""
    lines = [line for one in _CONFIGS for line in one.codegen_config().splitlines()]
    return [line for line in lines if "<" not in line]  # what has no name of its own


_AT_IMPORT = settings()


def _set_so(settings: Sequence[str], draws: bool) -> list[str]:
    """Return the lines that set what is not as it was when this was imported.

    What only says which random numbers are drawn, counts where a program *draws* some.
    """
    lines = [one for one in settings if one not in _AT_IMPORT]
    lines = [one for one in lines if draws or not _RANDOM.search(one)]
    homes = [one.__name__ for one in _CONFIGS]
    imports = [f"import {home}" for home in homes if home in "\n".join(lines)]
    return [*imports, "", *lines] if lines else []


def source_of(make: Callable[[], Any]) -> str:
    """Return the source of the file of *make*, without what only a script runs."""
    with suppress(OSError, TypeError, SyntaxError):
        lines = inspect.getsource(inspect.getmodule(make)).splitlines()
        for node in ast.parse("\n".join(lines)).body[::-1]:
            if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
                del lines[node.lineno - 1 : node.end_lineno]
        return "\n".join(lines)
    return ""


def importing(target: str, name: str = "") -> str:
    """Return the line that imports the module of *target*, or *name* from it."""
    home = target.rpartition(":")[0]
    module = Path(home).stem if home.endswith(".py") else home
    if home.endswith(".py") and not module.isidentifier():  # such as 01_train.py
        return f"{name or '_'} = __import__({module!r})" + f".{name}" * bool(name)
    return f"from {module} import {name}" if name else f"import {module}"


def _names(module: fx.GraphModule) -> list[str]:
    return [n.name for n in module.graph.find_nodes(op="placeholder")]


def _code(module: fx.GraphModule, target: str) -> tuple[list[str], list[str]]:
    """Return the lines that import, and a function ``f`` with its inner ones."""
    functions, heads = list[str](), list[str]()
    for name, inner in [*module.named_children(), ("f", module)]:
        if isinstance(inner, fx.GraphModule):
            written = inner.graph.python_code("self")
            heads += _imports(written.globals)
            functions += [*_function(name, inner, written.src), "", ""]
    text = "\n".join(functions)
    heads = [line for line in heads if re.search(rf"\b{line.split()[-1]}\b", text)]
    spaces = set(re.findall(r"torch\.ops\.(\w+)\.", text)) - {*_BUILT_IN}
    heads = [*dict.fromkeys(heads)]
    if spaces and target:
        registers = f"{importing(target)}  # it registers torch.ops.{min(spaces)}"
        return [*beside(target), *heads, registers], functions
    return ["import torch", *heads], functions


def _function(name: str, module: fx.GraphModule, source: str) -> list[str]:
    """Return the code of a graph as a function, without types and deletions."""
    inputs = module.graph.find_nodes(op="placeholder")
    renamed = {f"{n.name} = {n.target}" for n in inputs}
    lines = [f"def {name}({', '.join(_names(module))}):"]
    for line in source[source.index("def forward") :].splitlines()[1:]:
        line = re.sub(r";  (?:\w+ = )+None$", "", line)
        line = re.sub(r"^(\s*\w+) : [^=]+ = ", r"\1 = ", line)
        if line.strip() and line.strip() not in renamed:
            line = re.sub(r"\bself\.(\w+)", r"\1", line)
            lines.append(re.sub(r"(?<=[(,] )(\w+) = |(?<=\()(\w+) = ", r"\1\2=", line))
    return lines


def _imports(scope: dict[str, Any]) -> list[str]:
    """Return the imports of what a graph's code names besides torch."""
    lines = []
    for name, value in scope.items():
        home, own = getattr(value, "__module__", ""), getattr(value, "__name__", "")
        if name == "torch" or value is None or own == "NoneType":
            continue
        if isinstance(value, float):
            lines.append(f"from math import {name}")
        elif isinstance(value, types.ModuleType):
            lines.append(f"import {own} as {name}" if own != name else f"import {name}")
        elif home and own:
            lines.append(f"from {home} import {own}" + f" as {name}" * (own != name))
    return lines


def _inputs(
    names: Sequence[str], given: Sequence[Any], exact: bool
) -> tuple[list[str], dict[str, torch.Tensor] | None]:
    """Return the lines that make inputs, and those that must come from a file.

    Strides, offsets and shared memory are kept.  Raises ValueError for what cannot be
    written or saved.
    """
    lines, saved = list[str](), dict[str, torch.Tensor]()
    homes = dict[int, str]()  # the memory that several share
    places = [t.untyped_storage().data_ptr() for t in tensors(given) if t.numel()]
    for name, value in zip(names, given, strict=True):
        if not isinstance(value, torch.Tensor):
            lines.append(f"{name} = {value!r}")
            continue
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise ValueError(f"inputs of the type {type(value).__name__}")
        grad, value = ".requires_grad_()" * value.requires_grad, value.detach()
        shape, place = tuple(value.shape), value.untyped_storage().data_ptr()
        steps = f"{shape}, {value.stride()}"
        plain = value.is_contiguous() or not value.numel()
        made = _made(value.reshape(shape) if plain else with_gaps(value), exact)
        if not made:
            saved[name], made = value, f"saved[{name!r}]"
        elif places.count(place) > 1:
            if place not in homes:
                homes[place] = f"memory_of_{name}"
                whole = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage())
                lines.append(f"{homes[place]} = {_made(whole, exact=False)}")
            offset = value.storage_offset()
            made = f"{homes[place]}.as_strided({steps}, {offset})"
        elif not plain:
            made = f"{made}.as_strided({steps})"
        lines.append(f"{name} = {made}{grad}")
    if any("rand" in line for line in lines):
        lines.insert(0, "torch.manual_seed(0)")
    if saved:
        if sum(t.nbytes for t in saved.values()) > _MOST_SAVED:
            raise ValueError(f"inputs of more than {_MOST_SAVED >> 20} MiB")
        lines.insert(0, f"saved = torch.load({_DATA!r}, weights_only=True)")
    return lines, saved or None


def _made(value: torch.Tensor, exact: bool) -> str:
    """Return an expression for a tensor without gaps; '' if only a file could hold it.

    With *exact*, it has the same numbers.
    """
    n, dtype, shape = value.numel(), value.dtype, tuple(value.shape)
    typed = "" if dtype == torch.float32 else f", dtype={dtype}"
    if not n:
        return f"torch.empty({shape}{typed})"
    flat, real = value.flatten(), not dtype.is_complex
    if n > 1 and real and math.isfinite(flat[0].item()) and (flat == flat[0]).all():
        return f"torch.full({shape}, {flat[0].item()!r}{typed})"
    if n <= _SHORT and real:
        wide = value.double() if dtype.is_floating_point else value
        numbers = re.sub(r"\b(nan|inf)\b", r'float("\1")', repr(wide.tolist()))
        return f"torch.tensor({numbers}, dtype={dtype})"
    if exact:
        return ""
    if dtype == torch.bool:
        return f"(torch.rand({shape}) < 0.5)"
    if real and not dtype.is_floating_point:
        low, high = (int(one) for one in flat.long().aminmax())
        kind = "" if dtype == torch.int64 else typed
        return f"torch.randint({low}, {high + 1}, {shape}{kind})"
    positive = real and bool((flat.double() >= 0).all())
    return f"torch.{'rand' if positive else 'randn'}({shape}{typed})"
