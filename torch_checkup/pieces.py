"""Pieces of the graphs that Dynamo captures: one is compiled, the rest runs eagerly.

So a search keeps the whole program, with its calls, its backward and its judge, and
asks of ever smaller pieces whether they are enough to make it wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from .helpers._torch import needed_for
from .helpers.tensors import clone

with needed_for("the part of a graph that is wrong"):
    from torch._dynamo import lookup_backend

_TORCH = torch.__file__.removesuffix("__init__.py")
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in .*\n(.*)')


@dataclass(frozen=True)
class Piece:
    """Operations *start* up to *stop* of one graph, counted from 0 as compiled.

    Of the graphs before it, all are compiled too where *after* says so.
    """

    graph: int
    start: int
    stop: int
    after: bool = False


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
        values = (n.meta.get("example_value") for n in self.module.graph.nodes)
        return any(_is_symbolic(value) for value in values)


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(n, torch.SymInt) for n in value.shape)
    return isinstance(value, torch.SymInt)


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
    last = {
        n: max((place.get(u, len(nodes)) for u in n.users), default=-1) for n in nodes
    }
    open_until = -1  # so far, what cannot be handed over is still used
    grad = torch.is_grad_enabled()
    now = grad
    for i, node in enumerate(nodes):
        if i > open_until and not level and now == grad:
            places.append(i)
        if node.op != "get_attr" and not _can_be_handed_over(node):
            open_until = max(open_until, last[node])
        name = getattr(node.target, "__name__", str(node.target))
        if re.match(r"_?(enter|push)_", name):
            level += 1
        elif re.match(r"_?(exit|pop)_", name):
            level -= 1
        elif name == "_set_grad_enabled":
            now = node.args[0]
    return [*places, len(nodes)]


def _can_be_handed_over(node: fx.Node) -> bool:
    value = node.meta.get("example_value")
    return isinstance(value, (torch.Tensor, torch.SymInt)) or not node.users


def cut_out(graph: fx.Graph, start: int, stop: int) -> tuple[Any, ...]:
    """Return a module of some operations, the nodes it is given, and those it gives."""
    inside = dict.fromkeys(body(graph)[start:stop])
    owner = graph.owning_module
    symbols = [
        node
        for node in graph.find_nodes(op="placeholder")
        if isinstance(node.meta.get("example_value"), torch.SymInt)
    ]
    used = dict.fromkeys(
        given
        for node in inside
        for given in node.all_input_nodes
        if given not in inside and given.op != "get_attr"
    )
    order = {node: i for i, node in enumerate(graph.nodes)}
    given = sorted(dict.fromkeys([*symbols, *used]), key=order.get)
    gives = [
        node
        for node in inside
        if node.op != "get_attr" and any(user not in inside for user in node.users)
    ]
    piece, twin = fx.Graph(), dict[fx.Node, fx.Node]()
    for node, name in zip(given, _unique(map(plain_name, given)), strict=True):
        twin[node] = piece.placeholder(name)
        twin[node].meta = dict(node.meta)
    for node in [n for n in graph.nodes if n in inside or n.op == "get_attr"]:
        if node.op != "get_attr" or any(user in inside for user in node.users):
            twin[node] = piece.node_copy(node, twin.__getitem__)
    piece.output(tuple(twin[node] for node in gives))
    return fx.GraphModule(owner, piece), given, gives


def plain_name(node: fx.Node) -> str:
    """Return a short name for an input, such as ``weight``."""
    source = getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", "") if node.op == "placeholder" else node.name
    words = re.findall(r"[A-Za-z_]\w*", str(name))
    return words[-1].strip("_") or "x" if words else node.name


def _unique(names: Iterable[str]) -> Iterator[str]:
    """Yield each name, with a number where it came before."""
    seen = Counter[str]()
    for name in names:
        seen[name] += 1
        yield f"{name}_{seen[name]}" if seen[name] > 1 else name


class OnePiece:
    """A backend that gives one piece to *stage*, and runs all else eagerly.

    *stage* is a name of a backend.  Without a piece, the first *whole* graphs are given
    to it.  What it captured is in `graphs`; what the piece was given, if *keep*, in
    `piece`.
    """

    def __init__(
        self, stage: str, piece: Piece | None = None, whole: int = 0, keep: bool = False
    ) -> None:
        self.stage, self.chosen, self.whole = lookup_backend(stage), piece, whole
        self.keep, self.graphs = keep, list[Captured]()
        self.piece: Captured | None = None

    def __call__(self, graph: fx.GraphModule, inputs: Sequence[Any]) -> Callable:
        number = len(self.graphs)
        self.graphs.append(Captured(graph))
        chosen = self.chosen
        before = chosen.graph if chosen and chosen.after else self.whole
        if number < before:
            return self.stage(graph, inputs)
        if chosen is None or number != chosen.graph:
            return graph.forward
        count = len(body(graph.graph))
        if (chosen.start, chosen.stop) == (0, count) and not self.keep:
            return self.stage(graph, inputs)  # as it is: no output is added
        return self._partly(graph, inputs, chosen)

    def _partly(
        self, graph: fx.GraphModule, inputs: Sequence[Any], chosen: Piece
    ) -> Callable:
        """Return *graph* with the chosen piece in the hands of the stage."""
        module, given, gives = cut_out(graph.graph, chosen.start, chosen.stop)
        known = dict(zip(graph.graph.find_nodes(op="placeholder"), inputs, strict=True))
        examples = [_apart(known.get(n, n.meta.get("example_value"))) for n in given]
        self.piece = Captured(module)
        run = module.forward if self.keep else self.stage(module, examples)

        def call(*values: Any) -> Any:
            if self.keep:
                self.piece.runs.append(clone(tuple(map(_apart, values))))
            return run(*values)

        return _with_call(graph, chosen, call, given, gives).forward


def _apart(value: Any) -> Any:
    """Return a tensor as a leaf of autograd, in the memory that it has."""
    if not isinstance(value, torch.Tensor) or value.is_leaf:
        return value
    return value.detach().requires_grad_(value.requires_grad)


def _with_call(
    graph: fx.GraphModule,
    chosen: Piece,
    call: Callable,
    given: list[fx.Node],
    gives: list[fx.Node],
) -> fx.GraphModule:
    """Return *graph* with a call in the place of a piece."""
    whole, twin = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in graph.graph.find_nodes(op="placeholder"):
        twin[node] = whole.node_copy(node)
    for i, node in enumerate(body(graph.graph)):
        if i == chosen.start:
            result = whole.call_function(call, tuple(twin[n] for n in given))
            for place, name in enumerate(gives):
                twin[name] = whole.call_function(_item, (result, place))
        if not chosen.start <= i < chosen.stop or node.op == "get_attr":
            twin[node] = whole.node_copy(node, twin.__getitem__)
    [end] = graph.graph.find_nodes(op="output")
    whole.node_copy(end, twin.__getitem__)
    return fx.GraphModule(graph, whole)


def _item(results: Sequence[Any], place: int) -> Any:
    return results[place]


def smallest(places: Sequence[int], wrong: Callable[[int], bool]) -> int:
    """Return the first of *places* that is wrong, where the last is known to be.

    What is wrong stays wrong behind it; the first place is taken for right.
    """
    low, high = 0, len(places) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if wrong(places[middle]) else (middle, high)
    return places[high]


def halved(places: Sequence[int], wrong: Callable[[int, int], bool]) -> Sequence[int]:
    """Return the places from begin to end of what is left of a piece that is wrong.

    A half that is wrong by itself is halved again, so that all of it costs little more
    than the first half.  What is left needs both of its halves.
    """
    while len(places) > 2:
        middle = len(places) // 2
        for half in (places[: middle + 1], places[middle:]):
            if wrong(half[0], half[-1]):
                places = half
                break
        else:
            break
    return places


def users_line(node: fx.Node) -> tuple[str, int, str]:
    """Return file, line and text of the user's innermost line behind a node."""
    for one in _lineage(node):
        frames = _FRAME.findall(one.meta.get("stack_trace") or "")
        own = [frame for frame in frames if not frame[0].startswith(_TORCH)]
        if own:
            file, line, text = own[-1]
            return file, int(line), text.strip()
    return "", 0, ""


def users_module(node: fx.Node) -> str:
    """Return the module that a node was called in, as ``self.head``, or ''."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [path for path, _ in stack.values()]
    if not paths:
        return ""
    path = re.sub(r"\._modules\['(\w+)'\]", r".\1", paths[-1])
    path = re.sub(r"^L\['(?:self|\w+)'\]", "self", path)
    return re.sub(r"\['?(\w+)'?\]", r"[\1]", path)


def _lineage(node: fx.Node) -> Iterator[fx.Node]:
    """Yield a node, and then those that use it: Dynamo notes no line for a method."""
    yield node
    yield from node.users
