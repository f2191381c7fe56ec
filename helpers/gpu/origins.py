"""Which node of the graph each value of a Triton kernel comes from.

Inductor says it for a whole kernel.  A node's loop is a function that is called where
the loop is fused, so what is written while that function runs comes from that node.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from .._torch import needed_for
from ..codegen import program_line

with needed_for("which node a kernel's line comes from"):
    from torch._inductor import ir
    from torch._inductor.codegen.common import CSE
    from torch._inductor.codegen.triton import TritonScheduling
    from torch._inductor.loop_body import LightTracer
    from torch._inductor.virtualized import V

_MADE_BY = "made_by"


@dataclass(frozen=True)
class Origins:
    """The graph's nodes that ended in a kernel, and those behind each of its values."""

    nodes: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By name: the node as text, and the line of the program that it comes from."""
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By the name of a value, such as ``tmp4``: the names of nodes.  Under "": the
    node that a template computes, which lines without such a value come from.
    """


@contextlib.contextmanager
def noted() -> Iterator[dict[str, Origins]]:
    """Yield the `Origins` of each kernel that is written in the block, by its name."""
    found: dict[str, Origins] = {}
    running: list[Any] = []  # the nodes whose loops run, the innermost last
    begin, newvar = ir.Loops.__post_init__, CSE.newvar
    create_node, define_kernel = LightTracer.create_node, TritonScheduling.define_kernel

    def begin_loop(self: Any) -> None:
        begin(self)
        if (node := V.graph.current_node) is None:
            return
        loop = self.inner_fn

        def inner_fn(*index: Any) -> Any:
            running.append(node)
            try:
                return loop(*index)
            finally:
                running.pop()

        object.__setattr__(self, "inner_fn", inner_fn)
        object.__setattr__(self, _MADE_BY, node)

    def traced(self: Any, *args: Any, **kwargs: Any) -> Any:
        node = create_node(self, *args, **kwargs)
        node.meta[_MADE_BY] = running[-1] if running else _copied_from()
        return node

    def new_value(self: Any, *args: Any, **kwargs: Any) -> Any:
        value = newvar(self, *args, **kwargs)
        if (node := _copied_from() or _owner()) is not None:
            vars(V.kernel).setdefault(_MADE_BY, {})[value.name] = node
        return value

    def defined(self: Any, source: Any, schedule: Any, kernel: Any, *rest: Any) -> str:
        name = define_kernel(self, source, schedule, kernel, *rest)
        parts = getattr(kernel, "sub_kernels", [kernel])
        values = {v: n for k in parts for v, n in vars(k).get(_MADE_BY, {}).items()}
        _add(found.setdefault(name, Origins()), schedule, values)
        return name

    patch = mock.patch.object
    with (
        patch(ir.Loops, "__post_init__", begin_loop),
        patch(LightTracer, "create_node", traced),
        patch(CSE, "newvar", new_value),
        patch(TritonScheduling, "define_kernel", defined),
    ):
        yield found


def _copied_from() -> Any:
    """Return the node behind the operation that a loop's own graph is at."""
    current = getattr(V.interpreter, "current_node", None)
    return None if current is None else current.meta.get(_MADE_BY)


def _owner() -> Any:
    """Return the node whose reduction is written, outside of its loop."""
    current = getattr(V.kernel, "current_node", None)
    return getattr(
        getattr(getattr(current, "node", None), "data", None), _MADE_BY, None
    )


def _add(origins: Origins, schedule: Any, values: dict[str, Any]) -> None:
    for part in schedule:
        if (node := getattr(part, "node", None)) is not None:
            for each in node.get_origins():
                _node(origins, each)
            if isinstance(node, ir.TemplateBuffer) and node.get_origin_node():
                values[""] = node.get_origin_node()
    for value, node in values.items():
        _node(origins, node)
        before = origins.values.get(value, ())
        origins.values[value] = tuple(dict.fromkeys((*before, node.name)))


def _node(origins: Origins, node: Any) -> None:
    if node.op == "call_function":
        text = f"{node.name} = {node.target}({', '.join(map(str, node.args))})"
        origins.nodes[node.name] = text, _line(node)


def _line(node: Any, steps: int = 3) -> str:
    """Return the program's line behind a node, or behind one that uses it."""
    users = (_line(user, steps - 1) for user in node.users if steps)
    return program_line(node) or next(filter(None, users), "")
