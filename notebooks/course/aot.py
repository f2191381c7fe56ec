"""The graphs that AOTAutograd makes, kept for a look."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from functorch.compile import make_boxed_func
from functorch.compile import min_cut_rematerialization_partition as min_cut
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.decomposition import select_decomp_table

from helpers.tensors import clone

Table = dict[Any, Callable[..., Any]]


class Graphs(dict[str, torch.fx.GraphModule]):
    """Graphs by name: joint, forward, backward; and what was compiled."""

    compiled: Callable[..., Any]


def aot_graphs(
    fn: Callable[..., Any],
    *inputs: Any,
    table: Table | None = None,
    cut: Callable[..., Any] = min_cut,
) -> Graphs:
    """Compile *fn* up to Inductor, run it, and return its graphs by name.

    *table* holds the decompositions, by default Inductor's; *cut* splits the
    joint graph, by default as torch.compile does.
    """
    if table is None:
        table = select_decomp_table()
    found = Graphs()

    def keep(name: str, module: torch.fx.GraphModule, *_: Any) -> Any:
        found[name] = module
        return make_boxed_func(module)

    def cut_and_keep(joint: Any, *rest: Any, **how: Any) -> Any:
        found["joint"] = joint
        return cut(joint, *rest, **how)

    backend = aot_autograd(
        fw_compiler=partial(keep, "forward"),
        bw_compiler=partial(keep, "backward"),
        partition_fn=cut_and_keep,
        decompositions=table,
        keep_inference_input_mutations=True,  # as Inductor has it
    )
    torch.compiler.reset()  # this code may have been compiled before
    found.compiled = torch.compile(fn, backend=backend)
    result = found.compiled(*inputs)
    if isinstance(result, torch.Tensor) and result.requires_grad:
        result.sum().backward(inputs=[t for t in inputs if _trains(t)] or None)
    return found


def aten_graph(
    fn: Callable[..., Any], *inputs: Any, table: Table | None = None
) -> torch.fx.GraphModule:
    """Return the forward graph of *fn*, as Inductor would receive it.

    *fn* runs on copies, which share memory where the inputs do.
    """
    return aot_graphs(fn, *clone(inputs), table=table)["forward"]


def _trains(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def ops(module: torch.fx.GraphModule) -> list[str]:
    """Return the names of a graph's operations, without their overloads."""
    calls = [n for n in module.graph.nodes if n.op == "call_function"]
    return [n.target.__name__.split(".")[0] for n in calls]
