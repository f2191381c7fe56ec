"""The part ``recompiles``: what compiles again over these inputs, and what stops it.

Guards that fail for one cause are one finding, with the user's line that needs what
they test.  `guards.toml` has the options for each kind of guard, and these are tried.
"""

from __future__ import annotations

import re
import time
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.resources import files
from typing import NamedTuple

import torch
from torch.fx.experimental import _config as shapes

from . import options
from .helpers import correctness, text
from .helpers.capture import (
    Guard,
    Recompiles,
    in_words,
    named,
    recompiles,
    settings_in,
)
from .helpers.frames import line_in
from .helpers.session import undisturbed
from .model import Model, noted, without_backward
from .options import Option, Tried, Versions, together, tried
from .report import Part, shown


def part(m: Model) -> Part:
    """What compiles again over these inputs?"""
    rounds, names = max(2, 4 // len(m.calls)), blocks(m)
    try:
        options.eager_answers(m, [*range(len(m.calls))] * rounds)
    except Exception:  # its state takes no more calls, as a cache that is full
        rounds = 1
    with options.kept_settings():
        # What still compiles when half of the time is spent has no end.
        calls = [call for _ in range(rounds) for call in m.calls]
        seen = recompiles(m.program, calls, budget=m.order["timeout"] / 2)
    if not any(call.graphs for call in seen.calls):
        counts = dict.fromkeys(("recompiles", "later_recompiles", "limit_hit"))
        says = "nothing is compiled: see capture"
        return Part("recompiles", "cannot tell", says, counts, advice=compiles(m))
    later = sum(seen.counts[len(m.calls) :])
    made = sum(seen.counts[: len(m.calls)])
    extra = made - next(filter(None, seen.counts), 0)
    verdict, says = _verdict(m, seen, later, extra, rounds)
    if names:
        each = f"{text.count(len(names), 'block')} compiled one by one"
        says = f"{each}: {text.count(seen.total, 'version')}; {says}"
    guards = list(dict.fromkeys(g for call in seen.calls for g in call.guards))
    counts = {
        "recompiles": extra + later,
        "later_recompiles": later,
        "limit_hit": seen.limit_hit,
        "guards": "; ".join(guards),
    }
    attempts = Attempts(m, seen, rounds, bool(names))
    advice = () if verdict == "good" else tuple(attempts.lines())
    if verdict != "bad" and m.versions != made and (found := _as_it_runs(m, seen)):
        says, own, more = found
        verdict, told = "bad" if own.limit_hit else "look", "\n".join(advice)
        advice += tuple(one for one in more if one.split(": untried")[0] not in told)
        counts["recompiles"] += own.count - made
        counts["limit_hit"] = own.limit_hit
    no_skip = "untried: fullgraph=True skips nothing: it may raise"
    advice += (no_skip,) * bool(_skips(seen))
    return Part("recompiles", verdict, says, counts, shown(seen), advice + compiles(m))


def _as_it_runs(m: Model, seen: Recompiles) -> tuple[str, Versions, list[str]] | None:
    """Return the versions on the backends that will run, if these have more causes.

    Kernels may be for some sizes only, and pieces for a backend each.
    """
    more, made = list[Finding](), sum(seen.counts[: len(m.calls)])
    torch.compiler.reset()
    with suppress(Exception), without_backward(m):  # it raises in `matches`, too
        own, _ = options.versions(m, 1, Option(""), {})
        known = {f.words for f in findings(g for c in seen.calls for g in c.failed)}
        every = findings(own.failed)
        more = [one for one in every if one.words not in known]
        if own.limit_hit or own.count > made + 1:  # AOTAutograd made a constant
            more = more or every
    if not more:
        return None
    says = f"as it will run, {own.count} versions: {more[0].words}"
    says += "; the recompile limit is hit: then it runs eagerly" * own.limit_hit
    return says, own, [f"{o.words}{o.place}: untried: {o.kind.untried}" for o in more]


def _skips(seen: Recompiles) -> str:
    """Return which call makes later ones eager, whose graphs it had before; or ''."""
    for number, call in enumerate(seen.calls, 1):
        if call.failed and not call.graphs:
            at = call.failed[0].place.rstrip(":")
            says = f"call {number} compiles to no graph ({at}): what it runs is skipped"
            return f"{says}, and eager in later calls"
    return ""


def _verdict(
    m: Model, seen: Recompiles, later: int, extra: int, rounds: int
) -> tuple[str, str]:
    verdict, says = "good", "one more version serves the rest"
    if later or seen.limit_hit:
        ends = not any(seen.counts[-len(m.calls) :])  # as where a table is made once
        verdict = "look" if ends and not (seen.limit_hit or seen.stopped) else "bad"
        often = f"{text.count(later, 'time')} in {rounds} rounds"
        says = f"inputs that it has seen compile again: {often}"
        if seen.limit_hit:
            says = f"{says}, until" if later else "these inputs compile until"
            says += " the recompile limit is hit: then new ones run eagerly"
        elif not ends:  # as a count in the model does
            says += f"; version {torch._dynamo.config.recompile_limit} is the last"
            says += ", then it runs eagerly"
    elif extra > 1 or (extra and m.how.get("dynamic")):  # which asks for one in all
        says = f"these inputs compile {text.count(extra, 'more version')}"
        says += ", in spite of dynamic=True" * bool(m.how.get("dynamic"))
        verdict = "look"
    elif not extra:
        says = "no second version"
    elif why := [f for f in findings(seen.calls[1].failed) if f.kind.name not in _OPEN]:
        says += f": {why[0].words}{why[0].place}"
    if verdict == "good" and (inner := len(seen.calls[0].failed)) > 1:
        verdict, says = "look", f"call 1 by itself compiles {inner} more versions"
    if skips := _skips(seen):
        verdict, says = "bad", skips
    if m.fails:
        says += f"; left out, as eager raises: {text.count(len(m.fails), 'call')}"
    elif len(m.calls) == 1:
        says += "; one set of inputs was given: give a list of those that come"
    if rounds == 1:
        says += "; each call came once, because eager fails when they come again"
    if seen.stopped:
        says += f"; {seen.stopped}"
    return verdict, says


@dataclass(frozen=True)
class Finding:
    """Guards that fail for one cause: their kind, in words, and the first of them.

    *name* is that of what they test, or ''.  *places* has the line of each: what a
    graph break leaves is compiled again by its own guards.
    """

    kind: Kind
    words: str
    guard: Guard
    name: str
    places: list[str]

    @property
    def place(self) -> str:
        """The user's lines behind it, of many the first."""
        lines = dict.fromkeys(line.rstrip(":") for line in self.places if line)
        some = [*lines][:_MOST_PLACES] + ["…"] * (len(lines) > _MOST_PLACES)
        return f" ({'; '.join(some)})" if some else ""


_MOST_PLACES = 3
_OPEN = ("size", "number")  # become symbols, which any value fits
Maker = Callable[[Model, Finding], Iterable[Option]]


class Kind(NamedTuple):
    """A kind of guard: a pattern, its meaning in words, and options that may help.

    *untried* is a change of the user's source, for where nothing that is tried helps.
    """

    name: str
    pattern: str
    words: str
    options: Sequence[str] = ()
    untried: str = ""


def _unbacked(m: Model, _: Finding) -> Iterator[Option]:
    """Of sizes 0 and 1, which have their own versions, make sizes as all others.

    For others it would hide that the code needs the number, as the key of a table.
    """
    leaves = [leaf for call in m.calls for _, leaf in options.named(m, call)]
    sizes = {n for leaf in leaves if isinstance(leaf, torch.Tensor) for n in leaf.shape}
    yield from options.marked(m, "decorators.mark_unbacked") if sizes & {0, 1} else ()


def _one_dtype(m: Model, found: Finding) -> Iterator[Option]:
    given = dict(options.named(m, m.calls[0])).get(found.name)
    if isinstance(given, torch.Tensor):
        line = f"{found.name}.to({given.dtype}) in each call"
        yield options.changed(m, line, found.name, lambda leaf: leaf.to(given.dtype))


def _detached(m: Model, found: Finding) -> Iterator[Option]:
    if not m.train:
        line = f"{found.name}.detach(), where no gradient of it is needed"
        yield options.changed(m, line, found.name, torch.Tensor.detach)


def _cloned(m: Model, found: Finding) -> Iterator[Option]:
    line = f"{found.name}.clone() in each call"
    yield options.changed(m, line, found.name, torch.clone)


_DYNAMIC = Option("torch.compile(model, dynamic=True)", options={"dynamic": True})
_NO_DUCK = Option(
    "torch.fx.experimental._config.use_duck_shape = False",
    around=lambda: shapes.patch(use_duck_shape=False),
)
[_SCALARS] = options.switches("torch._dynamo.config.capture_scalar_outputs = True")
_LIMIT = 64
_MAKERS: dict[str, Maker] = {
    "as_tensor": lambda m, found: options.as_tensor(m, found.name),
    "cloned": _cloned,
    "detached": _detached,
    "dynamic": lambda *_: [_DYNAMIC],
    "filled": lambda m, found: options.filled(m, found.name),
    "marked": lambda m, _: options.marked(m),
    "no_duck": lambda *_: [_NO_DUCK],
    "one_dtype": _one_dtype,
    "scalars": lambda *_: [_SCALARS],
    "settings": lambda _, found: options.settings_kept(settings_in(found.guard.test)),
    "unbacked": _unbacked,
}
_TEXT = (files(__package__) / "guards.toml").read_text(encoding="utf-8")
KINDS = {name: Kind(name, **one) for name, one in tomllib.loads(_TEXT).items()}
"""The first that fits counts; what torch's own hint names is tried, too."""


def findings(guards: Iterable[Guard], optional: Collection[str] = ()) -> list[Finding]:
    """Return the causes for which *guards* failed, each once.

    *optional* are the names of arguments that are None in some calls.
    """
    found = dict[str, Finding]()
    for guard in guards:
        kind = next(k for k in KINDS.values() if re.search(k.pattern, guard.test))
        typed = re.match(r"___check_type_id\((?:L\['?)?([\w.\[\]']+),", guard.test)
        held = f"{typed[1]}[" if typed else ""  # or something in it, as in a dictionary
        if typed and any(f"{one}[".startswith(held) for one in optional):
            kind = KINDS["optional"]._replace(pattern=typed.re.pattern)
        groups = [*filter(None, re.search(kind.pattern, guard.test).groups())]
        words = kind.words.format(*groups) or in_words(guard.test, guard.source)
        words = re.sub(r"\bkwargs\['(\w+)'\]", r"\1", named(words, guard.source))
        new = Finding(kind, words, guard, "".join(groups[:1]), [])
        alike = re.sub(r"\d+", "", words) if kind.name == "other" else words
        found.setdefault(alike, new).places.append(guard.place)
    return list(found.values())


@dataclass
class Attempts:
    """What was tried for the guards that failed in *seen*, in so many *rounds*."""

    m: Model
    seen: Recompiles
    rounds: int
    blocks: bool = False
    tried: dict[str, Tried] = field(default_factory=dict)
    begin: float = field(default_factory=time.monotonic)
    built: dict[str, str] = field(default_factory=dict)

    @property
    def now(self) -> Versions:
        """The versions without an option."""
        ends = not any(self.seen.counts[-len(self.m.calls) :])
        return Versions(self.seen.total, self.seen.limit_hit, ends)

    @property
    def _late(self) -> bool:
        """Whether a third of the part's time is spent: nothing else is tried then."""
        return time.monotonic() - self.begin > self.m.order["timeout"] / 3

    def try_(self, *some: Option) -> Tried:
        """Return the effect of some options at once; each combination is tried once."""
        option = together(some)
        if option.line not in self.tried:
            count = partial(options.versions, self.m, self.rounds)
            self.tried[option.line] = tried(option, self.now, count)
        return self.tried[option.line]

    def lines(self) -> Iterator[str]:
        """Yield the advice: options that help, and changes that cannot be tried."""
        helps, rest = dict[str, list[Finding]](), list[Finding]()
        guards = (g for call in self.seen.calls for g in call.failed)
        every = findings(guards, options.optional(self.m))
        for found in every:
            if best := self._best(found):
                helps.setdefault(best.option.line, []).append(found)
            else:
                rest.append(found)
        if both := self._together(every):
            best, those = both
            words = {one.words for one in those}
            helps = {best.option.line: those}
            rest = [found for found in rest if found.words not in words]
        for line, those in helps.items():
            words = "; ".join(f"{one.words}{one.place}" for one in those)
            own = those[0].kind.untried if self.tried[line].option.settings else ""
            words += f": untried: {own}; or" if own else ":"  # a setting comes last
            yield f"{words} {line}: {self._built(self.tried[line])}"
        for found in rest:
            if not helps or found.kind.name != "size":  # one issue may hide a fix
                yield from self._untried(found)
        for option in self._limits(bool(helps)):
            if (one := self.try_(option)).helps and (effect := self._built(one)):
                yield f"{option.line}: {effect}"

    def _built(self, one: Tried) -> str:
        """Return the effect on the backend that will run; '' if it raises, or is none.

        Kernels add guards of their own, such as one on the alignment of sizes.
        """
        if one.option.line not in self.built:
            again = one
            if not self._late:
                again = self._with_kernels(one.option, self._now_built)
            self.built[one.option.line] = again.effect if again.helps else ""
        return self.built[one.option.line]

    @cached_property
    def _now_built(self) -> Versions:
        return self._with_kernels(Option(""), self.now).after or self.now

    def _with_kernels(self, option: Option, now: Versions) -> Tried:
        how = options.built(self.m)
        count = partial(options.versions, self.m, self.rounds, how=how)
        torch.compiler.reset()  # frames below a break would find what `matches` built
        with without_backward(self.m):
            return tried(option, now, count)

    def _limits(self, helped: bool) -> Iterator[Option]:
        """Yield what leaves room for more versions, where these come to an end."""
        if self.now.limit_hit and not (helped and not self.blocks):
            line = f"torch._dynamo.config.recompile_limit = {_LIMIT}"
            yield Option(line, {"recompile_limit": _LIMIT})
        if self.now.limit_hit and self.blocks:
            line = "block.compile(isolate_recompiles=True)"
            yield Option(line, options={"isolate_recompiles": True})

    def _made(self, found: Finding) -> Iterator[Option]:
        for name in found.kind.options:
            yield from _MAKERS[name](self.m, found)
        yield from options.switches(found.guard.hint)

    def _best(self, found: Finding) -> Tried | None:
        """Return the option that leaves the fewest versions, if one helps."""
        best = None
        least = 1 if self.blocks else self.seen.counts[0]
        for option in self._made(found):
            if self._late or (best and best.after.count <= least):
                break
            one = self.try_(option)
            better = not best or one.after.issues < best.after.issues
            if one.helps and better and self._built(one):
                best = one
        return best

    def _together(self, every: Sequence[Finding]) -> tuple[Tried, list[Finding]] | None:
        """Return options that help more at once than any alone, and what they are for.

        A guard that fails hides the next one, and each may compile anew: to the best of
        each finding, those are added for what still fails with them.
        """
        counted = [one for one in self.tried.values() if one.ran]
        alone = min((one.after.issues for one in counted), default=None)
        if not alone or alone[1] <= self.seen.counts[0]:
            return None
        those, some, todo = list[Finding](), list[Option](), list(every)
        while todo and not self._late:
            for found in todo:
                those.append(found)
                some = self._with_best(some, found)
            failed = findings(self.try_(*some).after.failed) if some else ()
            known = {one.words for one in those}
            todo = [found for found in failed if found.words not in known]
        one = self.try_(*some) if len(some) > 1 else None
        better = one and one.helps and one.after.issues < alone
        return (one, those) if better and self._built(one) else None

    def _with_best(self, some: list[Option], found: Finding) -> list[Option]:
        """Return *some* options and the one for a finding that leaves the fewest."""
        lines = {one.line for one in some}
        made = [[*some, o] for o in self._made(found) if o.line not in lines]
        ran = [those for those in made if self.try_(*those).ran]
        return min(ran, key=lambda those: self.try_(*those).after.issues, default=some)

    def _untried(self, found: Finding) -> Iterator[str]:
        """Yield the change of the user's source that may help, and where."""
        said = "\n".join(one.why for one in self.tried.values())
        if found.kind.name == "size" and (needed := line_in(said)):
            why = f"it is needed as a number, as a key of a table is ({needed})"
            fix = "look it up outside, and pass what is found; or cut the largest one"
            yield f"{found.words}: {why}: untried: {fix}"
        elif found.kind.untried:
            yield f"{found.words}{found.place}: untried: {found.kind.untried}"


def blocks(m: Model) -> tuple[str, ...]:
    """Return the names of the parts of a model that are compiled one by one."""
    modules = m.module.named_modules() if m.module else ()
    return tuple(name for name, one in modules if name and one._compiled_call_impl)


def compiles(m: Model) -> tuple[str, ...]:
    """Return the lines that call ``torch.compile`` inside the model, and what to do."""
    inputs, kwargs = m.calls[0]
    with undisturbed(m.fn), correctness.seeded(0), noted() as asked:
        torch.compiler.set_stance("force_eager")  # what is compiled already
        m.fn(*inputs, **kwargs)
    return tuple(
        f"torch.compile is called in each call ({line}): untried: compile once, where "
        "the model is made"
        for line in dict.fromkeys(line for _, line, _ in asked)
    )
