"""The lines of torch's log of bytecode that a page reads."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator

_INSTRUCTION = re.compile(r"^[^A-Za-z]*(?:L\d+:)?\s*[A-Z][A-Z_]{2,}")


@contextlib.contextmanager
def its_graph_call(argument: str) -> Iterator[None]:
    """Print what the block logs; of new bytecode, the call of the graph alone.

    That is where the compiled function is loaded, then *argument*, the last call, and
    the return.  A line says how many instructions were left out.
    """
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        yield
    before, heading, new = said.getvalue().partition("MODIFIED BYTECODE")
    print(before.rstrip() if not heading else _brief(before, heading + new, argument))


def _brief(before: str, new: str, argument: str) -> str:
    first, *lines = new.rstrip().split("\n")
    lines = [line for line in lines if _INSTRUCTION.match(line)]
    calls = [n for n, line in enumerate(lines) if re.search(r"\bCALL", line)]
    shown, left_out = [before + first], 0
    for n, line in enumerate(lines):
        read = re.search(rf"__compiled_fn|_FAST\w* .*\({argument}\)|RETURN_VALUE", line)
        if not (read or n in calls[-1:]):
            left_out += 1
            continue
        if left_out:
            shown.append(f"              ... {left_out} more")
        shown.append(line)
        left_out = 0
    return "\n".join(shown)
