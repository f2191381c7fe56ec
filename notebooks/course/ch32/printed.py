"""Numbers that somebody printed, the models they name, and their picture."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import nn

from course.ch32.limits import Chip, Plausible
from course.roofline import product_rate
from helpers import copy_bandwidth
from helpers.plots import CEILING, COLOURS, HATCHES, Picture, styled

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


def this_machine(device: str) -> Chip:
    """Return the ceilings of this machine: a copy, and a float32 product.

    Another program may be somewhat faster than both, and one moment slower
    than the next: only twice as much counts as impossible.
    """
    if device == "cpu":
        import psutil

        memory = psutil.virtual_memory().total
    else:
        memory = torch.cuda.get_device_properties(0).total_memory
    peaks = {"float32": product_rate(device)}
    bandwidth = copy_bandwidth(2**26, device).bytes_per_s
    return Chip("this machine", peaks, bandwidth, memory, sure=2.0)


@styled
def shares_picture(rows: Mapping[str, Plausible]) -> Picture:
    """Draw the largest share of a ceiling that each number needs."""
    most = {
        name: max(result.limits, key=lambda one: one.share)
        for name, result in rows.items()
    }
    figure = Figure(figsize=(10, 0.6 * len(most) + 1.6), layout="constrained")
    axes = figure.subplots()
    for place, limit in enumerate(most.values()):
        over = limit.share > 1
        look = {"color": COLOURS[over], "hatch": HATCHES[over]}
        axes.barh(place, limit.share, edgecolor="white", height=0.6, **look)
        axes.annotate(
            f"{limit.share:.2g}",
            (limit.share, place),
            xytext=(6 if over else -6, 0),
            textcoords="offset points",
            ha="left" if over else "right",
            va="center",
            color="black" if over else "white",
        )
    axes.axvline(1, color=CEILING, lw=3)
    names = [f"{name}: {limit.name}" for name, limit in most.items()]
    axes.set_yticks(range(len(most)), names)
    axes.invert_yaxis()
    largest = max(limit.share for limit in most.values())
    axes.set(xscale="log", xlim=(0.1, 2 * largest))
    axes.set_xticks([0.1, 0.5, 1, 5], ["0.1", "0.5", "1", "5"])
    axes.minorticks_off()
    axes.set_xlabel("needed, as a share of what the chip has; the line is all")
    shares = [f"{limit.share:.2g}" for limit in most.values()]
    told = "; ".join(map(": ".join, zip(names, shares, strict=True)))
    return Picture(figure, f"Needed, as a share of what a chip has. {told}.")
