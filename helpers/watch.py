"""What the compiler did in a region: compiles, recompiles, graphs, graph breaks.

Free while nothing compiles: read ``watch.compiles`` after each block.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch

from helpers import advice
from helpers.compat import private

_NO_GPU = "CUDA graphs need tensors on an NVIDIA GPU"
_SKIPPED = "CUDA graphs were skipped: TORCH_LOGS=cudagraphs says why"


class Compile(NamedTuple):
    """A compile: function, reason, and ``forward``, ``backward`` or ``skipped``."""

    name: str
    reason: str
    kind: str


class Watch:
    """What the compiler did inside a ``with`` block, to be read during and after.

    Reads torch's own history of compiles, so nothing is installed.  torch keeps
    the last 64; of more than that, 64 are counted."""

    def __enter__(self) -> Watch:
        self._last = [*private("history")][-1:]
        self._before = copy.deepcopy(private("counters"))
        self._end: tuple[list[Any], Any] | None = None
        return self

    def __exit__(self, *exc: object) -> None:
        self._end = self._new(), copy.deepcopy(private("counters"))

    def _new(self) -> list[Any]:
        if self._end:
            return self._end[0]
        found: list[Any] = []
        for record in reversed(private("history")):
            if self._last and record is self._last[0]:
                break
            found.insert(0, record)
        return found

    def _grown(self, group: str) -> dict[str, int]:
        now = (self._end[1] if self._end else private("counters"))[group]
        before = self._before[group]
        return {k: n - before[k] for k, n in now.items() if n > before[k]}

    @property
    def events(self) -> tuple[Compile, ...]:
        """The compiles so far, each with torch's reason ('' for a first one)."""
        found = []
        for record in self._new():
            if not record.is_runtime and not _at_limit(record.fail_reason):
                kind = "backward" if record.is_forward is False else "forward"
                kind = "skipped" if record.fail_type else kind
                name = advice.original_name(record.co_name or "")
                found.append(Compile(name, advice.short(record.recompile_reason), kind))
        return tuple(found)

    @property
    def compiles(self) -> int:
        """How many compiles so far; cheap enough to read between two blocks."""
        return len(self.events)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it recompiled, each reason once."""
        return tuple(dict.fromkeys(e.reason for e in self.events if e.reason))

    @property
    def graphs(self) -> int:
        """How many graphs were captured: 0 means that nothing was."""
        return self._grown("stats").get("unique_graphs", 0)

    @property
    def break_reasons(self) -> tuple[str, ...]:
        """The first line of the reason of each kind of graph break."""
        seen = {**self._grown("graph_break"), **self._grown("unimplemented")}
        return tuple(text.split("\n")[0] for text in seen if not _at_limit(text))

    @property
    def graph_breaks(self) -> int:
        """How many kinds of graph break were seen; graphs() shows each of them."""
        return len(self.break_reasons)

    @property
    def limit_hit(self) -> bool:
        """Whether the recompile limit was hit: new inputs run eagerly since."""
        return any(_at_limit(record.fail_reason) for record in self._new())

    @property
    def ignored(self) -> tuple[str, ...]:
        """Why CUDA graphs that the mode asked for were not used, if so."""
        reasons = [record.cudagraph_skip_reason for record in self._new()]
        if not any(reasons) and self._grown("inductor").get("cudagraph_skips"):
            reasons = [_SKIPPED if torch.cuda.is_available() else _NO_GPU]
        return tuple(dict.fromkeys(filter(None, reasons)))

    @property
    def recordings(self) -> int:
        """How many CUDA graphs were recorded."""
        return sum(bool(r.runtime_cudagraphify_time_us) for r in self._new())


def _at_limit(text: str | None) -> bool:
    return bool(text) and "recompile limit exceeded" in text
