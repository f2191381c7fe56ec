"""Where the seconds of a compile go."""

from __future__ import annotations

import os
from typing import Any

from course import drawing, first_call
from course.first_call import PHASES
from helpers.plots import Picture
from helpers.text import mark, seconds

# The profiler would write a report of its own below a cell.
os.environ.setdefault("KINETO_LOG_LEVEL", "99")

LOOKS = {
    "Dynamo": PHASES["Dynamo"],
    "AOTAutograd": PHASES["AOTAutograd"],
    "Inductor": PHASES["lowering"],
    "writing and building": PHASES["building"],
}


def phases(record: Any) -> dict[str, float]:
    """Return the seconds that each of four phases of a compile took for itself."""
    own = first_call.phases(record)
    return {
        "Dynamo": own["Dynamo"],
        "AOTAutograd": own["AOTAutograd"],
        "Inductor": own["lowering"] + own["autotuning"],
        "writing and building": own["writing"] + own["building"],
    }


def picture(parts: dict[str, float]) -> Picture:
    """Return the phases of a first call as one bar."""
    words = ", ".join(f"{name} {mark(seconds(t))}" for name, t in parts.items())
    return drawing.bars(
        {"": parts.items()},
        LOOKS,
        alt=f"The phases of a first call: {words}.",
        unit="seconds",
        title="what a first call spends its time on",
    )
