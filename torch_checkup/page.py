"""The report of a checkup: one HTML page, without network and without a script."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from .helpers import differences
from .helpers.text import as_html, count, plain, size

_LESSONS = {  # the title and the file of each
    "02": ("How much faster is it really?", "02_how_much_faster_is_it_really"),
    "05": ("How do I fix a graph break?", "05_how_do_i_fix_a_graph_break"),
    "08": ("What would an H100 run?", "08_what_would_an_h100_run"),
    "10": ("Why does fusion win?", "10_why_does_fusion_win"),
    "12": ("Which mode do I need?", "12_which_mode_do_i_need"),
    "14": ("Why did it compile again?", "14_why_did_it_compile_again"),
    "18": (
        "Which layer is wrong, and would I notice?",
        "18_which_layer_is_wrong_and_would_i_notice",
    ),
    "19": ("Why is it slow, stale or silent?", "19_why_is_it_slow_stale_or_silent"),
    "20": ("Does it still train the same?", "20_does_it_still_train_the_same"),
    "25": (
        "What does the first call cost, and how do I start warm?",
        "25_what_does_the_first_call_cost",
    ),
}
# Of each part: why it is asked, and what to do where it is not good.
_ABOUT = {
    "matches": (
        "Compiled code must give what the model gives: results, gradients, and what a "
        "call changes. Where the two differ, float64 says which is right.",
        "Leave the part at fault eager until it is fixed, and report it.",
    ),
    "capture": (
        "The operations of one graph are optimised together. A break ends a graph, and "
        "the line at which it ends runs in Python.",
        "Remove the breaks in what runs often; elsewhere they may stay.",
    ),
    "recompiles": (
        "A compiled version serves the inputs that its guards admit; other inputs "
        "compile a new version, up to a limit. After it, the model runs eagerly.",
        "Keep what changes out of the guards, or say beforehand what will change.",
    ),
    "silent": (
        "Compiled code keeps what was true when it was made. This part changes "
        "things after the first call, to see whether it notices.",
        "Change it before the first call, or call torch.compiler.reset() after.",
    ),
    "traffic": (
        "Most models wait for memory. What kernels and libraries read and write is the "
        "same on every machine, and bounds what compiling can win.",
        "Look at the largest rows: what is written and read again could be fused.",
    ),
    "speed": (
        "Both are timed in turn, on this machine, with these inputs.",
        "If it is not faster, do not compile it; a busy machine decides nothing.",
    ),
    "start": (
        "The first call compiles. A cache, or files that you ship, save most of it.",
        "Ship the cache with the model, or warm up before users come.",
    ),
    "composes": (
        "Autocast, checkpoints, hooks and DDP are put around the training step, one "
        "after the other, and the gradients are judged.",
        "Of what differs, use the way that agrees, or leave that piece eager.",
    ),
    "gpu": (
        "The kernels that Inductor writes for this GPU, compiled without one.",
        "Registers that spill go through memory: smaller pieces may be faster.",
    ),
    "next": (
        "Options of torch.compile, each tried on this model.",
        "Take what helps, and run the check-up again.",
    ),
}
_VERDICTS = {
    "good": "nothing to do",
    "look": "it works, and something is worth knowing",
    "bad": "something is wrong, or costs without end",
    "cannot tell": "looked at, and not decided",
    "failed": "the check-up itself could not do it",
    "not run": "left out",
}
_LONG = 12  # rows, above which a table is folded
_PAGE = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
    """{% macro table_of(table) %}
{% set folded = table.rows | length > long %}
{% if folded %}<details><summary>{{ table.rows | length }} rows: {{
table.headings | select | join(", ") }}</summary>{% endif %}
<div class="wide" tabindex="0"><table>
<thead><tr>{% for cell in table.headings %}<th scope="col">{{ marked(cell) }}</th>
{% endfor %}</tr></thead>
{% for row in table.rows %}
<tr>{% for cell in row %}<td>{{ marked(cell) }}</td>{% endfor %}</tr>
{% endfor %}
</table></div>
{% if folded %}</details>{% endif %}
{% endmacro %}
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Checkup of {{ it.target }}</title>
<style>
:root { color-scheme: light dark; --line: #8888; --good: #1a7f37; --bad: #b42318;
  --paper: #fff; --ink: #1f2328;
  --look: #8a5a00; }
@media screen and (prefers-color-scheme: dark) { :root {
  --paper: #15181c; --ink: #e6edf3;
  --good: #4ac26b; --bad: #ff8a65; --look: #e3b341; } }
body { background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 0; }
.headline { font-size: 1.15rem; font-weight: 600; }
table { border-collapse: collapse; }
th, td { border-top: 1px solid var(--line); padding: .3rem .8rem .3rem 0;
  vertical-align: top; text-align: left; }
thead th { border-top: 0; font-size: .85rem; }
.overview { width: 100%; } .overview th { white-space: nowrap; }
.good { color: var(--good); } .bad, .failed { color: var(--bad); }
.look, .tell { color: var(--look); }
section { border-top: 1px solid var(--line); padding: 1rem 0; }
.wide { overflow-x: auto; margin: 1rem 0; }
.wide th, .wide td { overflow-wrap: normal; }
.wide td { font-family: ui-monospace, monospace; font-size: .85rem; }
pre { white-space: pre-wrap; font-size: .85rem; line-height: 1.35; padding: .5rem;
  border: 1px solid var(--line); border-radius: .3rem; }
img { max-width: 100%; background: #fff; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; }
dt { font-weight: 600; } dd { margin: 0; }
summary { cursor: pointer; }
footer { border-top: 1px solid var(--line); font-size: .85rem; }
@media (max-width: 40rem) { .overview thead { display: none; }
  .overview tr { display: block; border-top: 1px solid var(--line); }
  .overview th, .overview td { display: block; border: 0; padding: 0 0 .3rem; } }
@media print { :root { color-scheme: light; }
  body { max-width: none; margin: 0; font-size: 11pt; }
  details::details-content { content-visibility: visible; block-size: auto; }
  section, tr { break-inside: avoid-page; } .wide { overflow: visible; }
  .wide td { overflow-wrap: anywhere; font-size: 8pt; } a { color: inherit; } }
</style>
<main>
<h1>Checkup of {{ it.target }}</h1>
<p class="headline">{{ headline }}</p>
<p>What torch.compile does to it, seen with {{ sets }} of inputs,
{{ "with" if it.trains else "without" }} a backward.
{% if it.interrupted %}<b>Interrupted: what is missing was not run.</b>{% endif %}</p>
<table class="overview">
<thead><tr><th scope="col">verdict</th><th scope="col">question</th>
<th scope="col">found</th></tr></thead>
{% for part in it.parts %}
<tr><th scope="row" class="{{ kind(part) }}">{{ part.verdict }}</th>
<td><a href="#{{ part.name }}">{{ part.question }}</a></td>
<td>{{ marked(part.says) }}</td></tr>
{% endfor %}
</table>
<details><summary>What the words mean</summary><dl>
{% for verdict, words in verdicts.items() %}
<dt class="{{ verdict.split()[-1] }}">{{ verdict }}</dt><dd>{{ words }}</dd>
{% endfor %}
</dl><p>Numbers between ⟨ and ⟩ were measured on this machine,
and differ elsewhere; the rest is the same on every machine with this torch.</p>
</details>
{% for part in it.parts %}
<section id="{{ part.name }}">
<h2>{{ part.question }}</h2>
<p>{{ about[part.name][0] }}</p>
<p><strong class="{{ kind(part) }}">{{ part.verdict }}</strong>:
{{ marked(part.says) }}</p>
{% if part.verdict in ("look", "bad") %}<p>{{ about[part.name][1] }}</p>{% endif %}
{% if part.advice %}
<ul>
{% for line in part.advice %}
<li>{{ marked(line) }}</li>
{% endfor %}
</ul>
{% endif %}
{% for picture in part.pictures %}
<p>{{ safe(picture) }}</p>
{% endfor %}
{% if part.differences %}{{ table_of(differs(part.differences)) }}{% endif %}
{% for piece in part.evidence %}
{% if piece is string %}
{% if "\n" in piece %}
<pre>{{ marked(piece) }}</pre>
{% else %}
<p>{{ marked(piece) }}</p>
{% endif %}
{% else %}
{{ table_of(piece) }}
{% endif %}
{% endfor %}
<p>Lesson {{ lesson(part.lesson) }}</p>
</section>
{% endfor %}
</main>
<footer><p>{{ it.command }} · {{ it.when }}<br>
{% for name, value in machine %}{{ name }}: {{ value }}{{ " · " if not loop.last }}
{% endfor %}</p></footer>
</html>
"""
)


def lesson(number: str) -> str:
    """Return a lesson's title and file; a link if TORCH_CHECKUP_COURSE has a site."""
    title, page = _LESSONS[number]
    title = f"{number} · {title}"
    if site := os.environ.get("TORCH_CHECKUP_COURSE", "").rstrip("/"):
        return Markup('<a href="{}/{}.html">{}</a>').format(site, page, title)
    return f"{title} (notebooks/{page}.ipynb)"


def headline(parts: Any) -> str:
    """Return how many parts have which verdict: ``4 good, 1 bad``."""
    counts = Counter(part.verdict for part in parts)
    return ", ".join(f"{counts[word]} {word}" for word in _VERDICTS if counts[word])


def page(found: Any) -> str:
    """Return *found*, a `Checkup`, as one HTML page."""
    machine = dataclasses.asdict(found.machine)
    machine["memory"] = size(machine.pop("memory_bytes") or 0)
    return _PAGE.render(
        it=found,
        headline=headline(found.parts),
        sets=count(found.calls, "set"),
        machine=[(k, plain(v)) for k, v in machine.items() if v is not None],
        about=_ABOUT,
        verdicts=_VERDICTS,
        long=_LONG,
        marked=as_html,
        differs=differences.table,
        lesson=lesson,
        safe=Markup,
        kind=lambda part: part.verdict.split()[-1],
    )
