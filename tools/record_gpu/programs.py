"""The programs that are recorded on a GPU: chains, layers, networks, steps.

Each is written out, so that a recording needs torch and nothing besides it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

ALICE = Path(__file__).resolve().parents[2] / "data" / "alice.txt"


def chain(n: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that multiplies *n* times, as in the chapter on fusion."""

    def run(x: torch.Tensor) -> torch.Tensor:
        for _ in range(n):
            x = x * 0.9
        return x

    return run


def tiny(x: torch.Tensor) -> torch.Tensor:
    """Return what forty small operations make of *x*, a small square matrix.

    The products stay a library's, so that launches are left for a CUDA graph.
    """
    for _ in range(10):
        x = x + 0.1 * torch.sin(x @ x)
    return x


def block(x: torch.Tensor, gain: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return the course's running example: norm, product, GELU, residual."""
    size = x.square().mean(-1, keepdim=True)
    h = x * torch.rsqrt(size + 1e-6) * gain
    h = torch.nn.functional.gelu(h @ weight)
    return x + h


class Example(nn.Module):
    """The running example, with its gain and weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.weight = nn.Parameter(torch.randn(width, width) / width**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return block(x, self.gain, self.weight)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Return the softmax of each row: one kernel, looped kernels or several."""
    return torch.softmax(x, -1)


def ordered(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each row sorted, and the running sum of all numbers."""
    return torch.sort(x)[0], x.reshape(-1).cumsum(0)


def residual(h: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return the half of the running example that follows the product."""
    return x + F.gelu(h)


class Transformer(nn.Module):
    """One block as in GPT-2: norm, attention, norm, MLP; no dropout."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).chunk(3, dim=-1)
        shape = batch, length, self.heads, width // self.heads
        q, k, v = (part.view(shape).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Adapted(nn.Module):
    """A linear layer that is frozen, and LoRA's two small ones, which are trained."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + 2 * self.up(self.down(x))


def adapted(width: int, heads: int, rank: int) -> nn.Module:
    """Return a Transformer block with an adapter at each of its layers."""
    net = Transformer(width, heads).requires_grad_(False)
    for name in ("qkv", "out", "up", "down"):
        setattr(net, name, Adapted(getattr(net, name), rank))
    return net


class Bottleneck(nn.Module):
    """Three convolutions and a shortcut: He et al., arXiv:1512.03385, figure 5."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *normed(inside, outside, 1),
            nn.ReLU(),
            *normed(outside, outside, 3, stride),
            nn.ReLU(),
            *normed(outside, 4 * outside, 1),
        )
        same = inside == 4 * outside
        shortcut = [] if same else normed(inside, 4 * outside, 1, stride)
        self.shortcut = nn.Sequential(*shortcut)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


def normed(inside: int, outside: int, size: int, stride: int = 1) -> list[nn.Module]:
    """Return a convolution and its batch norm."""
    conv = nn.Conv2d(inside, outside, size, stride, size // 2, bias=False)
    return [conv, nn.BatchNorm2d(outside)]


def resnet(depths: tuple[int, ...] = (3, 4, 6, 3), width: int = 64) -> nn.Module:
    """Return a ResNet: by default ResNet-50, with its 25.6 million parameters."""
    layers: list[nn.Module] = [*normed(3, width, 7, 2), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inside = width
    for stage, depth in enumerate(depths):
        outside = width * 2**stage
        for n in range(depth):
            layers.append(Bottleneck(inside, outside, 2 if n == 0 < stage else 1))
            inside = 4 * outside
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000)]
    return nn.Sequential(*layers, *head)


def mlp(width: int) -> nn.Module:
    """Return two hidden layers: a model whose calls are mostly launches."""
    wide = 4 * width
    first, second = nn.Linear(width, wide), nn.Linear(wide, wide)
    return nn.Sequential(first, nn.GELU(), second, nn.GELU(), nn.Linear(wide, width))


def forward(model: nn.Module) -> Callable[..., Any]:
    """Return the model for inference: batch norms fixed, no gradients wanted."""
    return model.eval().requires_grad_(False)


def training(model: nn.Module) -> Callable[..., Any]:
    """Return a step: forward, loss and gradients, which are returned, not kept.

    The mark tells CUDA graphs that the step before is done with.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]

    def step(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        torch.compiler.cudagraph_mark_step_begin()
        loss = model(x).float().square().mean()
        return loss.detach(), *torch.autograd.grad(loss, parameters)

    return step


class Sentence(nn.Module):
    """One vector for a sentence, as in the chapter on guards; 0 is padding."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.word, self.example = nn.Embedding(words, width), Example(width)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        real = (words != 0).unsqueeze(-1)
        h = self.example(self.word(words))
        return (h * real).sum(1) / real.sum(1)


def sentences() -> list[list[int]]:
    """Return the sentences of *Alice in Wonderland*, each word as its number."""
    text = ALICE.read_text(encoding="ascii").lower()
    parts = [re.findall("[a-z']+", s) for s in re.split(r"(?<=[.!?])\W+", text)]
    parts = [words for words in parts if words]
    vocabulary = sorted({word for words in parts for word in words})
    number = {word: n for n, word in enumerate(vocabulary, 1)}
    return [[number[word] for word in words] for words in parts]


def _example() -> tuple[Any, ...]:
    return block, torch.randn(64, 256), torch.randn(256), torch.randn(256, 256)


def _transformer() -> tuple[Any, ...]:
    return Transformer(64, 4), torch.randn(2, 16, 64)


# Makers of (function, *inputs), of each kind of kernel, and whether it is trained.
KINDS: dict[str, tuple[Callable[[], tuple[Any, ...]], bool]] = {
    "running example": (_example, False),
    "pointwise chain": (lambda: (chain(8), torch.randn(64, 1000)), False),
    "softmax over 1024": (lambda: (softmax, torch.randn(4, 1024)), True),
    "softmax over 4096": (lambda: (softmax, torch.randn(4, 4096)), True),
    "softmax over 65536": (lambda: (softmax, torch.randn(4, 65536)), True),
    "a sum in two kernels": (lambda: (torch.sum, torch.randn(1 << 20)), False),
    "sort and running sum": (lambda: (ordered, torch.randn(32, 128)), False),
    "MLP": (lambda: (mlp(64), torch.randn(32, 64)), True),
    "Transformer block": (_transformer, True),
    "ResNet": (lambda: (resnet((1, 1), 8), torch.randn(1, 3, 32, 32)), True),
    "sentence": (
        lambda: (Sentence(9, 64), torch.arange(1, 9).reshape(2, 4)),
        False,
    ),
}
