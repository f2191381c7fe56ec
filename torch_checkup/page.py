"""The report of a checkup: one HTML page, without network and without a script."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from .helpers.text import count, plain, underlined

_LESSONS = {
    "02": "How much faster is it really?",
    "04": "How do I mend a graph break?",
    "08": "What would an H100 run?",
    "10": "Why does fusion win?",
    "12": "Which mode do I need?",
    "13": "Why did it compile again?",
    "16": "Which layer is wrong?",
    "17": "Why is it slow, stale or silent?",
    "20": "Which lines of a training loop break it?",
    "22": "Who pays for the first call?",
}
_PAGE = Environment(autoescape=True).from_string("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Checkup of {{ it.target }}</title>
<style>
:root { color-scheme: light dark; --line: #8885; --good: #1a7f37; --bad: #c4320a;
  --look: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --good: #4ac26b; --bad: #ff8a65;
  --look: #e3b341; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 0; }
table { border-collapse: collapse; width: 100%; }
td { border-top: 1px solid var(--line); padding: .4rem .6rem .4rem 0;
  vertical-align: top; }
td:first-child { white-space: nowrap; font-weight: 600; }
.good { color: var(--good); } .bad, .failed { color: var(--bad); }
.look, .tell { color: var(--look); }
section { border-top: 1px solid var(--line); padding: 1rem 0; }
pre { overflow-x: auto; font-size: .85rem; line-height: 1.35; padding: .5rem;
  border: 1px solid var(--line); border-radius: .3rem; }
img { max-width: 100%; background: #fff; }
footer { border-top: 1px solid var(--line); font-size: .85rem; }
@media print { pre { white-space: pre-wrap; } section { break-inside: avoid-page; } }
</style>
<h1>Checkup of {{ it.target }}</h1>
<p>{{ sets }} of inputs, {{ "with" if it.trains else "without" }} a backward.
Values that are underlined with dots were measured here, and differ elsewhere.
{% if it.interrupted %}<b>Interrupted: what is missing was not run.</b>{% endif %}</p>
<table>
{% for part in it.parts -%}
<tr><td class="{{ kind(part) }}">{{ part.verdict }}</td>
<td><a href="#{{ part.name }}">{{ part.question }}</a><br>
{{ marked(part.says) }}</td></tr>
{% endfor %}</table>
{% for part in it.parts %}
<section id="{{ part.name }}">
<h2>{{ part.question }}</h2>
<p><span class="{{ kind(part) }}">{{ part.verdict }}</span>: {{ marked(part.says) }}</p>
{% if part.advice %}<ul>{% for line in part.advice %}<li>{{ marked(line) }}</li>
{% endfor %}</ul>{% endif %}
{% for picture in part.pictures %}<p>{{ safe(picture) }}</p>{% endfor %}
{% for text in part.evidence -%}
{% if "\n" in text %}<pre>{{ marked(aligned(text)) }}</pre>
{% else %}<p>{{ marked(text) }}</p>
{% endif %}{% endfor %}
<p>Lesson {{ lesson(part.lesson) }}</p>
</section>{% endfor %}
<footer><p>{{ it.command }} · {{ it.when }}<br>
{% for name, value in machine %}{{ name }}: {{ value }}{{ " · " if not loop.last }}
{% endfor %}</p></footer>
</html>
""")


def lesson(number: str) -> str:
    """Return a lesson's title and file: on which site it can be read is not known."""
    words = re.sub(r"\W+", "_", _LESSONS[number].lower()).strip("_")
    return f"{number} · {_LESSONS[number]} (notebooks/{number}_{words}.ipynb)"


def aligned(evidence: str) -> str:
    """Return a table's text with its columns lined up where the marks are not shown.

    In a terminal, marked cells do not count for a column's width (`text.Table`).
    """
    lines = evidence.splitlines()
    if not re.fullmatch("─+(  ─+)+", "".join(lines[1:2])):
        return evidence
    rows = [re.split(" {2,}", line) for line in lines]
    table = list(itertools.takewhile(lambda row: len(row) == len(rows[0]), rows))
    columns = zip(*table, strict=True)
    widths = [max(len(plain(cell)) for cell in column) for column in columns]
    lines[: len(table)] = (
        "  ".join(
            cell + " " * (width - len(plain(cell)))
            for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in table
    )
    return "\n".join(lines)


def page(found: Any) -> str:
    """Return *found*, a `Checkup`, as a page of its own."""
    machine = dataclasses.asdict(found.machine)
    return _PAGE.render(
        it=found,
        sets=count(found.calls, "set"),
        machine=[(k, plain(v)) for k, v in machine.items() if v is not None],
        marked=underlined,
        aligned=aligned,
        lesson=lesson,
        safe=Markup,
        kind=lambda part: part.verdict.split()[-1],
    )
