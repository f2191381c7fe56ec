"""What a first call spends its seconds on, and how many compiles it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from torch._dynamo.callback import callback_handler

from course import drawing
from course.drawing import BLUE, GREEN, VERMILION, Look
from helpers.plots import Picture
from helpers.text import mark, seconds

# In the order of the work; each holds only what it took for itself.
PHASES = {
    "Dynamo": BLUE,
    "AOTAutograd": Look("#E69F00", "\\\\"),
    "lowering": GREEN,
    "autotuning": Look("#F0E442", "xx"),
    "writing": Look("#56B4E9", "--"),
    "building": VERMILION,
}

# ------------------------------------------------------------ seconds by phase


def phases(record: Any) -> dict[str, float]:
    """Return the seconds that each phase of one compile took for itself.

    torch notes no Dynamo in the record of a backward.
    """

    def of(name: str) -> float:
        return (getattr(record, name, None) or 0) / 1e6

    def whole(name: str) -> float:
        return of(f"{name}_cumulative_compile_time_us")

    aot = whole("aot_autograd") or whole("backward")
    inductor, written = whole("inductor"), whole("inductor_code_gen")
    # Named for Triton, and counts the wait for C++ as well.
    built = of("triton_compile_time_us")
    tuned = of("compile_time_autotune_time_us")
    own = {
        "Dynamo": whole("dynamo") - aot,
        "AOTAutograd": aot - inductor,
        "lowering": inductor - written - tuned,
        "autotuning": tuned,
        "writing": written - built,
        "building": built,
    }
    return {name: max(0.0, took) for name, took in own.items()}


def bars(rows: Mapping[str, Mapping[str, float]]) -> Picture:
    """Return one bar of phases for each row, the first row on top."""
    tuned = any(row["autotuning"] for row in rows.values())
    shown = [name for name in PHASES if tuned or name != "autotuning"]
    words = [
        f"{name}: " + ", ".join(f"{part} {mark(seconds(row[part]))}" for part in shown)
        for name, row in rows.items()
    ]
    return drawing.bars(
        {name: [(part, row[part]) for part in shown] for name, row in rows.items()},
        {name: PHASES[name] for name in shown},
        alt=f"Seconds by phase. {'; '.join(words)}.",
        unit="seconds",
        title="what a first call spends its time on",
    )


# ----------------------------------------------------------- counting compiles


@contextmanager
def compiles() -> Iterator[list[Any]]:
    """Collect one entry for each compile in the block, by torch's callback."""
    seen: list[Any] = []
    callback_handler.register_start_callback(seen.append)
    try:
        yield seen
    finally:
        with suppress(ValueError):  # torch.compiler.reset() has removed it
            callback_handler.remove_start_callback(seen.append)
