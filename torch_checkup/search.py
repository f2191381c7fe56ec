"""The search for where a difference comes from, from the outside in.

Each step asks the same question, whether the same field of the same place differs: of a
backend, of a graph, of a piece of a graph.  The smallest piece becomes a program, and
torch's bisector gets that piece, because it compiles in a second.  What Dynamo captures
wrongly is in no graph: there, lines of the code itself are left to eager.
"""

from __future__ import annotations
import __future__

import ast
import gc
import inspect
import io
import re
import sys
import textwrap
import time
import traceback
import types
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from traceback import FrameSummary
from typing import Any
from unittest import mock

import torch
from torch import fx

from . import repro
from .helpers import correctness, text
from .helpers._torch import needed_for
from .helpers.codegen import kernels
from .helpers.differences import Difference
from .helpers.errors import InputError, one_line
from .helpers.frames import frames_in, line_in, own_of
from .helpers.session import undisturbed
from .helpers.tensors import clone, tensors
from .model import Model
from .repro import Captured, OnePiece, Piece, Repro, cuts
from .sandbox import Report, folders_of
from .where import LADDER

with needed_for("the pass or lowering that is wrong"):
    from torch._inductor import config as inductor_config
    from torch._inductor.compiler_bisector import BACKENDS, CompilerBisector
    from torch._subclasses.schema_check_mode import SchemaCheckMode

_SWITCHES = {  # settings of code generation beyond passes and lowerings
    "without fusion (max_fusion_size = 1)": {"max_fusion_size": 1},
    "without vector instructions (cpp.simdlen = 1)": {"cpp.simdlen": 1},
}
_STALE = "ran the graph of an earlier call: no guard tells them apart"
_MOST_LINES = 12  # that are left to eager one by one
_TORCH = torch.__file__.removesuffix("__init__.py")
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
        self.notes = list[str]()

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return self._seconds - (time.monotonic() - self._begin)

    def put(self, **facts: Any) -> None:
        """Report facts; the others stay."""
        self._report.put(where={"notes": self.notes, **facts})

    def note(self, words: str) -> None:
        """Report something else that a reader must know, or what was not found out."""
        if words not in self.notes:
            self.notes.append(words)
        self.put()

    def spend(self, work: Callable[[], Any]) -> Any:
        """Return the answer of *work*; TimeoutError where too little time is left."""
        if self.left < self._last:  # the next compile is seldom longer
            raise TimeoutError
        begin = time.monotonic()
        try:
            return work()
        finally:
            self._last = time.monotonic() - begin


def _found(m: Model, compiling: Compiling) -> tuple[Difference, ...]:
    return m.judged(compiling(), again=compiling).differences


def _same(sought: Difference, found: Difference) -> bool:
    kinds = [one.compiled.split(":")[0] for one in (sought, found)]
    any_kind = sought.field not in ("raises", "exception")
    return sought.where == found.where and (any_kind or kinds[0] == kinds[1])


def _wrong(m: Model, sought: Difference, compiling: Compiling) -> bool:
    return any(_same(sought, one) for one in _found(m, compiling))


class Alone(Model):
    """A piece of a graph as a model with one call, and the difference that it shows."""

    difference: Difference

    def __init__(self, captured: Captured, inputs: tuple[Any, ...], m: Model):
        self.captured, self.inputs = captured, inputs
        self.fn = self.module = captured.module
        self.order, self._calls = m.order, [(inputs, {})]
        self.loss = correctness.weighted_sum
        self.train = m.train and any(t.requires_grad for t in tensors(inputs))

    def compiling(self, **options: Any) -> Compiling:
        """Return its compiler; sizes are dynamic where those of its graph were."""
        dynamic = True if self.captured.dynamic else None
        return partial(self.compiled, dynamic=dynamic, **options)


