"""What the scheduler fused and refused, on a CPU and for an H100."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course.page_log import logged
from helpers import dump_triton, kernels
from helpers.text import Table


@dataclass(frozen=True)
class Launch:
    """A kernel or a library call, with its operations."""

    ops: tuple[str, ...]
    library: bool
    trips: float


@dataclass(frozen=True, repr=False)
class Asked:
    """A program's launches, and what the log of fusion said meanwhile."""

    launches: tuple[Launch, ...]
    log: str

    @property
    def trips(self) -> float:
        """How often the first input goes to or from memory, in all."""
        return sum(launch.trips for launch in self.launches)

    @property
    def generated(self) -> int:
        """How many kernels Inductor wrote."""
        return sum(not launch.library for launch in self.launches)

    @property
    def library(self) -> int:
        """How many calls go into a library."""
        return len(self.launches) - self.generated

    @property
    def refused(self) -> dict[tuple[str, str], str]:
        """The reason for each pair of nodes that was refused."""
        found = re.findall(r"cannot fuse (\w+) with (\w+): (.+)", self.log)
        return {(a, b): reason for a, b, reason in found}

    @property
    def fused(self) -> list[tuple[str, str]]:
        """Each pair of nodes that was joined."""
        return re.findall(r"fusing (\w+) with (\w+)", self.log)

    @property
    def said(self) -> str:
        """The different reasons, or that the log gave none."""
        return "; ".join(sorted({*self.refused.values()})) or "nothing"

    def __str__(self) -> str:
        rows = [(*pair, "fused") for pair in self.fused]
        rows += [(*pair, reason) for pair, reason in self.refused.items()]
        named = [(self._named(a), self._named(b), why) for a, b, why in rows]
        return str(Table.of(("node", "with", "what the log says"), named))

    __repr__ = __str__

    def _named(self, node: str) -> str:
        """Return a node with the operations that it came from."""
        found = re.findall(
            rf"Node\(name='{node}'\).{{0,90}}?OrderedSet\(\[([^]]*)\]",
            self.log,
        )
        return f"{node} ({found[0]})" if found else node


def ask(function: Callable[..., Any], *inputs: Any, **how: Any) -> Asked:
    """Compile for this CPU, past the caches; *how* is as for ``kernels``."""
    return _asked(lambda: kernels(function, *inputs, **how).kernels, inputs)


def ask_h100(function: Callable[..., Any], *inputs: Any) -> Asked:
    """Lower for an H100, which need not be there."""
    return _asked(lambda: dump_triton(function, *inputs).launches, inputs)


def _asked(lower: Callable[[], Sequence[Any]], inputs: Any) -> Asked:
    logged()  # raises before start(...), which keeps torch's log
    torch._logging.set_logs(fusion=True)
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it is in logged()
            found = lower()
        log = logged()
    finally:
        torch._logging.set_logs()
    launches = []
    for one in found:
        kind = getattr(one, "kind", None) or one.language
        library = kind == "library"
        # Inductor names what a library call reads, too: its own comes last.
        ops = one.ops[-1:] if library else one.ops
        launches.append(Launch(ops, library, one.bytes / inputs[0].nbytes))
    return Asked(tuple(launches), log)


def launch_table(cpu: dict[str, Asked], h100: dict[str, Asked] | None = None) -> Table:
    """Return launches and trips of programs, and why pairs were refused.

    With *h100*, the trips of both processors, of the programs in it.
    """
    if h100 is None:
        headings = ["kernels", "library", "trips", "refused, says the log"]
        rows = [(name, *_counts(one), one.said) for name, one in cpu.items()]
    else:
        headings = ["CPU: trips", "H100: kernels", "library", "trips"]
        rows = [(n, _counts(cpu[n])[-1], *_counts(one)) for n, one in h100.items()]
    return Table.of(("in the middle", *headings), rows)


def _counts(one: Asked) -> tuple[int, int, str]:
    return one.generated, one.library, f"{one.trips:.3g}"
