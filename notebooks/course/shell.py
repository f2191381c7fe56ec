"""Commands as they are typed in a shell, run for real and shown.

    with Folder({"train.py": TEXT}, bug="gelu") as folder:
        print(folder.type("python train.py"))

If *bug* is given, torch is broken in all processes, as a bad version would be,
and they have a compile cache of their own.  Graphs come from the usual cache
only with *caches*.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from pathlib import Path
from subprocess import PIPE, STDOUT, run
from typing import Any

NOTEBOOKS = Path(__file__).parents[1]
# Python runs the first sitecustomize.py on its path before anything else. Ours
# runs the one that it hides, too, and leaves out of torch's log what helpers do.
HIDDEN = """
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

others = [folder for folder in sys.path if Path(folder) != Path(__file__).parent]
if hidden := PathFinder.find_spec("sitecustomize", others):
    hidden.loader.exec_module(module_from_spec(hidden))
import helpers
"""
# Torch is changed when a process imports it, for many that torch starts never do:
# each kind of vectors is tried in a process of its own.
PLANTED = """
import sys
from course.bugs import {bug}, WhenImported

sys.meta_path.insert(0, WhenImported("torch._inductor.{module}", lambda it: {change}))
"""
BROKEN = {
    "gelu": PLANTED.format(
        bug="other_gelu",
        module="decomposition",
        change="other_gelu(it.select_decomp_table())",
    ),
    "erf": PLANTED.format(
        bug="tanh_for_erf", module="lowering", change="tanh_for_erf(it.lowerings)"
    ),
    "sin": PLANTED.format(
        bug="cannot_lower",
        module="lowering",
        change="cannot_lower(it.lowerings, 'sin')",
    ),
}


class Folder:
    """A folder for a while, with files, in which commands are typed."""

    def __init__(
        self,
        files: dict[str, str],
        bug: str | None = None,
        caches: bool = False,
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory()
        self.path = Path(self._temporary.name)
        self._python = self.path / "site"
        self._python.mkdir()
        self._bug, self._caches = bug, caches
        text = HIDDEN + BROKEN.get(bug, "")
        (self._python / "sitecustomize.py").write_text(text)
        for name, text in files.items():
            (self.path / name).write_text(text)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder, where it was not opened by ``with``."""
        self._temporary.cleanup()

    def type(self, command: str) -> str:
        """Run *command*, and return what it printed, both streams together.

        ``NAME=value`` in front of it sets a variable, as in a shell; a * is
        filled in; ``python`` is the Python of this kernel.  The name of the
        folder itself is left out of what was printed.
        """
        words, settings = shlex.split(command), {}
        while "=" in words[0]:
            name, _, value = words.pop(0).partition("=")
            settings[name] = value
        words = [found for word in words for found in self._filled(word)]
        if words[0] == "python":
            words[0] = sys.executable
        ours = [str(self._python), str(NOTEBOOKS), str(NOTEBOOKS.parent)]
        own = {
            "PATH": os.pathsep.join(
                [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
            ),
            "PYTHONPATH": os.pathsep.join(
                filter(None, [*ours, os.environ.get("PYTHONPATH")])
            ),
            "PYTHONWARNINGS": "ignore",
            "PYTHONUNBUFFERED": "1",  # both streams in order, as in a terminal
            "PYTHON_COLORS": "0",  # Jupyter asks for colors, and a traceback has them
        }
        if self._bug:  # what it builds must stay here
            own["TORCHINDUCTOR_CACHE_DIR"] = str(self.path / "cache")
            own["TORCHINDUCTOR_VEC_ISA_OK"] = "0"  # six builds to find which vectors
        elif not self._caches:  # kernels may come from the usual cache, graphs may not
            own["TORCHINDUCTOR_FX_GRAPH_CACHE"] = "0"
            own["TORCHINDUCTOR_AUTOGRAD_CACHE"] = "0"
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TORCH_LOGS", "TORCH_TRACE"))
        }
        done = run(
            words,
            cwd=self.path,
            env={**environment, **own, **settings},
            stdout=PIPE,
            stderr=STDOUT,
            text=True,
        )
        return done.stdout.replace(f"{self.path}{os.sep}", "")

    def _filled(self, word: str) -> list[str]:
        """Return the files that a word with a * stands for."""
        if "*" not in word:
            return [word]
        found = sorted(self.path.glob(word))
        return [str(f.relative_to(self.path)) for f in found] or [word]

    def find(self, name: str) -> str:
        """Return the text of the newest file of this name."""
        found = sorted(self.path.rglob(name), key=os.path.getmtime)
        return found[-1].read_text()


def lines(text: str, *patterns: str) -> str:
    """Return the lines of *text* in which a pattern is found, each once."""
    kept = [
        line.strip()
        for line in text.splitlines()
        if any(re.search(pattern, line) for pattern in patterns)
    ]
    return "\n".join(dict.fromkeys(kept))
