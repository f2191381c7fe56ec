"""Hold forecasts against times that others measured and published.

    python -m tests.proof published                # rows that have no forecast yet
    python -m tests.proof published --again a100   # those of a GPU anew

The times are data/published/times.csv, what is made of them is table.json, and
README.md beside it shows both.  A row is left out only by its name, with the reason.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any
from unittest import mock

import torch

from helpers.gpu import forecasts
from helpers.results import write_atomically
from tests import records
from tests.proof.timed_models import model
from tests.records import DATA, Rows, markdown, origin
from tools.commands import command

TIMES, README = (DATA / "published" / name for name in ("times.csv", "README.md"))
# What the host took with the torch of that time: for a call of eager, a launch, before
# the first one of a graph, and before recorded ones, of which 2.5's are the oldest that
# say it.  Later ones: as `forecast` has it.
_HOSTS = {"2.0": (40e-6, 35e-6, 0.0, 60e-6), "2.5": (12e-6, 14e-6, 20e-6, 60e-6)}
_HOSTS["2.1"] = _HOSTS["2.0"]
# The constants of the forecast were chosen on these, and on no other row.
CHOSEN = {("a100", batch, "default", "guide") for batch in ("1", "4")}
TINY = ("MLP", "deep-MLP", "LeNet")


def row(timed: dict[str, str]) -> dict[str, Any]:
    """Return the forecast of one published row beside its times."""
    torch.manual_seed(0)
    net, shape = model(timed["model"], int(timed["batch"]))
    mode = None if timed["mode"] == "default" else timed["mode"]
    names = "EAGER_CALL_S", "LAUNCH_S", "ENTER_S", "REPLAY_S"
    now = [getattr(forecasts, name) for name in names]
    host = dict(zip(names, _HOSTS.get(timed["torch"][:3], now), strict=True))
    with mock.patch.multiple(forecasts, **host):
        x = torch.randn(shape)
        found = forecasts.forecast(net, x, gpu=timed["gpu"], mode=mode)
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


def _timed() -> dict[str, dict[str, str]]:
    with TIMES.open(encoding="utf-8", newline="") as file:
        return {_name(each): each for each in csv.DictReader(file)}


def _name(timed: dict[str, str]) -> str:
    return " ".join(timed[part] for part in ("gpu", "model", "batch", "mode", "torch"))


def error(row: dict[str, Any]) -> float:
    """Return how far the forecast's speed-up was off: 0.1 for a tenth, either way."""
    quotient = row["forecast"] / row["measured"]
    return max(quotient, 1 / quotient) - 1


def chosen_on(row: dict[str, Any]) -> bool:
    """Return whether the constants were chosen with this row in sight."""
    kind = row["gpu"], row["batch"], row["mode"], row["source"]
    return row["model"] in TINY or kind in CHOSEN


def broken(rows: Rows) -> list[str]:
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


def found_errors(rows: Rows) -> dict[str, tuple[float, float]]:
    """Return the median and the largest error in each regime, on rows held back."""
    by: dict[str, list[float]] = {}
    for each in rows:
        if not chosen_on(each):
            by.setdefault(regime(each), []).append(error(each))
    return {k: (round(median(v), 2), round(max(v), 2)) for k, v in by.items()}


def _summary(rows: Rows) -> Iterator[dict[str, Any]]:
    others = [row for row in rows if not chosen_on(row)]
    yield _line("those that constants were chosen on", filter(chosen_on, rows))
    yield _line("all others", others)
    labels = (
        lambda row: f"others on {row['gpu']}",
        lambda row: f"others with torch {row['torch']}",
        lambda row: f"others in the regime: {regime(row)}",
    )
    for label in labels:
        for title in dict.fromkeys(map(label, others)):
            yield _line(title, (row for row in others if label(row) == title))


def _line(title: str, rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    errors = [error(row) for row in rows]
    line = {"rows": title, "how many": len(errors)}
    return line | {
        "median error": f"{median(errors):.0%}",
        "most": f"{max(errors):.0%}",
    }


def renewed(page: str, kept: dict[str, Any]) -> str:
    """Return the text of data/published/README.md with its two tables made anew."""
    rows = kept["rows"]
    shown = [
        {
            "GPU, model, batch, mode, torch": r["row"],
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
    left = ", ".join(sorted(_timed().keys() - {r["row"] for r in rows})) or "none"
    totals = (
        f"{markdown(list(_summary(rows)))}\n\nBounds that a published time undercuts: "
        f"{undercut}. Rows not forecast yet: {left}."
    )
    page = records.renewed(page, "totals", totals)
    return records.renewed(page, "rows", f"{markdown(shown)}\n\n{origin(kept)}")


def main(arguments: list[str]) -> int:
    """Forecast what has no forecast yet; return 1 where a bound is undercut."""
    parser = command("tests.proof published", __doc__, "a bound is undercut")
    parser.add_argument("--again", metavar="GPU", help="forget the rows of this one")
    asked = parser.parse_args(arguments)
    timed = _timed()
    have = records.kept("published/table", "row")
    for name, each in timed.items():
        if name not in have or asked.again == each["gpu"]:
            made = row(each)
            print(name, f"{made['measured']}x", f"{made['forecast']}x", flush=True)
            order = "tests.proof published"
            records.put("published/table", "row", made, timed, order)
    kept = records.read("published/table")
    write_atomically(README, renewed(README.read_text("utf-8"), kept))
    for line in _summary(kept["rows"]):
        print(*line.values(), sep=" | ")
    print("undercut:", broken(kept["rows"]) or "none")
    return int(bool(broken(kept["rows"])))
