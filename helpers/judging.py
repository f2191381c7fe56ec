"""What the checks of exercises judge with, so that no object fools them.

same(found, wanted)  whether an answer is the number or the text that was wanted
number(found)        an answer as a float, if it is a number
foreign(graph)       the calls in a graph that the compiler could not see into
tampered()           which tool of a check was replaced in this kernel
"""

from __future__ import annotations

import re
import sys
from typing import Any

_WITNESSES = {  # what checks compare and count with
    "torch": "allclose compile equal is_tensor isclose",
    "helpers": "compare dump_triton eager_bytes graphs kernels output_code recompiles",
    "builtins": "abs all any isinstance issubclass len set sorted sum type zip",
}
_OWN = re.compile(r"__main__$|torch\._ops\.(?!aten|prim)")  # modules


def _witnesses() -> dict[str, Any]:
    """Return what checks compare and count with, as far as it is imported."""
    modules = {name: vars(sys.modules.get(name, sys)) for name in _WITNESSES}
    return {
        f"{name}.{tool}": modules[name][tool]
        for name, tools in _WITNESSES.items()
        for tool in tools.split()
        if tool in modules[name]
    }


_seen = _witnesses()


def tampered() -> str | None:
    """Return what to say when a witness is not what it was at first, or None."""
    for name, tool in _witnesses().items():
        of_a_cell = getattr(tool, "__module__", None) == "__main__"
        if _seen.setdefault(name, tool) is not tool or of_a_cell:
            return (
                f"{name} was replaced in this kernel, and the check relies on it: "
                "restart the kernel, and run your answer without that line"
            )
    return None


def same(found: Any, wanted: Any) -> bool:
    """Return whether an answer is the number, the text, the bool or the None wanted.

    *found* is not asked whether it is equal: an object may say so of everything.
    """
    if isinstance(wanted, str):
        return isinstance(found, str) and str.__eq__(wanted, found)
    if wanted is None or isinstance(wanted, bool):
        return found is wanted
    return number(found) == wanted


def number(found: Any) -> float | None:
    """Return an answer as a float; None for text, a bool, and what is no number."""
    if isinstance(found, (bool, str, bytes)) or not hasattr(found, "__float__"):
        return None
    try:
        return float(found)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def foreign(graph: Any) -> list[str]:
    """Return the calls in a captured graph whose inside the compiler never saw.

    That is an operator or a function of the learner's own; torch's are seen.
    """
    calls = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    return [str(call) for call in calls if _OWN.match(getattr(call, "__module__", ""))]
