"""Results on disk: JSON with the machine, the versions and the command.

Nothing is ever unpickled, and a file is either written whole or not at all.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import platform
import re
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from .errors import ResultError, Unavailable
from .text import kernel_shell, pre

VERSION = "0.1.0"
"""The version of torch-checkup: a release, or the release that comes next."""
FORMAT = 1


@dataclass(frozen=True)
class Machine:
    """What a result was measured on: no names of people, hosts or folders."""

    cpu: str
    cores: int
    threads: int | None
    memory_bytes: int | None
    gpu: str | None
    driver: str | None
    system: str
    python: str
    torch: str | None
    triton: str | None

    @classmethod
    def here(cls) -> Machine:
        """Return the record of this machine and these versions."""
        import psutil

        torch = sys.modules.get("torch")
        gpu = torch is not None and torch.cuda.is_available()
        return cls(
            cpu=_cpu_name(),
            cores=available_cores(),
            threads=torch.get_num_threads() if torch is not None else None,
            memory_bytes=psutil.virtual_memory().total,
            gpu=torch.cuda.get_device_name() if gpu else None,
            driver=nvidia_driver() if gpu else None,
            system=f"{platform.system()} {platform.machine()}",
            python=platform.python_version(),
            torch=torch.__version__ if torch is not None else version_of("torch"),
            triton=version_of("triton"),
        )


def version_of(package: str) -> str | None:
    """Return the installed version of *package*, or None."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


def versions() -> str:
    """Return the versions of this package, of torch and of triton, in one line."""
    others = (f"{name} {version_of(name) or 'missing'}" for name in ("torch", "triton"))
    return ", ".join([f"torch-checkup {VERSION}", *others])


def available_cores() -> int:
    """Return the cores this process may use, which a container can limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_name() -> str:
    with suppress(OSError):  # Linux alone has this file
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


@functools.cache
def nvidia_driver() -> str | None:
    """Return the version of the NVIDIA driver, or None without a driver or GPU."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    with suppress(OSError, subprocess.SubprocessError, IndexError):
        return subprocess.check_output(query, text=True, timeout=20).split()[0]
    return None


def command() -> str:
    """Return the command that was run, without its folders."""
    if kernel_shell():
        return "notebook"
    program, *words = (re.sub(r"[^\s=]*[/\\]", "", word) for word in sys.argv)
    if spec := sys.modules["__main__"].__spec__:
        program = f"python -m {spec.name.removesuffix('.__main__')}"
    return " ".join([program, *map(shlex.quote, words)]) or "python"


def now() -> str:
    """Return the time in UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write *content* to *path* whole or not at all; return the path.

    Raises OSError with advice when the folder cannot be written or is full.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".part-{secrets.token_hex(8)}")
        try:
            with temporary.open("xb") as file:  # as readable as any other new file
                file.write(content if isinstance(content, bytes) else content.encode())
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        finally:  # whatever went wrong, Ctrl-C included
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(
            f"cannot write {target.name}: {error.strerror}. Nothing was changed; "
            "free some disk or name a folder that you may write to."
        ) from error
    return target


class Result:
    """What every result can do besides its own text form.

    A subclass is a frozen dataclass, made with ``repr=False``, that has __str__.
    """

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return pre(self)

    def to_json(self) -> str:
        """Return the result as JSON text that ``from_json`` reads back equal."""
        whole = {"format": FORMAT, "kind": type(self).__name__, "result": self}
        if not isinstance(self, Measured):
            whole |= {"machine": Machine.here(), "command": command(), "when": now()}
        return json.dumps(whole, default=_stored, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Any:
        """Return the result that *text* holds; ResultError when it holds none."""
        import msgspec  # not needed to measure

        try:
            whole = json.loads(text)
            stored, name = whole["format"], whole["kind"]
            if stored != FORMAT:
                raise ValueError(f"it has format {stored}, and here it is {FORMAT}")
            known = {kind.__name__: kind for kind in _kinds(cls)}
            if name not in known:
                raise ResultError(f"this file holds a {name}, not a {cls.__name__}")
            # convert() holds each value against the annotation of its field.
            return msgspec.convert(whole["result"], known[name])
        except ResultError:
            raise
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ResultError(
                "this is no results file, or it is damaged "
                f"({type(error).__name__}: {error}): measure again"
            ) from error

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the result as JSON, whole or not at all; return the path."""
        return write_atomically(path, self.to_json())


def _stored(result: Any) -> dict[str, Any]:
    """Return the fields of a dataclass by which it is compared: others aren't kept."""
    fields = (field.name for field in dataclasses.fields(result) if field.compare)
    return {name: getattr(result, name) for name in fields}


def _kinds(kind: type[Result]) -> Iterator[type[Result]]:
    """Yield *kind* and its subclasses: a file names one of these, never a module."""
    yield kind
    for one in kind.__subclasses__():
        yield from _kinds(one)


@dataclass(frozen=True, kw_only=True, repr=False)
class Measured(Result):
    """A result that keeps where, by what command and when (UTC) it was measured."""

    machine: Machine = field(default_factory=Machine.here)
    command: str = field(default_factory=command)
    when: str = field(default_factory=now)


@dataclass(frozen=True, kw_only=True, repr=False)
class Observed(Measured):
    """What a program showed on this machine, where nothing was raced: in words."""

    what: str

    def __str__(self) -> str:
        return self.what


class TableResult(Result):
    """A result that prints as its ``table()``, where that has rows, and a last line."""

    def _last(self) -> str:
        """Return the text below the table."""
        return ""

    def __str__(self) -> str:
        table, last = self.table(), self._last()
        shown = [str(table)] if table.rows or not last else []
        return "\n".join([*shown, last] if last else shown)

    def _repr_html_(self) -> str:
        table, last = self.table(), self._last()
        shown = table._repr_html_() if table.rows or not last else ""
        return shown + (pre(last) if last else "")


def load(path: str | os.PathLike[str]) -> Any:
    """Return the result in a file; ResultError or OSError say what is wrong."""
    for name in (package := sys.modules[__package__]).__all__:
        with suppress(Unavailable):  # a kind is known once its module is imported
            getattr(package, name)
    try:
        return Result.from_json(Path(path).read_text(encoding="utf-8"))
    except (ResultError, UnicodeDecodeError) as error:
        raise ResultError(f"{Path(path).name}: {error}") from error
