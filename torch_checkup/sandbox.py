"""A process for somebody else's model: it reports as it goes, and ends with its parent.

    python -m torch_checkup.sandbox < order.json

The order, JSON on its input, names a function, such as ``.model:look``, which gets the
order and a `Report`: a file with a line of JSON for each thing found.  A process that
is ended has reported what it found until then.  Nothing in this module
imports torch, because a first call is timed in such a process.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import psutil

from .explain import explain_error
from .helpers import text
from .helpers.children import end, family, start
from .helpers.errors import InputError

HOW_TO_NAME = (
    'Give "module:function", "path/to/file.py:function", or a function of a module. '
    "One written in a notebook exists in no file: put `%%writefile model.py` above its "
    'cell, and name it "model.py:make".'
)
_ADVICE = {  # for "stage: error", and below it all that the process said
    "^make the model: .*(No module|module .* has no attribute)": HOW_TO_NAME,
    "No space left": "The disk is full: free some, or name another by TMPDIR",
    "^(?!make the model|call it eagerly).*(Permission denied|Read-only)": "The cache "
    "cannot be written: name another place by TMPDIR",
}
FRUGAL = {
    "TORCH_WARM_POOL": "0",  # processes for Triton start when there is code for them
    # or each empty cache has a build for each kind of vectors, to see whether it works
    "TORCHINDUCTOR_VEC_ISA_OK": os.environ.get("TORCHINDUCTOR_VEC_ISA_OK", "1"),
}
_News = dict[str, Any]


# ------------------------------------------------------------------------ the parent


def parts(
    function: str,
    order: _News,
    names: Sequence[str],
    timeout: float,
    memory: int | None = None,
    env: Mapping[str, str] = FRUGAL,
) -> Iterator[tuple[str, _News]]:
    """Yield (name, what it found) as the parts end, and ('', news) of the whole: also
    the ``stage`` that begins.

    *order* goes to *function* with the ``parts`` to do; the other arguments are those
    of `reports`.  A part that had to be ended, or that killed its process, found a
    ``problem`` and how it ``ended``, and those that are left go on in a new process.

    Raises InputError where no process comes to a first part.
    """
    left, began = list(names), False
    while left or not began:  # without parts, there is the news of the whole
        stage, began = "", True
        whole = {**order, "parts": left}
        for news in reports(function, whole, timeout, memory, env):
            stage = news.get("stage", stage)
            if part := news.get("part"):
                left.remove(part["name"])
                yield part["name"], part
            elif problem := news.get("problem"):
                if stage not in left and len(left) == len(names):  # nothing was done
                    raise InputError(f"{order['target']}: {problem}")
                for name in [stage] if stage in left else [*left]:
                    left.remove(name)
                    yield name, {"problem": problem, "ended": news["ended"]}
            else:
                yield "", news


def reports(
    function: str,
    order: _News,
    timeout: float,
    memory: int | None = None,
    env: Mapping[str, str] = FRUGAL,
    folder: Path | None = None,
) -> Iterator[_News]:
    """Yield what *function* reports in a sandbox, as it comes.

    The sandbox is ended when one of its stages takes more than *timeout* seconds, or
    when it and what it started have more than *memory* bytes, by default three quarters
    of what is free.  Then, and where it fails, the last is the ``stage``, a ``problem``
    and how it ``ended`` (`End`).  *env* has variables for it; its report is kept in
    *folder*, or the system's for temporary files, while it runs.  It finds what the
    ``target`` of the order imports.

    Raises OSError where no process can be started.
    """
    limit, path = memory_limit(memory), folders_of(order["target"])
    with tempfile.TemporaryDirectory(dir=folder, prefix="report-") as place:
        whole = {**order, "function": function, "report": f"{place}/report"}
        how = {"path": path, "env": env, "stdin": subprocess.PIPE, "text": True}
        words = "-m", f"{__package__}.sandbox"
        with _started(*words, folder=Path(place), **how) as child:
            with suppress(BrokenPipeError):  # it may have died: its status tells
                child.stdin.write(json.dumps(whole))
                child.stdin.close()
            for news in _followed(child, Path(place), timeout, limit):
                if why := news.pop("end", None):
                    news |= {"problem": explained(news["stage"], why.says)}
                    news |= {"ended": why.how}
                yield news


@dataclass(frozen=True)
class End:
    """How a process ended, in a word to compare and in a sentence.

    *how* is ``time`` or ``memory`` where it had to be ended; of one that ended by
    itself the name of the signal, such as ``SIGSEGV``, or ``status 3``; and ``raised``
    where *says* is what an exception said.
    """

    how: str
    says: str


def memory_limit(memory: int | None) -> int:
    """Return the bytes that a process may have: by default most of what is free."""
    return memory or int(0.75 * psutil.virtual_memory().available)


def ended(
    *words: str,
    folder: Path,
    timeout: float,
    memory: int | None = None,
    path: Sequence[str] = (),
) -> End:
    """Run Python with *words* in a folder, and return how it ended.

    One that takes more than *timeout* seconds, or *memory* bytes, is ended.
    """
    limit = memory_limit(memory)
    with _started(*words, folder=folder, path=path, cwd=folder) as child:
        [*_, news] = _followed(child, folder, timeout, limit)
    (folder / "said").unlink()
    return news["end"]


@contextmanager
def _started(*words: str, folder: Path, **how: Any) -> Iterator[subprocess.Popen]:
    """Start a process that writes its errors to ``said`` in a folder, and end it."""
    with (folder / "said").open("w") as errors:
        how |= {"stdout": subprocess.DEVNULL, "stderr": errors}
        child = start(*words, **how)
    try:
        yield child
    finally:
        end(child)


def _followed(
    child: subprocess.Popen, folder: Path, timeout: float, limit: int
) -> Iterator[_News]:
    """Yield the news of *child* as its ``report`` in a folder grows.

    Unless it said that all is done, the last is its ``stage`` and ``end``, an `End`.
    """
    begin, place, stage = time.monotonic(), 0, "start Python"
    report = folder / "report"
    why = None
    while not why:
        status = child.poll()
        lines = report.read_text("utf-8").split("\n") if report.exists() else []
        for line in lines[place:-1]:  # after the last break may be half a line
            news, place = json.loads(line), place + 1
            if "done" in news:
                return
            yield news
            if "stage" in news:  # it may be asked for the next after a while
                begin, stage = time.monotonic(), news["stage"]
        if status is not None:
            why = _death(status, (folder / "said").read_text(errors="replace"))
        elif not (why := _too_much(child, begin, timeout, limit)):
            time.sleep(0.1)
    yield {"stage": stage, "end": why}


def _too_much(
    child: subprocess.Popen, begin: float, timeout: float, limit: int
) -> End | None:
    """Return why a process has to be ended, if it has."""
    if time.monotonic() - begin > timeout:
        says = f"not done after {timeout:g} seconds: give a longer timeout="
        return End("time", says)
    held = _held(child.pid)
    if held > limit and (held := _held(child.pid, "pss")) > limit:
        took = f"{text.size(held)} of memory, more than {text.size(limit)}"
        return End("memory", f"it took {took}")
    return None


def _death(status: int, said: str) -> End:
    """Return how a process ended by itself; what it *said*, for an exception."""
    if status < 0:
        name = signal.Signals(-status).name
        full = ", as of a system whose memory is full" if name == "SIGKILL" else ""
        return End(name, f"its process died of {name}{full}")
    if status == 1:
        return End("raised", said)
    last = (said.strip().splitlines() or ["nothing"])[-1]
    says = f"it ended its process, with status {status}; it said: {last}"
    return End(f"status {status}", says)


def _held(pid: int, kind: str = "rss") -> int:
    """Return the memory of a process and of all that it started, in bytes.

    Of kind ``pss``, which takes longer, what they share counts once where that is told.
    """
    total = 0
    for one in family(pid):
        with suppress(psutil.Error):
            info = one.memory_full_info() if kind == "pss" else one.memory_info()
            total += getattr(info, kind, info.rss)
    return total


def explained(stage: str, said: str) -> str:
    """Return in one line where a process failed, how, and what to do."""
    kinds = "Error|Failed|Exception|Unsupported"
    errors = re.findall(rf"^(?:\w+\.)*(\w*(?:{kinds})\b.*)$", said, re.M)
    last = (errors or said.strip().splitlines() or ["it said nothing"])[-1]
    last = last.removeprefix("InputError: ")  # ours: it says what to do
    last = re.sub(r"(?<![\w.])/(?:[^\s/'\"]+/)+", "…/", last)  # folders that are gone
    told = f"{stage}: {last}\n{said}"
    does = [does for words, does in _ADVICE.items() if re.search(words, told)]
    does += [f"{one.name}: {one.mend}" for one in explain_error(told).meanings]
    return ". ".join([f"failed at: {stage}: {last}", *does[:1]])


def chosen(only: Sequence[str], every: Iterable[str]) -> list[str]:
    """Return the names among *every* that are in *only*, or all where that is empty.

    Raises InputError for one that is not there.
    """
    if unknown := set(only) - set(every):
        names = ", ".join(sorted(unknown))
        raise InputError(f"there is no {names}: there are {', '.join(every)}")
    return [name for name in every if name in only or not only]


# ----------------------------------------------------------------------- the process


def main(order: _News) -> None:
    """Run the function that an *order* names, and report that it is done."""
    end_with_parent()
    report = Report(order["report"])
    module, _, function = order["function"].partition(":")
    getattr(import_module(module, __package__), function)(order, report)
    report.put(done=True)


class Report:
    """The file that the parent reads, and the clock of one stage after the other."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115
        self._begin = time.perf_counter()

    def put(self, **found: Any) -> None:
        """Write what was found, now."""
        self._file.write(json.dumps(found) + "\n")
        self._file.flush()

    def stage(self, name: str) -> None:
        """Say that a stage begins: its clock starts."""
        self.put(stage=name)
        self._begin = time.perf_counter()

    def end(self, field: str) -> None:
        """Report the seconds since the stage began as *field*."""
        self.put(**{field: time.perf_counter() - self._begin})


