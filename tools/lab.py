"""Open the lessons in JupyterLab: the reader's own copies, without outputs.

    python -m tools.lab              # what `make lab` runs
    python -m tools.lab --no-browser # only say where; other options go to JupyterLab

The copies lie in ``lessons/``, which git ignores.  Nothing that the reader wrote is
written over: after an update of the course, a lesson whose cells the reader did not
change is renewed, one that was changed stays, and the new one is laid beside it.
(git and nbgitpuller merge lines: they take one that was only run for changed.)
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import nbformat
from filelock import FileLock, Timeout

from course import moved
from helpers.results import write_atomically
from tools.alone import NOTEBOOKS, only_asks, read
from tools.commands import command

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("*.md", "figures/*.svg", "solutions/*.py", "examples/*.*")  # what lessons use
ELSEWHERE = re.compile(r"\]\((?=(?:course|examples)/)")  # links to what is not brought
BACK = "](../notebooks/"
# What JupyterLab is told: its first layout, with the table of contents at the left; no
# news; and to save every 20 seconds, for what was typed outlives a closed browser.
SETTINGS = Path(__file__).with_name("lab_settings")
RECORD = ".delivered.json"  # what was brought, by name: a digest of it


def deliver(course: Path, own: Path) -> Iterator[str]:
    """Bring the lessons of *course* into the folder *own*; yield what happened.

    A line for each file that was gone, or that the reader changed.  Raises OSError when
    the folder cannot be written, after which what is there is as it was.
    """
    own.mkdir(parents=True, exist_ok=True)
    with FileLock(own / ".lock", timeout=30):
        record = _recorded(own)
        paths = (p for pattern in (*NOTEBOOKS, *PAGES) for p in course.glob(pattern))
        wanted = {p.relative_to(course).as_posix(): _cleared(p) for p in paths}
        for name in sorted(record.keys() | wanted.keys()):
            if name in wanted:
                yield from _bring(own / name, name, wanted[name], record)
            else:
                yield from _retire(own / name, name, record)
            write_atomically(own / RECORD, json.dumps(record, indent=1) + "\n")


def _bring(target: Path, name: str, text: str, record: dict[str, str]) -> Iterator[str]:
    """Put *text* where it belongs, unless the reader's own work lies there."""
    here, new, brought = _digest_of(target), digest(text), record.get(name)
    if not here or here == brought != new:
        write_atomically(target, text)
        if brought and not here:
            yield f"{name} was gone: here is a fresh one"
    elif new not in (here, brought):  # here is the reader's own
        beside = target.with_name(f"{target.stem}-new-{new[:6]}{target.suffix}")
        if not beside.exists():
            write_atomically(beside, text)
            yield f"{name} has your changes and stays: the new one is {beside.name}"
    record[name] = new


def _retire(target: Path, name: str, record: dict[str, str]) -> Iterator[str]:
    """Remove a page that the course no longer has, unless the reader changed it."""
    here, brought = _digest_of(target), record.pop(name)
    became = moved.lessons().get(name.removesuffix(".ipynb"))
    what = f"is {became}.ipynb now" if became else "is no longer in the course"
    if here == brought:
        target.unlink()
        yield f"{name} {what}, and was removed"
    elif here:
        yield f"{name} {what}; yours stays"


def _digest_of(path: Path) -> str:
    """Return the digest of a file, or '' where there is none."""
    if not path.exists():
        return ""
    return digest(path.read_text(encoding="utf-8", errors="replace"))


def digest(text: str) -> str:
    """Return a digest of what a person writes: of a notebook, the cells alone.

    Outputs, counts and metadata come from running, and are not counted.
    """
    try:
        cells = json.loads(text)["cells"]
        text = json.dumps([[c["cell_type"], "".join(c["source"])] for c in cells])
    except (ValueError, KeyError, TypeError):  # a page, or a damaged notebook
        pass
    return hashlib.sha256(text.encode()).hexdigest()


