"""The process that looks for where a difference comes from, from the outside in.

    python -m torch_checkup.where_child < order.json

Each step is asked with the same question, whether the same field of the same place
differs: of a backend, of a graph, of a piece of a graph.  The smallest piece becomes a
program, and torch's bisector is given that, for it compiles in a second.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import fx

from . import lines, looks, repro
from .breaks import seen_of
from .differences import Difference
from .guest import Report, end_with_parent, folders_of
from .helpers import correctness
from .helpers._torch import needed_for
from .helpers.codegen import kernels
from .helpers.errors import InputError, one_line
from .helpers.session import undisturbed
from .helpers.tensors import clone, tensors
from .judge import differences
from .patient import Patient
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
from .where import LADDER

with needed_for("the pass or lowering that is wrong"):
    from torch._inductor import config as inductor_config
    from torch._inductor.compiler_bisector import (
        BACKENDS,
        CompilerBisector,
        ConfigChange,
    )

_SWITCHES = {  # what code generation does beyond passes and lowerings
    "without fusion (max_fusion_size = 1)": {"max_fusion_size": 1},
    "without vector instructions (cpp.simdlen = 1)": {"cpp.simdlen": 1},
}


class Spent(Exception):
    """The time is up: what is known is the answer."""


class Told:
    """What is known so far: each fact is reported as it comes."""

    def __init__(self, report: Report, seconds: float) -> None:
        self._report, self._begin, self._seconds = report, time.monotonic(), seconds
        self._last = 0.0
        self.notes, self.compiles = list[str](), 0

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self._seconds - (time.monotonic() - self._begin)

    def put(self, **facts: Any) -> None:
        """Report facts; the others stay."""
        took = {"seconds": time.monotonic() - self._begin, "compiles": self.compiles}
        self._report.put(where={"notes": self.notes, **took, **facts})

    def note(self, words: str) -> None:
        """Report what was not found out, or what else is to be known."""
        if words not in self.notes:
            self.notes.append(words)
        self.put()

    def spend(self, work: Callable[[], bool]) -> bool:
        """Return what *work* says, which compiles; Spent where no time is left."""
        if self.left < self._last:  # what comes next is seldom longer
            raise Spent
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


@dataclass
class Search:
    """A model, the difference that is sought, and what is told of it."""

    p: Patient
    sought: Difference
    told: Told
    smallest: Piece | None = None
    """The smallest piece that is known to be wrong."""

    def wrong(self, compiling: Callable[[], Callable[..., Any]]) -> bool:
        """Return whether what *compiling* gives differs in the same place and field."""

        def differs() -> bool:
            found = differences(self.p, compiling(), again=compiling)
            return any(_same(self.sought, one) for one in found)

        return self.told.spend(differs)

    def wrong_with(self, backend: Callable[[], Any]) -> bool:
        """Return whether the model is wrong with a backend, made anew each time."""
        return self.wrong(lambda: self.p.compiled(backend=backend()))

    def stage(self) -> str:
        """Return the first backend that is wrong; '' if by itself none is."""
        for name in LADDER:
            self.told.put(doing=f"it was compiled with {name}", trying=name)
            if self.wrong(partial(self.p.compiled, backend=name)):
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
        if len(starts) > 1:
            begin = _latest(starts, lambda n: is_wrong(replace(whole, start=n)))
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


def _latest(starts: Sequence[int], wrong: Callable[[int], bool]) -> int:
    """Return the last start that is wrong, of some that fall; the last of them is."""
    if wrong(starts[0]):
        return starts[0]
    return smallest(starts, wrong)


# ------------------------------------------------------------ a piece, taken by itself


class Alone(Patient):
    """A piece of a graph as a model of its own, with one call."""

    def __init__(self, module: fx.GraphModule, inputs: tuple[Any, ...], p: Patient):
        self.order, self.train = p.order, p.train
        self.fn = self.module = module
        self.loss = correctness.weighted_sum
        self._calls = [(inputs, {})]
        if p.train and not any(t.requires_grad for t in tensors(inputs)):
            self.train = False

    def made_again(self) -> Callable[..., Any]:
        """Return the piece itself: it holds no state."""
        return self.fn


@dataclass
class Culprit:
    """A piece that is wrong by itself, with the inputs for which it is."""

    captured: Captured
    inputs: tuple[Any, ...]
    difference: Difference
    alone: Alone

    def compiling(self, **options: Any) -> Callable[[], Callable[..., Any]]:
        """Return what compiles it, for sizes that vary where its graph was."""
        dynamic = True if self.captured.dynamic else None
        return partial(self.alone.compiled, dynamic=dynamic, **options)

    def wrong(self, compiling: Callable[[], Callable[..., Any]]) -> bool:
        """Return whether it differs as it did, when it is compiled so."""
        found = differences(self.alone, compiling(), again=compiling)
        return any(_same(self.difference, one) for one in found)


def by_itself(captured: Captured, search: Search, stage: str) -> Culprit | None:
    """Return a piece with the first of its runs in which it is wrong by itself.

    The same field is looked for first, and then any that changes an answer.
    """
    for inputs in _distinct(captured.runs):
        alone = Alone(captured.module, inputs, search.p)
        culprit = Culprit(captured, inputs, search.sought, alone)
        found: list[Difference] = []

        def look(culprit: Culprit = culprit, found: list = found) -> bool:
            compiling = culprit.compiling(backend=stage)
            made = differences(culprit.alone, compiling(), again=compiling)
            found += [one for one in made if not one.look or search.sought.look]
            return bool(found)

        with contextlib.suppress(InputError):
            search.told.spend(look)
        same = [one for one in found if one.field == search.sought.field]
        if found:
            return replace(culprit, difference=(same or found)[0])
    return None


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


# ----------------------------------------------------------------- the pass or lowering


def bisected(wrong: Callable[[], bool], stage: str, cache: str) -> tuple[str, str]:
    """Return the subsystem of *stage* that torch's bisector names, and what in it.

    *wrong* compiles anew, with what ``torch.compile`` gives by itself: the bisector
    chooses the backend.
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


