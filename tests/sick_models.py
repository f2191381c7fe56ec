"""Models for `checkup`: healthy ones, and the same with one planted ill.

`SICK` has six kinds of ill in five variants each, `HEALTHY` twenty models: of several
sizes, activations, norms and depths.  Each name is one that `make` understands, so that
``tests/sick_models.py:NAME`` is a target.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

_ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU}
_WIDTHS = {"narrow": 16, "wide": 96}


class Net(nn.Module):
    """Layers of one width; `ill` is what a forward does wrong."""

    def __init__(self, activation: str, width: int, depth: int) -> None:
        super().__init__()
        torch.manual_seed(width + depth)
        layers = (nn.Linear(width, width) for _ in range(depth))
        self.layers = nn.ModuleList(layers)
        self.norm = nn.LayerNorm(width)
        self.activation = _ACTIVATIONS[activation]()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.activation(layer(x)) + x
        return self.norm(x)


class BreakInALoop(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x) / x.abs().max().item()
        return self.norm(x)


class Counter(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x) * (1 + 1 / self.calls)


class StaleHook(Net):
    """Adds a hook to its first layer in its first call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = super().forward(x)
        if not self.layers[0]._forward_hooks:
            self.late()
        return result

    @torch.compiler.disable
    def late(self) -> None:
        self.layers[0].register_forward_hook(lambda _, __, out: out * 3)


class Promotes(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.linspace(0, 1, x.shape[-1], dtype=torch.float64)
        return super().forward(x) * scale


class NoCache(Net):
    """Switches off what a second process would find."""

    def __init__(self, *sizes: Any) -> None:
        super().__init__(*sizes)
        torch.compiler.config.force_disable_caches = True


class Differs(Net):
    """Computes something else when it is compiled."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = super().forward(x)
        return result * 1.01 if torch.compiler.is_compiling() else result


KINDS: dict[str, type[Net]] = {
    "break": BreakInALoop,
    "counter": Counter,
    "hook": StaleHook,
    "promotes": Promotes,
    "cache": NoCache,
    "differs": Differs,
}
_FORMS = list(itertools.product(_ACTIVATIONS, _WIDTHS, (1, 2, 3)))


def _maker(kind: type[Net], activation: str, width: int, depth: int) -> Callable:
    def make() -> tuple[nn.Module, list[tuple[torch.Tensor]]]:
        torch.manual_seed(0)
        calls = [(torch.randn(rows, width),) for rows in (4, 6, 9)]
        return kind(activation, width, depth).eval(), calls

    return make


HEALTHY, SICK = list[str](), dict[str, list[str]]()
for number, (act, size, layers) in enumerate(_FORMS[:20]):
    HEALTHY.append(f"healthy_{number}")
    globals()[HEALTHY[-1]] = _maker(Net, act, _WIDTHS[size], layers)
for kind_number, (kind, cls) in enumerate(KINDS.items()):
    SICK[kind] = []
    for number in range(5):
        act, size, layers = _FORMS[(kind_number + 5 * number) % len(_FORMS)]
        SICK[kind].append(f"{kind}_{number}")
        globals()[SICK[kind][-1]] = _maker(cls, act, _WIDTHS[size], layers)