@dataclass
class Search:
    """The search for one difference of a model."""

    m: Model
    sought: Difference
    progress: Progress
    order: dict[str, Any]
    settings: list[str] = field(default_factory=repro.settings)
    """Those of the compiler, as the user's file left them."""

    def tried(self, *given: Any, **more: Any) -> tuple[bool, OnePiece]:
        """Return whether it is wrong with such a `OnePiece`, and the first one made."""
        made: list[OnePiece] = []

        def compiling() -> Callable[..., Any]:
            made.append(OnePiece(*given, **more))
            return self.m.compiled(backend=made[-1])

        wrong = partial(_wrong, self.m, self.sought, compiling)
        return self.progress.spend(wrong), made[0]

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
            made = self.of_the_whole(stage, self.source)
            doing = f"a program compiled it with {stage}"
            self.progress.put(doing=doing, trying=stage)
            seconds = self.progress.left / (len(LADDER) - number + 1)
            if self.progress.spend(partial(self.fails, made, seconds, self.path)):
                self.progress.put(stage=stage)
                self.put_program(made, True)
                self.ended_in(stage)
                return
        self.progress.note("not narrowed further: no backend by itself does that")

    def ended_in(self, stage: str) -> None:
        """Report the smallest piece that ends a process by itself, and its line."""
        self.progress.put(doing="while pieces were compiled, each in a process")
        programs, graphs = dict[Piece, Repro](), self.tried("eager")[1].graphs
        folders = folders_of(self.order["target"])

        def dies(piece: Piece) -> bool:
            kept = self.tried("eager", piece, keep=True)[1].piece
            if not kept or not kept.runs:
                return False
            alone = Alone(kept, kept.runs[0], self.m)
            place = "the backward" if alone.train else "the call"
            alone.difference = replace(self.sought, place=place)
            for made in self.programs(alone, stage):
                with suppress(TimeoutError):
                    if self.progress.spend(partial(self.fails, made, 60, folders)):
                        programs[piece] = made
            return piece in programs

        try:
            if not smallest_piece(graphs, dies):
                self.progress.note("not narrowed further: no graph ends it by itself")
        finally:
            if programs:
                piece = min(programs, key=lambda one: one.stop - one.start)
                self.put_piece(graphs, piece)
                self.put_program(programs[piece], True)

    def narrowed(self) -> None:
        """Report the stage, and then what is smaller."""
        self.undeclared()
        stage = self.stage()
        self.progress.put(stage=stage)
        if stage in LADDER[1:] and self.sought.call > 1 and self.stale(stage):
            self.progress.note(f"it {_STALE}")
        if not stage:
            tried = ", ".join(LADDER)
            words = f"tried again with each backend ({tried}), it agrees"
            self.progress.note(f"not narrowed further: {words}")
        elif stage == "eager":
            self.captured_wrongly()
            self.whole(stage)
        elif alone := self.culprit(stage):
            self.program(alone, stage)
            compiling = alone.compiling()
            self.step(stage, lambda: _wrong(alone, alone.difference, compiling))
            if stage == "inductor":
                self.kernel(alone)
        else:
            self.raised_at(stage)
            self.whole(stage)
            self.step(stage, partial(_wrong, self.m, self.sought, self.m.compiled))

    def raised_at(self, stage: str) -> None:
        """Report its owner's line that raises, as a backward that the model calls."""
        run = self.m.run(self.m.compiled(backend=stage))
        error = self.m.failures(run, "default").get(self.sought.call - 1)
        frames = frames_in("".join(traceback.format_exception(error)))
        own = [f for f in frames if {*_OTHERS}.isdisjoint(Path(f.filename).parents)]
        if at := own_of(own):
            self.progress.put(**_place(at))

    def undeclared(self) -> None:
        """Note an operator that writes, in eager, to what its schema leaves out."""
        inputs, kwargs = self.m.calls[0]
        with undisturbed(self.m.fn), suppress(Exception):
            try:
                with SchemaCheckMode():
                    self.m.run(self.m.eager)(*inputs, **kwargs)
            except RuntimeError as error:
                line = line_in(traceback.format_exc())
                if name := re.match(r"Argument (\w+) is not defined as", str(error)):
                    said = f"an operator writes to its argument {name[1]} ({line})"
                    self.progress.note(f"{said}, which its mutates_args doesn't name")

    def stage(self) -> str:
        """Return the first backend that is wrong; '' if none is by itself.

        Where none is wrong in the place that is sought, one that is wrong in another
        counts, and that is sought from then on.
        """
        elsewhere = dict[str, Difference]()
        for name in LADDER:
            self.progress.put(doing=f"it was compiled with {name}", trying=name)
            compiling = partial(self.m.compiled, backend=name)
            found = self.progress.spend(partial(_found, self.m, compiling))
            if any(_same(self.sought, one) for one in found):
                return name
            if found and not found[0].look:
                elsewhere[name] = found[0]
        for name, self.sought in elsewhere.items():
            words = f"with backend {name} another place differs: {self.sought.short}"
            self.progress.note(words)
            return name
        return ""

    def put_piece(self, graphs: Sequence[Captured], piece: Piece) -> None:
        """Report a piece, its graph, and the user's line."""
        graph = graphs[piece.graph]
        found = {"graph": piece.graph + 1, "operations": len(graph.body)}
        found |= {"piece": piece.stop - piece.start, **place_of(graph, piece)}
        self.progress.put(**found)

    def culprit(self, stage: str) -> Alone | None:
        """Report graph, piece and line; return the piece that is wrong by itself."""
        progress, wrong = self.progress, list[Piece]()
        progress.put(doing="while a graph was cut")
        graphs = self.tried("eager")[1].graphs

        def is_wrong(piece: Piece) -> bool:
            if found := self.tried(stage, piece)[0]:
                wrong.append(piece)
            return found

        try:
            piece = smallest_piece(graphs, is_wrong)
        except TimeoutError:
            if wrong:  # the smallest so far
                self.put_piece(graphs, wrong[-1])
            raise
        if piece is None:
            progress.note("no graph is wrong by itself")
            return None
        self.put_piece(graphs, piece)
        whole = Piece(piece.graph, 0, len(graphs[piece.graph].body))
        larger = replace(piece, start=0), whole
        for part in dict.fromkeys((piece, *larger)):
            kept = self.tried("eager", part, keep=True)[1].piece
            if kept and (found := self.by_itself(kept, stage)):
                return found
        progress.note("the piece is not wrong by itself, outside the model")
        return None

    def by_itself(self, captured: Captured, stage: str) -> Alone | None:
        """Return a piece with the first of its runs in which it is wrong by itself.

        The same field counts first, and then any that changes an answer.
        """
        for inputs in captured.runs[: 2 * len(self.m.calls)]:  # the judge repeats them
            alone, made = Alone(captured, inputs, self.m), ()
            with suppress(InputError):
                compiling = alone.compiling(backend=stage)
                made = self.progress.spend(partial(_found, alone, compiling))
            found = [one for one in made if not one.look or self.sought.look]
            same = [one for one in found if one.field == self.sought.field]
            if found:
                alone.difference = (same or found)[0]
                return alone
        return None

    def step(self, stage: str, differs: Callable[[], bool]) -> None:
        """Report the pass, lowering or setting, and what of code generation matters."""
        progress, wrong = self.progress, partial(self.progress.spend, differs)
        progress.put(doing="while torch's bisector switched parts off")
        try:
            kind, name, setting = bisected(wrong, stage, self.order["cache"])
        except (RuntimeError, AssertionError) as error:  # of the bisector itself
            progress.note(f"torch's bisector stopped: {one_line(error)}")
            kind, name, setting = _NOTHING
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
        if setting:
            self.of_the_model(setting)

    def of_the_model(self, change: Any) -> None:
        """Report whether a setting that makes a piece right does so for the model."""
        m = self.m
        self.progress.put(doing="while a setting was tried on the whole model")
        with inductor_config.patch(change.config_field, change.config_value):
            left = self.progress.spend(partial(_found, m, m.compiled))
        does = "leaves the whole model wrong" if left else "makes the whole model right"
        self.progress.note(f"torch._inductor.config.{_as_set(change)} {does}")

    def kernel(self, alone: Alone) -> None:
        """Report the kernel that a piece became."""
        gradient = alone.difference.place.startswith("gradient")
        with suppress(InputError):
            made = kernels(alone.captured.module, *clone(alone.inputs))
            phase = [k for k in made.kernels if (k.phase == "backward") == gradient]
            names = [k.name for k in phase if k.language != "library"]
            names = names or [k.name for k in phase]
            if names:
                self.progress.put(kernel=", ".join(names[:3]))

    # ------------------------------------------------------ what Dynamo itself captured

    def captured_wrongly(self) -> None:
        """Report the line that makes the answer right where it runs eagerly."""
        progress = self.progress
        raises = self.sought.field in ("raises", "exception")
        does = "stops at it" if raises else "captured a different program"
        if not raises and self.stale("eager"):
            does = _STALE
            left = partial(_found, self.m, self.m.compiled)  # with its fullgraph
            with torch._dynamo.config.patch(skip_nnmodule_hook_guards=False):
                if not progress.spend(left):
                    does += " (with skip_nnmodule_hook_guards = False, one does)"
        progress.note(f"Dynamo {does}")
        progress.put(doing="while lines were left to eager")
        try:
            line = self.without_line()
        except TimeoutError:
            raise
        except Exception as error:  # rewritten code may not run
            progress.note(f"not narrowed to a line: {one_line(error)}")
            return
        if line is None:
            progress.note("not narrowed to a line: none was found that makes it right")
            return
        progress.put(**line.place)
        progress.note(f"right where it runs eagerly: `{line.place['code']}`")
        if re.search(r"\b(random|rng)\b", line.place["code"]):
            progress.note("what it drew when it was captured may be used in each call")

    def stale(self, stage: str) -> bool:
        """Return whether it is right where it is captured anew in each call."""

        def forgetting() -> Callable[..., Any]:
            captured = self.m.compiled(backend=stage)

            def run(*inputs: Any, **kwargs: Any) -> Any:
                torch.compiler.reset()
                return captured(*inputs, **kwargs)

            return run

        return not self.progress.spend(lambda: _wrong(self.m, self.sought, forgetting))

    def without_line(self) -> Line | None:
        """Return the last line that by itself, run eagerly, makes it right."""
        m = self.m
        run = m.run(m.eager)
        with undisturbed(m.fn), correctness.seeded(0):
            calls = m.calls
            known = lines_of(lambda: [run(*call, **kw) for call, kw in calls])
        if not known or not self.right_with(known):
            return None
        counts = range(len(known) + 1)
        first = smallest(counts, lambda count: self.right_with(known[:count]))
        last = known[:first][: -_MOST_LINES - 1 : -1]
        return next((line for line in last if self.right_with([line])), None)

    def right_with(self, chosen: Sequence[Line]) -> bool:
        """Return whether it is right, captured, where these lines run eagerly."""
        with eagerly(chosen):
            compiling = partial(self.m.compiled, backend="eager")
            found = self.progress.spend(partial(_found, self.m, compiling))
        return not any(_same(self.sought, d) or d.field == "raises" for d in found)

    # --------------------------------------------------------------------- the program

    def program(self, alone: Alone, stage: str) -> None:
        """Report a program of the piece, and whether it fails in a process by itself.

        Inputs from a seed are tried first, and a file is the last resort.
        """
        self.progress.put(doing="while the repro ran")
        last, fails = None, False
        for last in self.programs(alone, stage):
            folders = folders_of(self.order["target"])
            if fails := self.fails(last, self.progress.left, folders):
                break
        if last:
            self.put_program(last, fails)
        else:
            self.progress.note(f"no program for {alone.difference.place}")

    def programs(self, alone: Alone, stage: str) -> Iterator[Repro]:
        """Yield the program of a piece: with inputs from a seed, then from a file."""
        module, target = alone.captured.module, self.order["target"]
        check = repro.check_of_piece(alone.difference, module, alone.train)
        dynamic = ["dynamic=True"] * alone.captured.dynamic
        how, more = _compile("f", stage, *dynamic), (target, self.settings)
        for exact in (False, True) if check else ():
            try:
                made = repro.of_piece(module, alone.inputs, check, how, exact, *more)
            except ValueError as error:
                self.progress.note(f"no file for its inputs: {error}")
                return
            if not exact or made.saved:
                yield made

    def fails(self, made: Repro, seconds: float, path: Sequence[str] = ()) -> bool:
        """Return whether a program, run where it is kept, fails as it should."""
        return made.fails(Path(self.order["keep"]), seconds, path, self.order["memory"])

    @property
    def path(self) -> Sequence[str]:
        """The folders that a program needs which imports the user's file."""
        return () if self.source else folders_of(self.order["target"])

    @cached_property
    def source(self) -> str:
        """The source of the user's file, if it runs by itself, from another folder."""
        source = repro.source_of(self.m.make)
        made = self.of_the_whole("eager", source) if source else None
        runs = made and made.passes(Path(self.order["keep"]), timeout=60)
        return source if runs else ""

    @cached_property
    def draws(self) -> bool:
        """Whether a call draws random numbers."""
        with undisturbed(self.m.fn), correctness.seeded(0):
            before, run = torch.get_rng_state(), self.m.run(self.m.eager)
            for inputs, kwargs in self.m.calls:
                run(*inputs, **kwargs)
            return not torch.equal(before, torch.get_rng_state())

    def whole(self, stage: str) -> None:
        """Report the program that calls the user's own ``make``."""
        made = self.of_the_whole(stage, self.source)
        if made:  # a source was tried with eager on both sides, and passed
            new = replace(made, control="") if self.source else made
            self.put_program(made, self.fails(new, self.progress.left, self.path))
        else:
            self.progress.note(f"no program for {self.sought.place}")

    def put_program(self, made: Repro, fails: bool) -> None:
        """Report a program, and its form as a test."""
        name = f"{self.sought.place} has eager's {self.sought.field}"
        made.write(Path(self.order["keep"]))
        found = {"repro": made.source, "test": repro.as_test(made, name)}
        files = ["repro.pt"] if made.saved else []
        self.progress.put(**found, still_fails=fails, lines=made.lines, files=files)

    def of_the_whole(self, stage: str, source: str = "") -> Repro | None:
        """Return the program that calls the user's own ``make``, with its *source*."""
        check = repro.check_of_model(self.sought, self.m)
        if check is None:
            return None
        m, found = self.m, self.sought
        _, raw, loss = m._made()
        many = isinstance(raw, list)
        sample = raw[0] if many else raw
        call = [f"out = run({'**' if isinstance(sample, dict) else '*'}call)"]
        if m.train:
            call += ["loss[0](out).backward()"] if loss else repro.BACKWARD
        head = f"for call in given[:{found.call}]:" if many else "call = given"
        lines = [head, *("    " * many + line for line in call)]
        whole = ["fullgraph=True"] * bool(m.how.get("fullgraph"))
        eager = _stance('"force_eager"') if m.whole else "fn"
        target, how = self.order["target"], (_compile("fn", stage, *whole), eager)
        if m.in_pieces:
            forced = _stance(f'force_backend="{stage}"')
            how = "fn" if stage == "inductor" else forced, _stance('"force_eager"')
        if not source:  # who reads the program must have the file
            self.progress.put(source=repro.source_of(m.make))
        return repro.of_make(target, lines, check, how[0], source, self.draws, how[1])


