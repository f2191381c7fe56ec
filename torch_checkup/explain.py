"""What a message of torch.compile means: ``explain_error``.

The entries are in ``errors.toml``, each with a program that shows the message
and a twin that is fixed.  The tests run both, so an entry cannot outlive its message.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import json
import re
import textwrap
import tomllib
import traceback
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from .helpers.errors import InputError
from .helpers.results import Result

_BREAK_PAGE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/{}.html"
_LOGS = (
    "Ask torch for more: TORCH_LOGS=graph_breaks,recompiles, or TORCHDYNAMO_VERBOSE=1. "
    "Then find the layer: the backends eager, aot_eager and inductor, one after the "
    "other (lesson 18). Others may have met it: "
    "https://github.com/pytorch/pytorch/issues?q=label%3A%22oncall%3A+pt2%22"
)


_BEGINS = re.compile(
    r"^.*(?:Traceback \(most recent call last\):|Graph break in user code at )",
    re.MULTILINE,
)
_CAUSED = re.compile(
    r"(direct cause of the following|another exception occurred:?)[^\n]*\s*$"
)
_FAILED = r"^(?:\w+\.)*\w*(?:Error|Exception|Unsupported|Interrupt|Exit)\b.*"
"""The line of an exception, as Python prints it."""
_NUMBER = r"(?i:\bgb(\d{4})\b)"
_SAYS = re.compile(f"{_FAILED}|{_NUMBER}", re.MULTILINE)


@dataclass(frozen=True)
class Meaning:
    """One known message: its cause, what to do, and programs that show both.

    *line* is the line of the text that was recognised.  *program* and *twin* are empty
    where few machines could run them; *evidence* says what the entry rests on, and in
    that case what a program would need.
    """

    name: str
    line: str
    why: str
    mend: str
    lesson: str
    program: str
    twin: str
    evidence: str

    def __str__(self) -> str:
        about = {
            "why": self.why,
            "fix": self.mend,
            "lesson": self.lesson,
            "checked": self.evidence,
        }
        lines = [self.name.upper(), f"  {self.line}"]
        lines += [_wrapped(said, f"{title + ':':9}") for title, said in about.items()]
        if self.program:
            for title, code in (("shown by", self.program), ("fixed", self.twin)):
                lines += [f"{title}:", *(f"  {line}" for line in code.splitlines())]
        return "\n".join(line.rstrip() for line in lines)


@dataclass(frozen=True, repr=False)
class Explanation(Result):
    """What a text says, in the order of the text; *advice* where nothing is known."""

    meanings: tuple[Meaning, ...]
    advice: str

    def __str__(self) -> str:
        advice = "\n".join(map(_wrapped, self.advice.splitlines()))
        return "\n\n".join([*map(str, self.meanings), *filter(None, [advice])])


@functools.cache
def _entries() -> dict:
    file = files(__package__) / "errors.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


def explain_error(error: str | BaseException) -> Explanation:
    """Return the meaning of a message of torch.compile, and what to do about it.

    *error* is an exception, or text that holds one or several messages: a traceback, a
    log, a warning.  Each known message is named once, in the order in which the text
    first has it.  A traceback that no entry knows is named as unknown, with torch's own
    explanation, if it gives the number of a graph break.

    Raises InputError when *error* is neither, or holds no text.
    """
    if isinstance(error, BaseException):
        error = "".join(traceback.format_exception(error))
    if not isinstance(error, str) or not error.strip():
        raise InputError(
            "explain_error takes an exception, or the text of a log or a traceback: "
            "explain_error(open('log.txt').read())"
        )
    found: dict[str, Meaning] = {}
    unknown: list[str] = []
    episodes = _episodes(error)
    for episode in episodes:
        known = _known(episode)
        found |= {one.name: one for one in known if one.name not in found}
        if not known and (len(episodes) == 1 or _SAYS.search(episode)):
            unknown.append(_unknown(episode))
    advice = [*dict.fromkeys(unknown), _LOGS] if unknown else []
    return Explanation(tuple(found.values()), "\n".join(advice))


def _episodes(text: str) -> list[str]:
    """Return *text* cut where another traceback or graph break begins.

    Those of one exception and its causes stay together: what the innermost says may be
    special, where the outermost is general.
    """
    starts = [
        match.start()
        for match in _BEGINS.finditer(text)
        if not _CAUSED.search(text[: match.start()])
    ]
    starts = [0, *(start for start in starts if text[:start].strip())]
    return [text[a:b] for a, b in itertools.pairwise([*starts, len(text)])]


def _known(text: str) -> list[Meaning]:
    """Return the meanings of *text*, in its order; general ones if alone."""
    whole = _entries()
    found = [(re.search(entry["says"], text), entry) for entry in whole["entry"]]
    found = [(match.start(), entry) for match, entry in found if match]
    special = [(start, entry) for start, entry in found if not entry.get("general")]
    return [
        _meaning(entry, _line(text, start), whole["run_with"])
        for start, entry in sorted(special or found, key=lambda place: place[0])
    ]


def _meaning(entry: dict[str, str], line: str, version: str) -> Meaning:
    if "program" in entry:
        evidence = f"both programs ran with torch {version}"
    else:
        words = f"stand in torch/{entry.get('source')} of torch {version}"
        if "seen" in entry:
            words = f"were reported in {entry['seen']}"
        needs = f"not by a program, which would need {entry['needs']}"
        evidence = f"{needs}: the words {words}"
    about = {key: entry[key] for key in ("name", "why", "mend", "lesson")}
    programs = {key: entry.get(key, "").strip() for key in ("program", "twin")}
    return Meaning(line=line, evidence=evidence, **about, **programs)


def _wrapped(text: str, title: str = "") -> str:
    """Return *text* in lines of a terminal's width, the first behind *title*."""
    return textwrap.fill(
        text,
        width=88,
        initial_indent=title,
        subsequent_indent=" " * len(title),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _line(text: str, start: int) -> str:
    """Return the line of *text* that holds *start*, without the stamp of a log."""
    line = text[text.rfind("\n", 0, start) + 1 :].split("\n", 1)[0]
    return re.sub(r"^[VIWE]\d{4} .*?\] (\[[\w/]+\] )*", "", line).strip()


def _unknown(text: str) -> str:
    """Return that *text* is not known, and torch's own words on a graph break in it."""
    number = re.search(_NUMBER, text)
    if not number:
        failed = [*re.finditer(_FAILED, text, re.MULTILINE)]
        last = f": {failed[-1][0]:.200}" if failed else ""
        return f"This message is not known{last}."
    name = f"GB{number[1]}"
    said = [f"{name} is a graph break without an entry. torch says of it:"]
    own = re.findall(r"^.*?((?:Explanation|Hint): .*)$", text, re.MULTILINE)
    said += own or _registered(name)
    return "\n".join([*said, _BREAK_PAGE.format(name.lower())])


def _registered(name: str) -> list[str]:
    """Return torch's own advice on a graph break, for any values."""
    torch = Path(importlib.util.find_spec("torch").origin).parent
    registry = torch / "_dynamo" / "graph_break_registry.json"
    if not registry.is_file():
        return []
    entries = json.loads(registry.read_text()).get(name, [])[:1]
    lines = [
        line
        for entry in entries
        for line in (entry["Gb_type"], entry["Explanation"], *entry["Hints"])
    ]
    return [re.sub(r"\{[^{}]*\}", "…", line) for line in lines]
