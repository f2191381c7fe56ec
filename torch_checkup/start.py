"""cold_start(): what the first call of a compiled function costs, and what saves it.

Each start is a process with its own folder, as in a new container: an empty one, one
that a process has filled, a copy of its cache, or an empty one and a file of artifacts.
Seconds by phase, and what the caches found, are torch's own records.  The process
imports torch in a stage, so this module does not at its top.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from . import sandbox
from .helpers import text
from .helpers.errors import InputError
from .helpers.results import Measured, TableResult
from .helpers.text import Table, mark
from .report import Part, by_name, shown
from .sandbox import Report, target_of

WAYS = {
    "empty": "nothing was compiled before",
    "warm": "a second process in the same place",
    "copied": "a new place, with a copy of TORCHINDUCTOR_CACHE_DIR",
    "artifacts": "a new place, with a file of saved artifacts",
}
_TURN = "wait for its turn"
CACHE = "cache"  # the folder in a place that is TORCHINDUCTOR_CACHE_DIR
PHASES = ("Dynamo", "AOTAutograd", "Inductor", "build")


@dataclass(frozen=True)
class Lookup:
    """What one kind of cache was asked in a process."""

    kind: str
    hits: int
    misses: int
    bypasses: int
    reasons: tuple[str, ...]
    """Why torch did not even look, in torch's words."""


@dataclass(frozen=True)
class Start:
    """One process: seconds until the first answer, and what was found on the way."""

    load_s: float = 0.0
    """Loading the artifacts."""
    first_s: float = 0.0
    """The first call (with its backward, if asked): compile and run."""
    phases: dict[str, float] = field(default_factory=dict)
    lookups: tuple[Lookup, ...] = ()
    libraries: int = 0
    """Libraries that appeared in the cache folder: what was built in this process."""
    agrees: bool | None = None
    problem: str = ""
    """Where and how the process failed; '' when it did not."""

    @property
    def wait_s(self) -> float:
        """Return the seconds for compiled code and its first answer, loading too."""
        return self.load_s + self.first_s

    @property
    def found(self) -> str:
        """Return in words what the caches were asked, such as ``2 found``."""
        kinds = {"found": "hits", "missed": "misses", "bypassed": "bypasses"}
        totals = {k: sum(getattr(o, n) for o in self.lookups) for k, n in kinds.items()}
        return ", ".join(f"{n} {k}" for k, n in totals.items() if n) or "not asked"


@dataclass(frozen=True)
class Way:
    """One way to start, each of its processes, and the bytes that it ships."""

    name: str
    starts: tuple[Start, ...]
    ships: int

    @property
    def problem(self) -> str:
        """Return the first problem of its starts, or ''."""
        return next((one.problem for one in self.starts if one.problem), "")

    @property
    def done(self) -> tuple[Start, ...]:
        """Return the starts that came to their end; all, where none did."""
        return tuple(one for one in self.starts if not one.problem) or self.starts

    def seconds(self, phase: str = "") -> float:
        """Return the median seconds of one phase, or of the whole wait."""
        return median(
            o.phases.get(phase, 0.0) if phase else o.wait_s for o in self.done
        )


@dataclass(frozen=True, repr=False)
class ColdStart(Measured, TableResult):
    """What ``cold_start`` found: a way for each that was asked."""

    target: str
    ways: tuple[Way, ...]
    train: bool
    interrupted: bool = False

    def __getitem__(self, name: str) -> Way:
        return by_name(self.ways, name)

    def saved(self, name: str) -> float:
        """Return which share of the wait *name* saves; below 0 it takes longer."""
        return 1 - self[name].seconds() / max(self["empty"].seconds(), 1e-9)

    def table(self) -> Table:
        """Return a row for each way, measured values marked."""
        rows, answers = [], {True: "agree", False: "DIFFER", None: "unknown"}
        for way in self.ways:
            took, every = text.seconds(way.seconds()), [o.wait_s for o in way.done]
            if len(every) > 1:
                took += f" ({text.seconds(min(every))} to {text.seconds(max(every))})"
            parts = ", ".join(f"{p} {text.seconds(way.seconds(p))}" for p in PHASES)
            first = way.starts[0]
            rows.append(
                [way.name, first.found, way.problem or answers[first.agrees]]
                + [mark(v) for v in (first.libraries, text.size(way.ships))]
                + [mark(took), mark(parts)]
            )
        heads = ["way", "caches", "answers", "built", "ships", "wait", "of which"]
        return Table.of(heads, rows)

    def _last(self) -> str:
        said = [f"{way.name}: {WAYS[way.name]}" for way in self.ways]
        if self.interrupted:
            said.append("interrupted: these are the ways that are finished")
        return "\n".join(said)


