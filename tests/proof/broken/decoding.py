"""Faults of text made token by token: the cache that is written, and its position."""

from __future__ import annotations

from typing import Any

from tests.proof.broken import around, fault, shared
from tests.proof.broken.dynamo import OPTIMIZE, optimize_with


@fault("a write into the cache is lost", "torch._dynamo.output_graph", "29")
def write_elsewhere(output_graph: Any) -> None:
    """A row goes into a copy of the cache: the text goes on, and means nothing."""

    @around(output_graph.OutputGraph, "call_user_compiler")
    def call_user_compiler(send, self, module, *rest):
        for node in module.graph.find_nodes(op="call_method", target="index_copy_"):
            node.target = "index_copy"
        module.recompile()
        return send(self, module, *rest)


@shared("a position is not guarded", OPTIMIZE, "29 13")
def drop_number_guards(dynamo: Any) -> None:
    """Each token is written to the place that was compiled for an earlier one."""

    def keep(guards: Any) -> list[bool]:
        return [type(guard.value) is not int for guard in guards]

    optimize_with(dynamo, guard_filter_fn=keep)
