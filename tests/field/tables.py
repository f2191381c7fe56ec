"""The tables of the field corpus: what each tool named, in all and one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.field.corpus import Case
from tests.records import renewed, table

RIVALS = {  # each tool of torch, and the words of a line that names an issue
    "explain": r"Graph break:|in 0 graphs",
    "logs": r"Graph break in user|Recompiling|recompile_limit",
    "tlparse": r"graph_break_reason|recompile_reasons",
}
TOOLS = {
    "torch-checkup": "`torch-checkup`",
    "explain": "`torch._dynamo.explain`",
    "logs": "`TORCH_LOGS=graph_breaks,recompiles`",
    "tlparse": "tlparse",
}
Rows = Mapping[str, Mapping[str, Any]]
PAGE = "../data/proofs/field.md"  # from the README


def text(known: Mapping[str, Case], rows: Rows, origin: str) -> str:
    """Return the text for the README: totals, and misjudged programs."""
    wrong = [name for name in rows if not _right(rows[name], "torch-checkup")]
    listed = ", ".join(_linked(known[name]) for name in wrong)
    parts = [
        totals(known, rows),
        origin,
        f"The check-up misjudges {len(wrong)}: {listed}." if wrong else "",
        f"[What each tool named]({PAGE}), of {len(rows)} programs.",
    ]
    return "\n\n".join(filter(None, parts))


def page(text: str, known: Mapping[str, Case], rows: Rows, origin: str) -> str:
    """Return the text of the page with each program, and those that weren't run."""
    missing = ", ".join(_linked(case) for n, case in known.items() if n not in rows)
    parts = [
        f"Not run since they were written or changed: {missing}." if missing else "",
        each(known, rows),
        origin,
    ]
    return renewed(text, "programs", "\n\n".join(filter(None, parts)))


def totals(known: Mapping[str, Case], rows: Rows) -> str:
    """Return a row for each tool: how many programs it judged rightly."""
    healthy = [row for name, row in rows.items() if known[name].healthy]
    wrong = [row for name, row in rows.items() if not known[name].healthy]
    heads = ["tool", "issues found", "with the cause", "with the line"]
    heads += ["no false alarm"]
    return table(heads, (_total(tool, wrong, healthy) for tool in TOOLS))


def _total(
    tool: str, wrong: list[Mapping[str, Any]], healthy: list[Mapping[str, Any]]
) -> list[str]:
    """Return the cells of a tool; of lines only where one is to be named."""
    told = [row["tools"][tool] for row in wrong if tool in row["tools"]]
    alone = [row["tools"][tool] for row in healthy if tool in row["tools"]]
    lines = [one for one in told if one["line"] is not None]
    counts = {
        "found": (sum(one["verdict"] for one in told), told),
        "cause": (sum(one["verdict"] and one["cause"] for one in told), told),
        "line": (sum(one["verdict"] and one["line"] for one in lines), lines),
        "alone": (sum(one["verdict"] for one in alone), alone),
    }
    return [TOOLS[tool], *(f"{count} of {len(of)}" for count, of in counts.values())]


def each(known: Mapping[str, Case], rows: Rows) -> str:
    """Return a row for each program: what is true, and what each tool named."""
    heads = ["program", "reported", "what is true", *TOOLS.values()]
    lines = []
    for name, row in rows.items():
        case, told = known[name], row["tools"]
        cells = (_named(case, told[tool]) if tool in told else "" for tool in TOOLS)
        true = f"{case.part}: {case.verdict}; {case.symptom}"
        lines.append([_linked(case), case.date, true, *cells])
    return table(heads, lines)


def _linked(case: Case) -> str:
    return f"[{case.name}]({case.report})"


def _right(row: Mapping[str, Any], tool: str) -> bool:
    told = row["tools"][tool]
    return told["verdict"] and told["cause"]


def _named(case: Case, told: Mapping[str, Any]) -> str:
    """Return in words what a tool said of a program."""
    if case.healthy:
        return "no alarm" if told["verdict"] else "false alarm"
    if not told["verdict"]:
        return "–"
    names = ["found", *(name for name in ("cause", "line") if told[name])]
    return ", ".join(names)
