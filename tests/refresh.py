"""Execute notebooks on the reference environment and store them in normal form.

    python -m tests.refresh                    # every lesson and reference page
    python -m tests.refresh notebooks/01_*.ipynb

A notebook is replaced only when every cell ran and no output is unfit to print.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from helpers.results import version_of, write_atomically
from tests import failing
from tools.alone import as_text, read
from tools.commands import command

ROOT = Path(__file__).resolve().parents[1]

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
CELL_METADATA = ("jupyter", "reason", "tags")
WIDGET = "application/vnd.jupyter.widget-view+json"
SECONDS_PER_CELL = 600
# What an output must not show: it would be another text on another machine, or on
# the next run.  Outputs that teach a warning are tagged shows-warning.
UNFIT = {
    "a path of this machine": (
        r"(?<![\w./-])(?:/(?:home|root|tmp|Users|usr|opt|work|mnt|var|private|workspace)"
        r"/|[A-Z]:\\)\S*|ipykernel_\d+"
    ),
    "a memory address": r"\b0x[0-9a-fA-F]{6,}\b",
    "a mark that is not closed on its line": r"⟨[^⟩\n]*(?:\n|$)",
    "a colour code": r"\x1b\[",
}
WARNING = r"\b\w*Warning\b|^\[?(?:rank\d+\]:)?[WE]\d{4} "


def notebooks() -> list[Path]:
    """Return the lessons, in order."""
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


def references() -> list[Path]:
    """Return the reference pages: notebooks that are looked up, not read."""
    return sorted((ROOT / "notebooks" / "reference").glob("*.ipynb"))


def pages() -> list[Path]:
    """Return every notebook that is run and stored: lessons, then references."""
    return [*notebooks(), *references()]


def key_of(path: Path) -> str:
    """Return a lesson's number, or the name of a reference page."""
    return path.stem[:2] if path.stem[0].isdigit() else path.stem


def a_notebook(words: str) -> Path:
    """Return the path of a page that a command names: a file, 06, or `breaks`."""
    named = (path for path in pages() if key_of(path) == words)
    path = next(named, Path(words))
    if not path.is_file():
        says = f"no notebook {words}: say a file, a number or a reference page's name"
        raise argparse.ArgumentTypeError(says)
    return path.resolve()


