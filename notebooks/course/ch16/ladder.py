"""A bug in each layer, the backends that reach it, and the picture of both."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._functorch import config as autograd_config
from torch._inductor.lowering import lowerings

from course.lowering import past_the_caches
from course.planted import decomposed, lowered
from helpers.plots import COLOURS, Picture, styled

aten = torch.ops.aten
LADDER = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")


def _behind_dynamo() -> Any:
    """Change a constant in each graph that Dynamo hands on."""
    send = OutputGraph.call_user_compiler

    def other_eps(self: Any, module: Any, *rest: Any) -> Any:
        for node in module.graph.nodes:
            node.args = tuple(0.1 if a == 1e-6 else a for a in node.args)
        module.recompile()
        return send(self, module, *rest)

    return mock.patch.object(OutputGraph, "call_user_compiler", other_eps)


def _joint() -> Any:
    """Flip the sign of a joint graph's last gradient."""
    return autograd_config.patch(joint_custom_pass=_wrong_sign)


def _wrong_sign(joint: Any, inputs: Any) -> Any:
    [out] = joint.graph.find_nodes(op="output")
    *others, last = out.args[0]
    with joint.graph.inserting_before(out):
        minus = joint.graph.call_function(aten.neg.default, (last,))
    minus.meta = dict(last.meta)
    out.args = ([*others, minus],)
    joint.recompile()
    return joint


def _raises(true: Any, x: Any) -> Any:
    raise KeyError("no relu here")


BUGS: dict[str, Callable[[], Any]] = {
    "none": contextlib.nullcontext,
    "a constant, behind Dynamo": _behind_dynamo,
    "a sign, in the joint graph": _joint,
    "gelu's decomposition": lambda: decomposed(
        aten.gelu.default, lambda true, x, **how: x * (1.7 * x).sigmoid()
    ),
    "erf's lowering": lambda: lowered(
        aten.erf.default, lambda true, x: lowerings[aten.tanh.default](x)
    ),
    "relu's lowering": lambda: lowered(
        aten.relu.default, lambda true, x: lowerings[aten.abs.default](x)
    ),
    "relu's lowering raises": lambda: lowered(aten.relu.default, _raises),
}


@contextlib.contextmanager
def planted(bug: str) -> Iterator[None]:
    """Plant a bug; take it out, and all that was compiled with it."""
    with past_the_caches(), BUGS[bug]():
        yield


@styled
def picture(backends: Sequence[str], verdicts: dict[str, Sequence[bool]]) -> Picture:
    """Return the ladder: for each bug, which backends are right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 1.3 + 0.75 * len(verdicts)), layout="constrained")
    axes = figure.subplots()
    for row, right in enumerate(verdicts.values()):
        for column, fine in enumerate(right):
            axes.plot(
                column,
                row,
                "o" if fine else "X",
                color=COLOURS[0] if fine else COLOURS[1],
                markersize=14 if fine else 17,
            )
        if False in right:
            axes.add_patch(_ring(list(right).index(False), row))
    axes.set_xticks(range(len(backends)), backends)
    axes.set_yticks(range(len(verdicts)), verdicts)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set(xlim=(-0.5, len(backends) - 0.4), ylim=(len(verdicts) - 0.5, -0.5))
    axes.grid(axis="x", visible=False)
    axes.spines[:].set_visible(False)
    words = "; ".join(
        f"{bug}: wrong on {', '.join(_wrong(backends, right)) or 'none'}"
        for bug, right in verdicts.items()
    )
    what = "Planted bugs and the backends that show them, the first in a box"
    return Picture(figure, f"{what}. {words}.")


def _wrong(backends: Sequence[str], right: Sequence[bool]) -> list[str]:
    return [b for b, fine in zip(backends, right, strict=True) if not fine]


def _ring(column: int, row: int) -> Any:
    from matplotlib.patches import FancyBboxPatch

    return FancyBboxPatch(
        (column - 0.22, row - 0.36),
        0.44,
        0.72,
        boxstyle="round,pad=0,rounding_size=0.1",
        fill=False,
        edgecolor=COLOURS[1],
        linewidth=2,
    )
