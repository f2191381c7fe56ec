"""What the probes of the faults share: small programs, and what becomes of them.

torch is imported inside: a fault has to be planted before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def block(x: Any, gain: Any, weight: Any) -> Any:
    """The running example of the course."""
    import torch

    size = x.square().mean(-1, keepdim=True)
    h = x * torch.rsqrt(size + 1e-6) * gain
    h = torch.nn.functional.gelu(h @ weight)
    return x + h


def inputs(grad: bool = False) -> tuple[Any, ...]:
    """Return inputs of block."""
    import torch

    torch.manual_seed(0)
    x, weight = torch.randn(64, 256), torch.randn(256, 256) / 16
    return x, torch.ones(256), weight.requires_grad_(grad)


def code(fn: Callable[..., Any] = block, *given: Any, **how: Any) -> str:
    """Return the text that Inductor writes for fn."""
    import torch
    from torch._inductor.utils import run_and_get_code

    given = given or inputs()
    return "\n".join(run_and_get_code(torch.compile(fn, **how), *given)[1])


def count(word: str, *fn_and_inputs: Any, **how: Any) -> Callable[[], int]:
    """Return a probe: how often a word stands in the text written for fn."""
    return lambda: code(*fn_and_inputs, **how).count(word)


def right(fn: Callable[..., Any] = block, *given: Any, **how: Any) -> bool:
    """Return whether compiled gives eager's answer."""
    import torch

    given = given or inputs()
    same = torch.compile(fn, **how)(*given), fn(*given)
    return torch.allclose(*same, rtol=1e-4, atol=1e-4)


def gradient_right(**how: Any) -> bool:
    """Return whether the gradient of block's weight is eager's."""
    import torch

    given, found = inputs(grad=True), []
    for fn in (torch.compile(block, **how), block):
        found.append(torch.autograd.grad(fn(*given).sum(), given[2])[0])
    return torch.allclose(*found, rtol=1e-3, atol=1e-3)


def did(fn: Callable[..., Any], calls: list[tuple[Any, ...]], **how: Any) -> list[str]:
    """Return for each call: compiles, graph, eager, or raises."""
    import torch

    captured, ran, found = [], [], []

    def backend(graph: Any, _: Any) -> Any:
        captured.append(graph)
        return lambda *tensors: ran.append(graph) or graph(*tensors)

    compiled = torch.compile(fn, backend=backend, **how)
    for given in calls:
        before = len(captured), len(ran)
        try:
            compiled(*given)
        except Exception:
            found.append("raises")
            continue
        more = len(captured) - before[0], len(ran) - before[1]
        found.append("compiles" if more[0] else "graph" if more[1] else "eager")
    return found


def rows(*sizes: int) -> list[tuple[Any, ...]]:
    """Return calls with a tensor of ones of each size."""
    import torch

    return [(torch.ones(n, 4),) for n in sizes]


def sine(x: Any) -> Any:
    """Something small to compile."""
    return x.sin() + 1


def printed(x: Any) -> Any:
    """Something that breaks its graph."""
    x = x.sin()
    print(end="")
    return x.cos()
