"""Numbers that somebody printed, and a model that one of them names."""

from __future__ import annotations

import csv
from pathlib import Path

import torch
from torch import nn

_CLAIMS = Path(__file__).parents[3] / "data" / "claims.csv"

IMAGENET = 1_281_167  # images to train on: Russakovsky et al., 2015-01-30
RESNET50 = 3.8e9  # multiply-adds for an image: He et al., table 1, 2015-12-10


def printed(*numbers: str) -> str:
    """Return claims from the web as they are kept in `data/claims.csv`."""
    with _CLAIMS.open(encoding="utf-8", newline="") as file:
        claims = {row["id"]: row["claim"] for row in csv.DictReader(file)}
    return "\n".join(f"{number}  {claims[number]}" for number in numbers)


def llama_3_8b() -> nn.ModuleDict:
    """Return the parameters of Llama-3-8B, on the meta device.

    Sizes: config.json of meta-llama/Meta-Llama-3-8B, 2024-04-18.
    """
    width, narrow, inner, words = 4096, 1024, 14336, 128256

    def block() -> nn.Module:
        pairs = [(width, width)] * 2 + [(width, narrow)] * 2
        pairs += [(width, inner)] * 2 + [(inner, width)]
        layers = [nn.Linear(a, b, bias=False) for a, b in pairs]
        return nn.ModuleList([*layers, nn.RMSNorm(width), nn.RMSNorm(width)])

    with torch.device("meta"):
        head = nn.Linear(width, words, bias=False)
        blocks = [block() for _ in range(32)]
        parts = {"embedding": nn.Embedding(words, width), "head": head}
        parts |= {"blocks": nn.ModuleList(blocks), "norm": nn.RMSNorm(width)}
        return nn.ModuleDict(parts)
