"""Hold forecasts against times that others measured and published.

    python -m tests.proof published                # rows that have no forecast yet
    python -m tests.proof published --again a100   # those of a GPU anew

The times are data/published/times.csv; what is made of them is table.json and
README.md beside it.  A row is left out only by its name, with the reason.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import torch

from helpers.gpu.forecasts import forecast
from helpers.results import write_atomically
from tests import records
from tests.records import DATA, markdown, origin
from tools.commands import command

TIMES = DATA / "published" / "times.csv"
SOURCE = "https://huggingface.co/docs/transformers/v4.41.3/perf_torch_compile"
# The constants of the forecast were chosen on these, and on no other row.
CHOSEN_ON = ("a100", ("1", "4"), "default")


def _model(name: str) -> tuple[torch.nn.Module, tuple[int, int]]:
    """Return a model as it was timed, without weights, and the size of a picture."""
    import transformers as t

    # transformers of that time had no fused attention for these.
    plain = {"attn_implementation": "eager"}
    position = {"use_relative_position_bias": True, "use_mean_pooling": True}
    makers: dict[str, Callable[[], Any]] = {
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
    side = {"Segformer": 512, "MobileNet": 513}.get(name, 224)
    return makers[name]().eval(), (side, side)


def row(timed: dict[str, str]) -> dict[str, Any]:
    """Return the forecast of one published row beside its times."""
    torch.manual_seed(0)
    model, sides = _model(timed["model"])
    picture = torch.randn(int(timed["batch"]), 3, *sides)
    mode = None if timed["mode"] == "default" else timed["mode"]
    found = forecast(model, picture, gpu=timed["gpu"], mode=mode)
    eager, compiled = (float(timed[side]) for side in ("eager_ms", "compiled_ms"))
    return {
        **timed,
        "row": _name(timed),
        "eager_estimate_ms": round(1e3 * found.eager.estimate, 3),
        "compiled_estimate_ms": round(1e3 * found.compiled.estimate, 3),
        "eager_bound_ms": round(1e3 * found.eager.bound, 3),
        "compiled_bound_ms": round(1e3 * found.compiled.bound, 3),
        "decides": found.eager.decides,
        "measured": round(eager / compiled, 3),
        "forecast": round(found.speedup, 3),
    }


def _name(timed: dict[str, str]) -> str:
    return " ".join(timed[part] for part in ("gpu", "model", "batch", "mode"))


def error(row: dict[str, Any]) -> float:
    """Return how far the forecast's speed-up was off: 0.1 for a tenth, either way."""
    quotient = row["forecast"] / row["measured"]
    return max(quotient, 1 / quotient) - 1


def chosen_on(row: dict[str, Any]) -> bool:
    """Return whether the constants were chosen with this row in sight."""
    gpu, batches, mode = CHOSEN_ON
    return row["gpu"] == gpu and row["batch"] in batches and row["mode"] == mode


def broken(rows: list[dict[str, Any]]) -> list[str]:
    """Return the rows in which a published time undercuts a bound."""
    sides = "eager", "compiled"
    return [
        f"{r['row']}, {side}"
        for r in rows
        for side in sides
        if float(r[f"{side}_ms"]) < r[f"{side}_bound_ms"]
    ]


def regime(row: dict[str, Any]) -> str:
    """Return what an error belongs to: what decides eager's time, or ``recorded``."""
    return row["decides"] if row["mode"] == "default" else "recorded"


def found_errors(rows: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Return the median and the largest error in each regime."""
    by: dict[str, list[float]] = {}
    for each in rows:
        by.setdefault(regime(each), []).append(error(each))
    return {k: (round(median(v), 2), round(max(v), 2)) for k, v in by.items()}


def _summary(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    groups = {"the rows that constants were chosen on": chosen_on}
    groups["all others"] = lambda r: not chosen_on(r)
    for gpu in dict.fromkeys(r["gpu"] for r in rows):
        groups[f"others on {gpu}"] = lambda r, gpu=gpu: (
            r["gpu"] == gpu and not chosen_on(r)
        )
    for what in dict.fromkeys(map(regime, rows)):
        title = "launches are recorded" if what == "recorded" else f"{what} decides"
        groups[f"where {title}"] = lambda r, what=what: regime(r) == what
    for title, belongs in groups.items():
        errors = [error(r) for r in rows if belongs(r)]
        if errors:
            yield {
                "rows": title,
                "how many": len(errors),
                "median error": f"{median(errors):.0%}",
                "largest": f"{max(errors):.0%}",
            }


def page(kept: dict[str, Any]) -> str:
    """Return data/published/README.md."""
    rows = kept["rows"]
    shown = [
        {
            "GPU, model, batch, mode": r["row"],
            "measured": f"{r['measured']:.2f}x",
            "forecast": f"{r['forecast']:.2f}x",
            "off by": f"{error(r):.0%}",
            "decides": r["decides"],
            "eager, ms": f"{r['eager_ms']} ({r['eager_estimate_ms']:.3g})",
            "compiled, ms": f"{r['compiled_ms']} ({r['compiled_estimate_ms']:.3g})",
            "never under": f"{r['eager_bound_ms']:.3g}, {r['compiled_bound_ms']:.3g}",
        }
        for r in rows
    ]
    undercut = ", ".join(broken(rows)) or "none"
    return f"""\
# Forecasts against published times

`forecast` says what compiling could buy on a GPU that isn't here. Here it is held
against times that others measured: Hugging Face's guide
[Optimize inference using torch.compile()]({SOURCE}), float32, the mean of 300 calls,
torch 2.0.1 (a nightly of 2.1 for `reduce-overhead`). [times.csv](times.csv) has the
times, [table.json](table.json) the forecasts. The models are made without weights, with
the torch below, which isn't the torch that was timed.

{markdown(list(_summary(rows)))}

Bounds that a published time undercuts: {undercut}.

Not modelled: clocks that fall under load (a T4 has 70 W), the kernel that the library
picks, what stays in the L2, the speed of the host.

In the last columns the published time comes first, the estimate in brackets.

{markdown(shown)}

{origin(kept)}
"""


def main(arguments: list[str]) -> int:
    """Forecast what has no forecast yet; return 1 where a bound is undercut."""
    parser = command("tests.proof published", __doc__, "a bound is undercut")
    parser.add_argument("--again", metavar="GPU", help="forget the rows of this one")
    asked = parser.parse_args(arguments)
    with TIMES.open(encoding="utf-8", newline="") as file:
        timed = {_name(each): each for each in csv.DictReader(file)}
    have = records.kept("published/table", "row")
    for name, each in timed.items():
        if name not in have or asked.again == each["gpu"]:
            made = row(each)
            print(name, f"{made['measured']}x", f"{made['forecast']}x", flush=True)
            order = "tests.proof published"
            records.put("published/table", "row", made, timed, order)
    kept = records.read("published/table")
    write_atomically(DATA / "published" / "README.md", page(kept))
    for line in _summary(kept["rows"]):
        print(*line.values(), sep=" | ")
    print("undercut:", broken(kept["rows"]) or "none")
    return int(bool(broken(kept["rows"])))