def switches(wrong: Callable[[], bool]) -> Iterator[str]:
    """Yield without what of code generation it is right again."""
    for words, settings in _SWITCHES.items():
        with inductor_config.patch(settings):
            if not wrong():
                yield words


# ---------------------------------------------------------------------- what is shown


def shown(
    culprit: Culprit, stage: str, search: Search, order: dict[str, Any]
) -> tuple[Repro, bool] | None:
    """Return a program of the piece, and whether it fails in a process of its own.

    Inputs from a seed are tried first, and a file is the last resort.
    """
    module = culprit.captured.module
    look = looks.of_piece(culprit.difference, module, culprit.alone.train)
    if look is None:
        return None
    options = [f'backend="{stage}"'] * (stage != "inductor")
    options += ["dynamic=True"] * culprit.captured.dynamic
    compiling = f"torch.compile({', '.join(['f', *options])})"
    target, last = order["target"], None
    for exact in (False, True):
        try:
            given = culprit.inputs, look, compiling, exact
            made = repro.of_piece(module, *given, target)
        except ValueError as error:
            search.told.note(f"no file for its inputs: {error}")
            break
        if last and made.source == last.source:
            break
        last = made
        if fails(made, search.told.left, order):
            return made, True
    return (last, False) if last else None


def fails(made: Repro, seconds: float, order: dict[str, Any]) -> bool:
    """Return whether a program, run where it is kept, fails as it should."""
    path = folders_of(order["target"])
    return made.fails(Path(order["keep"]), seconds, path, order["memory"])


