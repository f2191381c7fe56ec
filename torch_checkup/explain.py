"""What a message of torch.compile means: ``explain_error``.

The entries are in ``errors.toml``, each with a program that shows the message
and a twin that is fixed.  The tests run both, so an entry cannot outlive its message.
For a graph break without an entry, torch's own registry explains it.
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
_COLOUR = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")
_BOX = " \t|│┃"  # what a box or a table has around a line
_INDENT = f"{_BOX}>"  # and before it, as a quote has
_STAMP = re.compile(
    rf"(?:[{_INDENT}]|E(?!\S)|\d+%\|[^\]]*\]|\[[^\]\n]+\]:?|\(\w+ pid=\d+\)"
    r"|[\w.]+: (?=\[[A-Z]+\])|(?:ERROR|WARNING|INFO|DEBUG) [\d-]+ [\d:.,]+"
    r"|[VIWE]\d{4} [\d:.]+ .*?\])*"
)
"""What logs put before each line: bars, ranks, dates, processes, torch's stamp."""
_BEGINS = re.compile(
    r"(?m)^.*(?:Traceback \(most recent call last\):|Graph break in user code at )"
)
_CAUSED = re.compile(
    r"(direct cause of the following|exception occurred( in a subprocess)?:?)[^\n]*\s*$"
)
_FAILED = r"^(?:\w+\.)*\w*(?:Error|Exception|Unsupported|Interrupt|Exit)\b.*"
"""The line of an exception, as Python prints it."""
_NEW_LINE = re.compile(rf'Traceback|File "|Hint:|Explanation:|{_FAILED}')
_NUMBER = r"(?i:\bgb(\d{4})\b)"
_SAYS = re.compile(f"{_FAILED}|{_NUMBER}|Explanation:", re.MULTILINE)
_OWN = re.compile(r"Explanation:(.*?)(Developer debug|For more details|\Z)", re.DOTALL)
_VALUE = r"\{(?:[^{}]|\{[^{}]*\})*\}"  # in torch's registry of graph breaks


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
        about = {"why": self.why, "fix": self.mend, "lesson": self.lesson}
        about["checked"] = self.evidence
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
    whole = tomllib.loads(file.read_text(encoding="utf-8"))
    for entry in whole["entry"]:  # a log may break its lines anywhere
        entry["says"] = re.compile(entry["says"].replace(" ", r"\s*"))
    return whole


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
    episodes = _episodes(_plain(error))
    for episode in episodes:
        known = _known(episode)
        found |= {one.name: one for one in known if one.name not in found}
        if not known and (len(episodes) == 1 or _SAYS.search(episode)):
            unknown.append(_unknown(episode))
    advice = [*dict.fromkeys(unknown), _LOGS] if unknown else []
    return Explanation(tuple(found.values()), "\n".join(advice))


def _plain(text: str) -> str:
    """Return *text* without colours, stamps and indentation, wrapped lines joined."""
    lines = [line.rstrip(_BOX) for line in _COLOUR.sub("", text).splitlines()]
    width = max(map(len, lines))
    wrapped = len({line for line in lines if len(line) == width > 50}) > 1
    plain, full = "", False  # is the line before it as long as the terminal is wide?
    for line in lines:
        stamp = _STAMP.match(line)[0]
        rest = line[len(stamp) :]
        if not full or stamp.strip(_INDENT) or _NEW_LINE.match(rest):
            plain += "\n"
        plain += rest
        full = wrapped and len(line) == width
    return plain.lstrip("\n")


def _episodes(text: str) -> list[str]:
    """Return *text* cut where another traceback or graph break begins.

    Those of one exception and its causes stay together: what the innermost says may be
    special, where the outermost is general.
    """
    starts = [
        match.start()
        for match in _BEGINS.finditer(text)
        if not _CAUSED.search(text[max(match.start() - 200, 0) : match.start()])
    ]
    starts = [0, *(start for start in starts if text[:start].strip())]
    return [text[a:b] for a, b in itertools.pairwise([*starts, len(text)])]


def _known(text: str) -> list[Meaning]:
    """Return the meanings of *text*, in its order; general ones if alone."""
    whole = _entries()
    found = [([*entry["says"].finditer(text)], entry) for entry in whole["entry"]]
    found = [(matches, entry) for matches, entry in found if matches]
    special = [(matches, entry) for matches, entry in found if not entry.get("general")]
    lines = text.split("\n")
    return [  # the last line that has it: a traceback shows the source before the error
        _meaning(entry, lines[text.count("\n", 0, last.start())], whole["run_with"])
        for (*_, last), entry in sorted(special or found, key=lambda x: x[0][0].start())
    ]


def _meaning(entry: dict[str, str], line: str, version: str) -> Meaning:
    if "program" in entry:
        evidence = f"both programs ran with torch {version}"
        evidence += f"; new in torch {entry['since']}" if "since" in entry else ""
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
    indent = {"initial_indent": title, "subsequent_indent": " " * len(title)}
    whole = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(text, width=88, **indent, **whole)


def _unknown(text: str) -> str:
    """Return that *text* is not known, and torch's own words on a graph break in it."""
    name, own = _kind(text), _OWN.search(text)
    if not name and not own:
        failed = re.findall(f"(?m){_FAILED}", text)
        last = f": {failed[-1]:.200}" if failed else ""
        return f"This message is not known{last}."
    said = ["(the registry of the torch that is installed does not have it)"]
    for kind in _registry().get(name, [])[:1]:
        said = [kind["Gb_type"], kind["Explanation"], *kind["Hints"]]
    if own and (own[2] or "Hint:" in own[1] or not name):  # whole, with its values
        said = re.split("(?=Hint:)", f"Explanation:{own[1]}")
    said = [" ".join(re.sub(_VALUE, "…", words).split()) for words in said]
    title = f"{name or 'It'} is a graph break without an entry. torch says of it:"
    page = [_BREAK_PAGE.format(name.lower())] if name else []
    return "\n".join([title, *said, *page])


def _kind(text: str) -> str:
    """Return the number of the graph break in *text*: of a cut log, by its words."""
    if number := re.search(_NUMBER, text):
        return f"GB{number[1]}"
    text = "".join(text.split())
    fits = [
        (one is kinds[0], len(one["Gb_type"]), name)  # today's words, then the longest
        for name, kinds in _registry().items()
        for one in kinds
        if "".join(re.split(_VALUE, one["Gb_type"])[-1].split()) + "Explanation" in text
    ]
    return max(fits)[2] if fits else ""


@functools.cache
def _registry() -> dict[str, list[dict]]:
    """Return torch's graph breaks by number, the latest words of each first."""
    torch = Path(importlib.util.find_spec("torch").origin).parent
    file = torch / "_dynamo" / "graph_break_registry.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