def _compile(name: str, stage: str, *more: str) -> str:
    options = [f'backend="{stage}"'] * (stage != "inductor")
    return f"torch.compile({', '.join([name, *options, *more])})"


def _stance(how: str) -> str:
    """Return what runs ``fn``, which compiles pieces of itself, in a stance."""
    return f"torch.compiler.set_stance({how})(lambda *a, **k: fn(*a, **k))"


def smallest(places: Sequence[int], wrong: Callable[[int], bool]) -> int:
    """Return the first of *places* that is wrong, where the last is known to be.

    All after it are wrong too; the first place is taken for right.
    """
    return places[bisect_left(places, True, 1, len(places) - 1, key=wrong)]


def smallest_piece(
    graphs: Sequence[Captured], wrong: Callable[[Piece], bool]
) -> Piece | None:
    """Return the smallest piece of the first graph that is wrong; None without one."""
    for number, graph in enumerate(graphs):
        if wrong(Piece(number, 0, len(graph.body))):
            break
    else:
        return None

    def between(start: int, stop: int) -> bool:
        return wrong(Piece(number, start, stop))

    places = halved(cuts(graph.module.graph), between)
    stop = smallest(places, lambda n: between(places[0], n))
    starts = [n for n in reversed(places) if n <= stop]  # without any, it is right
    return Piece(number, smallest(starts, lambda n: between(n, stop)), stop)


