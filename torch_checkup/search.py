"""The search for where a difference comes from, from the outside in.

Each step asks the same question, whether the same field of the same place differs: of a
backend, of a graph, of a piece of a graph.  The smallest piece becomes a program, and
torch's bisector gets that piece, because it compiles in a second.
"""

from __future__ import annotations

import contextlib
import io
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import fx

from . import lines, repro
from .capture import least_captured
from .helpers import correctness
from .helpers._torch import needed_for
from .helpers.codegen import kernels
from .helpers.differences import Difference
from .helpers.errors import InputError, one_line
from .helpers.session import undisturbed
from .helpers.tensors import clone, tensors
from .model import Model
from .pieces import (
    Captured,
    OnePiece,
    Piece,
    cuts,
    halved,
    smallest,
    users_line,
    users_module,
)
from .repro import Repro
from .sandbox import Report, folders_of
from .where import LADDER

with needed_for("the pass or lowering that is wrong"):
    from torch._inductor import config as inductor_config
    from torch._inductor.compiler_bisector import (
        BACKENDS,
        CompilerBisector,
        ConfigChange,
    )

_SWITCHES = {  # settings of code generation beyond passes and lowerings
    "without fusion (max_fusion_size = 1)": {"max_fusion_size": 1},
    "without vector instructions (cpp.simdlen = 1)": {"cpp.simdlen": 1},
}
Compiling = Callable[[], Callable[..., Any]]
"""Compiles a model anew, always in the same way."""


@correctness.eager_numbers()  # both sides draw the same
def look(order: dict[str, Any], report: Report) -> None:
    """Search for the difference of an *order*: a sandbox runs this."""
    report.stage("look for where it comes from")
    progress = Progress(report, order["seconds"] * 0.95)
    m = Model(order)
    m.train = bool(order["trains"])
    m.try_out()
    Search(m, Difference(**order["difference"]), progress, order).run()
    progress.put()


class Progress:
    """The facts known so far, each reported as it comes, and the time that is left."""

    def __init__(self, report: Report, seconds: float) -> None:
        self._report, self._begin, self._seconds = report, time.monotonic(), seconds
        self._last = 0.0
        self.notes, self.compiles = list[str](), 0

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return self._seconds - (time.monotonic() - self._begin)

    def put(self, **facts: Any) -> None:
        """Report facts; the others stay."""
        took = {"seconds": time.monotonic() - self._begin, "compiles": self.compiles}
        self._report.put(where={"notes": self.notes, **took, **facts})

    def note(self, words: str) -> None:
        """Report something else that a reader must know, or what was not found out."""
        if words not in self.notes:
            self.notes.append(words)
        self.put()

    def spend(self, work: Callable[[], Any]) -> Any:
        """Return the answer of *work*, which compiles.

        Raises TimeoutError where too little time is left.
        """
        if self.left < self._last:  # the next compile is seldom longer
            raise TimeoutError
        begin, self.compiles = time.monotonic(), self.compiles + 1
        try:
            return work()
        finally:
            self._last = time.monotonic() - begin


def _same(sought: Difference, found: Difference) -> bool:
    """Return whether it is the same place and field, of an exception the same kind."""
    if sought.where != found.where:
        return False
    kinds = [one.compiled.split(":")[0] for one in (sought, found)]
    return sought.field not in ("raises", "exception") or kinds[0] == kinds[1]


def _found(m: Model, compiling: Compiling) -> tuple[Difference, ...]:
    """Return all in which a model, compiled so, differs from eager."""
    return m.judged(compiling(), again=compiling).differences


def _wrong(m: Model, sought: Difference, compiling: Compiling) -> bool:
    """Return whether a model, compiled so, differs in the same place and field."""
    return any(_same(sought, one) for one in _found(m, compiling))


class Alone(Model):
    """A piece of a graph as a model with one call."""

    def __init__(self, module: fx.GraphModule, inputs: tuple[Any, ...], m: Model):
        self.order, self.fn, self.module = m.order, module, module
        self.loss, self._calls = correctness.weighted_sum, [(inputs, {})]
        self.train = m.train and any(t.requires_grad for t in tensors(inputs))

    def made_again(self) -> Callable[..., Any]:
        """Return the piece itself: it holds no state."""
        return self.fn


