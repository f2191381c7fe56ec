"""Numbers that somebody printed, the models they name, and their picture."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch
from torch import nn
from torch.utils.benchmark import Timer

from course.ch30.limits import Chip, Plausible
from course.drawing import BLUE, VERMILION, bars
from course.roofline import product_rate
from helpers import copy_bandwidth
from helpers.plots import CEILING, Picture, styled

_CLAIMS = Path(__file__).parents[3] / "data" / "claims.csv"

IMAGENET = 1_281_167  # images to train on: Russakovsky et al., 2015-01-30
RESNET50 = 3.8e9  # multiply-adds for an image: He et al., table 1, 2015-12-10


def printed(*numbers: str) -> str:
    """Return claims from the web as they are kept in `data/claims.csv`."""
    with _CLAIMS.open(encoding="utf-8", newline="") as file:
        claims = {row["id"]: row["claim"] for row in csv.DictReader(file)}
    return "\n".join(f"{number}  {claims[number]}" for number in numbers)


@dataclass(frozen=True)
class Said:
    """What a claim prints: ratios, shares of time saved, and two times."""

    ratios: tuple[float, ...]  # 1.7x
    saved: tuple[float, ...]  # 41% or 30-35%, as fractions
    times: tuple[float, ...]  # 120->70


def said_in(number: str) -> Said:
    """Return the figures of a claim, read from its text."""
    text = printed(number).removeprefix(number)
    one = r"\d+(?:\.\d+)?"
    percent = re.search(rf"({one})(?:-({one}))?%", text)
    times = re.search(rf"({one}) ?-> ?({one})", text)
    return Said(
        tuple(map(float, re.findall(rf"({one})x\b", text))),
        tuple(float(p) / 100 for p in percent.groups() if p) if percent else (),
        tuple(map(float, times.groups())) if times else (),
    )


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
        memory = psutil.virtual_memory().total
    else:
        memory = torch.cuda.get_device_properties(0).total_memory
    peaks = {"float32": product_rate(device)}
    bandwidth = copy_bandwidth(2**26, device).bytes_per_s
    return Chip("this machine", peaks, bandwidth, memory, sure=2.0)


def bytes_a_second(numbers: int, device: str) -> float:
    """Return the bytes a second of the quickest copy of so many numbers.

    On one thread, so that no thread waits for another.
    """
    x = torch.ones(numbers, device=device)
    timer = Timer("y.copy_(x)", globals={"x": x, "y": torch.empty_like(x)})
    return 2 * x.nbytes / min(timer.blocked_autorange(min_run_time=0.5).times)


@styled
def shares_picture(rows: Mapping[str, Plausible]) -> Picture:
    """Draw the largest share of a ceiling that each number needs."""
    most = {}
    for name, result in rows.items():
        limit = max(result.limits, key=lambda one: one.share)
        most[f"{name}: {limit.name}"] = limit.share
    told = "; ".join(f"{name}: {share:.2g}" for name, share in most.items())
    picture = bars(
        {name: [(_kind(share), share)] for name, share in most.items()},
        {"within": BLUE, "over": VERMILION},
        unit="needed, as a share of what the chip has; the line is all",
        alt=f"Needed, as a share of what a chip has. {told}.",
        legend=None,
        title="what a printed number would need of its chip",
        size=(10, 0.6 * len(most) + 1.6),
    )
    [axes] = picture.figure.axes
    axes.axvline(1, color=CEILING, lw=3)
    axes.set(xscale="log", xlim=(0.1, 2 * max(most.values())))
    axes.set_xticks([0.1, 0.5, 1, 5], ["0.1", "0.5", "1", "5"])
    axes.minorticks_off()
    for place, share in enumerate(most.values()):
        inside = {"xytext": (-6, 0), "ha": "right", "color": "white"}
        beyond = {"xytext": (6, 0), "ha": "left", "color": "black"}
        where = beyond if _kind(share) == "over" else inside
        style = {"textcoords": "offset points", "va": "center", **where}
        axes.annotate(f"{share:.2g}", (share, place), **style)
    return picture


def _kind(share: float) -> str:
    return "over" if share > 1 else "within"