def halved(places: Sequence[int], wrong: Callable[[int, int], bool]) -> Sequence[int]:
    """Return the places from begin to end of what is left of a piece that is wrong.

    A half that is wrong by itself is halved again, so that all of it costs little more
    than the first half.  What is left needs both of its halves.
    """
    while len(places) > 2:
        middle = len(places) // 2
        halves = places[: middle + 1], places[middle:]
        half = next((one for one in halves if wrong(one[0], one[-1])), None)
        if half is None:
            break
        places = half
    return places


def place_of(graph: Captured, piece: Piece) -> dict[str, Any]:
    """Return the user's innermost line and module of the last operation of a piece."""
    [*_, last] = [n for n in graph.body[piece.start : piece.stop] if n.op != "get_attr"]
    found = {"file": "", "line": 0, "code": "", "module": users_module(last)}
    for one in (last, *last.users):  # Dynamo notes no line for a method
        frames = frames_in(one.meta.get("stack_trace") or "")
        if own := [at for at in frames if not at.filename.startswith(_TORCH)]:
            return found | _place(own[-1])
    return found


def _place(at: FrameSummary) -> dict[str, Any]:
    """Return file, line and code of a frame."""
    place = {"file": Path(at.filename).name, "line": at.lineno}
    return place | {"code": text.code_of(at.line or "")}