def of_the_whole(search: Search, stage: str, order: dict[str, Any]) -> Repro | None:
    """Return the program that calls the user's own ``make``."""
    p, found = search.p, search.sought
    place = found.place
    if found.field in ("raises", "exception"):
        look = looks.raised(found)
    else:
        expression = looks.in_model(place, p)
        look = looks.seen_as(found, expression, False) if expression else None
        if look and "given" in look.found:
            look = None
    if look is None:
        return None

    _, raw, loss = p._made()

    def call(run: str) -> list[str]:
        many = isinstance(raw, list)
        lines = [f"for call in given[:{found.call}]:"] if many else ["call = given"]
        sample = raw[0] if many else raw
        stars = "**call" if isinstance(sample, dict) else "*call"
        inner = f"out = {run}({stars})"
        if p.train and loss:
            inner += "\nloss[0](out).backward()"
        elif p.train:
            inner += "\n".join(("", *repro.BACKWARD))
        indent = "    " * many
        return [*lines, *(f"{indent}{line}" for line in inner.splitlines())]

    options = [f'backend="{stage}"'] * (stage != "inductor")
    how = f"torch.compile({', '.join(['fn', *options])})"
    return repro.of_make(order["target"], call, look, how)


# -------------------------------------------------------------------------- the search


def search(p: Patient, found: Difference, told: Told, order: dict[str, Any]) -> None:
    """Tell where a difference comes from, as far as the time goes."""
    with contextlib.suppress(Exception):  # eager raises, and that is the difference
        correctness.draw_eager_numbers(p.draws)  # both draw the same
    if often := re.search(r"in (\d+) of (\d+) rounds", found.note):
        told.put(often=[*map(int, often.groups())])
        told.note("not narrowed further: it is not always wrong")
        return
    looking = Search(p, found, told)
    try:
        if found.ended:
            ends(looking, order)
        else:
            from_the_outside_in(looking, order)
    except Spent:
        told.note("not narrowed further: the time of the search is spent")


def ends(looking: Search, order: dict[str, Any]) -> None:
    """Tell the stage that ends the process, or never ends: each has its own process."""
    told = looking.told
    for number, stage in enumerate(LADDER):
        made = of_the_whole(looking, stage, order)
        told.put(doing=f"a program compiled it with {stage}", trying=stage)
        seconds = told.left / (len(LADDER) - number + 1)
        if told.spend(partial(fails, made, seconds, order)):
            told.put(stage=stage)
            told.note("not narrowed further: no piece of it was compiled by itself")
            put_program(looking, made, True, order)
            return
    told.note("not narrowed further: no backend by itself does that")


def from_the_outside_in(looking: Search, order: dict[str, Any]) -> None:
    """Tell the stage, then what is smaller; Spent where the time does not go so far."""
    stage = looking.stage()
    looking.told.put(stage=stage)
    if not stage:
        looking.told.note("not narrowed further: no backend by itself is wrong")
        return
    if stage == "eager":
        captured_otherwise(looking)
        whole(looking, stage, order)
    elif narrowed(looking, stage, order) is None:
        whole(looking, stage, order)
        step(looking, stage, order, looking_at_all(looking))


def narrowed(looking: Search, stage: str, order: dict[str, Any]) -> Culprit | None:
    """Tell graph, piece and line; then the program, the pass, the kernel."""
    told = looking.told
    told.put(doing="while one graph after the other was compiled")
    number, graphs = looking.graph(stage)
    graph = graphs[number]
    told.put(graph=number + 1, operations=len(graph.body))
    told.put(doing="while a graph was cut")
    try:
        piece = looking.piece(stage, number, graph)
    except Spent:
        if piece := looking.smallest:
            told.put(piece=piece.stop - piece.start, **place_of(graph, piece))
            told.note(
                f"it ends there, and begins up to {piece.stop - piece.start - 1} "
                "operations before"
            )
        raise
    if piece is None:
        told.note("no prefix of a graph is wrong alone")
        piece = Piece(number, 0, len(graph.body))
    else:
        told.put(piece=piece.stop - piece.start, **place_of(graph, piece))
        if piece.stop == len(graph.body) and piece.stop - piece.start > 1:
            told.note("no prefix of the graph is wrong alone")
            behind(looking, number)
    culprit = None
    for part in dict.fromkeys(
        (piece, replace(piece, start=0), Piece(number, 0, len(graph.body)))
    ):
        kept = looking.kept(part)
        culprit = by_itself(kept, looking, stage) if kept else None
        if culprit:
            break
    if culprit is None:
        told.note("the piece is not wrong by itself, outside the model")
        return None
    tell_program(looking, culprit, stage, order)
    step(looking, stage, order, lambda: culprit.wrong(culprit.compiling()))
    if stage == "inductor":
        kernel(looking, culprit)
    return culprit


