"""Faults of text made token by token: the cache that is written, and its position."""

from __future__ import annotations

from typing import Any

from tests.proof.broken import around, fault, shared
from tests.proof.broken.dynamo import OPTIMIZE, optimize_with
from tests.proof.broken.probes import did


@fault(
    "a write into the cache is lost",
    "torch._dynamo.output_graph",
    "29",
    lambda: _written(),
)
def write_elsewhere(output_graph: Any) -> None:
    """A row goes into a copy of the cache: the text goes on, and means nothing."""

    @around(output_graph.OutputGraph, "call_user_compiler")
    def call_user_compiler(send, self, module, *rest):
        for node in module.graph.find_nodes(op="call_method", target="index_copy_"):
            node.target = "index_copy"
        module.recompile()
        return send(self, module, *rest)


def _written() -> float:
    import torch

    def write(rows: Any, at: Any) -> Any:
        rows.index_copy_(0, at, torch.ones(1, 4))
        return rows.sum()

    rows = torch.zeros(8, 4)
    torch.compile(write, backend="eager")(rows, torch.tensor([3]))
    return float(rows.sum())


@shared("a position is not guarded", OPTIMIZE, "29 13", lambda: _at())
def drop_number_guards(dynamo: Any) -> None:
    """Each token is written to the place that was compiled for an earlier one."""

    def keep(guards: Any) -> list[bool]:
        return [type(guard.value) is not int for guard in guards]

    optimize_with(dynamo, guard_filter_fn=keep)


def _at() -> list[str]:
    import torch

    calls = [(torch.zeros(8), n) for n in (3, 4, 5)]
    return did(lambda rows, at: rows[at] + 1, calls, dynamic=False)
