"""Runs notebooks where something is missing or in the way, and prints what is said.

    python -m tests.proof hostile                      # some notebooks, every condition
    python -m tests.proof hostile --condition "no triton" --all

A cell may fail there, but it must say what to do, and nothing may hang or be lost.
Rows are kept as they come: a second run does what is missing, `--again` all of it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from tests.proof import common
from tests.proof.conditions import CONDITIONS, CannotBe, Condition, Place
from tests.proof.notice import differences
from tests.refresh import ROOT, notebooks, read

# The quickest that need a compiler, Triton, a cache, and files of their own.
USUAL = ("01", "05", "06")
GOOD = ("as stored", "prints something else", "says what to do")
AS_STORED, DIFFERS, SAYS = GOOD
BARE, HANGS, LOST, NOT_RUN = "bare error", "no end", "work lost", "not run"
# What the course says below an error, and instead of one.
ADVICE = re.compile(r"What to do: (.+)|(Not ready: .+)|(✗ does not hold here: .+)")


def visit(condition: Condition, path: Path, minutes: float = 15) -> tuple[str, str]:
    """Read one notebook under a condition; return how it went, and what it said."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Place(Path(folder))
        try:
            condition.prepare(place)
            ran: list[NotebookNode] = []
            for step in condition.steps:
                names = [f"{step}-{n}.ipynb" for n in range(condition.copies)]
                results = [place.folder / name for name in names]
                ended = _run(place, path, results, step, minutes)
                if ended and step != "killed":
                    return HANGS, ended
                ran = [read(result) for result in results]
                condition.between(place)
            how, said = worst(judged(condition, read(path), each) for each in ran)
            return how, said.replace(str(place.folder), "…")
        except CannotBe as why:
            return NOT_RUN, str(why)
        finally:
            place.undo()


def _run(
    place: Place, path: Path, results: list[Path], how: str, minutes: float
) -> str:
    """Run the notebook once for each result, at once; return what stopped one."""
    notebook = place.course / path.relative_to(ROOT)
    command = [*place.prefix, sys.executable, "-m", "tests.proof.visit", str(notebook)]
    running = [
        subprocess.Popen(
            [*command, str(result), "--how", how],
            env=place.environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for result in results
    ]
    ended = ""
    for process in running:
        try:
            out, err = process.communicate(timeout=60 * minutes)
            last = (out if process.returncode == 0 else err).rstrip("\n").split("\n")
            ended = ended or last[-1]
        except subprocess.TimeoutExpired:
            process.kill()
            ended = f"not done after {minutes:g} minutes"
    return ended


def judged(
    condition: Condition, stored: NotebookNode, ran: NotebookNode
) -> tuple[str, str]:
    """Return how a finished reading went, and the first thing that it said."""
    outputs = [out for cell in ran.cells for out in cell.get("outputs", [])]
    said = [(_text(out), out) for out in outputs]
    advice = [found[0] for text, _ in said if (found := ADVICE.search(text))]
    for text, out in said:
        if out.output_type == "error" and not ADVICE.search(text):
            return BARE, f"{out.ename}: {out.evalue}".strip().split("\n")[0]
    if condition.keeps and not any(condition.keeps in text for text, _ in said):
        return LOST, f"nothing says {condition.keeps!r}"
    if advice:
        return SAYS, advice[0]
    if condition.steps[-1] == "reversed" or condition.keeps:
        return AS_STORED, ""
    other = list(_other(stored, ran))
    return (DIFFERS, other[0]) if other else (AS_STORED, "")


def _text(output: NotebookNode) -> str:
    if output.output_type == "error":
        return "\n".join([output.evalue, *output.traceback])
    return output.get("text", "") or output.get("data", {}).get("text/plain", "")


def _other(stored: NotebookNode, ran: NotebookNode) -> Iterator[str]:
    """Yield what is printed otherwise than on the page, in each reading of it."""
    for number, cell in enumerate(ran.cells):
        wanted = stored.cells[number % len(stored.cells)]
        if cell.cell_type == "code":
            yield from (said for _, said in differences(wanted, cell))


def worst(outcomes: Iterator[tuple[str, str]]) -> tuple[str, str]:
    """Return the outcome that is furthest from the page."""
    order = [*GOOD, NOT_RUN, LOST, BARE, HANGS]
    return max(outcomes, key=lambda outcome: order.index(outcome[0]))


def row(condition: Condition, found: dict[str, tuple[str, str]]) -> dict[str, Any]:
    """Return what is recorded of a condition, over its notebooks."""
    how = {name: outcome for name, (outcome, _) in found.items()}
    listed = [
        f"{outcome}: {', '.join(n for n in how if how[n] == outcome)}"
        for outcome in dict.fromkeys(how.values())
    ]
    _, said = worst(iter(found.values()))
    where = {"condition": condition.name, "as on, with": condition.meets}
    return {**where, "notebooks": "; ".join(listed), "one of them said": said[:160]}


def main(arguments: list[str]) -> int:
    """Visit what was asked; return 1 where a row is not good."""
    asked = _parser().parse_args(arguments)
    kept = (common.read("hostile") or {}).get("rows", [])
    rows = {} if asked.again else {each["condition"]: each for each in kept}
    for name in asked.condition or ():
        rows.pop(name, None)
    chosen = (
        notebooks()
        if asked.all
        else [
            path for path in notebooks() if path.stem[:2] in (asked.notebook or USUAL)
        ]
    )
    for name, condition in CONDITIONS.items():
        if name in rows or (asked.condition and name not in asked.condition):
            continue
        with ThreadPoolExecutor(asked.jobs) as pool:
            found = pool.map(lambda path, c=condition: visit(c, path), chosen)
            outcomes = {p.stem[:2]: f for p, f in zip(chosen, found, strict=True)}
        rows[name] = row(condition, outcomes)
        print(*rows[name].values(), sep=" | ", flush=True)
        order = [rows[name] for name in CONDITIONS if name in rows]
        common.record("hostile", order)
    bad = [each for each in rows.values() if not _good(each["notebooks"])]
    print(f"{len(rows) - len(bad)} of {len(rows)} conditions as they should be")
    return int(bool(bad))


def _good(listed: str) -> bool:
    return all(part.split(": ")[0] in (*GOOD, NOT_RUN) for part in listed.split("; "))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof hostile", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--condition", action="append", choices=list(CONDITIONS))
    parser.add_argument("--notebook", action="append", metavar="05")
    parser.add_argument("--all", action="store_true", help="every notebook")
    parser.add_argument("--again", action="store_true", help="redo what is recorded")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    return parser