def end_with_parent() -> None:
    """End this process when the one that started it has ended."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def folders_of(target: str) -> list[str]:
    """Return where the imports of ``file.py:function`` or ``module:function`` begin.

    A file finds its neighbours, also those of its package.  Raises InputError where a
    file with the check-up's name would be found first.
    """
    path, folders = _file_of(target), [Path.cwd()]
    if path:
        folders = [_package_of(path)[1], path.parent, *folders]
    if any((folder / f"{__package__}.py").exists() for folder in folders):
        raise InputError(
            f"the check-up would import yours: give another name to {__package__}.py"
        )
    return [str(folder) for folder in folders]


def _file_of(target: str) -> Path | None:
    home = target.rpartition(":")[0]
    return Path(home).resolve() if home.endswith(".py") else None


def _package_of(path: Path) -> tuple[str, Path]:
    """Return the name by which a file is imported, and from which folder."""
    name, package = path.stem, path.parent
    while (package / "__init__.py").exists():
        name, package = f"{package.name}.{name}", package.parent
    return name, package


def module_function(target: str) -> Callable[[], Any]:
    """Return the function that ``module:function`` or ``file.py:function`` names.

    The process was started with `folders_of` the target on its path.
    """
    name, _, function = target.rpartition(":")
    path = _file_of(target)
    if path:
        name = _package_of(path)[0]
    if path and name == path.stem:  # whatever else has that name
        spec = spec_from_file_location(name, path)
        module = sys.modules[name] = module_from_spec(spec)  # importlib's own recipe
        spec.loader.exec_module(module)
    else:
        module = import_module(name)
    return getattr(module, function)


def given(make: Callable[[], Any]) -> tuple[Callable, Any, Callable | None]:
    """Return the function or module of *make*, its inputs, and a loss or None."""
    made = make()
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not callable(made[0]):
        raise TypeError(
            f"{make.__name__}() must return (model or function, inputs), and may "
            f"return a loss as a third; it returned {type(made).__name__}"
        )
    return (*made, None)[:3]


def target_of(make: str | Callable[[], tuple]) -> str:
    """Return *make* as text for another process; InputError if that can't import it."""
    if isinstance(make, str):
        home, _, name = make.rpartition(":")
        if not home or not name.isidentifier():
            raise InputError(f"{make!r} names no function. {HOW_TO_NAME}")
        if home.endswith(".py") and not Path(home).is_file():
            raise InputError(f"there is no file {home}. {HOW_TO_NAME}")
        return f"{Path(home).resolve()}:{name}" if home.endswith(".py") else make
    name, module = getattr(make, "__qualname__", ""), getattr(make, "__module__", "")
    if not inspect.isfunction(make) or "<" in name or module == "__main__":
        raise InputError(
            f"{make!r} cannot be imported by another process. {HOW_TO_NAME}"
        )
    return f"{module}:{name}"


if __name__ == "__main__":
    main(json.load(sys.stdin))
