"""What a compiler promises besides numbers, and what it writes for a GPU.

for row in promises():
    print(row.program, row.wrong)
interpreted()
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from course.old18.sweep import Row, numbers
from course.failures import failure
from course.words import unlogged
from helpers import dump_triton

Compile = Callable[..., Callable[..., Any]]  # torch.compile, with a count


# Each returns whether a promise is kept.


def draws_twice(compiled: Compile) -> bool:
    def drawn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.rand(99) * x, torch.rand(99) * x

    return not torch.equal(*compiled(drawn)(torch.ones(99)))


def overlapping_write(compiled: Compile) -> bool:
    """Hold that a write into an expanded view raises, or gives what eager gives."""

    def a_row(x: torch.Tensor) -> torch.Tensor:
        y = x.expand(4, 3)
        y[0] = 2
        return y * 2

    def all_rows(x: torch.Tensor) -> torch.Tensor:
        return x.expand(4, 3).copy_(torch.ones(4, 3)) * 2

    same = torch.equal(compiled(a_row)(torch.ones(3)), a_row(torch.ones(3)))
    return same and _raises(compiled(all_rows), torch.ones(3))


def missing_index(compiled: Compile) -> bool:
    def taken(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x[index] * 2

    run, x = compiled(taken), numbers(5)
    right = torch.equal(run(x, torch.tensor([4])), taken(x, torch.tensor([4])))
    return right and _raises(run, x, torch.tensor([5]))


def changed_weight(compiled: Compile) -> bool:
    """Hold that a weight that is changed under no_grad is read anew."""
    layer = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU())

    def served(x: torch.Tensor) -> torch.Tensor:
        return layer(x)

    run, x = compiled(served), numbers(3, 5)
    with torch.no_grad():
        first = torch.allclose(run(x), served(x))
        layer[0].weight.mul_(2)
        return first and torch.allclose(run(x), served(x))


def place_of_a_break(compiled: Compile) -> bool:
    """Hold that a graph break names the line on which it stands."""

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    x = numbers(9)
    right = torch.allclose(compiled(broken, fullgraph=False)(x), broken(x))
    [reason] = torch._dynamo.explain(broken)(x).break_reasons
    lines = [frame.lineno for frame in reason.user_stack]
    return right and lines[-1:] == [broken.__code__.co_firstlineno + 2]


def _raises(run: Callable[..., Any], *inputs: Any) -> bool:
    with unlogged():
        return failure(run, *inputs) is not None


PROMISES = {
    "two draws differ": draws_twice,
    "a write into an expanded view": overlapping_write,
    "an index that is not there": missing_index,
    "a weight changed under no_grad": changed_weight,
    "the place of a graph break": place_of_a_break,
}


def promises() -> list[Row]:
    """Return a row for each promise: its operations in graphs, and if it broke."""
    rows = []
    for name, is_kept in PROMISES.items():
        torch.compiler.reset()
        torch.manual_seed(0)
        row = Row(name)

        def count(graph: torch.fx.GraphModule, inputs: Any, row: Row = row) -> Any:
            row.captured += len([*graph.graph.nodes])
            return torch._dynamo.lookup_backend("inductor")(graph, inputs)

        def compiled(function: Any, backend: Any = count, **options: Any) -> Any:
            how = {"fullgraph": True, "backend": backend, **options}
            return torch.compile(function, **how)

        if not is_kept(compiled):
            row.wrong.append("broken")
        rows.append(row)
    return rows


# What would run on a GPU.


def _for_a_gpu(
    many: torch.Tensor, few: torch.Tensor, wide: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    return many.sin() * many, few.softmax(-1), wide.sum(-1)


def interpreted() -> list[Row]:
    """Return a row for each kernel for an H100, whose values Triton interprets.

    The last block of the first is not full; the second has lanes that are
    masked in each row, and the third in the last step of its loop.
    """
    inputs = numbers(1003), numbers(3, 37), numbers(3, 5000)
    dump = dump_triton(_for_a_gpu, *inputs)
    checks = dump.check_numerics().kernels
    return [
        Row(
            re.sub(r"^triton_|_\d+$", "", one.name),
            captured=one.programs,
            wrong=[] if one.status == "agrees" else [one.status],
        )
        for one in checks
    ]
