"""The corpus: small programs after public reports, and whether a tool judged them.

The programs stand in ``corpus.toml``.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from torch_checkup.report import Checkup

FILE = Path(__file__).with_name("corpus.toml")
ASKED = ("matches", "capture", "recompiles", "silent")
"""The parts that count: they say the same on every machine."""
RAISED = "Compiled code raised:"
"""What `rivals` writes where it did."""


@dataclass(frozen=True)
class Case:
    """A program, where it was reported, and what a tool should say of it.

    *part* should have *verdict*, and no other one be bad but those of *also*.  What a
    reader has to be told matches *cause*; *line* has the words of the line to be named.
    """

    name: str
    area: str
    report: str
    date: datetime.date
    said: str
    symptom: str
    part: str
    verdict: str
    program: str
    cause: str = ""
    line: str = ""
    also: tuple[str, ...] = ()
    healthy: bool = False
    train: bool = False

    @property
    def code(self) -> str:
        """The whole program."""
        return f"import torch\n{self.program}"

    @property
    def number(self) -> int:
        """The number of the line at fault, 0 where none is asked for."""
        lines = self.code.splitlines()
        return next((n for n, line in enumerate(lines, 1) if self.line in line), 0)

    @property
    def key(self) -> str:
        """What changes with the program, or with what is asked of it."""
        asked = (self.code, self.part, self.verdict, self.cause, self.line, self.also)
        return hashlib.sha256(repr((*asked, self.train)).encode()).hexdigest()[:12]

    def names_line(self, text: str) -> bool:
        """Return whether *text* has the number of the line at fault."""
        places = rf"(line |program\.py:){self.number}\b"
        return bool(self.line) and bool(re.search(places, text))

    def names_cause(self, text: str) -> bool:
        """Return whether *text* says what a reader has to be told."""
        return bool(re.search(self.cause, text, re.IGNORECASE))


@dataclass(frozen=True)
class Judgement:
    """What a tool made of a case: *line* is None where none is asked for."""

    verdict: bool
    cause: bool
    line: bool | None


@functools.cache
def cases() -> dict[str, Case]:
    """Return all cases by name."""
    found = tomllib.loads(FILE.read_text(encoding="utf-8"))["case"]
    return {case.name: case for case in msgspec.convert(found, list[Case])}


def judged(case: Case, found: Checkup) -> Judgement:
    """Return whether a check-up said of *case* what is true."""
    part = found[case.part]
    others = [p for p in found.parts if p.name not in (case.part, *case.also)]
    clean = not any(p.verdict in ("bad", "failed") for p in others)
    differ = map(str, part.differences)
    text = "\n".join((part.says, *map(str, part.evidence), *part.advice, *differ))
    verdict = part.verdict == case.verdict and clean
    return _judgement(case, verdict, text)


def judged_by_words(case: Case, text: str, stands: str) -> Judgement:
    """Return whether a tool of torch said it: *stands* is how it names an issue.

    No tool of torch holds answers against eager's: of those it says nothing, but where
    compiled code raises.
    """
    noticed = bool(re.search(stands, text)) and case.part != "matches"
    noticed |= RAISED in text
    verdict = noticed != case.healthy
    return _judgement(case, verdict, text if noticed else "")


def _judgement(case: Case, verdict: bool, text: str) -> Judgement:
    line = case.names_line(text) if case.line else None
    return Judgement(verdict, case.healthy or case.names_cause(text), line)
