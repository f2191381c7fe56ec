"""Starts in new places with what was shipped, and what the caches say."""

from __future__ import annotations

import atexit
import inspect
import itertools
import json
import shutil
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from helpers import _torch
from helpers.plots import Picture, styled
from helpers.start_child import components
from helpers.starts import CACHE, PHASES, Start, folder_bytes, one_start
from helpers.text import Table, mark, seconds

MODEL = str(Path(__file__).parents[1] / "examples" / "warm_model.py")
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#BBBBBB")
_CACHES = {"aotautograd_cache_": "AOTAutograd", "fx_graph_cache_": "graph"}


class Image:
    """The cache folder of one start, as a container image would carry it.

    Each `start` begins in a place of its own, with a copy of the folder.
    """

    def __init__(self, make: str = f"{MODEL}:make", **env: str) -> None:
        temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        atexit.register(temporary.cleanup)
        self._home, self._env = Path(temporary.name), env
        self._numbers = itertools.count()
        self._order = {"target": make}
        self.built = self._run(self._home / "built", {})
        """The start that filled the folder."""

    def _run(
        self, place: Path, env: dict[str, str], save: Path | None = None
    ) -> Start:
        env = {**self._env, **env}
        return one_start(self._order, place, save=save, env=env)

    @property
    def size(self) -> int:
        """Return the bytes of the folder."""
        return folder_bytes(self._home / "built" / CACHE)

    def start(
        self, emptied: str = "", blocked: bool = False, **env: str
    ) -> Start:
        """Return a start from a copy, with more variables.

        *emptied* is a pattern of files that have lost their content, and
        *blocked* puts a file where the cache folder ought to be.
        """
        place = self._home / str(next(self._numbers))
        if blocked:
            place.mkdir()
            (place / CACHE).touch()
        else:
            shutil.copytree(self._home / "built" / CACHE, place / CACHE)
        for file in (place / CACHE).glob(emptied) if emptied else ():
            if file.is_file():
                file.write_bytes(b"")
        return self._run(place, env)

    def starts(self, ways: Mapping[str, dict[str, Any]]) -> dict[str, Start]:
        """Return a start for each way, two at a time: no seconds are told."""
        with ThreadPoolExecutor(2) as pool:
            running = {
                n: pool.submit(self.start, **w) for n, w in ways.items()
            }
        return {name: each.result() for name, each in running.items()}

    def rebuilt(self, **env: str) -> Start:
        """Return a start in the folder itself, which saves its artifacts."""
        return self._run(self._home / "built", env, self._home / "artifacts")


def narrower() -> str | None:
    """Return the next kind of CPU with narrower vectors, or None."""
    kinds = {"AVX512": "avx2", "AVX2": "default"}
    return kinds.get(torch.backends.cpu.get_cpu_capability())


def lookups_after(
    lines: Sequence[str], fn: Callable[..., Any], *inputs: Any, **names: Any
) -> tuple[Table, dict[str, bool]]:
    """Run each line as the start of a process, with the cache folder in use.

    A line may call ``start(...)``, which
    compiles it anew and calls it with *inputs*, or with its own; ``edit(old,
    new)``, which changes the source of *fn* for this line; and any of *names*.
    Returns what both caches were asked, with what differs from the key of the
    first line, and whether each line had the right answer.
    """
    table, right, first = [], {}, {}
    threads = torch.get_num_threads()
    for line in lines:
        session = _Session(textwrap.dedent(inspect.getsource(fn)), inputs)
        try:
            scope = {"torch": torch, **names, **session.names()}
            with torch.no_grad():
                exec(line, scope)
        finally:
            torch.set_num_threads(threads)
            session.end()
        first = first or session.parts
        table.append([line, *session.said(first)])
        right[line] = session.right
    heads = ["this line", *_CACHES.values(), "what differs, or torch's reason"]
    return Table.of(heads, table), right


