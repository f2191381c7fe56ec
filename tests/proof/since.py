"""What works since when: run each program on several versions of torch.

    python -m tests.proof since --python 2.13/bin/python --python 2.15/bin/python
    python -m tests.proof since --again "torch.cond" "while_loop"

A row is a small program, run eagerly and compiled with Inductor, in its own process.
The rows are those of data/since/programs.toml, the zoo of lesson 05 and the field
corpus.  A column is a torch; each Python needs the course's packages.  The table in
data/since/table.json is written after each row, and a run goes on where it stopped: a
program that changed is run again.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from course.ch05 import zoo
from helpers import children
from helpers.results import now
from tests import records
from tests.field.corpus import cases
from tests.refresh import ROOT
from tools.commands import command

NAME = "since/table"
OWN = tomllib.loads((records.DATA / "since" / "programs.toml").read_text("utf-8"))
BOOK = ROOT / "notebooks"
CACHE = ROOT / ".cache" / "since"
FAULTS = ("no program", "not done")
"""Verdicts on a row that says nothing about torch: they are told, and not kept."""


def rows() -> list[dict[str, Any]]:
    """Return all rows: name, group, link, needs, program, train, and a key of these."""
    found = [_row(**one) for one in (*OWN["row"], *_zoo(), *_field())]
    order = list(OWN["groups"])
    return sorted(found, key=lambda row: order.index(row["group"]))


def _row(
    name: str, group: str, program: str, link: str, needs: str = "", train: bool = False
) -> dict[str, Any]:
    """Return a row, its program whole; ValueError where what it says can't be true."""
    defined = {one.name for one in ast.parse(program).body if hasattr(one, "name")}
    form = "training" if train else "change" if "change" in defined else "make"
    form = "inside" if ".compile()" in program else form
    form = "sides" if {"eager", "compiled"} <= defined else form
    if not {"make", "eager"} & defined:
        raise ValueError(f"{name!r} has neither make nor eager and compiled")
    if needs.split(".")[-1] not in program:
        raise ValueError(f"{name!r} needs {needs}, which its program doesn't use")
    if group not in OWN["groups"]:
        raise ValueError(f"{name!r} is in no known group: {group}")
    if not link.startswith("https://"):
        [page] = BOOK.glob(f"{link}*.ipynb")
        link = page.relative_to(BOOK).with_suffix("").as_posix()
    whole = f"import torch\n{program.rstrip()}\n{OWN['ends'][form]}"
    key = hashlib.sha256(repr((whole, needs, train)).encode()).hexdigest()[:12]
    known = {"link": link, "needs": needs, "train": train, "key": key}
    return {"name": name, "group": group, **known, "program": whole}


def _zoo() -> Iterator[dict[str, str]]:
    """Yield the lines of lesson 05, each as a program with what it imports."""
    for zoo_group, group in OWN["zoo"].items():
        for name, code, *_ in zoo.lines(zoo_group):
            program = f"{_with_names(zoo.whole(code).strip())}\n{OWN['ends']['zoo']}"
            yield {"name": name, "group": group, "link": "05", "program": program}


def _with_names(code: str) -> str:
    """Return *code* below those lines of the zoo's names that it uses."""
    code = f"\n{code}"
    each = re.sub(r"^import (.*, .*)", _one_a_line, zoo.NAMES, flags=re.M)
    for line in reversed(each.strip().splitlines()):
        name = line.partition(" = ")[0].split()[-1]
        if name != "torch" and re.search(rf"\b{name}\b", code):
            code = f"{line}\n{code}"
    return code


def _one_a_line(found: re.Match) -> str:
    return "\n".join(f"import {name}" for name in found[1].split(", "))


def _field() -> Iterator[dict[str, Any]]:
    """Yield the programs after public reports; not those of other questions."""
    for case in cases().values():
        if case.area in OWN["field"]:
            name = OWN["names"].get(case.name, case.name)
            row = {"name": name, "group": OWN["field"][case.area], "link": case.report}
            yield row | {"program": case.program.strip(), "train": case.train}