def users_module(node: fx.Node) -> str:
    """Return the module that a node was called in, as ``self.head``, or ''."""
    paths = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
    if not paths:
        return ""
    path = re.sub(r"\._modules\['(\w+)'\]", r".\1", paths[-1])
    path = re.sub(r"^L\['(?:self|\w+)'\]", "self", path)
    return re.sub(r"\['?(\w+)'?\]", r"[\1]", path)


_NOTHING = "", "", None


def bisected(
    wrong: Callable[[], bool], stage: str, cache: str
) -> tuple[str, str, Any | None]:
    """Return the subsystem of *stage* that torch's bisector names, and what in it.

    The third is the setting that makes it right, if one does.
    *wrong* compiles anew, without a backend: the bisector chooses it.
    """
    if not BACKENDS.get(stage):
        return _NOTHING
    first = {stage: BACKENDS[stage]}  # it climbs them in their order
    with (
        mock.patch.dict(BACKENDS, first | BACKENDS, clear=True),
        mock.patch.object(CompilerBisector, "in_process_cache", cache),
        redirect_stdout(io.StringIO()),
    ):
        found = CompilerBisector.do_bisect(lambda: not wrong())
    if found is None or found.backend != stage or not found.subsystem:
        return _NOTHING
    number, name = found.bisect_number, found.debug_info or ""
    if found.subsystem.endswith("passes"):
        return f"pass {found.subsystem} #{number}", name, None
    if found.subsystem == "lowerings":
        return "lowering", f"of {name}" if name else f"#{number}", None
    if found.subsystem == "decomposition":
        words = re.search(r"op='([\w.]+)'", name)
        return "decomposition", f"of {words[1] if words else name}", None
    change = next(s for s in BACKENDS[found.backend] if s.name == found.subsystem)
    return "right", f"with {_as_set(change)}", change


