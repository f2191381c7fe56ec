"""What the reader did: this session's record, and one small file that lasts.

The file lies in the reader's own folder, never in the course, so an update of the
course cannot touch it.  When it cannot be read or written, the lesson goes on.
"""

from __future__ import annotations

import copy
import json
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock

from helpers.results import write_atomically

NAME = "progress.json"
SECTIONS = ("predictions", "exercises")
_COURSE = Path(__file__).resolve().parents[1]
Entries = dict[str, Any]  # section -> key -> what is known about it


def strict() -> bool:
    """Return whether a false claim must raise: COURSE_STRICT=1, or else CI=true."""
    chosen = os.environ.get("COURSE_STRICT") or os.environ.get("CI") or ""
    return chosen.lower() in ("1", "true", "yes", "on")


def folder() -> Path:
    """Return the reader's folder: COURSE_HOME, or the platform's data folder.

    Raises OSError when that lies inside the course itself.
    """
    chosen = os.environ.get("COURSE_HOME")
    usual = platformdirs.user_data_path("torch-compile-course", appauthor=False)
    path = (Path(chosen).expanduser() if chosen else usual).resolve()
    if path.is_relative_to(_COURSE):
        raise OSError("the folder lies inside the course, where an update writes")
    return path


@dataclass
class Progress:
    """Guesses and passed exercises, read from the file and merged into it."""

    changes: Entries = field(default_factory=lambda: _nothing())
    told: bool = False

    def read(self) -> Entries:
        """Return what is on record: the file, and over it what this kernel did."""
        try:
            return _merged(self._stored(), self.changes)
        except OSError:  # put() says so, once there is something to lose
            return _merged(_nothing(), self.changes)

    def put(self, section: str, key: str, entry: dict[str, Any]) -> None:
        """Record *entry*; what another notebook wrote into the file stays."""
        self.changes[section][key] = entry
        try:
            path = folder() / NAME
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(path.with_suffix(".lock"), timeout=5):
                whole = _merged(self._stored(), self.changes)
                text = json.dumps(whole, indent=1, ensure_ascii=False, sort_keys=True)
                write_atomically(path, text + "\n")
        except (OSError, NotImplementedError) as error:
            self._tell(f"Your progress could not be saved ({error}).")

    def _stored(self) -> Entries:
        path = folder() / NAME
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            entries = [e for s in SECTIONS for e in found.get(s, {}).values()]
            if not all(isinstance(entry, dict) for entry in entries):
                raise ValueError("not a progress file")
        except FileNotFoundError:
            return _nothing()
        except (ValueError, AttributeError, RecursionError):
            return self._set_aside(path)
        return found

    def _set_aside(self, path: Path) -> Entries:
        """Move a damaged file out of the way, so that nothing in it is lost.

        Raises OSError when it cannot be moved: then nothing may be written over it.
        """
        when = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
        aside = path.with_name(f"progress.damaged-{when}.json")
        try:
            path.rename(aside)
        except FileNotFoundError:  # another notebook has just moved it
            return _nothing()
        print(f"Your progress file was damaged. It is kept as {aside}.")
        return _nothing()

    def _tell(self, what: str) -> None:
        if not self.told:
            self.told = True
            print(
                f"{what} It is kept until this kernel stops. To keep it longer, "
                "set COURSE_HOME to a folder that you may write to."
            )


def _nothing() -> Entries:
    return {section: {} for section in SECTIONS}


def _merged(stored: Entries, changes: Entries) -> Entries:
    """Return *stored* with *changes* on top; what a newer course added stays."""
    whole = copy.deepcopy(stored)
    for section in SECTIONS:
        whole.setdefault(section, {}).update(changes[section])
    return whole


@dataclass
class Session:
    """What happened in this kernel since ``start``."""

    notebook: str | None = None
    claims: dict[str, bool] = field(default_factory=dict)
    questions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    exercises: set[str] = field(default_factory=set)
    progress: Progress = field(default_factory=Progress)

    def begin(self, notebook: str) -> None:
        """Forget the claims and questions of an earlier pass through a notebook."""
        self.notebook = notebook
        self.claims.clear()
        self.questions.clear()
        self.exercises.clear()


session = Session()
