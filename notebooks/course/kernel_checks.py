"""What the exercises do with a kernel of the reader's: run it, and read it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch

from helpers import dump_triton
from helpers.errors import InputError
from helpers.gpu import interpreter

# Programs, tensors, numbers behind them, and BLOCK.
Case = tuple[int, tuple[torch.Tensor, ...], tuple[int, ...], int]


def normal(*shape: int, seed: int) -> torch.Tensor:
    """Return normal numbers, the same each time."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator)


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def not_a_kernel(kernel: Any, names: list[str]) -> str | None:
    """Say why *kernel* cannot be launched as the exercise does."""
    from triton.runtime import JITFunction

    if not isinstance(kernel, JITFunction):
        return "that is no Triton kernel: put @triton.jit above it"
    if list(kernel.arg_names) != names:
        found = list(kernel.arg_names)
        return f"its parameters are {found}, and {names} were wanted"
    return None


def interpreted(kernel: Any, cases: Iterable[Case]) -> list[torch.Tensor | str]:
    """Return what each launch leaves in a last tensor, or what went wrong.

    The tensor for the results is added here, full of NaN, so that what is
    never written is seen.
    """

    def launch(*tensors, programs, numbers, block):
        out = torch.full_like(tensors[0], float("nan"))
        kernel[(programs,)](*tensors, out, *numbers, BLOCK=block)
        return out

    results: list[torch.Tensor | str] = []
    for programs, tensors, numbers, block in cases:
        case = partial(launch, programs=programs, numbers=numbers, block=block)
        try:
            [graph] = dump_triton(case, *tensors, dynamic=False).graphs
            [result] = interpreter.run(graph.source, tensors)
        except InputError as error:
            result = str(error)
        results.append(result)
    return results


def fault(result: torch.Tensor | str, wanted: torch.Tensor) -> str | None:
    """Return what is wrong with what a kernel stored, or None."""
    if isinstance(result, str):
        if "outside its buffers" in result:
            result += (
                "\n  On a GPU that belongs to somebody else: is there a "
                "mask, and does each program begin where it should?"
            )
        return result
    missing = result.isnan().flatten().nonzero().flatten().tolist()
    if len(missing) == result.numel():
        return "every number is NaN, or was never written"
    if missing:
        where = f"{missing[0]} to {missing[-1]}"
        many = f"{len(missing)} of {result.numel()}"
        return f"{many} were never written, {where}"
    tolerance = 1e-2 if wanted.dtype is torch.bfloat16 else 1e-5
    near = torch.isclose(result, wanted, rtol=tolerance, atol=tolerance)
    if bool(near.all()):
        return None
    first = int((~near).flatten().nonzero()[0])
    pair = [float(tensor.flatten()[first]) for tensor in (result, wanted)]
    return (
        f"{int((~near).sum())} of {result.numel()} numbers are wrong; number "
        f"{first} is {pair[0]:.5g}, and eager has {pair[1]:.5g}"
    )
