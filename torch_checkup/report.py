"""checkup(): what torch.compile does to a model, part by part; the report, its rules.

The model runs in a sandbox, which is ended when a part takes too much time or memory;
the parts that are left go on in a new one.  Here is no torch: a report is read without.
"""

from __future__ import annotations

import math
import operator
import os
import re
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module, metadata
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from . import sandbox, where
from .helpers import differences, results, stats, text
from .helpers.differences import Difference
from .helpers.errors import InputError, Unavailable
from .helpers.results import Measured, TableResult
from .helpers.text import Table
from .sandbox import FRUGAL, target_of
from .where import Where


class Question(NamedTuple):
    """What a part answers, and what its section of the page says: `parts.toml`."""

    asks: str
    facts: list[str]
    lesson: str
    why: str
    todo: str


_TEXT = (files(__package__) / "parts.toml").read_text(encoding="utf-8")
QUESTIONS = {name: Question(**one) for name, one in tomllib.loads(_TEXT).items()}
NAMES = {fact: part for part, one in QUESTIONS.items() for fact in one.facts}
"""The facts that parts find, by the names that rules have for them."""
_VERDICTS = {  # a sign for the terminal, and what the page says of it
    "good": ("✓", "nothing to do"),
    "look": ("!", "it works, and something is worth knowing"),
    "bad": ("✗", "something is wrong, or costs without end"),
    "cannot tell": ("?", "looked at, and not decided"),
    "failed": ("✗", "the check-up itself could not do it"),
    "not run": ("–", "left out"),
}
_TESTS = {
    "=": operator.eq,
    "==": operator.eq,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_WORSE_IF_MORE = (
    *("breaks", "graphs", "recompiles", "later_recompiles", "limit_hit", "kernels"),
    *("library", "bytes", "promotes", "stale", "silently_different", "raises"),
    *("gpu_kernels", "gpu_spilled"),
)
_WORSE_IF_NONE = ("matches", "graphs", "compiled", "found_in_cache")
_APART = {"start": "start", "composes": "composing"}  # they start processes themselves
BISECT = (
    "find the layer that is wrong: torch.compile(model, backend='aot_eager'), and the "
    "bisector (lesson 18)"
)
"""The advice where the search found nothing."""
_WIDTH = 79  # characters of a line in a terminal
_MOST = 12  # differences that a terminal shows


@dataclass(frozen=True)
class Part:
    """One question, its verdict in a word and in a sentence, and the evidence.

    *verdict* is ``good``, ``look``, ``bad``, ``cannot tell``, ``failed`` or ``not
    run``.  *counts* are facts by name, for `Checkup.require`.  *evidence* has tables
    and texts, *advice* lines to write, *pictures* HTML with the data inline.
    *differences* name what is not eager's, and *where* the first of them comes from.
    """

    name: str
    verdict: str
    says: str
    counts: dict[str, int | float | bool | str | None] = field(default_factory=dict)
    evidence: tuple[Table | str, ...] = ()
    advice: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    where: Where | None = None

    @property
    def lesson(self) -> str:
        """The number of the lesson that explains it."""
        return QUESTIONS[self.name].lesson[:2]


def by_name(every: Sequence[Any], name: str) -> Any:
    """Return the one that has a *name*; raises KeyError that names all there are."""
    named = {one.name: one for one in every}
    if name not in named:
        raise KeyError(f"no {name!r}: there are {[*named]}")
    return named[name]


@dataclass(frozen=True, repr=False)
class Checkup(Measured, TableResult):
    """What ``checkup`` found: a part for each question, in their order."""

    target: str
    parts: tuple[Part, ...]
    trains: bool
    calls: int
    interrupted: bool = False

    def __getitem__(self, name: str) -> Part:
        return by_name(self.parts, name)

    @property
    def counts(self) -> dict[str, Any]:
        """All facts by name."""
        return {k: v for part in self.parts for k, v in part.counts.items()}

    @property
    def wrong(self) -> bool:
        """Whether an answer of compiled code is wrong, or stale."""
        counts = self.counts
        return counts.get("matches") is False or bool(counts.get("stale"))

    def table(self) -> Table:
        """Return a row for each part."""
        rows = [
            (_VERDICTS[p.verdict][0], p.name, p.verdict, p.lesson, p.says)
            for p in self.parts
        ]
        return Table.of(["", "part", "verdict", "lesson", "found"], rows)

    def _last(self) -> str:
        lines = [
            "\n  ".join(_broken(f"{part.name}: {line}", _WIDTH, _WIDTH - 2))
            for part in self.parts
            for line in part.advice
        ]
        for part in self.parts:
            if part.differences:
                lines += ["", f"{part.name}, what differs:", *_listed(part.differences)]
        if self.interrupted:
            ran = (part.name for part in self.parts if part.verdict != "not run")
            lines.append(f"interrupted: done are {', '.join(ran) or 'no parts'}")
        return "\n".join(lines)

    def __str__(self) -> str:
        """Return the report for a terminal, its long lines broken."""
        table = self.table()
        *heads, _ = zip(table.headings, *table.rows, strict=True)
        room = _WIDTH - sum(max(map(len, column)) + 2 for column in heads)
        rows = []
        for *head, says in table.rows:
            first, *more = _broken(says, room, room)
            rows += [(*head, first), *(("",) * 4 + (line,) for line in more)]
        last = self._last()
        return "\n".join([str(Table.of(table.headings, rows)), *[last] * bool(last)])

    def to_html(self) -> str:
        """Return the report as one HTML page that needs no network and no script."""
        from jinja2 import Environment

        machine = asdict(self.machine)
        machine["memory"] = text.size(machine.pop("memory_bytes") or 0)
        verdicts = Counter(part.verdict for part in self.parts)
        counts = [f"{verdicts[word]} {word}" for word in _VERDICTS if verdicts[word]]
        page = files(__package__) / "page.html"
        how = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        return how.from_string(page.read_text("utf-8")).render(
            it=self,
            headline=", ".join(counts),
            sets=text.count(self.calls, "set"),
            machine=[(k, text.plain(v)) for k, v in machine.items() if v is not None],
            questions=QUESTIONS,
            verdicts=_VERDICTS,
            long=12,  # rows, above which a table is folded
            marked=text.as_html,
            differs=differences.table,
            site=_site(),
        )

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
        """Return the facts that are worse than *before*, an earlier checkup."""
        ours, theirs = self.counts, before.counts
        known = {n for n, new in ours.items() if None not in (new, theirs.get(n))}
        names = [n for n in _WORSE_IF_MORE if n in known and ours[n] > theirs[n]]
        names += [n for n in _WORSE_IF_NONE if n in known and theirs[n] and not ours[n]]
        worse = [f"{n}: {theirs[n]} before, {ours[n]} now" for n in names]
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


def _site() -> str:
    """Return the address of the course's site: the variable's, or the package's."""
    usual = ""
    with suppress(metadata.PackageNotFoundError):  # in a checkout
        urls = metadata.metadata("torch-checkup").get_all("Project-URL") or []
        url = dict(url.split(", ", 1) for url in urls).get("Repository", "")
        usual = re.sub(r"https://github\.com/([^/]+)", r"https://\1.github.io", url)
    return os.environ.get("TORCH_CHECKUP_COURSE", usual).rstrip("/")


def about(name: str) -> str:
    """Return what a part is asked for, what its verdicts mean, and what to do."""
    one = QUESTIONS[name]
    facts = f"Facts for --require: {', '.join(one.facts)}." if one.facts else ""
    site = f"{_site()}/" if _site() else ""
    lesson = f"Lesson of the course: {site}{one.lesson}{'.html' if site else ''}"
    marks = (f"{sign} {word}: {says}" for word, (sign, says) in _VERDICTS.items())
    told = [f"{name}: {one.asks}", one.why, f"What to do: {one.todo}", facts, lesson]
    return "\n".join(
        [*(line for t in told for line in _broken(t, _WIDTH, _WIDTH)), *marks]
    )


def _broken(line: str, first: int, rest: int) -> list[str]:
    """Return a line in pieces: *first* characters, then *rest*.

    It breaks behind a fact where it can, else between words.
    """
    lines, room = [""], first
    for fact in re.split(r"(?<=;) ", line):
        if lines[-1] and _length(f"{lines[-1]} {fact}") > room:
            lines, room = [*lines, ""], rest
        for word in re.split(r" (?![^⟨]*⟩)", fact):
            longer = f"{lines[-1]} {word}".lstrip()
            if lines[-1] and _length(longer) > room:
                lines, room, longer = [*lines, ""], rest, word
            lines[-1] = longer
    return lines


def _length(line: str) -> int:
    """Return the characters of a line that has to fit.

    A marked value counts as one, so that each machine breaks a line in the same place;
    in a terminal, which nobody compares, as what it is.
    """
    return len(line if sys.stdout.isatty() else text.unmark(line))


def shown(found: TableResult) -> tuple[Table | str, ...]:
    """Return the table of a result, and the text below it, as evidence of a part."""
    table, last = found.table(), found._last()
    return (*[table] * bool(table.rows), *[last] * bool(last))


def _listed(found: Sequence[Difference]) -> list[str]:
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
                f"{rule!r} is no requirement: give a name, or a name and a number, as "
                f"in matches,breaks=0,recompiles<=2. Names: {', '.join(sorted(NAMES))}"
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
) -> Checkup:
    """Return the report on a model: what torch.compile does to it, what to try next.

    *make* is ``"module:function"``, ``"path/to/file.py:function"``, or a function of a
    module.  Called without arguments, in a sandbox, it returns a model or function and
    its inputs: a tuple, a dictionary of keyword arguments, or a list of several of
    these that differ as those of real calls do.  A third value is a loss: a function of
    the model's result.  With it, or with *train*, which takes a weighted sum of the
    result, a backward belongs to each call.  Of a model that is compiled already, the
    one given to ``torch.compile`` is examined.

    *only* names parts to do (`QUESTIONS`); else all, with ``gpu`` where a *gpu* such as
    ``"h100"`` is named.  *budget* is in seconds of timing for each part that times.
    A part that isn't done after *timeout* seconds, or whose process has more than
    *memory* bytes (by default three quarters of what is free), is ended, says so in its
    place, and the others go on: after compiled answers that never came, they share as
    much time.  Ctrl-C keeps the parts that are done.

    Where compiled answers are wrong, a search for the cause takes at most *timeout*
    seconds more, unless *search* is false.  The program that shows it is in the report;
    the folder *repro* gets it, the same as a test of pytest, and the draft of an issue.

    The report holds none of the model's weights, and no variable of the environment.
    (Where no other input shows the difference, *repro* gets a file with the inputs of
    one operation.)

    Raises InputError when *make* cannot be found or does not give a model and inputs,
    or when *repro* cannot be written.
    """
    if repro:
        check_writable(Path(repro) / "repro.py")
    target, names = target_of(make), sandbox.chosen(only, QUESTIONS)
    if not only and not gpu:
        names.remove("gpu")
    order = {"target": target, "train": train, "gpu": gpu or "h100"}
    order |= {"budget": budget, "timeout": timeout, "memory": memory}
    about: dict[str, Any] = {"trains": train, "calls": 0, "in_pieces": False}
    why = "nothing is trained: give a loss"
    with (
        text.progress("checkup", len(names), "parts") as bar,
        # What one part has built, the others find: and nothing that was there before.
        tempfile.TemporaryDirectory(
            prefix="checkup-", ignore_cleanup_errors=True
        ) as cache,
    ):
        done = _Done(names, bar, timeout)
        env = {**FRUGAL, "TORCHINDUCTOR_CACHE_DIR": cache}
        try:
            here = [n for n in names if n not in _APART]
            for name, found in _found(here, order, env):
                if problem := found.get("problem"):
                    running = about.get("running", "")
                    done.put(name, ended_part(name, problem, running, found["ended"]))
                elif name:
                    done.put(name, msgspec.convert(found, Part), found.get("when"))
                elif stage := found.get("stage"):
                    done.begin(stage)
                else:
                    about |= found
            if search and "matches" in done and done["matches"].verdict == "bad":
                sought = order | about | {"timeout": timeout}
                done.begin("the search for what is wrong")
                done.put("matches", _with_where(done["matches"], sought, repro))
            for name in _APART:
                if name in names and (about["trains"] or name != "composes"):
                    done.begin(name)
                    done.put(name, _apart(name, order | about))
        except KeyboardInterrupt:
            why = "interrupted"
    if {"speed", "start"} <= done.keys() and (cold := done["start"].counts):
        done["speed"] = paid_back(done["speed"], cold["first_s"], "empty cache")
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
    """Yield what parts find, as `sandbox.parts` does; they share one process.

    Where compiled answers never came, all other parts share the time that it took: the
    *order* has theirs.
    """

    def parts(names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        limits = order["timeout"], order["memory"]
        return sandbox.parts(".model:look", order, names, *limits, env)

    for name, found in parts(names):
        yield name, found
        if name == "matches" and found.get("ended") == "time":
            left = [other for other in names if other != name]
            order["timeout"] /= max(1, len(left))
            yield from parts(left) if left else ()
            return


class _Done(dict[str, Part]):
    """The parts that are done: each verdict is printed as it comes, with seconds.

    A bar says what runs, and for how long it may; where there is none, a first line.
    """

    def __init__(self, names: Sequence[str], bar: Any, limit: float) -> None:
        super().__init__()
        self._bar, self._begin = bar, time.monotonic()
        self._limit = f"at most {limit:g} s"
        if bar.disable:
            text.tell(f"{text.count(len(names), 'part')}, each {self._limit}")
        self.begin("start Python")

    def begin(self, stage: str) -> None:
        """Say what begins, in the line of the bar."""
        self._bar.set_description_str(f"{stage}, {self._limit}")

    def put(self, name: str, part: Part, when: float | None = None) -> None:
        """Keep a part, and tell it once; the bar shows the next.

        *when* it was done, by its process, which may report several at once; else now.
        """
        end = when or time.monotonic()
        took, self._begin = text.seconds(end - self._begin), end
        if name not in self:
            says, verdict = part.says, part.verdict
            said = says if f"{verdict}:" in says else f"{verdict}, {says}"
            line = f"{_VERDICTS[verdict][0]} {name} {took}: {said}"
            text.tell("\n  ".join(_broken(text.plain(line), _WIDTH, _WIDTH - 2)))
            self._bar.update()
        self[name] = part


def _with_where(
    part: Part, order: dict[str, Any], repro: str | os.PathLike[str] | None
) -> Part:
    """Return a part whose answers are wrong with where that comes from."""
    first = next((one for one in part.differences if not one.look), None)
    if first is None or first.of_break or first.of_promise:  # the cause is known
        return part
    limits = order["timeout"], order["memory"]
    with tempfile.TemporaryDirectory(prefix="repro-") as place:
        try:
            found = where.searched(first, order, *limits, Path(place))
            found = where.written(found, Path(place), repro)
        except (InputError, Unavailable, OSError) as error:  # what is known is kept
            said = f"the search for the cause did not run: {error}"
            return replace(part, evidence=(*part.evidence, said))
    evidence = (*part.evidence, *filter(None, [found.repro.rstrip()]))
    rest = (line for line in part.advice if line != BISECT or not found.stage)
    advice = (str(found), *rest)
    return replace(part, evidence=evidence, advice=advice, where=found)


def _apart(name: str, order: dict[str, Any]) -> Part:
    """Return a part that starts processes itself: no model is made in this one."""
    try:
        return import_module(f".{_APART[name]}", __package__).part(order)
    except (InputError, Unavailable, OSError) as error:  # the other parts are kept
        return Part(name, "failed", str(error))


def paid_back(speed: Part, first_s: float, cache: str) -> Part:
    """Return a part that says after how many calls *first_s* pays, and its *cache*."""
    if not (counts := speed.counts):  # it failed
        return speed
    calls = stats.calls_to_pay_back(first_s, counts["eager_s"], counts["compiled_s"])
    says = speed.says.partition("; ")[0]
    if speed.verdict == "good":
        first, often = text.seconds(first_s), text.count(int(calls), "call")
        says += f"; a first call of {text.mark(first)} ({cache}) is paid back after "
        says += text.mark(often)
    paid = calls if math.isfinite(calls) else None
    return replace(speed, says=says, counts={**counts, "paid_back": paid})


def ended_part(name: str, problem: str, running: str, how: str) -> Part:
    """Return a part that was ended, or ended its process, while a side was *running*.

    Where eager ran, compiled code that dies, hangs or takes all memory is bad, and so
    is a build that does; but a build that is not done in time may only be slow.
    """
    if name != "matches" or running not in ("compiled", "the build"):
        return Part(name, "failed", problem)
    if running == "the build" and how == "time":
        return Part(name, "failed", f"{problem} (it was still compiling)")
    why = problem.removeprefix(f"failed at: {name}: ")
    found = Difference(1, "the call", "raises", "runs", why, ended=how)
    says = f"eager runs; compiled, it never gives an answer: {why}"
    return Part(name, "bad", says, {"matches": False}, differences=(found,))


_REPORTS = {".html": Checkup.to_html, ".json": Checkup.to_json, ".txt": Checkup.__str__}


def check_report(path: str | os.PathLike[str]) -> None:
    """Raise InputError where no report has the ending, or it cannot be written."""
    if (kind := Path(path).suffix) not in _REPORTS:
        raise InputError(f"a report ends in .html, .json or .txt, not in {kind!r}")
    check_writable(path)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise InputError where no file can be written at *path*."""
    place = Path(path).absolute()
    home = next(folder for folder in place.parents if folder.exists())
    if place.is_dir() or not home.is_dir() or not os.access(home, os.W_OK):
        raise InputError(f"{path} cannot be written: name a place that can")


def write_report(found: Checkup, path: str | os.PathLike[str]) -> Path:
    """Write *found* as HTML, text or JSON, by the ending of *path*; return the path."""
    check_report(path)
    return results.write_atomically(path, _REPORTS[Path(path).suffix](found))


def load(path: str | os.PathLike[str]) -> Any:
    """Return the result in a file; ResultError or OSError say what is wrong."""
    for module in (*_APART.values(), "explain"):  # a kind is known once its module is
        import_module(f"{__package__}.{module}")
    return results.load(path)
