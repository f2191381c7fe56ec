"""A package whose public names are fetched from their modules on first use."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a *package*.

    Its public names are those that it imports ``if TYPE_CHECKING``: for editors, which
    read them there too, and for nobody else.
    """
    tree = ast.parse(Path(sys.modules[package].__file__).read_text("utf-8"))
    ifs = (node for node in tree.body if isinstance(node, ast.If))
    [block] = (one for one in ifs if ast.unparse(one.test) == "TYPE_CHECKING")
    home = {one.name: line.module for line in block.body for one in line.names}
    public = sorted(home)

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(
                f"{package} has no {name!r}; it has: {', '.join(public)}", name=name
            )
        value = getattr(import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)  # the next use is a plain look-up
        return value

    def known() -> list[str]:
        return sorted({*vars(sys.modules[package]), *public})

    return get, known, public
