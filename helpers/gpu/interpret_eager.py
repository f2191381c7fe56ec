"""The eager side of a check of numbers: a traced graph, its inputs, and its values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from helpers.gpu.interpret_ops import ATTENTION, draw, draw_integers
from helpers.tensors import clone

SEED = 0  # of what a program draws, on both sides


class Eager(torch.fx.Interpreter):
    """Runs a graph operation by operation; *source* is what Inductor wrote for it.

    Random numbers are those that the kernels in *source* draw from the same seed.
    A Triton kernel of the user's has no eager twin: *own* holds the tensors that each
    launch of one was given and left, which are checked, and taken over.
    """

    def __init__(
        self, graph: torch.fx.GraphModule, source: str, own: Sequence[Any] = ()
    ) -> None:
        super().__init__(graph)
        self.fourfold, self.own = _fourfold(source), list(own)
        self.before: list[
            tuple[Any, Any]
        ] = []  # inputs of those: eager's, the kernels'

    def run_node(self, node: torch.fx.Node) -> Any:
        """Return the value of one operation."""
        names = str(node.target).split(".")
        special = self._special(names[min(1, len(names) - 1)], node)
        if special is None:
            return super().run_node(node)
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        return special(*args, **kwargs)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return what *target* gives on the CPU, wherever it was traced for."""
        args, kwargs = pytree.tree_map(_on_cpu, (args, kwargs))
        return super().call_function(target, args, kwargs)

    def _special(self, name: str, node: torch.fx.Node) -> Callable[..., Any] | None:
        if name in vars(ATTENTION):
            return getattr(ATTENTION, name).default
        if name.startswith("triton_kernel_wrapper"):
            return self._users
        if name == "inductor_seeds":
            return lambda count, _: torch.randint(-(2**63), 2**63 - 1, [count])
        if name == "inductor_random":
            return lambda size, seed, mode, **_: draw(
                size, int(seed), mode, node.name in self.fourfold
            )
        if name == "inductor_randint":
            return lambda low, high, size, seed: draw_integers(
                size, int(seed), low, high
            )
        return None

    def _users(self, *, kwargs: Any, tensors_to_clone: Sequence[str], **_: Any) -> Any:
        names = [n for n, v in kwargs.items() if isinstance(v, torch.Tensor)]
        before, after = self.own.pop(0)
        left = dict(zip(names, after, strict=True))
        for name, given in zip(names, before, strict=True):
            # What it writes to may be new, and hold anything.
            self.before.append(given if name in tensors_to_clone else kwargs[name])
        return {name: left[name] for name in tensors_to_clone}


def _on_cpu(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value.cpu() if isinstance(value, torch.Tensor) else value


def _fourfold(source: str) -> set[str]:
    """Return the draws whose kernel uses all four numbers of each round."""
    kernels = re.split(r"^# kernel path", source, flags=re.MULTILINE)
    mine = [text for text in kernels if re.search(r"\.randn?4x\(", text)]
    return {
        name for text in mine for name in re.findall(r"%(inductor_random\w*)", text)
    }


def values(graph: Any, inputs: Sequence[Any], own: Sequence[Any]) -> dict[str, Any]:
    """Return what eager makes of *inputs*, which stay as they are, by name."""
    inputs, eager = (
        clone(list(inputs)),
        Eager(graph.aten, graph.source, own),
    )
    torch.manual_seed(SEED)
    with torch.no_grad():
        made = eager.run(*inputs)
    outputs = made if isinstance(made, (tuple, list)) else [made]
    return named_values(graph, outputs, inputs, eager.before)


def named_values(
    graph: Any, outputs: Sequence[Any], inputs: Sequence[Any], between: Sequence[Any]
) -> dict[str, Any]:
    """Return what is compared, by name, in the order in which the child counts."""
    named = {f"output {i}": value for i, value in enumerate(outputs)}
    if graph.phase != "backward":  # where kernels may write to what was saved
        named |= {f"input {i} after the call": v for i, v in enumerate(inputs)}
    return named | {f"tensor {i} for your kernel": v for i, v in enumerate(between)}


def nudged(value: Any) -> Any:
    """Return *value* with each number changed in its last digit."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    signs = torch.rand(value.shape, generator=torch.Generator().manual_seed(1)) < 0.5
    step = torch.finfo(value.dtype).eps
    return value * (1 + step * (2 * signs.to(value.dtype) - 1))


# --- inputs ------------------------------------------------------------------------


def make_inputs(graph: Any, saved: dict[str, Any]) -> list[Any]:
    """Return a value for each placeholder: saved, of the call, or made up."""
    nodes = [n for n in graph.aten.graph.nodes if n.op == "placeholder"]
    given, found = clone(list(graph.inputs)), []
    made = torch.Generator().manual_seed(SEED)
    for node in nodes:
        like = node.meta.get("val")
        options = [saved[node.name]] if node.name in saved else given
        at = next((i for i, v in enumerate(options) if _fits(v, like)), None)
        if at is None:
            found.append(_made_up(like, made))
        else:
            found.append(_strided(options.pop(at), like))
    return found


def _hint(size: Any) -> Any:
    return size.node.hint if hasattr(size, "node") else size


def _fits(value: Any, like: Any) -> bool:
    if not isinstance(like, torch.Tensor) or not isinstance(value, torch.Tensor):
        return type(_hint(like)) is type(value)
    shape = tuple(map(_hint, like.shape))
    return tuple(value.shape) == shape and value.dtype is like.dtype


def _made_up(like: Any, generator: torch.Generator) -> Any:
    if not isinstance(like, torch.Tensor):
        return _hint(like)
    shape = tuple(map(_hint, like.shape))
    if not like.dtype.is_floating_point:
        return _strided(torch.zeros(shape, dtype=like.dtype), like)
    return _strided(torch.randn(shape, generator=generator).to(like.dtype), like)


def _strided(value: Any, like: Any) -> Any:
    """Return *value* on the CPU with the strides that the kernels were written for."""
    if not isinstance(value, torch.Tensor):
        return value
    value, strides = value.detach().cpu(), tuple(map(_hint, like.stride()))
    tight = value.clone()  # with no memory around it that could be read unnoticed
    if value.stride() == strides:
        return tight if tight.stride() == strides else value
    made = torch.empty_strided(value.shape, strides, dtype=value.dtype)
    return made.copy_(value)


def output_nodes(graph: Any) -> list[Any]:
    output = next(n for n in graph.aten.graph.nodes if n.op == "output")
    return list(output.args[0])


def by_node_name(graph: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Return what a forward graph gives, by the names of its nodes."""
    names = [getattr(arg, "name", "") for arg in output_nodes(graph)]
    return {name: values[f"output {i}"] for i, name in enumerate(names)}