def _recorded(own: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode((own / RECORD).read_bytes(), type=dict[str, str])
    except (OSError, ValueError):
        return {}  # then whatever differs counts as the reader's


def _cleared(path: Path) -> str:
    """Return the text of a page, of a notebook without outputs, which are the answers.

    What only asks a prediction is folded: buttons ask it, and code would ask it twice.
    """
    if path.suffix != ".ipynb":
        text = path.read_text(encoding="utf-8")
        return ELSEWHERE.sub(BACK, text) if path.suffix == ".md" else text
    notebook = read(path)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            if only_asks(cell.source):
                cell.metadata["jupyter"] = {"source_hidden": True}
        else:
            cell.source = ELSEWHERE.sub(BACK, cell.source)
    return nbformat.writes(notebook, version=4).rstrip("\n") + "\n"


# --- JupyterLab ----------------------------------------------------------------------


def options(first: str) -> list[str]:
    """Return the options with which JupyterLab opens on the *first* lesson.

    Later it opens on what the reader had open, which it keeps in its workspace.
    """
    import zmq
    from jupyterlab_server.workspaces_handler import WorkspacesManager

    spaces = ROOT / ".cache" / "lab" / "space"
    if not [*spaces.glob("course*")]:
        layout = (SETTINGS / "workspace.json").read_text("utf-8")
        WorkspacesManager(str(spaces)).save("course", layout.replace("FIRST", first))
    page = "/lab/workspaces/course"
    told = {
        "ServerApp.root_dir": ROOT,
        "ServerApp.default_url": page,  # what JupyterHub opens
        # It warns of copies that it did not write itself, and of a server for one.
        "ServerApp.log_level": "ERROR",
        "LabApp.log_level": "ERROR",
        "LabApp.app_settings_dir": SETTINGS,
        "LabApp.workspaces_dir": spaces,
        "LabApp.default_url": page,
    }
    # Else each kernel warns in the terminal that others might listen.
    if zmq.has("curve"):
        told["KernelManager.transport_encryption"] = "auto"
    # Jupyter refuses to run as root, which containers do, unless told.
    root = ["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    return [*root, *(f"--{k}={v}" for k, v in told.items())]


def main(arguments: list[str] | None = None) -> int:
    """Renew the copies, and open the first of them."""
    parser = command("tools.lab", __doc__, "there is no lesson to open", "closed")
    _, rest = parser.parse_known_args(arguments)
    own = ROOT / "lessons"
    try:
        for line in deliver(ROOT / "notebooks", own):
            print(line)
    except (OSError, Timeout) as error:
        stays = "could not be renewed; what is there stays as it was"
        print(f"lab: {error}\nlab: your copies {stays}", file=sys.stderr)
    lessons = sorted(path.name for path in own.glob("[0-9]*.ipynb"))
    if not lessons:
        return 1
    # For an environment that is not .venv, which knows these folders.
    found = (str(ROOT), str(ROOT / "notebooks"), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, found))
    serve([*options(lessons[0]), *rest])
    return 0


def serve(told: list[str]) -> None:
    """Run JupyterLab in this process: another would import all of it again.

    JupyterHub starts the lessons too, and wants its own server around JupyterLab.
    The address is for who sits at another machine.
    """
    if "JUPYTERHUB_SERVICE_URL" in os.environ:
        hub = [sys.executable, "-m", "jupyterhub.singleuser", *told]
        os.execv(hub[0], hub)
    from jupyterlab.labapp import LabApp

    server = LabApp.initialize_server(told)
    line = "lab: your lessons open in the browser (Ctrl-C here, twice, ends them):"
    server.io_loop.add_callback(print, line, server.public_url, flush=True)
    # Else the server says its address, too, in seven lines.
    server.identity_provider.token_generated = False
    server.start()


if __name__ == "__main__":
    sys.exit(main())