class _Session:
    """What one line does: the source as edited, its starts, what was found."""

    def __init__(self, source: str, inputs: tuple[Any, ...]) -> None:
        self._source, self._inputs = source, inputs
        self._patches: list[Any] = []
        self.found: dict[str, str] = {}
        self.parts: dict[str, str] = {}
        self.reason, self.right = "", True

    def names(self) -> dict[str, Callable[..., Any]]:
        names = {"start": self.start, "edit": self.edit}
        return {**names, "other_torch": self.other_torch}

    def edit(self, old: str, new: str) -> None:
        if old not in self._source:
            raise ValueError(f"the source has no {old!r}")
        self._source = self._source.replace(old, new)

    def other_torch(self) -> None:
        """Let the sources of torch be others, as in another version."""
        key = "torch._inductor.codecache.torch_key"
        self._patches.append(mock.patch(key, return_value=b"other files"))
        self._patches[-1].start()

    def end(self) -> None:
        for patch in self._patches:
            patch.stop()

    def start(self, *inputs: Any, fn: Any = None, **options: Any) -> None:
        """Compile as a new process would, call once, and note the look-ups."""
        if fn is None:
            scope = {"torch": torch}
            exec(self._source, scope)
            fn = next(f for f in scope.values() if getattr(f, "__code__", 0))
        inputs = inputs or self._inputs
        torch.compiler.reset()
        self.found, self.parts, self.reason = {}, {}, ""
        with _torch.trace() as events:
            answer = torch.compile(fn, **options)(*inputs)
        self.right = torch.allclose(answer, fn(*inputs), 1e-4, 1e-5)
        for event in events:
            for prefix, name in _CACHES.items():
                if event.kind.startswith(prefix):
                    self._note(name, event.kind.removeprefix(prefix), event)

    def _note(self, name: str, state: str, event: Any) -> None:
        told = json.loads(event.payload)
        if self.found.get(name) != "bypass":
            self.found[name] = state
        why = (told.get("cache_bypass_reason") or "").split(".")[0].strip()
        self.reason = self.reason or why
        self.parts.update(components(told.get("components") or []))

    def said(self, first: dict[str, str]) -> list[str]:
        """Return what each cache said, and why."""
        words = {"hit": "found", "miss": "missed", "bypass": "not asked"}
        cells = [
            words.get(self.found.get(n, ""), "") for n in _CACHES.values()
        ]
        other = [
            name
            for name in {**first, **self.parts}
            if self.parts and first.get(name) != self.parts.get(name)
        ]
        return [
            *cells,
            self.reason or ("" if self.graph_found else ", ".join(other)),
        ]

    @property
    def graph_found(self) -> bool:
        """Return whether the graph was found: no part of its key differs."""
        return self.found.get("graph") == "hit"


@styled
def phases_picture(starts: dict[str, Start]) -> Picture:
    """Return the seconds of each start as a bar, cut into its phases."""
    from matplotlib.figure import Figure

    size = 11, 1.5 + 0.62 * len(starts)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    names = (*PHASES, "the rest: loading, running")
    told = []
    for row, (label, start) in enumerate(starts.items()):
        parts = [start.phases.get(name, 0.0) for name in PHASES]
        parts.append(max(start.wait_s - sum(parts), 0.0))
        begin = 0.0
        for name, took, colour in zip(names, parts, _COLOURS, strict=True):
            shown = name if row == 0 else None
            axes.barh(row, took, left=begin, color=colour, label=shown)
            begin += took
        beside = {
            "xytext": (6, 0),
            "textcoords": "offset points",
            "va": "center",
        }
        axes.annotate(seconds(begin), (begin, row), **beside)
        every = (
            f"{n} {seconds(t)}" for n, t in zip(names, parts, strict=True)
        )
        told.append(f"{label}: {mark(', '.join(every))}")
    axes.set(yticks=range(len(starts)), yticklabels=list(starts))
    axes.set(
        xlabel="seconds until the first answer", ylim=(len(starts) - 0.5, -0.5)
    )
    axes.margins(x=0.09)
    axes.grid(visible=False)
    figure.legend(loc="outside upper left", ncols=5)
    return Picture(
        figure, "Seconds until the first answer. " + ". ".join(told) + "."
    )
