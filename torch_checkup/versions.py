"""The part ``recompiles``: what compiles again over these inputs, and what stops it.

Guards that fail for one cause are one finding, with the user's line that needs what
they test.  `KINDS` says what may cure each kind of guard, and that is tried.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.fx.experimental import _config as shapes

from . import cures, inner
from .checkups import Part
from .cures import Cure, Versions
from .helpers import text
from .helpers.capture import (
    Guard,
    Recompiles,
    in_words,
    line_in,
    named,
    recompiles,
    settings_in,
)
from .patient import Patient

# ------------------------------------------------------------------------- the part


def again(p: Patient) -> Part:
    """What compiles again over these inputs?"""
    rounds = max(2, 4 // len(p.calls))
    blocks = inner.blocks(p)
    with cures.kept_settings():
        seen = inner.seen(p, rounds) if blocks else _seen(p, rounds)
    if not any(call.graphs for call in seen.calls):
        counts = dict.fromkeys(("recompiles", "later_recompiles", "limit_hit"))
        says = "nothing is compiled: see capture"
        return Part("recompiles", "cannot tell", says, counts, advice=inner.compiles(p))
    later = sum(seen.counts[len(p.calls) :])
    extra = sum(seen.counts[1 : len(p.calls)])
    verdict, says = _verdict(p, seen, later, extra, rounds)
    if blocks:
        says = f"{inner.told(p, blocks, seen)}; {says}"
    guards = list(dict.fromkeys(g for call in seen.calls for g in call.guards))
    counts = {
        "recompiles": extra + later,
        "later_recompiles": later,
        "limit_hit": seen.limit_hit,
        "guards": "; ".join(guards),
    }
    tried = Cures(p, seen, rounds, inner.compiling(p) if blocks else None)
    advice = () if verdict == "good" else tuple(tried.lines())
    advice += inner.compiles(p)
    return Part("recompiles", verdict, says, counts, (str(seen),), advice)


def _seen(p: Patient, rounds: int) -> Recompiles:
    """Return what all calls compile, in turn: what still compiles has no end."""
    calls = list(itertools.chain.from_iterable(p.calls for _ in range(rounds)))
    half = p.order["timeout"] / 2  # of its seconds: it keeps what it has seen
    return recompiles(p.fn, calls, budget=half)


def _verdict(
    p: Patient, seen: Recompiles, later: int, extra: int, rounds: int
) -> tuple[str, str]:
    """Return the verdict in a word and in a sentence."""
    verdict, says = "good", "one more version serves the rest"
    if later or seen.limit_hit:
        ends = not any(seen.counts[-len(p.calls) :])  # as where a table is made once
        verdict = "look" if ends and not (seen.limit_hit or seen.stopped) else "bad"
        often = f"{text.count(later, 'time')} in {rounds} rounds"
        says = f"inputs that it has seen compile again: {often}"
        if seen.limit_hit:
            says = f"{says}, until" if later else "these inputs compile until"
            says += " the recompile limit is hit: then new ones run eagerly"
    elif extra > 1:
        verdict, says = "look", f"these inputs compile {extra} more versions"
    elif not extra:
        says = "no second version"
    if p.fails:
        says += f"; left out, as eager raises: {text.count(len(p.fails), 'call')}"
    elif len(p.calls) == 1:
        says += "; one set of inputs was given: give a list of those that come"
    if seen.stopped:
        says += f"; {seen.stopped}"
    return verdict, says


# ------------------------------------------------------------------------- the cures


@dataclass(frozen=True)
class Finding:
    """Guards that fail for one cause: their kind, in words, and the first of them."""

    kind: Kind
    words: str
    guard: Guard
    groups: tuple[str, ...]

    @property
    def place(self) -> str:
        """The user's line behind it."""
        return f" ({self.guard.place.rstrip(':')})" if self.guard.place else ""


Maker = Callable[[Patient, Finding], Iterable[Cure]]


class Kind(NamedTuple):
    """A kind of guard: what it says, in words, and what may cure it.

    *untried* is a change of the user's source, for where nothing that is tried helps.
    """

    pattern: str
    words: str
    cures: tuple[Maker, ...] = ()
    untried: str = ""