@dataclass
class Culprit:
    """A piece that is wrong by itself, its model, and the difference that it shows."""

    captured: Captured
    inputs: tuple[Any, ...]
    difference: Difference
    alone: Alone

    def compiling(self, **options: Any) -> Compiling:
        """Return its compiler; sizes are dynamic where those of its graph were."""
        dynamic = True if self.captured.dynamic else None
        return partial(self.alone.compiled, dynamic=dynamic, **options)


@dataclass
class Search:
    """The search for one difference of a model."""

    m: Model
    sought: Difference
    progress: Progress
    order: dict[str, Any] = field(default_factory=dict)
    smallest: Piece | None = None
    """The smallest piece that is known to be wrong."""

    def wrong(self, compiling: Compiling) -> bool:
        """Return whether the model, compiled so, differs in that place and field."""
        return self.progress.spend(partial(_wrong, self.m, self.sought, compiling))

    def wrong_with(self, backend: Callable[[], Any]) -> bool:
        """Return whether the model is wrong with a backend, made anew each time."""
        return self.wrong(lambda: self.m.compiled(backend=backend()))

    def run(self) -> None:
        """Report where the difference comes from, as far as the time goes."""
        if often := re.search(r"in (\d+) of (\d+) rounds", self.sought.note):
            self.progress.put(often=[*map(int, often.groups())])
            self.progress.note("not narrowed further: it is not always wrong")
            return
        try:
            self.ended() if self.sought.ended else self.narrowed()
        except TimeoutError:
            words = "not narrowed further: the time of the search is spent"
            self.progress.note(words)

    def ended(self) -> None:
        """Report the stage that ends the process, or never ends: each in a process."""
        for number, stage in enumerate(LADDER):
            made = self.of_the_whole(stage)
            doing = f"a program compiled it with {stage}"
            self.progress.put(doing=doing, trying=stage)
            seconds = self.progress.left / (len(LADDER) - number + 1)
            if self.progress.spend(partial(self.fails, made, seconds)):
                self.progress.put(stage=stage)
                words = "not narrowed further: no piece of it was compiled by itself"
                self.progress.note(words)
                self.put_program(made, True)
                return
        self.progress.note("not narrowed further: no backend by itself does that")

    def narrowed(self) -> None:
        """Report the stage, and then what is smaller."""
        stage = self.stage()
        self.progress.put(stage=stage)
        if not stage:
            self.progress.note("not narrowed further: no backend by itself is wrong")
        elif stage == "eager":
            self.captured_wrongly()
            self.whole(stage)
        elif culprit := self.culprit(stage):
            if made := self.program(culprit, stage):
                self.put_program(*made)
            else:
                self.progress.note(f"no program for {culprit.difference.place}")
            compiling = culprit.compiling()
            alone = culprit.alone, culprit.difference
            self.step(stage, lambda: _wrong(*alone, compiling))
            if stage == "inductor":
                self.kernel(culprit)
        else:
            self.whole(stage)
            self.step(stage, partial(_wrong, self.m, self.sought, self.m.compiled))

    # -------------------------------------------------- stage, graph, piece of a graph

    def stage(self) -> str:
        """Return the first backend that is wrong; '' if none is by itself."""
        for name in LADDER:
            self.progress.put(doing=f"it was compiled with {name}", trying=name)
            if self.wrong(partial(self.m.compiled, backend=name)):
                return name
        return ""

    def graph(self, stage: str) -> tuple[int, list[Captured]]:
        """Return the first graph with which the whole is wrong, and all graphs.

        Graphs behind it run eagerly.
        """
        seen: list[OnePiece] = []

        def first(count: int) -> bool:
            seen[:] = []

            def backend() -> OnePiece:
                seen.append(OnePiece(stage, whole=count))
                return seen[-1]

            return self.wrong_with(backend)

        first(0)
        graphs = seen[-1].graphs
        if len(graphs) < 2:
            return 0, graphs
        return smallest(range(len(graphs) + 1), first) - 1, graphs

    def piece(self, stage: str, number: int, graph: Captured) -> Piece | None:
        """Return the smallest piece of a graph that makes the whole wrong.

        None where even the whole graph, taken by itself, does not.
        """

        def is_wrong(piece: Piece) -> bool:
            wrong = self.wrong_with(partial(OnePiece, stage, piece))
            self.smallest = piece if wrong else self.smallest
            return wrong

        whole = Piece(number, 0, len(graph.body))
        if not is_wrong(whole):
            whole = replace(whole, after=True)
            if not number or not is_wrong(whole):
                return None
        places = halved(
            cuts(graph.module.graph),
            lambda start, stop: is_wrong(replace(whole, start=start, stop=stop)),
        )
        whole = replace(whole, start=places[0])
        stop = smallest(places, lambda n: is_wrong(replace(whole, stop=n)))
        whole = replace(whole, stop=stop)
        starts = [n for n in reversed(places) if n < stop]
        if len(starts) > 1:  # the last start that is wrong
            begins = lambda n: is_wrong(replace(whole, start=n))  # noqa: E731
            begin = starts[0] if begins(starts[0]) else smallest(starts, begins)
            whole = replace(whole, start=begin)
        return whole

    def kept(self, piece: Piece) -> Captured | None:
        """Return the piece, and the inputs that it is given while all runs eagerly."""
        backends: list[OnePiece] = []

        def backend() -> OnePiece:
            backends.append(OnePiece("eager", piece, keep=True))
            return backends[-1]

        self.wrong_with(backend)
        kept = backends[0].piece if backends else None
        return kept if kept and kept.runs else None

    def culprit(self, stage: str) -> Culprit | None:
        """Report graph, piece and line; return the piece that is wrong by itself."""
        progress = self.progress
        progress.put(doing="while one graph after the other was compiled")
        number, graphs = self.graph(stage)
        graph = graphs[number]
        progress.put(graph=number + 1, operations=len(graph.body))
        progress.put(doing="while a graph was cut")
        try:
            piece = self.piece(stage, number, graph)
        except TimeoutError:
            if piece := self.smallest:
                long = piece.stop - piece.start
                progress.put(piece=long, **place_of(graph, piece))
                before = f"begins up to {long - 1} operations before"
                progress.note(f"it ends there, and {before}")
            raise
        if piece is None:
            progress.note("no prefix of a graph is wrong alone")
            piece = Piece(number, 0, len(graph.body))
        else:
            progress.put(piece=piece.stop - piece.start, **place_of(graph, piece))
            if piece.stop == len(graph.body) and piece.stop - piece.start > 1:
                progress.note("no prefix of the graph is wrong alone")
                stops = least_captured(self.m)[0].breaks
                if number < len(stops):  # a line that runs eagerly may show it
                    progress.note(f"the graph ends at {stops[number].place}")
        larger = replace(piece, start=0), Piece(number, 0, len(graph.body))
        for part in dict.fromkeys((piece, *larger)):
            kept = self.kept(part)
            if kept and (found := self.by_itself(kept, stage)):
                return found
        progress.note("the piece is not wrong by itself, outside the model")
        return None

    def by_itself(self, captured: Captured, stage: str) -> Culprit | None:
        """Return a piece with the first of its runs in which it is wrong by itself.

        The same field counts first, and then any that changes an answer.
        """
        for inputs in _distinct(captured.runs):
            alone = Alone(captured.module, inputs, self.m)
            culprit = Culprit(captured, inputs, self.sought, alone)
            made, compiling = (), culprit.compiling(backend=stage)
            with contextlib.suppress(InputError):
                made = self.progress.spend(partial(_found, alone, compiling))
            found = [one for one in made if not one.look or self.sought.look]
            same = [one for one in found if one.field == self.sought.field]
            if found:
                return replace(culprit, difference=(same or found)[0])
        return None

    # ------------------------------------------------------- pass, lowering, kernel

    def step(self, stage: str, differs: Callable[[], bool]) -> None:
        """Report the pass, lowering or setting, and what of code generation matters."""
        progress, wrong = self.progress, partial(self.progress.spend, differs)
        progress.put(doing="while torch's bisector switched parts off")
        try:
            kind, name = bisected(wrong, stage, self.order["cache"])
        except (RuntimeError, AssertionError) as error:  # of the bisector itself
            progress.note(f"torch's bisector stopped: {one_line(error)}")
            kind = name = ""
        progress.put(step=f"{kind} {name}".strip())
        if stage != "inductor" or kind.startswith("pass"):
            return
        # A bisector that names nothing may have found it right; else it found it wrong.
        if not kind and not wrong():
            return
        for words, settings in _SWITCHES.items():
            with inductor_config.patch(settings):
                if not wrong():
                    progress.note(f"right {words}")
        for change in BACKENDS[stage]:
            if isinstance(change, ConfigChange) and name == f"with {_as_set(change)}":
                self.of_the_model(change)

    def of_the_model(self, change: Any) -> None:
        """Report whether a setting that makes a piece right does so for the model."""
        m = self.m
        self.progress.put(doing="while a setting was tried on the whole model")
        with inductor_config.patch(change.config_field, change.config_value):
            left = self.progress.spend(partial(_found, m, m.compiled))
        does = "leaves the whole model wrong" if left else "makes the whole model right"
        self.progress.note(f"torch._inductor.config.{_as_set(change)} {does}")

    def kernel(self, culprit: Culprit) -> None:
        """Report the kernel that a piece became."""
        gradient = culprit.difference.place.startswith("gradient")
        with contextlib.suppress(InputError):
            made = kernels(culprit.captured.module, *clone(culprit.inputs))
            phase = [k for k in made.kernels if (k.phase == "backward") == gradient]
            names = [k.name for k in phase if k.language != "library"]
            names = names or [k.name for k in phase]
            if names:
                self.progress.put(kernel=", ".join(names[:3]))

    # ------------------------------------------------------ what Dynamo itself captured

    def captured_wrongly(self) -> None:
        """Report the module and the line without whose capture the answer is right."""
        progress = self.progress
        progress.put(doing="while modules were left to eager")
        module = self.without_module()
        raises = self.sought.field in ("raises", "exception")
        does = "stops at it" if raises else "captured a different program"
        progress.note(f"Dynamo {does}{' there' if module else ''}")
        progress.put(doing="while lines were left to eager")
        try:
            line = self.without_line()
        except TimeoutError:
            raise
        except Exception as error:  # rewritten code may not run
            progress.note(f"not narrowed to a line: {one_line(error)}")
            return
        if line is None:
            progress.note("not narrowed to a line: no line by itself makes it right")
            return
        progress.put(file=Path(line.file).name, line=line.line, code=line.code)
        with lines.eagerly([line], breaks=True):
            breaks = not self.wrong_with(lambda: "eager")
        words = "the graph breaks at it" if breaks else "it runs eagerly"
        progress.note(f"right where {words}: `{line.code}`")

    def without_module(self) -> str:
        """Return the innermost module without whose capture it is right; report it."""
        module, name = self.m.module, ""
        while module is not None:
            for child, part in module.named_children():
                if not self.wrong(partial(_without, self.m, part)):
                    name, module = f"{name}.{child}", part
                    self.progress.put(module=f"self{name}")
                    break
            else:
                break
        return name

    def without_line(self) -> lines.Line | None:
        """Return the line that, run eagerly with all before it, makes it right."""
        m = self.m
        run = m.run(m.eager)
        with undisturbed(m.fn), correctness.seeded(0):
            calls = m.calls
            known = lines.lines_of(lambda: [run(*call, **kw) for call, kw in calls])

        def right(count: int) -> bool:
            with lines.eagerly(known[:count]):
                return not self.wrong_with(lambda: "eager")

        if not known or not right(len(known)):
            return None
        return known[smallest(range(len(known) + 1), right) - 1]

    # --------------------------------------------------------------------- the program

    def program(self, culprit: Culprit, stage: str) -> tuple[Repro, bool] | None:
        """Return a program of the piece, and whether it fails in a process by itself.

        Inputs from a seed are tried first, and a file is the last resort.
        """
        self.progress.put(doing="while the repro ran")
        module = culprit.captured.module
        check = repro.check_of_piece(culprit.difference, module, culprit.alone.train)
        if check is None:
            return None
        options = [f'backend="{stage}"'] * (stage != "inductor")
        options += ["dynamic=True"] * culprit.captured.dynamic
        compiling = f"torch.compile({', '.join(['f', *options])})"
        target, last = self.order["target"], None
        for exact in (False, True):
            try:
                given = culprit.inputs, check, compiling, exact
                made = repro.of_piece(module, *given, target)
            except ValueError as error:
                self.progress.note(f"no file for its inputs: {error}")
                break
            if last and made.source == last.source:
                break
            last = made
            if self.fails(made, self.progress.left):
                return made, True
        return (last, False) if last else None

    def fails(self, made: Repro, seconds: float) -> bool:
        """Return whether a program, run where it is kept, fails as it should."""
        path, order = folders_of(self.order["target"]), self.order
        return made.fails(Path(order["keep"]), seconds, path, order["memory"])

    def whole(self, stage: str) -> None:
        """Report the program that calls the user's own ``make``."""
        made = self.of_the_whole(stage)
        if made is None:
            self.progress.note(f"no program for {self.sought.place}")
        else:
            self.put_program(made, self.fails(made, self.progress.left))

    def put_program(self, made: Repro, fails: bool) -> None:
        """Report a program, and its form as a test."""
        name = f"{self.sought.place} has eager's {self.sought.field}"
        made.write(Path(self.order["keep"]))
        self.progress.put(
            repro=made.source,
            test=repro.as_test(made, name),
            still_fails=fails,
            lines=made.lines,
            files=["repro.pt"] if made.saved else [],
        )

    def of_the_whole(self, stage: str) -> Repro | None:
        """Return the program that calls the user's own ``make``."""
        check = repro.check_of_model(self.sought, self.m)
        if check is None:
            return None
        m, found = self.m, self.sought
        _, raw, loss = m._made()

        def call(run: str) -> list[str]:
            many = isinstance(raw, list)
            head = f"for call in given[:{found.call}]:" if many else "call = given"
            sample = raw[0] if many else raw
            inner = [f"out = {run}({'**' if isinstance(sample, dict) else '*'}call)"]
            if m.train:
                inner += ["loss[0](out).backward()"] if loss else repro.BACKWARD
            return [head, *("    " * many + line for line in inner)]

        options = [f'backend="{stage}"'] * (stage != "inductor")
        how = f"torch.compile({', '.join(['fn', *options])})"
        return repro.of_make(self.order["target"], call, check, how)


