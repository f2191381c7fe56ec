"""checkup(): what torch.compile does to a model of yours, and what to do about it.

The model runs in a process of its own (`checkup_child`), which is ended when a part
takes too long or too much memory; the parts that are left go on in a new one.
"""

from __future__ import annotations

import operator
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from . import composition, differences, starts, where
from .differences import Difference
from .guest import ADVICE, FRUGAL, folders_of, target_of
from .helpers import children, results, text
from .helpers.errors import InputError, Unavailable
from .helpers.results import Measured, TableResult
from .helpers.text import Table, mark
from .where import Where

QUESTIONS = {  # each part, what it answers, and the lesson that explains it
    "matches": ("Does compiled code give eager's answers?", "16"),
    "capture": ("Is everything captured?", "04"),
    "recompiles": ("What compiles again over these inputs?", "13"),
    "silent": ("Is something silently eager, stale or ignored?", "17"),
    "traffic": ("What do kernels and library calls move?", "10"),
    "speed": ("Is it faster, and after how many calls is it paid back?", "02"),
    "start": ("Where do the first call's seconds go?", "22"),
    "composes": ("Does training bear what people put around it?", "20"),
    "gpu": ("What would a GPU run?", "08"),
    "next": ("What to try next?", "12"),
}
_TESTS = {
    "=": operator.eq,
    "==": operator.eq,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
COUNTS = {  # the facts that parts find, by the names that rules have for them
    "matches": ("matches",),
    "capture": ("graphs", "breaks"),
    "recompiles": ("recompiles", "later_recompiles", "limit_hit"),
    "silent": ("compiled", "stale"),
    "traffic": ("kernels", "library", "bytes", "eager_bytes", "promotes"),
    "speed": ("speedup", "speedup_low", "speedup_high", "paid_back"),
    "start": ("saved", "found_in_cache"),
    "composes": ("silently_different", "raises"),
    "gpu": ("gpu_kernels", "gpu_spilled"),
}
NAMES = {name: part for part, names in COUNTS.items() for name in names}
_WORSE_IF_MORE = (
    *("breaks", "graphs", "recompiles", "later_recompiles", "limit_hit", "kernels"),
    *("library", "bytes", "promotes", "stale", "silently_different", "raises"),
    *("gpu_kernels", "gpu_spilled"),
)
_WORSE_IF_NONE = ("matches", "graphs", "compiled", "found_in_cache")
_APART = ("start", "composes")  # parts that start processes of their own
BISECT = (
    "find the layer that is wrong: torch.compile(model, backend='aot_eager'), and the "
    "bisector (lesson 18)"
)
"""What there is to do where it could not be looked for."""
_OWN_BACKWARD = (
    "torch._functorch.config.autograd_cache_allow_custom_autograd_functions = True"
)
_WORTH_SHIPPING = 0.2  # of the first call, what a cache must save to be advised
_MOST = 12  # differences that a terminal shows
_MOST_NAMED = 4  # places that a sentence names
_SIGNS = {
    "good": "✓",
    "look": "!",
    "bad": "✗",
    "cannot tell": "?",
    "failed": "✗",
    "not run": "–",
}


@dataclass(frozen=True)
class Part:
    """One question, its verdict in a word and in a sentence, and the evidence.

    *verdict* is ``good``, ``look``, ``bad``, ``cannot tell``, ``failed`` or ``not
    run``.  *counts* are facts by name, for `Checkup.require`.  *advice* has lines to
    write, *pictures* are HTML with the data inline.  *differences* name what is not
    eager's, and *where* says where the first of them comes from.
    """

    name: str
    verdict: str
    says: str
    counts: dict[str, int | float | bool | str | None] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    where: Where | None = None

    @property
    def question(self) -> str:
        """What the part answers."""
        return QUESTIONS[self.name][0]

    @property
    def lesson(self) -> str:
        """The lesson that explains it."""
        return QUESTIONS[self.name][1]


@dataclass(frozen=True, repr=False)
class Checkup(Measured, TableResult):
    """What ``checkup`` found: a part for each question, in their order."""

    target: str
    parts: tuple[Part, ...]
    trains: bool
    calls: int
    interrupted: bool = False

    def __getitem__(self, name: str) -> Part:
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(f"no part {name!r}: there are {[p.name for p in self.parts]}")

    @property
    def counts(self) -> dict[str, Any]:
        """All facts by name."""
        return {k: v for part in self.parts for k, v in part.counts.items()}

    @property
    def wrong(self) -> bool:
        """Whether an answer of compiled code is wrong, or stale."""
        counts = self.counts
        return counts.get("matches") is False or bool(counts.get("stale"))

    @property
    def ok(self) -> bool:
        """Whether no part is bad, and none failed."""
        return not any(part.verdict in ("bad", "failed") for part in self.parts)

    def table(self) -> Table:
        """Return a row for each part."""
        rows = [
            (_SIGNS[p.verdict], p.name, p.verdict, p.lesson, p.says) for p in self.parts
        ]
        return Table.of(["", "part", "verdict", "lesson", "found"], rows)

    def _last(self) -> str:
        lines = [f"{part.name}: {line}" for part in self.parts for line in part.advice]
        for part in self.parts:
            if part.differences:
                lines += ["", f"{part.name}, what differs:", *_listed(part.differences)]
        if self.interrupted:
            lines.append("interrupted: these are the parts that were done")
        return "\n".join(lines)

    def to_html(self) -> str:
        """Return the report as one HTML page that needs no network and no script."""
        from .page import page

        return page(self)

    def unmet(self, requirements: str) -> list[str]:
        """Return each of the *requirements* that does not hold, and what was found.

        They are names of counts, alone or with a limit, with commas in between:
        ``"graphs=1,breaks=0,recompiles<=2,matches"``.  Raises InputError for a name
        that no part has.
        """
        says = {part.name: part.says for part in self.parts}
        unmet = []
        for rule in rules_of(requirements):
            name, sign, limit = rule.groups()
            value = self.counts.get(name)
            if value is None:
                why = says.get(NAMES[name], "its part was not run")
                unmet.append(f"{rule[0]}: not known, {why}")
            elif not (_TESTS[sign](value, float(limit)) if sign else value):
                unmet.append(f"{rule[0]}: it is {str(value).lower()}")
        return unmet

    def require(self, requirements: str) -> None:
        """Raise AssertionError that names all *requirements* that do not hold."""
        if unmet := self.unmet(requirements):
            raise AssertionError("; ".join(unmet))

    def worse_than(self, before: Checkup) -> list[str]:
        """Return what became worse since *before*, another checkup of the model."""
        worse = []
        ours, theirs = self.counts, before.counts
        for name in _WORSE_IF_MORE:
            old, new = theirs.get(name), ours.get(name)
            if old is not None and new is not None and new > old:
                worse.append(f"{name}: {old} before, {new} now")
        for name in _WORSE_IF_NONE:
            if theirs.get(name) and ours.get(name) in (False, 0):
                worse.append(f"{name}: {theirs[name]} before, {ours[name]} now")
        old, new = (str(counts.get("guards") or "") for counts in (theirs, ours))
        if old and set(new.split("; ")) - {*old.split("; "), ""}:
            worse.append(f"guards that fail: {old!r} before, {new!r} now")
        low, high = theirs.get("speedup_low"), ours.get("speedup_high")
        if low and high and high < low:
            worse.append(f"speedup: at least {low} before, at most {high} now")
        failed = {part.name for part in before.parts if part.verdict == "failed"}
        for part in self.parts:
            if part.verdict == "failed" and part.name not in failed:
                worse.append(f"{part.name}: it fails now, {part.says}")
        return worse


def _listed(found: Sequence[Difference]) -> list[str]:
    """Return a table of what differs, and how much more there is."""
    shown = [str(differences.table(found[:_MOST]))]
    more = len(found) - _MOST
    return shown + ([f"and {more} more: --to report.html has all"] if more > 0 else [])


def rules_of(requirements: str) -> list[re.Match[str]]:
    """Return name, sign and limit of each rule in *requirements*.

    Raises InputError for what is no rule, or names what no part counts.
    """
    rules = []
    for rule in filter(None, (r.strip() for r in requirements.split(","))):
        match = re.fullmatch(r"(\w+)\s*(?:(==|=|<=|>=|<|>)\s*(-?\d*\.?\d+))?", rule)
        if not match or match[1] not in NAMES:
            raise InputError(
                f"{rule!r} is no requirement: use {', '.join(sorted(NAMES))}, "
                "alone or with a limit, such as breaks=0 or recompiles<=2"
            )
        rules.append(match)
    return rules


def checkup(
    make: str | Callable[[], tuple],
    *,
    only: Sequence[str] = (),
    train: bool = False,
    gpu: str = "",
    budget: float = 5.0,
    timeout: float = 300.0,
    memory: int | None = None,
    search: bool = True,
    repro: str | os.PathLike[str] | None = None,
    emit_test: str | os.PathLike[str] | None = None,
    issue: str | os.PathLike[str] | None = None,
) -> Checkup:
    """Return what torch.compile does to a model, and what to try next.

    *make* is ``"module:function"``, ``"path/to/file.py:function"``, or a function that
    stands in a module.  Called without arguments, in a process of its own, it returns a
    model or function and its inputs: a tuple, a dictionary of keyword arguments, or a
    list of several of these that differ as those of real calls do.  A third value is a
    loss: a function of what the model returns.  With it, or with *train*, which takes
    a weighted sum of what is returned, a backward belongs to each call.  Of a model
    that is compiled already, what was given to ``torch.compile`` is looked at.

    *only* names parts to do (`QUESTIONS`); else all, with ``gpu`` where a *gpu* such as
    ``"h100"`` is named.  *budget* is in seconds of timing for each part that times.
    A part that is not done after *timeout* seconds, or whose process has more than
    *memory* bytes (by default three quarters of what is free), is ended, says so in its
    place, and the others go on: after compiled answers that never came, they share as
    much time.  Ctrl-C keeps the parts that are done.

    Where compiled answers are wrong, where that comes from is looked for, once more for
    at most *timeout* seconds, unless *search* is false.  The program that shows it is
    in the report, and goes to the folder *repro*; a test of pytest goes to the file
    *emit_test*, and the draft of an issue, as Markdown, to *issue*.

    Nothing of the model's weights, and no variable of the environment, is kept.  (Where
    no other input shows what is wrong, *repro* gets a file with that of one operation.)

    Raises InputError when *make* cannot be found or does not give a model and inputs,
    or a file cannot be written.
    """
    files = where.Files(repro, emit_test, issue)
    files.check()
    target = target_of(make)
    names = children.chosen(only, QUESTIONS)
    if not only and not gpu:
        names.remove("gpu")
    order = {"target": target, "train": train, "gpu": gpu or "h100"}
    order |= {"budget": budget, "timeout": timeout, "memory": memory}
    about: dict[str, Any] = {"trains": train, "calls": 0}
    why = "nothing trains here: give a loss"
    with (
        text.progress("checkup", len(names), "parts") as bar,
        # What one part has built, the others find: and nothing that was there before.
        tempfile.TemporaryDirectory(
            prefix="checkup-", ignore_cleanup_errors=True
        ) as cache,
    ):
        done, env = _Done(names, bar), {**FRUGAL, "TORCHINDUCTOR_CACHE_DIR": cache}
        try:
            here = [n for n in names if n not in _APART]
            for name, found in _found(here, order, env):
                if problem := found.get("problem"):
                    running = about.get("running", "")
                    done.put(name, ended_part(name, problem, running, found["ended"]))
                elif name:
                    done.put(name, msgspec.convert(found, Part), found.get("when"))
                else:
                    about |= found
            if search and "matches" in done and done["matches"].verdict == "bad":
                sought = order | about | {"timeout": timeout}
                done.put("matches", _with_where(done["matches"], sought, files))
            for name in _APART:
                if name in names and (about["trains"] or name != "composes"):
                    done.put(name, _apart(name, order | about))
        except KeyboardInterrupt:
            why = "interrupted"
    if not only and not about["trains"]:
        names.remove("composes")
    for name in names:
        done.setdefault(name, Part(name, "not run", why))
    return Checkup(
        target=Path(target).name,  # without its folder
        parts=tuple(done[name] for name in names),
        trains=about["trains"],
        calls=about["calls"],
        interrupted=why == "interrupted",
    )


def _found(
    names: list[str], order: dict[str, Any], env: dict[str, str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what parts find, as `children.parts` does; they have one process.

    Where compiled answers never came, all other parts share the time that it took: the
    *order* has theirs.
    """
    child, path = f"{__package__}.checkup_child", folders_of(order["target"])

    def parts(names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        limits = order["timeout"], order["memory"]
        return children.parts(child, order, names, *limits, path, ADVICE, env)

    for name, found in parts(names):
        yield name, found
        if name == "matches" and found.get("ended") == "time":
            left = [other for other in names if other != name]
            order["timeout"] /= max(1, len(left))
            yield from parts(left) if left else ()
            return


class _Done(dict[str, Part]):
    """The parts that are done: each verdict is told as it comes, with its seconds."""

    def __init__(self, names: Sequence[str], bar: Any) -> None:
        super().__init__()
        self._names, self._bar, self._begin = names, bar, time.monotonic()

    def put(self, name: str, part: Part, when: float | None = None) -> None:
        """Keep a part, and tell it once; the bar shows the next.

        *when* it was done, by its process, which may report several at once; else now.
        """
        end = when or time.monotonic()
        took, self._begin = text.seconds(end - self._begin), end
        if name not in self:
            says, verdict = part.says, part.verdict
            said = says if f"{verdict}:" in says else f"{verdict}, {says}"
            text.tell(f"{_SIGNS[verdict]} {name} {took}: {said}")
            self._bar.update()
        self[name] = part
        left = [name for name in self._names if name not in self]
        self._bar.set_description_str(f"checkup, {left[0]}" if left else "checkup")


def _with_where(part: Part, order: dict[str, Any], files: where.Files) -> Part:
    """Return a part whose answers are wrong with where that comes from."""
    limits = order["timeout"], order["memory"]
    first = next((one for one in part.differences if not one.look), None)
    if first is None:
        return part
    with tempfile.TemporaryDirectory(prefix="repro-") as place:
        try:
            found = where.searched(first, order, *limits, Path(place))
            found = files.write(found, Path(place))
        except (InputError, Unavailable, OSError) as error:  # what is known is kept
            said = f"where it comes from was not looked for: {error}"
            return replace(part, evidence=(*part.evidence, said))
    evidence = (*part.evidence, *filter(None, [found.repro.rstrip()]))
    cures = (line for line in part.advice if line != BISECT or not found.stage)
    advice = (str(found), *_not_searched(first, part.differences), *cures)
    return replace(part, evidence=evidence, advice=advice, where=found)


def _not_searched(first: Difference, found: Sequence[Difference]) -> Iterator[str]:
    """Yield the sentence on the other places that differ, if there are some."""
    places = [one.place for one in found if not one.look and one.where != first.where]
    if places := [*dict.fromkeys(place for place in places if place != first.place)]:
        named = ", ".join(places[:_MOST_NAMED])
        more = len(places) - _MOST_NAMED
        named += f" and {more} more" if more > 0 else ""
        yield (
            f"not searched, for one cause may be behind all: {named}; run it again "
            f"when {first.place} is eager's"
        )


def _apart(name: str, order: dict[str, Any]) -> Part:
    """Return a part that starts processes of its own: no model is made in this one."""
    target, limits = order["target"], {n: order[n] for n in ("timeout", "memory")}
    try:
        if name == "composes":
            around = composition.composes(target, **limits)
        else:
            around = starts.cold_start(target, train=order["trains"], **limits)
    except (InputError, Unavailable, OSError) as error:  # the other parts are kept
        return Part(name, "failed", str(error))
    if around.interrupted:
        raise KeyboardInterrupt
    return training_part(around) if name == "composes" else start_part(around)


def ended_part(name: str, problem: str, running: str, how: str) -> Part:
    """Return a part that never came to its end, by which side was *running* then.

    Where eager ran, compiled code that dies, hangs or takes all memory is bad, and so
    is a build that does, but for one that is not done in time: it may be slow.
    """
    if name != "matches" or running not in ("compiled", "the build"):
        return Part(name, "failed", problem)
    if running == "the build" and how == "time":
        return Part(name, "failed", f"{problem} (it was still compiling)")
    why = problem.removeprefix(f"failed at: {name}: ")
    found = Difference(1, "the call", "raises", "runs", why, ended=how)
    says = f"eager runs, and compiled it comes to no answer: {why}"
    counts = {"matches": False}
    return Part(name, "bad", says, counts, differences=(found,))


def start_part(found: starts.ColdStart) -> Part:
    """Return where the first call's seconds go, cold and with what a cache keeps."""
    problems = [f"{way.name}: {way.problem}" for way in found.ways if way.problem]
    saved = {way.name: found.saved(way.name) for way in found.ways if not way.problem}
    says = f"{mark(text.seconds(found['empty'].seconds()))} until the first answer"
    counts: dict[str, Any] = {"saved": None, "found_in_cache": None}
    verdict, advice = "look" if problems else "good", ()
    if "warm" in saved:
        says += f", {mark(text.seconds(found['warm'].seconds()))} with a warm cache"
        lookups, counts["saved"] = found["warm"].first.lookups, round(saved["warm"], 3)
        hits = counts["found_in_cache"] = sum(one.hits for one in lookups)
        phases = found["empty"].first.phases
        if not hits and phases.get("Inductor", 0) + phases.get("build", 0):
            verdict = "bad"
            says = f"a second process finds nothing in the cache: {says}"
            whys = [reason for one in lookups for reason in one.reasons]
            whys += [
                f"{part} of its key is another"
                for part in found.missed().get("warm", ())
            ]
            advice = (f"look why: {'; '.join(whys) or 'are caches switched off?'}",)
        elif verdict == "good" and (passed := [one for one in lookups if one.bypasses]):
            kinds = ", ".join(one.kind for one in passed)
            verdict, says = "look", f"a second process passes {kinds} by: {says}"
            advice = tuple(map(_passed_by, passed))
    best = max(saved, key=lambda way: (way != "warm", saved[way]))
    if verdict == "good" and saved[best] > _WORTH_SHIPPING:
        ships = mark(text.size(found[best].ships))
        share = mark(f"{saved[best]:.0%}")
        advice = (f"{best!r} ships {ships} and saves {share} of the first call",)
    return Part("start", verdict, says, counts, (str(found), *problems), advice)


def _passed_by(found: starts.Lookup) -> str:
    """Return why a cache was not asked, in torch's words, and what lets it be."""
    why = " ".join("; ".join(found.reasons).split()) or "torch does not say why"
    said = f"{found.kind} is not asked, so its part is done in each process: {why}"
    if re.search("FunctionCtx|autograd_function_apply", why):
        said += f": untried: {_OWN_BACKWARD}, where such a function has no state"
    return said


def training_part(found: composition.Composition) -> Part:
    """Return how a training step bears what people put around it."""
    agrees, differs = found.named("agrees"), found.named("differs")
    raises, ended = found.named("raises"), found.named("not done")
    says = f"{len(agrees)} of {len(found.situations)} agree"
    ills = {"differs in silence": differs, "raises": raises, "had to be ended": ended}
    for ill, names in ills.items():
        if names:
            says += f"; {ill}: {', '.join(names)}"
    known = [composition.OF_EVERY_MODEL.get(name) for name in differs + raises]
    if found.ok and known:
        says += ", as in every compiled model"
    own = {verdict: found.named(verdict, own=True) for verdict in ("differs", "raises")}
    counts = {"silently_different": len(own["differs"]), "raises": len(own["raises"])}
    verdict = "bad" if own["differs"] else "look" if own["raises"] + ended else "good"
    if not agrees + differs + raises:
        verdict, counts = "cannot tell", dict.fromkeys(counts)  # nothing was judged
    advice = tuple(filter(None, known))
    return Part("composes", verdict, says, counts, (str(found),), advice)


_REPORTS = {
    ".html": Checkup.to_html,
    ".json": Checkup.to_json,
    ".txt": Checkup.__str__,
}


def check_report(path: str | os.PathLike[str]) -> str:
    """Return the ending of *path*.

    Raises InputError where no report has it, or where nobody may write there.
    """
    if (kind := Path(path).suffix) not in _REPORTS:
        raise InputError(f"a report ends in .html, .json or .txt, not in {kind!r}")
    home = next(folder for folder in Path(path).absolute().parents if folder.exists())
    if not os.access(home, os.W_OK):
        raise InputError(f"{path} cannot be written: name a folder that can")
    return kind


def write_report(found: Checkup, path: str | os.PathLike[str]) -> Path:
    """Write *found* as HTML, text or JSON, by the ending of *path*; return the path."""
    return results.write_atomically(path, _REPORTS[check_report(path)](found))
