"""Follows torch to another version as far as a command can, then says what to read.

    python -m tests.proof bump 2.16.0       # or: make bump TORCH=2.16.0

A work tree of the last commit is made in .cache/bump, on a branch of its own, with all
pins renewed and an environment of its own.  Every page runs there.  Where only output
differs, and all claims hold, the new output is stored; nothing outside that folder
changes, and a second run goes on with what the first one left.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jinja2 import Template

from helpers.results import write_atomically
from tests import failing
from tests.proof import versions
from tests.refresh import ROOT, a_notebook, pages
from tools.commands import command

Found = list[failing.Failure] | str  # how a page differs, or why it didn't run
FELL = "a claim fell, or an error came"
BUMPS = ROOT / ".cache" / "bump"
TITLES = {
    "private": "Private names that the course imports",
    "settings": "Settings",
    "breaks": "Kinds of graph break",
    "public": "Public names",
}
HEAD, SECOND = "# What pyproject.toml names.\n", "\n# What those need.\n"
EXTRAS = ("course", "test", "setup", "site", "practice")


def said(*words: object, cwd: Path = ROOT, told: str = "") -> str:
    """Return what a program prints; RuntimeError has its last words, after *told*."""
    done = subprocess.run([*map(str, words)], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-3:]
        raise RuntimeError(f"{told or words[0]}: {' '.join(last)}")
    return done.stdout


# --- the work tree, its pins, its environment ----------------------------------------


def work_tree(torch: str) -> Path:
    """Return a work tree for that torch: the one that is there, or a new one."""
    folder = BUMPS / f"torch-{torch}"
    if not folder.exists():
        BUMPS.mkdir(parents=True, exist_ok=True)
        branch = f"torch-{torch}"
        said("git", "worktree", "prune")
        known = said("git", "branch", "--list", branch).strip()
        said("git", "worktree", "add", folder, *(() if known else ("-b",)), branch)
    return folder


def renewed(pins: str, resolved: str) -> str:
    """Return requirements.txt with what uv resolved; the order of its two blocks stays.

    What torch brings for CUDA is left out: a CPU build doesn't want it.
    """
    new: dict[str, list[str]] = {}
    for line in resolved.splitlines():
        if line.strip() and not re.match(r"#|(nvidia|cuda)-", line):
            new.setdefault(line.split("==")[0], []).append(line.replace(" ; ", "; "))
    head, blocks = pins.split(HEAD)
    first = dict.fromkeys(re.findall(r"^([\w.-]+)==", blocks.split(SECOND)[0], re.M))
    ours = [line for name in first for line in new.pop(name)]
    rest = [line for name in sorted(new) for line in new[name]]
    return head + HEAD + "\n".join(ours) + "\n" + SECOND + "\n".join(rest) + "\n"


def renew(folder: Path, torch: str) -> None:
    """Write the newest pins that go with this torch, for pip and for conda."""
    only = folder / ".cache" / "torch.txt"
    only.parent.mkdir(exist_ok=True)
    only.write_text(f"torch=={torch}\n")
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    compiles = (sys.executable, "-m", "uv", "pip", "compile", "--universal")
    how = ("--python-version", "3.11.0", "--no-annotate", "--no-header")
    words = (*compiles, *how, *extras, "pyproject.toml", "-c", only)
    resolved = said(*words, cwd=folder, told=f"torch {torch} can't be had")
    path = folder / "requirements.txt"
    text = renewed(path.read_text("utf-8"), resolved)
    write_atomically(path, text)
    conda = (folder / "environment.yml").read_text("utf-8")
    conda = re.sub(r"(pytorch=)[\d.]+", rf"\g<1>{torch}", conda)
    triton = re.search(r"^triton==([\d.]+)", text, re.M)[1]
    conda = re.sub(r"(triton==)[\d.]+", rf"\g<1>{triton}", conda)
    write_atomically(folder / "environment.yml", conda)


def build(folder: Path) -> Path:
    """Return the Python of the work tree's environment, built or brought up to date."""
    said(sys.executable, "bootstrap.py", cwd=folder, told="no environment")
    return folder / ".venv" / "bin" / "python"


