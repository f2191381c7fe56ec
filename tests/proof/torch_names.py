"""What a torch has by name: settings, graph breaks, public and private names."""

from __future__ import annotations

import ast
import importlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (
    *("torch._dynamo.config", "torch._inductor.config", "torch._functorch.config"),
    *("torch.compiler.config", "torch.fx.experimental._config"),
)
PUBLIC = ("torch.compiler", "torch._higher_order_ops", "torch.export", "torch.library")


def settings() -> dict[str, str]:
    """Return each setting with its default, but for folders and what has no order."""
    defaults = (
        (f"{module}.{name}", value)
        for module in SETTINGS
        for name, value in importlib.import_module(module).get_config_copy().items()
        if not name.startswith("_")
    )
    kept = ((n, v) for n, v in defaults if not isinstance(v, set))
    return {name: repr(v) for name, v in kept if sys.prefix not in repr(v)}


def breaks() -> dict[str, str]:
    """Return each kind of graph break, with torch's explanation."""
    import torch._dynamo

    registry = Path(torch._dynamo.__file__).with_name("graph_break_registry.json")
    kinds = json.loads(registry.read_text(encoding="utf-8")).values()
    return {kind[0]["Gb_type"]: kind[0]["Explanation"] for kind in kinds}


def public() -> dict[str, str]:
    """Return the public names of the modules in PUBLIC."""
    every = ((m, name) for m in PUBLIC for name in dir(importlib.import_module(m)))
    return {f"{m}.{name}": "" for m, name in every if not name.startswith("_")}


def imported() -> set[tuple[str, str]]:
    """Return each name that this repository imports from a private module of torch."""
    trees = (
        ast.parse(path.read_text(encoding="utf-8"))
        for room in ("helpers", "torch_checkup", "notebooks", "tests")
        for path in (ROOT / room).rglob("*.py")
    )
    return {
        (node.module, alias.name)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(("torch._", "torch.fx.", "triton."))
        for alias in node.names
    }


def is_there(module: str, name: str) -> bool:
    """Return whether the name can be imported, be it a module or in one."""
    try:
        return hasattr(importlib.import_module(module), name) or bool(
            importlib.import_module(f"{module}.{name}")
        )
    except ImportError:
        return False


def private() -> dict[str, str]:
    """Return those of the imported private names that are there."""
    return {f"{m}.{name}": "" for m, name in sorted(imported()) if is_there(m, name)}


def names() -> dict[str, dict[str, str]]:
    """Return all of it, by kind; each kind maps a name to what may change about it."""
    return {kind.__name__: kind() for kind in (private, settings, breaks, public)}