def _marked(p: Patient, _: Finding) -> Iterator[Cure]:
    yield from cures.marked(p)


def _unbacked(p: Patient, _: Finding) -> Iterator[Cure]:
    """Of sizes 0 and 1, which have versions of their own, make sizes as all others.

    For others it would hide that the code needs the number, as the key of a table.
    """
    sizes = {size for _, leaf in _tensors(p) for size in leaf.shape}
    yield from cures.marked(p, "decorators.mark_unbacked") if sizes & {0, 1} else ()


def _tensors(p: Patient) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each tensor of all calls, with its name."""
    for call in p.calls:
        for name, leaf in cures.named(p, call):
            if isinstance(leaf, torch.Tensor):
                yield name, leaf


def _dynamic(_p: Patient, _: Finding) -> Iterator[Cure]:
    yield from cures.dynamic()


def _another_first(p: Patient, _: Finding) -> Iterator[Cure]:
    numbers = range(len(p.calls))
    for first in dict.fromkeys((*numbers[:0:-1][:1], *numbers[1:2])):
        order = (first, *(n for n in numbers if n != first))
        yield Cure(f"warm up with inputs {first + 1} first", order=order)


def _no_duck(_p: Patient, _: Finding) -> Iterator[Cure]:
    line = "torch.fx.experimental._config.use_duck_shape = False"
    yield Cure(line, around=lambda: shapes.patch(use_duck_shape=False))


def _scalars(_p: Patient, _: Finding) -> Iterator[Cure]:
    """What a graph break gave may be a size, and cannot stay a tensor."""
    yield from cures.switches("torch._dynamo.config.capture_scalar_outputs = True")


def _settings(_p: Patient, found: Finding) -> Iterator[Cure]:
    if cure := cures.settings_kept(settings_in(found.guard.test)):
        yield cure


def _one_dtype(p: Patient, found: Finding) -> Iterator[Cure]:
    [name] = found.groups
    given = dict(cures.named(p, p.calls[0])).get(name)
    if isinstance(given, torch.Tensor):
        line = f"{name}.to({given.dtype}) in each call"
        yield _leaves(p, line, name, lambda leaf: leaf.to(given.dtype))


def _detached(p: Patient, found: Finding) -> Iterator[Cure]:
    [name] = found.groups
    if not p.train:
        line = f"{name}.detach(), where no gradient of it is needed"
        yield _leaves(p, line, name, torch.Tensor.detach)


def _number(p: Patient, found: Finding) -> Iterator[Cure]:
    """A number as a tensor: an argument, or what an argument or the model holds."""
    [name] = found.groups
    yield from cures.given(p, name)
    yield from cures.held(p, name)


def _leaves(p: Patient, line: str, name: str, change: Callable[[Any], Any]) -> Cure:
    """Return the cure that changes what has a *name* in all calls."""

    def changed(key: str, leaf: Any) -> Any:
        return change(leaf) if key == name else leaf

    return Cure(line, calls=lambda calls: cures.changed(p, changed, calls))


_SIZE = r"tensor '(.+?)' size mismatch at index (\d+)"
_NAME = r"(?:L\['?)?([\w.\[\]']+)"
_LIMIT = 64
_MOST_AT_ONCE = 8
"""So many ways to cure several findings at once are tried."""
KINDS = (  # the first that fits counts; what torch's own hint names is tried, too
    Kind(
        rf"{_SIZE}.*Guard failed on a parameter",
        "the parameter {0} has another size in dimension {1}",
    ),
    Kind(
        _SIZE,
        "{0} has another size in dimension {1}",
        (_marked, _dynamic, _unbacked, _another_first),
        "pad it to a few sizes",
    ),
    Kind(
        r"tensor '(.+?)' dtype mismatch",
        "{0} has another dtype",
        (_one_dtype,),
        "bring it to one dtype before the call",
    ),
    Kind(
        r"tensor '(.+?)' rank mismatch",
        "{0} has another number of dimensions",
        untried="bring it to one number of dimensions before the call",
    ),
    Kind(
        r"tensor '(.+?)' requires_grad mismatch",
        "{0} differs in whether it requires gradients",
        (_detached,),
    ),
    Kind(r"GLOBAL_STATE changed: (.+)", "", (_settings,)),
    Kind(
        r"(\S+)\.size\(\)\[\d+\] == (\S+)\.size\(\)\[\d+\]",
        "sizes of {0} and {1} were equal by chance in the first call",
        (_no_duck, _marked, _another_first),
    ),
    Kind(
        r"(\S+)\.size\(\)",
        "a size of {0} is outside of what was compiled",
        (_unbacked, _another_first),
        "a size of 0 or 1 has a version of its own: pad it",
    ),
    Kind(
        rf"len\({_NAME}\) == ",
        "{0} has another length",
        untried="always as many: fill it before the first call, or give one tensor",
    ),
    Kind(
        r"^(___stack\d+)\b",
        "{0} is another",
        (_scalars,),
        "keep it a tensor, and choose with torch.where",
    ),
    Kind(
        rf"^{_NAME} == ['\"]",
        "{0} is another text",
        untried="put what it chooses among into one tensor, and index that",
    ),
    Kind(rf"^{_NAME} == (?:True|False|None)", "{0} is a choice"),
    Kind(
        rf"^{_NAME} == ",
        "{0} is a constant in compiled code",
        (_number,),
        "keep the number out of the compiled function, or make it a tensor",
    ),
    Kind(
        r"Duplicate tensors|^\S+ is (?:not )?\S+$",
        "one tensor is given twice in some calls",
        untried="give a copy, .clone()",
    ),
    Kind(
        rf"check_obj_id\({_NAME}|check_type_id\({_NAME}",
        "{0} is another object",
        untried="make it once, outside, and give the same one each time",
    ),
    Kind("", "", untried="see what changes there"),
)


def findings(guards: Iterable[Guard]) -> list[Finding]:
    """Return the causes for which *guards* failed, each once."""
    found = dict[str, Finding]()
    for guard in guards:
        kind = next(k for k in KINDS if re.search(k.pattern, guard.test))
        groups = [g for g in re.search(kind.pattern, guard.test).groups() if g]
        words = kind.words.format(*groups) or in_words(guard.test, guard.source)
        words = re.sub(r"\bkwargs\['(\w+)'\]", r"\1", named(words, guard.source))
        found.setdefault(words, Finding(kind, words, guard, tuple(groups[:1])))
    return list(found.values())


def _counted(tried: Versions | str | None) -> bool:
    """Return whether something was tried, and has a count."""
    return isinstance(tried, Versions)


@dataclass(frozen=True)
class Cures:
    """What was tried for the guards that failed in *seen*, in so many *rounds*."""

    p: Patient
    seen: Recompiles
    rounds: int
    compiling: cures.Compiling | None = None
    tried: dict[str, Versions | str] = field(default_factory=dict)
    begin: float = field(default_factory=time.monotonic)

    @property
    def now(self) -> Versions:
        """The versions without a cure."""
        ends = not any(self.seen.counts[-len(self.p.calls) :])
        return Versions(self.seen.total, self.seen.limit_hit, ends)

    def lines(self) -> Iterator[str]:
        """Yield the advice: what helps, and what it brings; what cannot be tried."""
        helps, rest = dict[str, list[Finding]](), list[Finding]()
        every = findings(g for call in self.seen.calls for g in call.failed)
        for found in every:
            if best := self._best(found):
                helps.setdefault(best.line, []).append(found)
            else:
                rest.append(found)
        if both := self._together(every):
            cure, those = both
            words = {one.words for one in those}
            helps = {cure.line: those}
            rest = [found for found in rest if found.words not in words]
        for line, those in helps.items():
            words = "; ".join(f"{one.words}{one.place}" for one in those)
            yield f"{words}: {line}: {self.now.then(self.tried[line])}"
        for found in rest:
            if not helps or found.kind.pattern != _SIZE:  # one ill may hide a cure
                yield from self._untried(found)
        for cure in self._limits(bool(helps)):
            if self._helps(cure):
                yield f"{cure.line}: {self.now.then(self.tried[cure.line])}"

    def _limits(self, helped: bool) -> Iterator[Cure]:
        """Yield what leaves room for more versions, where these come to an end."""
        if self.now.limit_hit and not (helped and not self.compiling):
            line = f"torch._dynamo.config.recompile_limit = {_LIMIT}"
            yield Cure(line, {"recompile_limit": _LIMIT})
        if self.now.limit_hit and self.compiling:
            line = "block.compile(isolate_recompiles=True)"
            yield Cure(line, options={"isolate_recompiles": True})

    def _best(self, found: Finding) -> Cure | None:
        """Return the cure that leaves the fewest versions, if one helps."""
        best = None
        for cure in self._made(found):
            if self._late:
                break
            if self._helps(cure) and (
                not best or self.tried[cure.line].ill < self.tried[best.line].ill
            ):
                best = cure
            least = 1 if self.compiling else self.seen.counts[0]
            if best and self.tried[best.line].count <= least:
                break  # nothing compiles again
        return best

    def _made(self, found: Finding) -> Iterator[Cure]:
        """Yield what may cure a finding."""
        yield from cures.switches(found.guard.hint)
        for make in found.kind.cures:
            yield from make(self.p, found)

    @property
    def _late(self) -> bool:
        """Whether a third of the part's time is spent: no other cure is tried then."""
        return time.monotonic() - self.begin > self.p.order["timeout"] / 3

    def _together(self, every: Sequence[Finding]) -> tuple[Cure, list[Finding]] | None:
        """Return cures that help more at once than any alone, and what they are for.

        A guard that fails hides the next one, and each ill may compile anew: to each
        cure, those are added for what still fails with it.
        """
        alone = min((n.ill for n in self.tried.values() if _counted(n)), default=None)
        if not alone or alone[1] <= self.seen.counts[0]:
            return None
        chains = [([one], [cure]) for one in every for cure in self._made(one)]
        for _ in range(_MOST_AT_ONCE):
            chains = [c for c in chains if _counted(self._with(c[1]))]
            chains.sort(key=lambda chain: self._with(chain[1]).ill)
            if not chains or self._late:
                break
            those, some = chains.pop(0)
            longer = []
            for found in findings(self._with(some).failed):
                known = {one.words for one in those}
                made = self._made(found) if found.words not in known else ()
                longer += [([*those, found], [*some, cure]) for cure in made]
            helps = [c for c in longer if self._helps(cures.together(c[1]))]
            best = min(helps, key=lambda c: self._with(c[1]).ill, default=None)
            if best and self._with(best[1]).ill < alone:
                return cures.together(best[1]), best[0]
            chains += longer
        return None

    def _with(self, some: Sequence[Cure]) -> Versions | str | None:
        """Return what was tried of some cures at once."""
        line = some[0].line if len(some) == 1 else cures.together(some).line
        return self.tried.get(line)

    def _helps(self, cure: Cure) -> bool:
        """Try a cure, once, and return whether the model is less ill with it."""
        if cure.line not in self.tried:
            try:
                count = cures.versions(self.p, cure, self.compiling, self.rounds)
                self.tried[cure.line] = count or "other answers"
            except Exception as error:
                self.tried[cure.line] = str(error)
        after = self.tried[cure.line]
        return _counted(after) and after.ill < self.now.ill

    def _untried(self, found: Finding) -> Iterator[str]:
        """Yield the change of the user's source that may help, and where."""
        said = "\n".join(t for t in self.tried.values() if isinstance(t, str))
        if found.kind.pattern == _SIZE and (needed := line_in(said)):
            yield (
                f"{found.words}: it is needed as a number, as a key of a table is "
                f"({needed}): untried: make what hangs on it once, for the largest, "
                "and cut that to the size"
            )
        elif found.kind.untried:
            yield f"{found.words}{found.place}: untried: {found.kind.untried}"
