"""Runs one notebook the way an odd reader would, and stores what came out.

    python -m tests.proof.visit notebooks/01_*.ipynb result.ipynb twice

A process of its own, so that a whole visit can be put into a strange place.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode, from_dict

from tests.refresh import as_text, client, read

SECONDS_PER_CELL = 240


def arranged(notebook: NotebookNode, how: str) -> NotebookNode:
    """Return the notebook with its cells as they are to be run, without outputs."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            if how == "killed":  # a reader who guessed before it happened
                cell.source = cell.source.replace("mine=None", "mine=1")
    if how == "twice":
        notebook.cells += [from_dict(dict(cell)) for cell in notebook.cells]
        for number, cell in enumerate(notebook.cells):
            cell.id = f"cell-{number}"
    return notebook


def visit(path: Path, result: Path, how: str = "once") -> str:
    """Run the notebook; return how it ended: "" or what stopped it."""
    notebook = arranged(read(path), how)
    runner = client(notebook, path.parent)
    runner.allow_errors, runner.timeout = True, SECONDS_PER_CELL
    half = len(notebook.cells) // 2

    def kill(cell: NotebookNode, cell_index: int) -> None:
        if how == "killed" and cell_index >= half and cell.cell_type == "code":
            os.killpg(runner.km.provisioner.process.pid, signal.SIGKILL)

    runner.on_cell_start = kill
    try:
        runner.execute(env=dict(os.environ))
        ended = ""
    except (CellTimeoutError, DeadKernelError) as error:
        ended = type(error).__name__
    result.write_text(as_text(notebook), encoding="utf-8")
    return ended


if __name__ == "__main__":
    print(visit(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]))