def kept() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return all rows with the cells that were found, and the columns.

    What a program gave that has changed since isn't kept.
    """
    old, every = records.kept(NAME, "name"), rows()
    for row in every:
        before = old.get(row["name"], {})
        row["cells"] = before["cells"] if before.get("key") == row["key"] else {}
    settings = (records.read(NAME) or {"settings": {}})["settings"]
    return every, settings.get("columns", {})


def ran(python: Path, wanted: list[dict], asked: Namespace) -> Iterator[Any]:
    """Yield the versions of *python*, then the name and the cell of each row.

    A row that has a cell isn't run, unless it was asked for again.  RuntimeError says
    that this Python can't run any.
    """
    more = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(BOOK)))}
    more |= {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
    env = {"TORCHINDUCTOR_CACHE_DIR": str(CACHE), **os.environ, **more}
    words = [python, "-m", "tests.proof.since_child", asked.jobs, asked.seconds]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    how = {"cwd": ROOT, "env": env, "text": True, "start_new_session": True}
    child = subprocess.Popen([*map(str, words)], **pipes, **how)
    try:
        if not (said := child.stdout.readline()):
            why = child.stderr.read().strip().split("\n")[-1]
            raise RuntimeError(f"{python} runs no program ({why})")
        versions = json.loads(said)
        version = versions["torch"] = versions["torch"].split("+")[0]
        todo = [row for row in wanted if asked.again or version not in row["cells"]]
        print(f"torch {version}: {len(todo)} programs to run", flush=True)
        yield versions
        child.stdin.write(json.dumps(todo) + "\n")
        child.stdin.flush()
        yield from map(json.loads, child.stdout)
    finally:
        children.end(child)


def main(arguments: list[str]) -> int:
    """Run what has no cell yet; 1 where a row says nothing about torch."""
    parser = command("tests.proof since", __doc__, "a row says nothing about torch")
    parser.add_argument("row", nargs="*", help="names of rows; without, all of them")
    parser.add_argument("--python", type=Path, action="append", help="one for a column")
    parser.add_argument("--again", action="store_true", help="run what is there, too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time")
    parser.add_argument("--seconds", type=float, default=300, help="for one program")
    asked = parser.parse_args(arguments)
    every, columns = kept()
    by_name, faults = {row["name"]: row for row in every}, []
    if unknown := {*asked.row} - {*by_name}:
        parser.error(f"no row is called {', '.join(sorted(unknown))}")
    wanted = [by_name[name] for name in asked.row or by_name]
    try:
        for python in asked.python or [Path(sys.executable)]:
            cells = ran(python, wanted, asked)
            versions = next(cells)
            version = versions["torch"]
            columns[version] = {**versions, "when": now()}
            for name, cell in cells:
                print(version, name, *cell, sep=" | ", flush=True)
                if cell[0] in FAULTS:
                    faults.append(f"{version}, {name}: {': '.join(cell)}")
                    continue
                by_name[name]["cells"][version] = cell
                columns = dict(sorted(columns.items()))
                how = {"columns": columns, "verdicts": OWN["verdicts"]}
                records.write(NAME, every, "tests.proof since", **how)
    except RuntimeError as problem:
        print(problem, file=sys.stderr)
        return 2
    faults += [f"{name}: no torch has what it needs" for name in nowhere(every)]
    for version in columns:
        found = [row["cells"][version][0] for row in every if version in row["cells"]]
        print(version, dict(Counter(found)))
    print(*faults, f"{len(faults)} rows say nothing about torch", sep="\n")
    return int(bool(faults))


def nowhere(every: list[dict[str, Any]]) -> list[str]:
    """Return rows about a name that no torch has: the name is wrong, more likely."""
    verdicts = {row["name"]: [v for v, _ in row["cells"].values()] for row in every}
    return [name for name, v in verdicts.items() if v[1:] and {*v} == {"not there"}]
