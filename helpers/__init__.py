"""Helpers of the torch.compile course: they time, count, draw, dump and check.

    from helpers import compare

``import helpers`` imports nothing heavy: each name below is fetched from its
module when it is first used.  No module has the name of a function, or the
import of the one would hide the other.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names as _HOME, for editors and type checkers
    from .benchmark import compare
    from .capture import graphs, recompiles
    from .checkups import checkup
    from .codegen import kernels, output_code
    from .composition import composes
    from .exercises import check, hint
    from .explain import explain_error
    from .gpu.dump import dump_triton
    from .gpu.explorer import explore
    from .gpu.limits import plausible
    from .gpu.side_by_side import stages
    from .health import doctor
    from .plots import plot_bytes, plot_comparison, plot_sweep
    from .recordings import recorded
    from .results import load, side_by_side
    from .starts import cold_start
    from .sweeps import sweep
    from .teach import claim, predict, reveal, score, start
    from .timing import copy_bandwidth, device, keep_memory
    from .traffic import eager_bytes

_HOME = {
    "check": "exercises",
    "checkup": "checkups",
    "claim": "teach",
    "cold_start": "starts",
    "compare": "benchmark",
    "composes": "composition",
    "copy_bandwidth": "timing",
    "device": "timing",
    "dump_triton": "gpu.dump",
    "doctor": "health",
    "eager_bytes": "traffic",
    "explain_error": "explain",
    "explore": "gpu.explorer",
    "graphs": "capture",
    "hint": "exercises",
    "keep_memory": "timing",
    "kernels": "codegen",
    "load": "results",
    "output_code": "codegen",
    "plausible": "gpu.limits",
    "plot_bytes": "plots",
    "plot_comparison": "plots",
    "plot_sweep": "plots",
    "predict": "teach",
    "recompiles": "capture",
    "recorded": "recordings",
    "reveal": "teach",
    "score": "teach",
    "side_by_side": "results",
    "stages": "gpu.side_by_side",
    "start": "teach",
    "sweep": "sweeps",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Return the public *name*, importing its module on first use."""
    if name not in _HOME:
        raise AttributeError(
            f"helpers has no {name!r}; it has: {', '.join(__all__)}", name=name
        )
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # so that the next use is a plain look-up
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