def behind(looking: Search, number: int) -> None:
    """Tell the line that runs eagerly behind a graph, and may be where it shows."""
    stops = seen_of(looking.p).now.breaks
    if number < len(stops):
        looking.told.note(f"the graph ends at {stops[number].place}")


def place_of(graph: Captured, piece: Piece) -> dict[str, Any]:
    """Return the user's line and module of the last operation of a piece."""
    [*_, last] = [n for n in graph.body[piece.start : piece.stop] if n.op != "get_attr"]
    file, line, code = users_line(last)
    return {
        "file": Path(file).name,
        "line": line,
        "code": code,
        "module": users_module(last),
    }


def tell_program(
    looking: Search, culprit: Culprit, stage: str, order: dict[str, Any]
) -> None:
    """Tell the program of a piece, and what it did."""
    told = looking.told
    told.put(doing="while the repro ran")
    try:
        made = shown(culprit, stage, looking, order)
    except TimeoutError:
        raise Spent from None
    if made is None:
        told.note(f"no program for {culprit.difference.place}")
        return
    put_program(looking, *made, order)


def put_program(
    looking: Search, made: Repro, fails: bool, order: dict[str, Any]
) -> None:
    """Report a program, and its form as a test."""
    found = looking.sought
    name = f"{found.place} has eager's {found.field}"
    made.write(Path(order["keep"]))
    looking.told.put(
        repro=made.source,
        test=repro.as_test(made, name),
        still_fails=fails,
        lines=made.lines,
        files=["repro.pt"] if made.saved else [],
    )


def whole(looking: Search, stage: str, order: dict[str, Any]) -> None:
    """Tell the program that calls the user's own ``make``."""
    made = of_the_whole(looking, stage, order)
    if made is None:
        looking.told.note(f"no program for {looking.sought.place}")
        return
    try:
        still = fails(made, looking.told.left, order)
    except TimeoutError:
        raise Spent from None
    put_program(looking, made, still, order)


def looking_at_all(looking: Search) -> Callable[[], bool]:
    """Return whether the whole model is wrong, however the bisector compiles it."""
    return lambda: looking.wrong(looking.p.compiled)


def step(
    looking: Search, stage: str, order: dict[str, Any], wrong: Callable[[], bool]
) -> None:
    """Tell the pass, lowering or setting, and what of code generation matters."""
    told = looking.told
    told.put(doing="while torch's bisector switched parts off")
    try:
        kind, name = bisected(lambda: told.spend(wrong), stage, order["cache"])
    except (RuntimeError, AssertionError) as error:  # of the bisector itself
        told.note(f"torch's bisector stopped: {one_line(error)}")
        kind = name = ""
    told.put(step=f"{kind} {name}".strip())
    if stage != "inductor" or kind.startswith("pass"):
        return
    # A bisector that names nothing may have seen it right; else it has seen it wrong.
    if kind or told.spend(wrong):
        for words in switches(lambda: told.spend(wrong)):
            told.note(f"right {words}")
        for change in BACKENDS[stage]:
            if isinstance(change, ConfigChange) and name == f"with {_as_set(change)}":
                of_the_model(looking, change)