# --- its pages -----------------------------------------------------------------------


def differing(python: Path, folder: Path, notebook: Path) -> Found:
    """Return how a page differs there, or why it didn't run to its end."""
    report = folder / ".cache" / "reports" / f"{notebook.stem}.xml"
    try:
        if not report.exists():
            versions.run(python, folder / notebook, report, cwd=folder)
        return failing.read(report)
    except (RuntimeError, ValueError) as problem:
        report.unlink(missing_ok=True)
        return str(problem)


def is_output(failure: failing.Failure) -> bool:
    """Return whether a cell prints something else, and nothing worse."""
    return not any(line.startswith(("claim:", "error:")) for line in failure.lines)


def store(python: Path, folder: Path, notebook: Path) -> str:
    """Store the page as it runs there; return why that isn't possible, or ""."""
    try:
        words = (python, "-m", "tests.refresh", folder / notebook)
        said(*words, cwd=folder, told="not stored")
    except RuntimeError as problem:
        return str(problem)
    return ""


# --- what a person reads -------------------------------------------------------------


def names(python: Path | str, folder: Path) -> dict[str, dict[str, str]]:
    """Return what ``torch_names`` finds with another Python."""
    ask = "import json; from tests.proof import torch_names as t; print(json.dumps("
    return json.loads(said(python, "-c", f"{ask}t.names()))", cwd=folder))


def to_read(torch: str, differ: dict[Path, Found], **found: dict) -> str:
    """Return what the pages said and what changed by name, first what is worst."""
    cells = [cell for said in differ.values() for cell in said]
    return Template(Path(__file__).with_suffix(".md").read_text("utf-8")).render(
        torch=torch,
        reference=failing.reference(),
        fell=[cell for cell in cells if not is_output(cell)],
        other=[cell for cell in cells if is_output(cell)],
        markdown=failing.markdown,
        titles=TITLES,
        **found,
    )


def a_version(words: str) -> str:
    if not re.fullmatch(r"\d+\.\d+\.\d+", words):
        raise argparse.ArgumentTypeError(f"{words} is no version: say one like 2.16.0")
    return words


def main(arguments: list[str]) -> int:
    """Follow, as far as it goes; 1 when a person has to mend a page."""
    parser = command("tests.proof bump", __doc__, "a page must be mended by hand")
    parser.add_argument("torch", type=a_version)
    parser.add_argument("notebook", nargs="*", type=a_notebook, default=None)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    chosen = parser.parse_args(arguments)
    try:
        folder = work_tree(chosen.torch)
        renew(folder, chosen.torch)
        python = build(folder)
        old, new = names(sys.executable, ROOT), names(python, folder)
    except RuntimeError as problem:
        print(problem, file=sys.stderr)
        return 2
    named = [page.resolve().relative_to(ROOT) for page in chosen.notebook or pages()]
    missing = [*old["private"].keys() - new["private"].keys()]
    print(*(f"torch {chosen.torch} lacks {name}" for name in missing), sep="\n")
    with ThreadPoolExecutor(chosen.jobs) as pool:
        found = pool.map(lambda page: differing(python, folder, page), named)
        ran = dict(zip(named, found, strict=True))
    broken = {page: why for page, why in ran.items() if isinstance(why, str)}
    differ = {page: ran[page] for page in ran if ran[page] and page not in broken}
    # One at a time: what is stored holds seconds, too.
    stored = {
        page: store(python, folder, page) if all(map(is_output, cells)) else FELL
        for page, cells in differ.items()
    }
    said = {"broken": broken, "stored": stored, "old": old, "new": new}
    text = BUMPS / f"torch-{chosen.torch}.md"
    write_atomically(text, to_read(chosen.torch, differ, **said))
    print(text.read_text("utf-8"), f"Read it again: {text}; pages: {folder}", sep="\n")
    return int(bool(broken) or any(stored.values()))
