"""The errors of the helpers: each message says what to do."""

from __future__ import annotations

import re


def one_line(error: BaseException) -> str:
    """Return the type of *error*, and the first line that it says.

    Of one that a backend, a C++ compiler or a fake raised, what follows says it.
    """
    line, _, rest = str(error).strip().partition("\n")
    line = line.rstrip(":")  # of a list below
    if line.endswith((" raised", "graph break/error")) and rest.strip():
        line += f" {rest.strip().splitlines()[0].rstrip(':')}"
    special = line.endswith(("C++ compile error", "fake tensor call"))
    if special and (inner := re.search(r"(?: error:|: got) (.+)", rest)):
        line += f": {inner[1]}"
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


class InputError(ValueError):
    """What was asked cannot be answered with this function or these inputs."""


class UsedUp(InputError):
    """A call uses up what it is given, such as room in a cache: it runs only once."""


class CompiledRaises(InputError):
    """What runs eagerly raises when it is compiled: that is not its owner's fault."""


class ResultError(ValueError):
    """A results file that cannot be read, with what to do about it."""


class Unavailable(RuntimeError):
    """This machine or this torch lacks what a helper needs."""
