"""Tables and pictures of what two ranks did, from their records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure

from course.drawing import BLUE, GREEN, VERMILION, Look, Piece, add_legend, draw_bars
from helpers.plots import Picture, styled
from helpers.text import Table, mark, seconds

Records = list[dict[str, Any]]


def tally(record: dict[str, Any]) -> Counter[str]:
    """Return how often each kind of event came in one step of a way."""
    return Counter(kind for kind, _, _ in record["events"])


def ways_table(found: Records) -> Table:
    """Return what each way of wrapping made, on both ranks alike or not."""
    rows = []
    for name in found[0]:
        each = []
        for rank in found:
            seen = tally(rank[name])
            each.append([rank[name]["captured"], seen["forward"], seen["backward"]])
        cells = [
            "/".join(dict.fromkeys(map(str, column)))
            for column in zip(*each, strict=True)
        ]
        equal = all(rank[name]["equal"] for rank in found)
        right = all(rank[name]["right"] for rank in found)
        rows.append([name, *cells, _yes(equal), _yes(right)])
    headings = ["way", "captured", "forward graphs", "backward graphs"]
    return Table.of([*headings, "equal", "right"], rows)


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def order(record: dict[str, Any]) -> list[str]:
    """Return in what order backward graphs began and buckets were full."""
    wanted = [e for e in record["events"] if e[0] in ("backward", "full")]
    return [kind for kind, _, _ in sorted(wanted, key=lambda e: e[1])]


@styled
def overlap_picture(record: dict[str, Any], names: tuple[str, ...]) -> Picture:
    """Return the backward of one step: graphs, and all-reduces below them."""
    figure = Figure(figsize=(10, 1.1 + 1.9 * len(names)), layout="constrained")
    words, ends = [], []
    panels = figure.subplots(len(names), squeeze=False, sharex=True).flat
    for axes, name in zip(panels, names, strict=True):
        events = [e for e in record[name]["events"] if e[0] != "forward"]
        zero = min(start for _, start, _ in events)
        lanes = {"backward graphs": "backward", "all-reduces": "all_reduce"}
        rows = {title: _pieces(events, kind, zero) for title, kind in lanes.items()}
        draw_bars(axes, rows, {"backward": BLUE, "all_reduce": VERMILION})
        full = [piece.start for piece in _pieces(events, "full", zero)]
        axes.plot(full, [0.5] * len(full), "v", color="black", markersize=8)
        axes.set_title(name)
        ends += [piece.start + piece.length for row in rows.values() for piece in row]
        words.append(f"{name}: {' '.join(map(_short, order(record[name])))}.")
    axes.set_xlim(0, 1.02 * max(ends))
    axes.set_xlabel("ms since the backward began; ▾ a bucket is full")
    legend = "In order (g: a backward graph begins, b: a bucket is full)."
    return Picture(figure, f"{legend} {' '.join(words)}")


def _short(kind: str) -> str:
    return {"backward": "g", "full": "b"}[kind]


def _pieces(events: Any, kind: str, zero: float) -> list[Piece]:
    """Return each event of a kind, in ms from *zero*."""
    return [
        Piece(kind, 1e3 * (end - start), start=1e3 * (start - zero))
        for its, start, end in events
        if its == kind
    ]


# --- ranks that meet other lengths ------------------------------------------


def waited(step: dict[str, Any]) -> float:
    """Return the longest time that a rank waited in a collective of a step."""
    return max((end - begin for begin, end in step["waits"]), default=0.0)


def took(step: dict[str, Any]) -> float:
    """Return for how long a step lasted on a rank."""
    return step["end"] - step["begin"]


def compiled(step: dict[str, Any]) -> float:
    """Return for how long a rank compiled in a step."""
    return sum(end - begin for begin, end in step["compiles"])


def steps_table(found: Records, name: str) -> Table:
    """Return for each step what each rank did in it."""
    rows = []
    for steps in zip(*(rank[name] for rank in found), strict=True):
        for rank, step in enumerate(steps):
            rows.append(
                [
                    step["step"],
                    rank,
                    step["rows"],
                    "yes" if step["compiles"] else "",
                    mark(seconds(waited(step))),
                    mark(seconds(took(step))),
                ]
            )
    return Table.of(["step", "rank", "rows", "compiles", "waits", "takes"], rows)


@styled
def lanes_picture(found: Records, name: str, first: int = 1, last: int = 3) -> Picture:
    """Return the steps of both ranks on one clock, from *first* to *last*."""
    figure = Figure(figsize=(10, 3), layout="constrained")
    axes = figure.subplots()
    zero = min(rank[name][first]["begin"] for rank in found)
    lanes = [rank[name][first : last + 1] for rank in found]
    rows = {f"rank {n}": _of_steps(steps, zero) for n, steps in enumerate(lanes)}
    draw_bars(axes, rows, STEP_LOOKS)
    axes.set_title("steps of both ranks, on one clock")
    words = []
    for number, step in ((n, step) for n, steps in enumerate(lanes) for step in steps):
        axes.axvline(step["begin"] - zero, color="black", linewidth=0.8, linestyle=":")
        if compiled(step):
            took = mark(seconds(compiled(step)))
            words.append(f"Step {step['step']}: rank {number} compiles for {took}")
            other = found[1 - number][name][step["step"]]
            took = mark(seconds(waited(other)))
            words.append(f"and rank {1 - number} waits for {took} in an all-reduce")
    add_legend(figure, STEP_LOOKS, "outside upper left")
    axes.set_xlim(0, max(steps[-1]["end"] for steps in lanes) - zero)
    axes.set_xlabel(f"seconds, steps {first} to {last}; a dotted line: a step begins")
    return Picture(figure, f"{', '.join(words) or 'No rank compiles'}.")


STEP_LOOKS = {
    "step": Look("#CCCCCC"),
    "compiles": Look(VERMILION.fill, VERMILION.hatch, height=0.45),
    "waits in an all-reduce": Look(GREEN.fill, GREEN.hatch, height=0.45),
}


def _of_steps(steps: Records, zero: float) -> Iterator[Piece]:
    """Yield each step in seconds from *zero*, and in it what the rank did."""
    kinds = {"compiles": "compiles", "waits": "waits in an all-reduce"}
    for step in steps:
        begin, end = step["begin"], step["end"]
        yield Piece("step", end - begin, start=begin - zero)
        for field, kind in kinds.items():
            for since, until in step[field]:
                length = min(until, end) - since
                yield Piece(kind, length, start=since - zero)


# --- ranks that fail --------------------------------------------------------


def core(message: str) -> str:
    """Return what an error of a collective says, without its addresses."""
    for begin in ("Timed out waiting", "Connection closed by peer"):
        if begin in message and "monitoredBarrier" not in message:
            return begin
    if late := re.search(r"Ranks? (\d+) failed to pass monitoredBarrier", message):
        return f"Rank {late[1]} failed to pass monitoredBarrier"
    if "Detected mismatch between collectives" in message:
        own = re.findall(r"Rank (\d+) is running collective.*?OpType=(\w+)", message)
        ran = ", ".join(f"rank {rank} {kind}" for rank, kind in sorted(own))
        return f"Detected mismatch: {ran}"
    return message.split("\n")[0][:60] or "nothing"


def failures_table(found: Records) -> Table:
    """Return what each rank was told in each trial.

    Which of two ranks that wait for each other gives up first is chance.
    """
    rows = []
    for name in found[0]:
        case, _, level = name.partition(" ")
        told = [core(rank[name]) for rank in found]
        rows.append([case, level.replace("OFF", "off"), told[0], mark(told[1])])
    headings = ["function", "debug", "rank 0 is told", "rank 1 is told"]
    return Table.of(headings, rows)


def blamed(launch: Any) -> str:
    """Return what torchrun says of the first failure, without its time."""
    text = launch.torchrun.partition("Root Cause")
    if not text[1]:
        return launch.torchrun
    lines = (text[1] + text[2]).splitlines()
    wanted = ("Root Cause", "rank ", "exitcode")
    kept = [line for line in lines if line.strip().startswith(wanted)]
    return re.sub(r" *\(pid: \d+\) *", "", "\n".join(kept))
