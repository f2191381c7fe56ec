"""Starts in new places with what was shipped, and what the caches say."""

from __future__ import annotations

import atexit
import inspect
import itertools
import json
import logging
import os
import shutil
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch._dynamo.utils import counters
from torch._inductor import config as inductor
from torch._inductor.utils import fresh_cache

from course.drawing import BLUE, GREEN, GREY, VERMILION, Look, bars
from course.words import unlogged
from helpers import _torch
from helpers.plots import Picture
from helpers.text import Table, mark, seconds
from torch_checkup import load
from torch_checkup.guest import made_by
from torch_checkup.records import components
from torch_checkup.starts import CACHE, PHASES, Start, one_start

TARGET = f"{Path(__file__).parents[1] / 'examples' / 'warm_model.py'}:make"
# Neither a precompiled header nor a test of the C++ compiler: both are built
# in each place.  Settings are a part of the key, so a start has the same.
_SETTINGS = {"cpp_cache_precompile_headers": False, "cpp.vec_isa_ok": True}
_VARIABLES = {
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    "TORCHINDUCTOR_VEC_ISA_OK": "1",
}
_REST = "the rest: loading, running"
_INKS = (BLUE, Look("#E69F00", "\\\\"), GREEN, VERMILION, GREY)
_LOOKS = dict(zip((*PHASES, _REST), _INKS, strict=True))
_CACHES = {"aotautograd_cache_": "AOTAutograd", "fx_graph_cache_": "graph"}


class Image:
    """The cache folder and the artifacts of one start, to ship.

    Each `start` of the example model is a new process, in a place of its own.
    """

    def __init__(self) -> None:
        temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        atexit.register(temporary.cleanup)
        self._home, self._numbers = Path(temporary.name), itertools.count()
        self._fn, self._inputs, *_ = made_by(TARGET)
        self._folder = self._home / "built" / CACHE
        saved = self._home / "artifacts"
        self.built = self._run(self._home / "built", save=saved)
        """The start that filled the folder."""

    def _run(self, place: Path, **how: Any) -> Start:
        env = {**_VARIABLES, **how.pop("env", {})}
        return one_start({"target": TARGET}, place, env=env, **how)

    @contextmanager
    def _here(self) -> Iterator[Path]:
        """Let this process begin anew, in an empty folder that is yielded."""
        torch.compiler.reset()
        settings = inductor.patch(_SETTINGS)
        with fresh_cache(dir=str(self._home)), settings, torch.no_grad():
            yield Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])

    def start(self, ship: str = "folder", **env: str) -> Start:
        """Return a start with a copy of the folder, or with the artifacts."""
        place, load = self._home / str(next(self._numbers)), None
        if ship == "folder":
            shutil.copytree(self._folder, place / CACHE)
        else:
            load = self._home / ship
        return self._run(place, load=load, env=env)

    def starts(self, *ships: str) -> list[Start]:
        """Return a start for each, two at a time, so no seconds."""
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(self.start, ships))

    def damaged(self, pattern: str) -> str:
        """Return what this process does with a copy that lost some files.

        The files that *pattern* fits are empty.
        """
        with self._here() as folder, unlogged(logging.WARNING):
            shutil.copytree(self._folder, folder, dirs_exist_ok=True)
            for file in filter(Path.is_file, list(folder.glob(pattern))):
                file.unlink()  # or a loaded library would change
                file.touch()
            counters.clear()
            try:
                answer = torch.compile(self._fn)(*self._inputs)
            except Exception as error:
                inner = getattr(error, "inner_exception", error)
                return f"stopped, {type(inner).__name__}"
            found = counters["aot_autograd"]["autograd_cache_hit"]
            same = torch.allclose(answer, self._fn(*self._inputs), 1e-4, 1e-5)
        right = "right" if same else "WRONG"
        return f"{'found' if found else 'compiled again'}, answers {right}"


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
        cells = [words.get(self.found.get(n, ""), "") for n in _CACHES.values()]
        why = self.reason
        if not why and self.parts and self.found.get("graph") != "hit":
            names = {**first, **self.parts}
            other = [n for n in names if first.get(n) != self.parts.get(n)]
            why = ", ".join(other)
        return [*cells, why]


def second_start(fn: Callable[..., Any], *inputs: torch.Tensor) -> tuple[str, str]:
    """Return what the second start of *fn* heard of the two caches.

    Both starts have one cache folder.  Where an input wants a gradient, a
    backward is a part of a start.
    """
    trains = any(x.requires_grad for x in inputs)
    with fresh_cache():
        for _ in range(2):
            torch.compiler.reset()
            counters.clear()
            with torch.set_grad_enabled(trains):
                answer = torch.compile(fn)(*inputs)
            if trains:
                torch.autograd.grad(answer.sum(), inputs)
    return (
        _heard(counters["aot_autograd"], "autograd_cache_"),
        _heard(counters["inductor"], "fxgraph_cache_"),
    )


def _heard(counts: Counter[str], prefix: str) -> str:
    words = {"bypass": "not asked", "miss": "missed", "hit": "found"}
    said = (word for state, word in words.items() if counts[prefix + state])
    return next(said, "")


def phases_picture(starts: dict[str, Start]) -> Picture:
    """Return the seconds of each start as a bar, cut into its phases."""
    told, rows, ends = [], {}, []
    for label, start in starts.items():
        parts = {name: start.phases.get(name, 0.0) for name in PHASES}
        parts[_REST] = max(start.wait_s - sum(parts.values()), 0.0)
        rows[label] = parts.items()
        ends.append(seconds(sum(parts.values())))
        every = ", ".join(f"{name} {seconds(took)}" for name, took in parts.items())
        told.append(f"{label}: {mark(every)}")
    return bars(
        rows,
        _LOOKS,
        ends=ends,
        unit="seconds until the first answer",
        title="what a fresh process waits for",
        alt="Seconds until the first answer. " + ". ".join(told) + ".",
        legend="outside upper left",
    )


def recorded(name: str) -> Any:
    """Return a result that `python -m tests.benchmarks starts` kept."""
    home = Path(__file__).parents[2] / "data" / "benchmarks"
    return load(home / f"{name}.json")
