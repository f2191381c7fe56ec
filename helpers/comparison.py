"""What a comparison is: the numbers, the verdict, the table, the JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from helpers import results, stats, text
from helpers.results import Machine, stored
from helpers.stats import Interval
from helpers.text import mark

ENOUGH_CLEAN = 15
"""With this many undisturbed rounds, the disturbed ones do not count."""


@dataclass(frozen=True)
class Round:
    """One block of each side: seconds per call, who went first, undisturbed?"""

    a_s: float
    b_s: float
    a_first: bool
    clean: bool


def estimate(rounds: Sequence[Round]) -> tuple[list[Round], float, Interval | None]:
    """Return the rounds that count, the speed-up and its interval."""
    clean = [r for r in rounds if r.clean]
    used = clean if len(clean) >= ENOUGH_CLEAN else list(rounds)
    return used, *stats.speedup([r.a_s for r in used], [r.b_s for r in used])


@stored
@dataclass(frozen=True)
class Comparison:
    """What ``compare`` found; *a* is eager and *b* compiled unless renamed."""

    names: tuple[str, str]
    speedup: float
    """Median of the paired ratios a/b: above 1, the compiled side is faster."""
    interval: tuple[float, float] | None
    confidence: float
    verdict: str
    median_s: tuple[float, float]
    cold_start_s: float
    """First call of *b*; compiling is in it unless it had been called before."""
    compiles: int
    """How often the first calls of *b* compiled: 0 if it was warm already."""
    graphs: int
    graph_breaks: int
    page_faults: tuple[int, int] | None
    """Pages per call that the system had to supply: 0 when memory is reused."""
    peak_bytes: tuple[int, int] | None
    matches: bool | None
    max_error: float
    error64: tuple[float, float] | None
    rounds: tuple[Round, ...]
    notes: tuple[str, ...]
    threads: int
    device: str
    scope: str
    """``this process``, or how many fresh processes."""
    interrupted: bool = False
    """Whether Ctrl-C ended it before its budget did."""
    machine: Machine = field(default_factory=Machine.here)
    command: str = field(default_factory=results.command)
    when: str = field(default_factory=results.now)

    @property
    def calls_to_pay_back(self) -> float:
        """Return after how many calls the first one is paid back; may be inf."""
        return stats.calls_to_pay_back(self.cold_start_s, *self.median_s)

    def sentence(self) -> str:
        """Return the result as one sentence, measured values marked."""
        a, b = self.names
        return f"{b} against {a}: {mark(self.ratio())}"

    def ratio(self) -> str:
        """Return the verdict, the speed-up and its interval, nothing marked."""
        if self.interval is None:
            return f"{self.verdict} (too few rounds for an interval)"
        low, high = self.interval
        return (
            f"{self.verdict}: {self.speedup:.3g}x, {self.confidence:.0%} interval "
            f"{low:.3g} to {high:.3g}"
        )

    def facts(self) -> tuple[tuple[str, str], ...]:
        """Return what was found as (label, text) pairs, nothing marked."""
        a, b = self.names
        calls = {
            "faster": f"{self.calls_to_pay_back:.0f} calls",
            "cannot tell": "cannot tell",
        }.get(self.verdict, "no number of calls")
        peak = ("", "") if self.peak_bytes is None else map(text.size, self.peak_bytes)
        clean = sum(r.clean for r in self.rounds)
        return (
            ("verdict", self.ratio()),
            (f"{a}, median call", text.seconds(self.median_s[0])),
            (f"{b}, median call", text.seconds(self.median_s[1])),
            (f"{b}, first call", text.seconds(self.cold_start_s)),
            ("paid back after", calls),
            (
                "page faults a call",
                ", ".join(map(str, self.page_faults or ("not known",))),
            ),
            ("peak memory", ", ".join(p for p in peak if p) or "not known"),
            ("largest difference", self._errors()),
            (
                "measured in",
                f"{self.scope}: {len(self.rounds)} rounds, {clean} undisturbed, "
                f"{text.count(self.threads, 'thread')}, caches hot",
            ),
            ("notes", "; ".join(self.notes) or "none"),
        )

    def _errors(self) -> str:
        said = f"{self.max_error:.2g}"
        if self.error64 is not None:
            a, b = self.error64
            said += f" (from float64: {self.names[0]} {a:.2g}, {self.names[1]} {b:.2g})"
        return said

    def table(self) -> text.Table:
        """Return the result as a table: facts plain, measured values marked."""
        answers = {True: "agree", False: "DIFFER", None: "not compared"}
        rows = [("answers", answers[self.matches])]
        rows += [(label, mark(value)) for label, value in self.facts()]
        return text.Table.of(["", f"{self.names[1]} against {self.names[0]}"], rows)

    def __str__(self) -> str:
        return str(self.table())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