def cold_start(
    make: str | Callable[[], tuple],
    ways: Sequence[str] = (),
    *,
    repeat: int = 1,
    train: bool = False,
    timeout: float = 600.0,
    memory: int | None = None,
    in_pieces: bool = False,
) -> ColdStart:
    """Return the cost of a first call, for several ways to start.

    *make* is what ``checkup`` takes: ``"module:function"``, ``"file.py:function"`` or a
    function of a module, which returns a model and its inputs, of which a list's first
    are taken, and may return a loss.

    *ways* are some of `WAYS`, what a process finds when it starts, besides ``empty``;
    else all.  In each, the function is compiled and called once; ``train=True`` adds a
    backward of a weighted sum.  *repeat* starts each way as often, in turns; those of
    a turn load torch at once.  A process in which a step takes more than *timeout*
    seconds, or that has more than *memory* bytes (by default three quarters of what is
    free), is ended, with all that it started, and so it is with Ctrl-C, which keeps
    what is finished.

    One that compiles pieces of itself is left as it is: *in_pieces* says so of one
    whose pieces cannot be seen.

    Loading torch, and the modules of its compiler, is no part of the wait for the first
    answer: no cache saves that.

    Raises InputError when *make* cannot be found or fails, or when the first process,
    which fills the cache, does not come to its end.  Where a later one fails, its way
    says so, and the others are kept.
    """
    target = target_of(make)
    ways = sandbox.chosen(["empty", *ways] if ways else [], WAYS)
    if repeat < 1:
        raise InputError("repeat must be 1 or more")
    order = {"target": target, "train": train, "in_pieces": in_pieces}
    order |= {"timeout": timeout, "memory": memory}
    done: dict[str, list[Start]] = {way: [] for way in ways}
    interrupted = False
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place,
        text.progress("starts", repeat * len(ways)) as bar,
    ):
        home = Path(place)
        try:
            for _ in range(repeat):
                for way, start in _in_turn(ways, order, home):
                    if start.problem and not done["empty"]:
                        raise InputError(f"{target}: {start.problem}")
                    done[way].append(start)
                    bar.update()
        except KeyboardInterrupt:
            interrupted = True
            if not any(done.values()):
                raise
        ships = {"copied": _bytes(home / "filled" / CACHE)}
        ships["artifacts"] = _bytes(home / "artifacts")
    finished = [Way(way, tuple(s), ships.get(way, 0)) for way, s in done.items() if s]
    return ColdStart(Path(target).name, tuple(finished), train, interrupted)


def _in_turn(
    ways: Sequence[str], order: Mapping[str, Any], home: Path
) -> Iterator[tuple[str, Start]]:
    """Yield each way and its start, one after the other.

    All load torch at once before that: loading would disturb another's first call.
    """
    with ExitStack() as stack:
        made = {way: started(way, order, home) for way in ways}
        every = {way: stack.enter_context(closing(one)) for way, one in made.items()}
        for _ in ("run", "have loaded"):
            for one in every.values():
                next(one)
        for way, one in every.items():
            yield way, next(one)


