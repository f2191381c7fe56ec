"""Small programs for a compiler: torch's own samples, and what they leave out.

print(sweep(operators()))  # the names of those that are wrong
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

from course.values import as_near, forward_and_backward
from helpers.session import fresh_code
from helpers.tensors import tensors

Programs = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]

# Left out is what draws random numbers, and what has no float32 form.
OPERATORS = """
atan2 bmm clamp gather index_add logsumexp norm pow scatter_add std where
nn.functional.conv1d nn.functional.cross_entropy nn.functional.gelu
nn.functional.hardswish nn.functional.layer_norm
"""
SIZES = "cumsum softmax"


def operators(names: str = OPERATORS) -> Programs:
    """Return a program for each operator, with a sample that torch tests."""
    # This import warns of tests that it sets up.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

    torch.manual_seed(0)
    wanted = dict.fromkeys(names.split())
    known = {op.name: op for op in reversed(op_db) if op.name in wanted}
    return {name: _program(known[name]) for name in wanted if name in known}


def _program(op: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    call = op.get_op()
    for sample in op.sample_inputs("cpu", torch.float32):
        given = (sample.input, sample.args, sample.kwargs)
        if any(x.numel() > 4 for x in tensors(given)):
            break
    return lambda first, rest, named: call(first, *rest, **named), given


def numbers(*size: int) -> torch.Tensor:
    """Return random numbers, the same each time for the same sizes."""
    generator = torch.Generator().manual_seed(len(size) + sum(size))
    return torch.randn(*size, generator=generator)


def corners() -> Programs:
    """Return programs with NaN, odd sizes, views, other dtypes and repeats."""
    nan, index = numbers(37), torch.tensor([1, 1, 4, 1])
    nan[::36] = torch.nan  # the first and the last
    whole = numbers(2**17 + 3).mul(8).round()  # exact in any order of a sum
    places = numbers(6), torch.tensor([3, 1, 3, 3, 1]), numbers(5)
    return {
        "maximum of NaN": (torch.maximum, (nan, numbers(37, 1)[:, 0])),
        "clamp of NaN": (lambda x: x.clamp(min=-0.5), (nan,)),
        "1003 numbers": (lambda x: x.sin() * x, (numbers(1003),)),
        "17 x 33, by column": (lambda x: x.sum(0), (numbers(17, 33),)),
        "slice": (lambda x: x[2:7, ::2].exp(), (numbers(9, 7),)),
        "embedding": (F.embedding, (index, numbers(6, 5))),
        "bfloat16 sum": (lambda x: x.bfloat16().sum(-1), (numbers(5, 65),)),
        "integers": (lambda i: (i * 7) // 3 % 5, (torch.arange(-9, 9),)),
        "int8 product": (lambda i: i * i, (torch.arange(-9, 9).char(),)),
        "float64": (lambda x: (x * 0.1 + 1 / 3) * 1e4 % 1, (numbers(37).double(),)),
        "a sum by threads": (lambda x: x.abs().sum(), (whole,)),
        "argmax, transposed": (
            lambda x: (x.t().argmax(), x.t().argmin()),
            (numbers(5, 7),),
        ),
        "a place written twice": (
            lambda x, at, y: (x.index_put((at,), y), x.scatter(0, at, y)),
            places,
        ),
        "y[x] += y[x]": (_doubled, (torch.randint(-10, -9, (1, 2)), numbers(2, 32))),
        "two norms, one table": (_modulated, (numbers(2, 6, 64), numbers(2, 4, 64))),
    }


def _doubled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y = y.clone()
    y[x + 10] += y[x + 10]
    return y


def _modulated(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    a, b, c, d = table.unsqueeze(2).unbind(1)
    x = F.layer_norm(x, (64,)) * (1 + a) + b
    return F.layer_norm(x, (64,)) * (1 + c) + d


def sweep(programs: Programs, **options: Any) -> list[str]:
    """Return the programs whose results or gradients are wrong, by float64.

    All are compiled as one function, forward and backward, with *options* of
    ``torch.compile``.  ``fullgraph=True`` refuses a graph break.
    """
    functions, inputs = zip(*programs.values(), strict=True)

    def run(*inputs: Any) -> list[Any]:
        return [f(*given) for f, given in zip(functions, inputs, strict=True)]

    torch.compiler.reset()
    compiled = torch.compile(fresh_code(run), fullgraph=True, **options)
    with warnings.catch_warnings():
        # Lowerings of torch call functions of torch that are deprecated.
        warnings.filterwarnings("ignore", "", FutureWarning, r"torch\.")
        ours, usual = _results(compiled, inputs), _results(run, inputs)
    exact = _results(run, inputs, torch.float64)
    return [
        name
        for name, *sides in zip(programs, exact, usual, ours, strict=True)
        if not all(as_near(*three) for three in zip(*sides, strict=True))
    ]


def _results(run: Any, inputs: Any, dtype: torch.dtype | None = None) -> list[Any]:
    """Return for each program its outputs, and the gradients of its inputs."""
    both = forward_and_backward(run, inputs, dtype)
    return [pytree.tree_leaves(of_one) for of_one in zip(*both, strict=True)]
