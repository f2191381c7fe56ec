"""What a step keeps in memory between its forward and its backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from course.aot import Graphs


def saved_tensors(
    fn: Callable[..., Any], *inputs: Any, names: Iterable[str] = ()
) -> dict[str, int]:
    """Return the bytes of each memory that a call keeps for its backward.

    Memory of the inputs and of a module's weights is there anyway, so it is
    left out, and memory that is kept twice counts once.  A tensor is named by
    the operation that made it.  Compiled code does not know that: there, give
    the *names* of all that is kept, in order, as `handed_over` does.
    """
    given = iter(names)
    weights = fn.parameters() if isinstance(fn, torch.nn.Module) else ()
    there = {_memory(t) for t in (*inputs, *weights)}
    kept: dict[int, tuple[str, torch.Tensor]] = {}  # held: none moves in

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        name = next(given, None) or _made_by(tensor)
        kept.setdefault(_memory(tensor), (name, tensor))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = fn(*inputs)
    found: dict[str, int] = {}
    for at, (name, tensor) in kept.items():
        if at not in there:
            n = sum(known.rstrip("_0123456789") == name for known in found)
            numbered = f"{name}_{n}" if n else name
            found[numbered] = tensor.untyped_storage().nbytes()
    del result
    return found


def saved_bytes(fn: Callable[..., Any], *inputs: Any) -> int:
    """Return how many bytes `saved_tensors` counts together."""
    return sum(saved_tensors(fn, *inputs).values())


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _made_by(tensor: torch.Tensor) -> str:
    if tensor.grad_fn is None:
        return "saved"
    name = tensor.grad_fn.name().rstrip("0123456789")
    return name.removesuffix("Backward").lower()


def handed_over(graphs: Graphs) -> list[str]:
    """Return the names of what the forward graph returns for the backward.

    A view shares the memory of another tensor, and has that tensor's name.
    """
    placeholders = graphs["backward"].graph.find_nodes(op="placeholder")
    wanted = {node.name for node in placeholders}
    [out] = graphs["forward"].graph.find_nodes(op="output")
    kept = [n for n in out.args[0] if n is not None and n.name in wanted]
    return [_source(node).name for node in kept]


def _source(node: Any) -> Any:
    """Return the node whose memory *node* shows: itself, if it is no view."""
    while getattr(node.target, "is_view", False):
        node = node.args[0]
    return node


def computed_twice(graphs: Graphs) -> list[str]:
    """Return the operations that forward and backward both compute."""
    sides = [graphs["forward"].graph.nodes, graphs["backward"].graph.nodes]
    names = [[n.name for n in s if n.op == "call_function"] for s in sides]
    return [name for name in names[0] if name in names[1]]
