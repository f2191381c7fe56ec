"""What torch.compile does, and what it buys: timed, counted, drawn and dumped.

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
    from .gpu.dump import dump_triton
    from .health import doctor
    from .plots import plot_bytes, plot_comparison, plot_sweep
    from .results import load, side_by_side
    from .sweeps import sweep
    from .timing import copy_bandwidth, device, keep_memory
    from .traffic import eager_bytes

_NAMES = {  # of each module, in the same order
    "benchmark": "compare",
    "capture": "graphs recompiles",
    "codegen": "kernels output_code",
    "gpu.dump": "dump_triton",
    "health": "doctor",
    "plots": "plot_bytes plot_comparison plot_sweep",
    "results": "load side_by_side",
    "sweeps": "sweep",
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
