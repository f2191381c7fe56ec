"""Models for `checkup`: a healthy one, and the same with one planted issue.

Each function at the end is a target: ``tests/torch_checkup/broken_models.py:healthy``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

WIDTH = 16


class Net(nn.Module):
    """Two layers of one width; a subclass does something wrong in its forward."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = nn.functional.gelu(layer(x)) + x
        return self.norm(x)


class BreakInALoop(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x) / x.abs().max().item()
        return self.norm(x)


class StaleHook(Net):
    """Adds a hook to its first layer in its first call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = super().forward(x)
        self.late()
        return result

    @torch.compiler.disable
    def late(self) -> None:
        if not self.layers[0]._forward_hooks:
            self.layers[0].register_forward_hook(lambda _, __, out: out * 3)


class Promotes(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.linspace(0, 1, x.shape[-1], dtype=torch.float64)
        return super().forward(x) * scale


class Differs(Net):
    """Computes something else when it is compiled."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = super().forward(x)
        return result * 1.01 if torch.compiler.is_compiling() else result


def _maker(kind: type[Net]) -> Callable[[], tuple[nn.Module, list]]:
    def make() -> tuple[nn.Module, list[tuple[torch.Tensor]]]:
        torch.manual_seed(0)
        return kind().eval(), [(torch.randn(rows, WIDTH),) for rows in (4, 6, 9)]

    return make


healthy, breaks = map(_maker, (Net, BreakInALoop))
hook, promotes, differs = map(_maker, (StaleHook, Promotes, Differs))