def _distinct(runs: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return each run once: the judge repeats its calls."""
    kept: list[tuple[Any, ...]] = []
    for run in runs:
        if not any(all(map(_is_same, run, other)) for other in kept):
            kept.append(run)
    return kept


def _is_same(one: Any, other: Any) -> bool:
    both = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    return torch.equal(one, other) if both else one == other


def place_of(graph: Captured, piece: Piece) -> dict[str, Any]:
    """Return the user's line and module of the last operation of a piece."""
    [*_, last] = [n for n in graph.body[piece.start : piece.stop] if n.op != "get_attr"]
    file, line, code = users_line(last)
    found = {"file": Path(file).name, "line": line, "code": code}
    return {**found, "module": users_module(last)}


def bisected(wrong: Callable[[], bool], stage: str, cache: str) -> tuple[str, str]:
    """Return the subsystem of *stage* that torch's bisector names, and what in it.

    *wrong* compiles anew, with the defaults of ``torch.compile``: the bisector chooses
    the backend.
    """
    if stage not in BACKENDS or not BACKENDS[stage]:
        return "", ""
    first = {stage: BACKENDS[stage]}  # it climbs them in their order
    with (
        mock.patch.dict(BACKENDS, first | BACKENDS, clear=True),
        mock.patch.object(CompilerBisector, "in_process_cache", cache),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        found = CompilerBisector.do_bisect(lambda: not wrong())
    if found is None or found.backend != stage or not found.subsystem:
        return "", ""
    return _in_words(found)


def _in_words(found: Any) -> tuple[str, str]:
    number, name = found.bisect_number, found.debug_info or ""
    if found.subsystem.endswith("passes"):
        return f"pass {found.subsystem} #{number}", name
    if found.subsystem == "lowerings":
        return "lowering", f"of {name}" if name else f"#{number}"
    if found.subsystem == "decomposition":
        words = re.search(r"op='([\w.]+)'", name)
        return "decomposition", f"of {words[1] if words else name}"
    change = next(s for s in BACKENDS[found.backend] if s.name == found.subsystem)
    return "right", f"with {_as_set(change)}"


def _as_set(change: Any) -> str:
    return f"{change.config_field} = {change.config_value}"


def _without(m: Model, part: torch.nn.Module) -> Callable[..., Any]:
    """Return the model compiled, with one module of it left to eager."""
    compiled = m.compiled(backend="eager")
    usual = part.forward

    def call(*inputs: Any, **kwargs: Any) -> Any:
        with mock.patch.object(part, "forward", torch.compiler.disable(usual)):
            return compiled(*inputs, **kwargs)

    return call
