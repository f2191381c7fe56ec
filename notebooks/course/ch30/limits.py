"""What a chip cannot exceed, compared with a number that somebody prints.

A number can be refused, and never confirmed: what a program computes, moves and keeps
is counted at its least, and a chip is taken at its published peak.
"""

from __future__ import annotations

from dataclasses import dataclass

from helpers.errors import InputError
from helpers.gpu import gpus
from helpers.results import TableResult
from helpers.text import Table, mark, size


@dataclass(frozen=True)
class Chip:
    """The three ceilings of a chip: operations and bytes a second, and its memory.

    *peaks* are by dtype.  *sure* is how far beyond a ceiling the impossible begins: at
    once for a published one, and later for one that was measured.
    """

    name: str
    peaks: dict[str, float]
    bytes_per_s: float
    memory: int
    source: str = "measured here"
    sure: float = 1.0

    @classmethod
    def find(cls, name: str | Chip) -> Chip:
        """Return the chip called *name*, by its data sheet; InputError for others."""
        if isinstance(name, Chip):
            return name
        gpu = gpus.find(name)
        known = gpus.peaks(gpu)
        return cls(gpu.name, known.rates, known.bandwidth, gpu.memory, known.source)

    def peak(self, dtype: str | None = None) -> float:
        """Return the operations a second in *dtype*, or in the quickest one."""
        if dtype is None:
            return max(self.peaks.values())
        key = "float16" if dtype == "bfloat16" else dtype  # at most at its rate
        if key not in self.peaks:
            known = ", ".join(self.peaks)
            raise InputError(f"no peak of {self.name} in {dtype}: there are {known}")
        return self.peaks[key]


@dataclass(frozen=True)
class Limit:
    """One ceiling: what a number needs, what there is, and the one by the other."""

    name: str  # "arithmetic", "bandwidth" or "memory"
    needs: str
    has: str
    share: float


@dataclass(frozen=True, repr=False)
class Plausible(TableResult):
    """A printed number, compared with the ceilings of a chip."""

    chip: str
    limits: tuple[Limit, ...]
    sure: float = 1.0  # more where the ceilings were measured

    @property
    def broken(self) -> tuple[str, ...]:
        """The names of the ceilings that the number breaks."""
        return tuple(limit.name for limit in self.limits if limit.share > self.sure)

    @property
    def verdict(self) -> str:
        """ "impossible", "not ruled out", or "cannot tell" where nothing was given."""
        if not self.limits:
            return "cannot tell"
        return "impossible" if self.broken else "not ruled out"

    def table(self) -> Table:
        """Return a row for each ceiling that could be asked."""
        shown = mark if self.sure > 1 else str
        rows = [
            (limit.name, *map(shown, (limit.needs, limit.has, f"{limit.share:.3g}")))
            for limit in self.limits
        ]
        return Table.of(("limit", "needs", f"{self.chip} has", "share"), rows)

    def _last(self) -> str:
        if self.verdict == "cannot tell":
            return "cannot tell: say what it computes, moves or keeps, and how long"
        verdict = ": ".join(filter(None, (self.verdict, ", ".join(self.broken))))
        return mark(verdict) if self.sure > 1 else verdict


def plausible(
    chip: str | Chip,
    seconds: float | None = None,
    *,
    flops: float | None = None,
    moved: float | None = None,
    memory: float | None = None,
    dtype: str | None = None,
    chips: int = 1,
) -> Plausible:
    """Return whether a number breaks a ceiling of *chip*, such as "a100".

    *flops* is what is computed in *seconds*, *moved* the bytes that must come from
    memory or go there meanwhile, because no cache holds them; *memory* is what must be
    kept on the chip at once, in bytes.  Each is given at its least.  Without a *dtype*,
    the quickest counts.  *chips* of them share the work.

    Raises InputError for an unknown chip or dtype, and a number that is not positive.
    """
    own, limits = Chip.find(chip), []
    given = {"seconds": seconds, "flops": flops, "moved": moved, "memory": memory}
    for name, value in (given | {"chips": chips}).items():
        if value is not None and not 0 < value < float("inf"):
            raise InputError(f"{name} must be more than 0, not {value}")
    if seconds and flops:
        rates = flops / seconds, own.peak(dtype) * chips
        texts = (f"{rate / 1e12:.4g} TFLOP/s" for rate in rates)
        limits.append(Limit("arithmetic", *texts, rates[0] / rates[1]))
    if seconds and moved:
        rates = moved / seconds, own.bytes_per_s * chips
        texts = (f"{rate / 1e9:.4g} GB/s" for rate in rates)
        limits.append(Limit("bandwidth", *texts, rates[0] / rates[1]))
    if memory:
        there = own.memory * chips
        limits.append(Limit("memory", size(memory), size(there), memory / there))
    return Plausible(own.name, tuple(limits), own.sure)
