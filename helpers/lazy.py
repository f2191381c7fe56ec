"""A package whose public names are fetched from their modules on first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a *package*.

    *homes* has, for each module, its public names, separated by spaces.
    """
    home = {name: module for module, words in homes.items() for name in words.split()}
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