def started(way: str, order: Mapping[str, Any], home: Path) -> Iterator[Start | None]:
    """Yield None as a process runs, None when it has loaded torch, and its start.

    *order* has a ``target``, ``train``, and as limits a ``timeout`` (seconds a step)
    and ``memory`` (bytes).  The first process fills a place in *home* that ``warm``
    finds, and a file of artifacts there; others have a new place.
    """
    filled, artifacts = home / "filled", str(home / "artifacts")
    fills = not filled.exists()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=home, ignore_cleanup_errors=True) as new:
        place, turn = filled if fills or way == "warm" else Path(new), Path(new, "turn")
        cache, temporary = place / CACHE, place / "temporary"
        temporary.mkdir(parents=True, exist_ok=True)
        # torch keeps a precompiled C++ header there, wherever its cache is.
        env = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
        env["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
        whole = {**order, "save": artifacts * fills, "turn": str(turn)}
        whole["load"] = artifacts * (way == "artifacts")
        how = whole, order["timeout"], order["memory"], env, place
        with closing(sandbox.reports(".start:first_call", *how)) as reports:
            for stage in ("import torch", _TURN):
                while found.get("stage") != stage and (news := next(reports, None)):
                    found |= news
                yield None
            if way == "copied" and (filled / CACHE).is_dir():  # it may compile nothing
                shutil.copytree(filled / CACHE, cache, dirs_exist_ok=True)
            before = set(cache.rglob("*.so"))
            turn.touch()
            for news in reports:
                found |= news
        found["libraries"] = len(set(cache.rglob("*.so")) - before)
    yield msgspec.convert(found, Start)  # which has no field for a stage


def _bytes(path: Path) -> int:
    files = filter(Path.is_file, (path, *path.rglob("*")))
    return sum(file.stat().st_size for file in files)


# ----------------------------------------------------------- in the process of a start


def first_call(order: dict[str, Any], report: Report) -> None:
    """Call a compiled function for the first time: a sandbox runs this."""
    report.stage("import torch")
    import torch

    report.stage("load the compiler")
    for name in ("async_compile", "compile_fx"):  # or the first compile loads them
        import_module(f"torch._inductor.{name}")

    from .helpers import _torch
    from .model import Model

    report.stage(_TURN)
    while not Path(order["turn"]).exists():
        time.sleep(0.05)
    report.stage("make the model")
    m = Model(order)
    m.train, (inputs, kwargs) = order["train"], m.calls[0]
    if order.get("in_pieces"):  # which the one who asks saw in a call
        m._met = ("a function that it calls",)
    if order["load"]:
        report.stage("load the artifacts")
        torch.compiler.load_cache_artifacts(Path(order["load"]).read_bytes())
        report.end("load_s")

    report.stage("the first call")
    compiled = m.fn if m.in_pieces else torch.compile(m.fn, **m.how)
    with torch.set_grad_enabled(order["train"]), _torch.trace() as events:
        m.run(compiled)(*inputs, **kwargs)
        report.end("first_s")
    report.put(phases=phases(), lookups=lookups(events))
    if order["save"]:
        report.stage("save the artifacts")
        saved = torch.compiler.save_cache_artifacts()
        if saved is not None:
            Path(order["save"]).write_bytes(saved[0])
    report.stage("compare with eager")
    with torch.set_grad_enabled(order["train"]):
        report.put(agrees=m.judged(compiled, m.calls[:1]).matches)


# Each kind of cache: torch's counters of what was found, not found, and not looked
# for, and how torch's events of it begin.
_CACHES = {
    "AOTAutogradCache": ("aot_autograd", "autograd_cache", "aotautograd_cache_"),
    "FxGraphCache": ("inductor", "fxgraph_cache", "fx_graph_cache_"),
}


def phases() -> dict[str, float]:
    """Return the seconds that each phase of this process took for itself.

    Inductor loads code that was found in a cache, and ``build`` is the time of
    compilers and linkers.
    """
    from .helpers import _torch

    def whole(phase: str) -> float:
        field = f"{phase}_cumulative_compile_time_us"
        every = (getattr(one, field, None) or 0 for one in _torch.compile_history)
        return sum(every) / 1e6

    def timed(name: str) -> float:
        return sum(_torch.compile_seconds.get(name, ()))

    aot, lowered = whole("aot_autograd"), whole("inductor")
    # A graph that was found is not lowered, but its code is loaded.
    loads = timed("AOTAutogradCache.inductor_load") or (
        0.0 if lowered else timed("PyCodeCache.load_by_key_path")
    )
    inductor = min(lowered + loads, aot)
    building = min(timed("compile_file"), inductor)
    return {
        "Dynamo": max(whole("dynamo") - aot, 0.0),
        "AOTAutograd": aot - inductor,
        "Inductor": inductor - building,
        "build": building,
    }


def lookups(events: list[Any]) -> list[dict[str, Any]]:
    """Return the hits of each kind of cache, and why it was not asked."""
    from .helpers import _torch

    found = []
    for kind, (group, prefix, begins) in _CACHES.items():
        counts = _torch.counters[group]
        hits, misses, bypasses = (
            counts[f"{prefix}_{word}"] for word in ("hit", "miss", "bypass")
        )
        told = (
            json.loads(event.payload).get("cache_bypass_reason")
            for event in events
            if event.kind.startswith(begins) and event.payload[:1] == "{"
        )
        row = {"kind": kind, "hits": hits, "misses": misses, "bypasses": bypasses}
        found.append({**row, "reasons": tuple(dict.fromkeys(filter(None, told)))})
    return found


_OWN_BACKWARD = (
    "torch._functorch.config.autograd_cache_allow_custom_autograd_functions = True"
)
_LOOK_WHY = "are caches off? TORCH_LOGS=+torch._inductor.codecache has the keys"
_WORTH_SHIPPING = 0.2  # of the first call, what a cache must save to be advised


def part(order: dict[str, Any]) -> Part:
    """Where do the first call's seconds go?"""
    how = {name: order[name] for name in ("timeout", "memory", "in_pieces")}
    ways = "warm", "copied"  # which has all that a file of artifacts has
    found = cold_start(order["target"], ways, train=order["trains"], **how)
    if found.interrupted:
        raise KeyboardInterrupt
    return judged(found)


def judged(found: ColdStart) -> Part:
    """Return the verdict on the first call, cold and with a cache."""
    problems = [f"{way.name}: {way.problem}" for way in found.ways if way.problem]
    saved = {way.name: found.saved(way.name) for way in found.ways if not way.problem}
    first_s = round(found["empty"].seconds(), 4)
    says = f"{mark(text.seconds(first_s))} until the first answer"
    counts: dict[str, Any] = {"first_s": first_s, "saved": None, "found_in_cache": None}
    verdict, advice = "look" if problems else "good", ()
    if "warm" in saved:
        says += f", {mark(text.seconds(found['warm'].seconds()))} with a warm cache"
        lookups = found["warm"].starts[0].lookups
        counts["saved"] = round(saved["warm"], 3)
        hits = counts["found_in_cache"] = sum(one.hits for one in lookups)
        phases = found["empty"].starts[0].phases
        if not hits and phases.get("Inductor", 0) + phases.get("build", 0):
            verdict = "bad"
            says = f"a second process finds nothing in the cache: {says}"
            whys = "; ".join(reason for one in lookups for reason in one.reasons)
            advice = (f"look why: {whys or _LOOK_WHY}",)
        elif verdict == "good" and (passed := [one for one in lookups if one.bypasses]):
            kinds = ", ".join(one.kind for one in passed)
            verdict, says = "look", f"a second process passes {kinds} by: {says}"
            advice = tuple(map(_passed_by, passed))
    best = max(saved, key=lambda way: (way != "warm", saved[way]))
    if verdict == "good" and saved[best] > _WORTH_SHIPPING:
        ships = mark(text.size(found[best].ships))
        share = mark(f"{saved[best]:.0%}")
        advice = (f"{best!r} ships {ships} and saves {share} of the first call",)
    return Part("start", verdict, says, counts, (*shown(found), *problems), advice)


def _passed_by(found: Lookup) -> str:
    """Return why a cache was not asked, in torch's words, and what lets it be."""
    why = " ".join("; ".join(found.reasons).split()) or "torch does not say why"
    said = f"{found.kind} is not asked, so its part is done in each process: {why}"
    if re.search("FunctionCtx|autograd_function_apply", why):
        said += f": untried: {_OWN_BACKWARD}, where such a function has no state"
    return said
