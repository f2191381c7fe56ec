"""The models of which others published times, made without weights."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import nn


def model(name: str, batch: int) -> tuple[nn.Module, tuple[int, ...]]:
    """Return a model as it was timed, without weights, and the shape of its input."""
    import transformers as t

    def resnet(kind: str, *depths: int) -> nn.Module:
        sizes = [64 * 2**n * (1 if kind == "basic" else 4) for n in range(4)]
        how = {"layer_type": kind, "depths": [*depths], "hidden_sizes": sizes}
        return t.ResNetForImageClassification(t.ResNetConfig(num_labels=1000, **how))

    # transformers of that time had no fused attention for these.
    plain = {"attn_implementation": "eager"}
    position = {"use_relative_position_bias": True, "use_mean_pooling": True}
    guide: dict[str, Callable[[], Any]] = {
        "ViT": lambda: t.ViTForImageClassification(t.ViTConfig(**plain)),
        "BEiT": lambda: t.BeitForImageClassification(
            t.BeitConfig(**position, layer_scale_init_value=0.1, **plain)
        ),
        "ConvNeXt": lambda: t.ConvNextForImageClassification(
            t.ConvNextConfig(depths=[3, 3, 27, 3], hidden_sizes=[192, 384, 768, 1536])
        ),
        "ResNet": lambda: t.ResNetForImageClassification(t.ResNetConfig()),
        "Segformer": lambda: t.SegformerForSemanticSegmentation(
            t.SegformerConfig(num_labels=150, **plain)
        ),
        "MobileNet": lambda: t.MobileNetV2ForSemanticSegmentation(
            t.MobileNetV2Config(num_labels=21, image_size=513, output_stride=8)
        ),
    }
    bench: dict[str, Callable[[], Any]] = {  # in training mode, without gradients
        "MLP": lambda: _mlp(1000, 400, 800, 500),
        "deep-MLP": lambda: _mlp(1000, *[50] * 8, 10),
        "wide-MLP": lambda: _mlp(8192, *[1024] * 16, 8192),
        "LeNet": _lenet,
        "ResNet-18": lambda: resnet("basic", 2, 2, 2, 2),
        "ResNet-101": lambda: resnet("bottleneck", 3, 4, 23, 3),
        "VGG-16": _vgg,
        "DenseNet-121": _densenet,
        "ReLU-attention": _ReLUAttention,
    }
    shapes = {"Segformer": (3, 512, 512), "MobileNet": (3, 513, 513)}
    shapes |= {"MLP": (1000,), "deep-MLP": (1000,), "wide-MLP": (8192,)}
    shapes |= {"LeNet": (1, 32, 32), "ReLU-attention": (1024, 768)}
    made = guide[name]().eval() if name in guide else bench[name]()
    return made, (batch, *shapes.get(name, (3, 224, 224)))


def _mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for pair in pairwise(widths):
        layers += [nn.Linear(*pair), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _lenet() -> nn.Sequential:
    pooled = nn.ReLU(), nn.MaxPool2d(2)
    convolutions = nn.Conv2d(1, 6, 5), *pooled, nn.Conv2d(6, 16, 5), *pooled
    return nn.Sequential(*convolutions, nn.Flatten(), *_mlp(400, 120, 84, 10))


def _vgg() -> nn.Sequential:
    layers, before = [], 3
    for width, times in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(times):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU(inplace=True)]
            before = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), *_mlp(512 * 7 * 7, 4096, 4096, 1000))


def _densenet(growth: int = 32) -> nn.Sequential:
    first = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
    layers = [*first, nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for dense in (6, 12, 24, 16):
        for _ in range(dense):
            layers.append(_Appends(*_normed(width, growth, 3, padding=1)))
            width += growth
        layers += [*_normed(width, width // 2, 1), nn.AvgPool2d(2)]
        width //= 2
    last = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10)
    return nn.Sequential(*layers[:-2], *last)


class _Appends(nn.Sequential):
    """A layer whose result is put behind its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, super().forward(x)], 1)


def _normed(width: int, to: int, side: int, **how: int) -> list[nn.Module]:
    before = nn.BatchNorm2d(width), nn.ReLU(inplace=True)
    return [*before, nn.Conv2d(width, to, side, bias=False, **how)]


class _ReLUAttention(nn.Module):
    """Causal attention with ReLU in place of softmax."""

    def __init__(self, width: int = 768, length: int = 1024, heads: int = 12) -> None:
        super().__init__()
        self.project, self.heads = nn.Linear(width, 3 * width), heads
        self.register_buffer("mask", torch.ones(length, length).tril())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.project(x).chunk(3, -1)
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
        scores = q @ k.mT * q.shape[-1] ** -0.5
        scores = scores.masked_fill(self.mask == 0, -torch.inf).relu()
        return (scores @ v).transpose(1, 2).flatten(-2)