def _as_set(change: Any) -> str:
    return f"{change.config_field} = {change.config_value}"


# --------------------------------------------------- lines of the functions that ran

_PYTHON = Path(inspect.__file__).parent
_OTHERS = Path(torch.__file__).parent, Path(__file__).parent, Path(text.__file__).parent
_EAGERLY = "__run_eagerly__"  # a name in the user's module
_VALUES = "value", "test", "iter"  # an expression that can be run by itself
_KEEPS = (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)


@dataclass(frozen=True, eq=False)
class Line:
    """One expression of a statement, in functions that share their code."""

    functions: tuple[types.FunctionType, ...]
    number: int
    """Of those that the function has, from 0."""
    line: int

    @property
    def place(self) -> dict[str, Any]:
        """Its file and number there, and the line as its owner wrote it."""
        code = self.functions[0].__code__
        return _place(FrameSummary(code.co_filename, self.line, code.co_name))


def lines_of(call: Callable[[], Any]) -> list[Line]:
    """Return the lines of each function that *call* runs: inner functions first.

    Left out are those of torch, of Python and of the check-up, and what has no file.
    """
    codes = dict[types.CodeType, None]()

    def seen(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "return":
            codes.setdefault(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(before)
    return [line for code in codes for line in _lines(code)]


def _lines(code: types.CodeType) -> Iterator[Line]:
    path = Path(code.co_filename)
    pythons = _PYTHON in path.parents and "site-packages" not in path.parts
    if not path.is_file() or pythons or not {*_OTHERS}.isdisjoint(path.parents):
        return
    owners = [o for o in gc.get_referrers(code) if isinstance(o, types.FunctionType)]
    functions = tuple(o for o in owners if o.__code__ is code)
    tree = _tree(functions[0]) if functions else None
    if tree and _compiled(functions[0], tree):
        for number, (statement, name) in enumerate(_expressions(tree)):
            yield Line(functions, number, getattr(statement, name).lineno)


def _tree(function: types.FunctionType) -> ast.FunctionDef | None:
    """Return the definition of a function, with the lines of its file."""
    with suppress(OSError, SyntaxError, TypeError):
        lines, first = inspect.getsourcelines(function)
        [tree] = ast.parse(textwrap.dedent("".join(lines))).body
        if isinstance(tree, ast.FunctionDef):
            return ast.increment_lineno(tree, max(first, 1) - 1)
    return None


def _expressions(tree: ast.FunctionDef) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each statement of a function that has an expression, and its field."""
    blocks = [tree.body]
    while blocks:
        for statement in blocks.pop(0):
            if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                continue
            for name in _VALUES:
                value = getattr(statement, name, None)
                plain = value is None or isinstance(value, (ast.Constant, ast.Name))
                if not plain and not any(
                    isinstance(n, _KEEPS) for n in ast.walk(value)
                ):
                    yield statement, name
            inner = (getattr(statement, n, []) for n in ("body", "orelse", "finalbody"))
            handlers = (one.body for one in getattr(statement, "handlers", []))
            blocks += [block for block in (*inner, *handlers) if block]


class _WithSelf(ast.NodeTransformer):
    """Writes ``super()`` out: it finds nothing in a separate function."""

    def __init__(self, tree: ast.FunctionDef) -> None:
        self.first = [one.arg for one in (*tree.args.posonlyargs, *tree.args.args)][:1]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            names = ["__class__", *self.first] if not node.args else []
            node.args += [ast.Name(name, ast.Load()) for name in names]
        return self.generic_visit(node)


def _changed(tree: ast.FunctionDef, numbers: Collection[int], own: set[str]) -> None:
    """Let `_run`, by its global name, run the expressions of these *numbers*."""
    for number, (statement, name) in enumerate([*_expressions(tree)]):
        if number in numbers:
            value = _WithSelf(tree).visit(getattr(statement, name))
            names = [n for n in ast.walk(value) if isinstance(n, ast.Name)]
            bound = {n.id for n in names if not isinstance(n.ctx, ast.Load)}
            read = sorted({n.id for n in names} & own - bound)
            # With Python 3.14, torch can't go on between two closures.
            given = ", ".join(f"{one}={one}" for one in read)
            call = ast.parse(f"{_EAGERLY}(lambda {given}: 0)", mode="eval").body
            call.args[0].body = value
            setattr(statement, name, ast.copy_location(call, value))


def _compiled(
    function: types.FunctionType, tree: ast.FunctionDef
) -> types.CodeType | None:
    """Return the code of a changed function, if it can replace the old one."""
    old = function.__code__
    tree.decorator_list = []
    outer = ast.parse(f"def outer({', '.join(old.co_freevars)}): pass")
    outer.body[0].body = [tree]
    flags = old.co_flags & __future__.annotations.compiler_flag
    whole = compile(
        ast.fix_missing_locations(outer), old.co_filename, "exec", flags, True
    )
    [inside] = [one for one in whole.co_consts if isinstance(one, types.CodeType)]
    codes = (one for one in inside.co_consts if isinstance(one, types.CodeType))
    code = next((one for one in codes if one.co_name == tree.name), None)
    return code if code and code.co_freevars == old.co_freevars else None


@contextmanager
def eagerly(lines: Sequence[Line]) -> Iterator[None]:
    """Run these *lines* eagerly in the block."""
    chosen = dict[tuple[types.FunctionType, ...], set[int]]()
    for line in lines:
        chosen.setdefault(line.functions, set()).add(line.number)
    with ExitStack() as stack:
        for functions, numbers in chosen.items():
            tree, old = _tree(functions[0]), functions[0].__code__
            _changed(tree, numbers, {*old.co_varnames, *old.co_cellvars})
            code = _compiled(functions[0], tree)
            for function in functions:
                stack.callback(function.__globals__.pop, _EAGERLY, None)
                stack.callback(setattr, function, "__code__", old)
                function.__globals__[_EAGERLY], function.__code__ = _run, code
        yield


@torch.compiler.disable
def _run(expression: Callable[[], Any]) -> Any:
    return expression()
