"""The graph that AOTAutograd makes of a function, kept for a look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.decomposition import select_decomp_table

from helpers.tensors import clone

Table = dict[Any, Callable[..., Any]]


def aten_graph(
    fn: Callable[..., Any], *inputs: Any, table: Table | None = None
) -> torch.fx.GraphModule:
    """Return the graph of *fn* without gradients, as Inductor would receive it.

    *table* holds the decompositions, by default Inductor's.  *fn* runs on copies, which
    share memory where the inputs do.
    """
    forwards: list[torch.fx.GraphModule] = []

    def keep(module: torch.fx.GraphModule, _: Any) -> Any:
        forwards.append(module)
        return make_boxed_func(module)

    backend = aot_autograd(
        fw_compiler=keep,
        decompositions=select_decomp_table() if table is None else table,
        keep_inference_input_mutations=True,  # as Inductor has it
    )
    torch.compiler.reset()  # this code may have been compiled before
    torch.compile(fn, backend=backend)(*clone(inputs))
    return forwards[-1]


def ops(module: torch.fx.GraphModule) -> list[str]:
    """Return the names of a graph's operations, without their overloads."""
    calls = [n for n in module.graph.nodes if n.op == "call_function"]
    return [n.target.__name__.split(".")[0] for n in calls]