def of_the_model(looking: Search, change: Any) -> None:
    """Tell what a setting that makes a piece right does for the whole model."""
    p = looking.p
    looking.told.put(doing="while a setting was tried on the whole model")
    with inductor_config.patch(change.config_field, change.config_value):
        left = looking.told.spend(
            lambda: bool(differences(p, p.compiled(), again=p.compiled))
        )
    does = "leaves the whole model wrong" if left else "makes the whole model right"
    looking.told.note(f"torch._inductor.config.{_as_set(change)} {does}")


def kernel(looking: Search, culprit: Culprit) -> None:
    """Tell the kernel that a piece became."""
    gradient = culprit.difference.place.startswith("gradient")
    with contextlib.suppress(InputError):
        made = kernels(culprit.captured.module, *clone(culprit.inputs))
        phase = [k for k in made.kernels if (k.phase == "backward") == gradient]
        names = [k.name for k in phase if k.language != "library"]
        names = names or [k.name for k in phase]
        if names:
            looking.told.put(
                kernel=names[-1] if len(names) == 1 else ", ".join(names[:3])
            )


# --------------------------------------------------------- what Dynamo itself captured


def captured_otherwise(looking: Search) -> None:
    """Tell the module and the line without whose capture the answer is right."""
    looking.told.put(doing="while modules were left to eager")
    module = without_module(looking)
    raises = looking.sought.field in ("raises", "exception")
    does = "stops at it" if raises else "captured another program"
    looking.told.note(f"Dynamo {does}{' there' if module else ''}")
    looking.told.put(doing="while lines were left to eager")
    try:
        line = without_line(looking)
    except Spent:
        raise
    except Exception as error:  # what is written anew may not run
        looking.told.note(f"not narrowed to a line: {one_line(error)}")
        return
    if line is None:
        looking.told.note("not narrowed to a line: no line by itself makes it right")
        return
    looking.told.put(file=Path(line.file).name, line=line.line, code=line.code)
    with lines.eagerly([line], breaks=True):
        breaks = not looking.wrong_with(lambda: "eager")
    words = "the graph breaks at it" if breaks else "it runs eagerly"
    looking.told.note(f"right where {words}: `{line.code}`")


def without_module(looking: Search) -> str:
    """Return the innermost module without whose capture it is right; tell it."""
    module, name = looking.p.module, ""
    while module is not None:
        inner = [(n, part) for n, part in module.named_children()]
        for child, part in inner:
            if not looking.wrong(partial(_without, looking.p, part)):
                name, module = f"{name}.{child}", part
                looking.told.put(module=f"self{name}")
                break
        else:
            break
    return name


def without_line(looking: Search) -> lines.Line | None:
    """Return the line that must run eagerly, with all before it, to make it right."""
    p = looking.p
    run = p.run(p.eager)
    with undisturbed(p.fn), correctness.seeded(0):
        calls = p.calls
        known = lines.lines_of(lambda: [run(*call, **named) for call, named in calls])

    def right(count: int) -> bool:
        with lines.eagerly(known[:count]):
            return not looking.wrong_with(lambda: "eager")

    if not known or not right(len(known)):
        return None
    return known[smallest(range(len(known) + 1), right) - 1]


def _without(p: Patient, part: torch.nn.Module) -> Callable[..., Any]:
    """Return the model compiled, with one module of it left to eager."""
    compiled = p.compiled(backend="eager")
    usual = part.forward

    def call(*inputs: Any, **kwargs: Any) -> Any:
        with mock.patch.object(part, "forward", torch.compiler.disable(usual)):
            return compiled(*inputs, **kwargs)

    return call


def main(order: dict[str, Any]) -> None:
    """Follow an order."""
    end_with_parent()
    report = Report(order["report"])
    report.stage("look for where it comes from")
    told = Told(report, order["seconds"] * 0.95)
    p = Patient({**order, "train": order["train"]})
    p.train = bool(order["trains"])
    p.try_out()
    search(p, Difference(**order["difference"]), told, order)
    told.put()
    report.put(done=True)


if __name__ == "__main__":
    main(json.load(sys.stdin))
