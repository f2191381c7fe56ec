"""Helpers of the torch.compile course: they time, count, draw, dump and check.

    from helpers import compare

``import helpers`` imports nothing heavy: each name below is fetched from its
module when it is first used.  No module has the name of a function, or the
import of the one would hide the other.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names as _NAMES, for editors and type checkers
    from .benchmark import compare
    from .capture import graphs, recompiles
    from .codegen import kernels, output_code
    from .exercises import check, hint
    from .gpu.dump import dump_triton
    from .gpu.explorer import explore
    from .gpu.limits import plausible
    from .gpu.side_by_side import stages
    from .health import doctor
    from .own_model.checkups import checkup
    from .own_model.composition import composes
    from .own_model.explain import explain_error
    from .own_model.starts import cold_start
    from .plots import plot_bytes, plot_comparison, plot_sweep
    from .recordings import recorded
    from .results import load, side_by_side
    from .sweeps import sweep
    from .teach import claim, predict, reveal, score, start
    from .timing import copy_bandwidth, device, keep_memory
    from .traffic import eager_bytes

_NAMES = {  # of each module, in the same order
    "benchmark": "compare",
    "capture": "graphs recompiles",
    "codegen": "kernels output_code",
    "exercises": "check hint",
    "gpu.dump": "dump_triton",
    "gpu.explorer": "explore",
    "gpu.limits": "plausible",
    "gpu.side_by_side": "stages",
    "health": "doctor",
    "own_model.checkups": "checkup",
    "own_model.composition": "composes",
    "own_model.explain": "explain_error",
    "own_model.starts": "cold_start",
    "plots": "plot_bytes plot_comparison plot_sweep",
    "recordings": "recorded",
    "results": "load side_by_side",
    "sweeps": "sweep",
    "teach": "claim predict reveal score start",
    "timing": "copy_bandwidth device keep_memory",
    "traffic": "eager_bytes",
}
_HOME = {name: home for home, names in _NAMES.items() for name in names.split()}
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