def normalised(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return a copy that holds the lesson and nothing of the machine or the editor."""
    course = notebook.metadata.get("course", {})
    metadata = {"course": course, "kernelspec": KERNEL}
    metadata["language_info"] = {"name": "python"}
    whole = nbformat.v4.new_notebook(metadata=metadata, cells=[])
    seen: list[str] = []
    for cell in notebook.cells:
        fresh = nbformat.from_dict(dict(cell))
        name = cell.get("id") or cell.cell_type
        fresh["id"] = f"{name}-{len(seen)}" if name in seen else name
        seen.append(fresh["id"])
        fresh["source"] = cell.source.strip("\n")
        kept = {k: cell.metadata[k] for k in CELL_METADATA if cell.metadata.get(k)}
        fresh["metadata"] = nbformat.from_dict(kept)
        fresh.pop("attachments", None)
        if cell.cell_type == "code":
            fresh["outputs"] = [_output(out) for out in _joined(cell.outputs)]
        whole.cells.append(fresh)
    return whole


def _joined(outputs: list) -> list:
    """Return the outputs with each stream in one piece, however it was flushed."""
    joined: dict[str | int, nbformat.NotebookNode] = {}
    for number, output in enumerate(outputs):
        place = output.get("name", number)  # only a stream has a name
        if place in joined:
            joined[place]["text"] += output.text
        else:
            joined[place] = nbformat.from_dict(dict(output))
    return [*joined.values()]


def _output(output: nbformat.NotebookNode) -> nbformat.NotebookNode:
    if "data" in output:
        output["metadata"] = nbformat.from_dict({})
        output["data"].pop(WIDGET, None)
    if output.output_type == "error":
        output["traceback"] = [_short(line) for line in output.traceback]
    return output


def _short(line: str) -> str:
    """Return a line of a traceback without colours and without folders."""
    line = re.sub(r"\x1b\[[0-9;]*m", "", line)
    folders = r"(?:/|~/|[A-Z]:\\)(?:\S*site-packages|\S*?lib(?=[/\\]python3))[/\\]"
    return re.sub(folders, "…/", line)


def texts(cell: nbformat.NotebookNode) -> Iterator[tuple[str, str]]:
    """Yield each text that a cell prints, with the kind of output it came from."""
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            yield output.name, output.text
        elif output.output_type == "error":
            yield "error", "\n".join([output.evalue, *output.traceback])
        for mime, text in output.get("data", {}).items():
            if mime.startswith("text/"):
                yield mime, re.sub(r"data:[\w/+-]+;base64,[\w+/=\s]+", "data:", text)


def unfit(notebook: nbformat.NotebookNode) -> list[str]:
    """Return what the outputs show and must not, one line each."""
    found = []
    for number, cell in enumerate(notebook.cells):
        tags = cell.metadata.get("tags", [])
        for kind, text in texts(cell):
            for what, pattern in UNFIT.items():
                hit = re.search(pattern, text)
                if hit:
                    found.append(f"cell {number}: {what} in {kind}: {hit[0][:80]!r}")
            warned = kind == "stderr" or re.search(WARNING, text, re.MULTILINE)
            if warned and kind != "error" and "shows-warning" not in tags:
                found.append(f"cell {number}: a warning in {kind}: {text[:80]!r}")
    return found


def deviation(path: Path) -> str | None:
    """Return how a file differs from its normal form, or None when it does not."""
    text = path.read_text(encoding="utf-8")
    wanted = as_text(normalised(read(path)))
    if text == wanted:
        return None
    diff = difflib.unified_diff(text.splitlines(), wanted.splitlines(), n=0)
    return "\n".join([*diff][2:12]) or "line endings"


@contextmanager
def course_environment() -> Iterator[None]:
    """Run kernels strictly, quietly, and far from the reader's own progress."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(COURSE_STRICT="1", HELPERS_QUIET="1", COURSE_HOME=home)
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(ROOT), str(ROOT / "notebooks"), before.get("PYTHONPATH")])
        )
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def ran(
    *words: str | Path, status: int = 0, cwd: Path = ROOT, **how: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program, which has to end with *status*; return it with what it said."""
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, **how)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run *code* in a Python of its own, at the root of the course."""
    return ran(sys.executable, "-c", code)


def client(notebook: nbformat.NotebookNode, folder: Path) -> NotebookClient:
    """Return an nbclient for *notebook*, with this Python and *folder* as cwd."""
    return NotebookClient(
        notebook,
        timeout=SECONDS_PER_CELL,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        # ipykernel warns about its own sockets, on the terminal, for each kernel.
        extra_arguments=["--log-level=ERROR"],
    )


def execute(path: Path) -> nbformat.NotebookNode:
    """Return the notebook after a run from top to bottom, in normal form."""
    notebook = read(path)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    with course_environment():
        client(notebook, path.parent).execute()
    return normalised(notebook)


def refresh(path: Path) -> list[str]:
    """Execute and store one notebook; return what stands in the way, if anything."""
    try:
        notebook = execute(path)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        return [str(error)]
    problems = unfit(notebook)
    if not problems:
        write_atomically(path, as_text(notebook))
    return problems


def not_the_reference() -> str:
    """Return which torch this is in place of the pinned one, or "" where it is that."""
    wanted = failing.reference()
    here = version_of("torch") or "none"
    if here.split("+")[0] == wanted:
        return ""
    return f"The reference is torch {wanted}, and this is torch {here}."


def main(arguments: list[str] | None = None) -> int:
    parser = command("tests.refresh", __doc__, "a notebook stays as it was")
    parser.add_argument("notebook", nargs="*", type=a_notebook, default=pages())
    parser.add_argument("--force", action="store_true", help="with any torch")
    chosen = parser.parse_args(arguments)
    if not chosen.force and (refusal := not_the_reference()):
        print(f"{refusal} Nothing was changed. make setup brings it, or say --force.")
        return 2
    failed = 0
    for path in chosen.notebook:
        began = time.perf_counter()
        print(f"{path.name} ...", end=" ", flush=True)
        problems = refresh(path)
        took = f"{time.perf_counter() - began:.0f} s"
        print(f"{took}:", *problems or ["ok"], sep="\n" if problems else " ")
        failed += bool(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
