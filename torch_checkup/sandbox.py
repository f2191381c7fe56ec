"""A process for somebody else's model: it reports as it goes, and ends with its parent.

    python -m torch_checkup.sandbox < order.json

The order names a function of this package, such as ``model:look``, which gets the order
and a `Report`.  One that is ended has reported what it found until then.  Here is no
torch: a first call is timed in such a process.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from .helpers import children
from .helpers.errors import InputError

HOW_TO_NAME = (
    'Give "module:function", "path/to/file.py:function", or a function of a module. '
    "One written in a notebook exists in no file: put `%%writefile model.py` above its "
    'cell, and name it "model.py:make".'
)
ADVICE = {  # for a stage and what went wrong there, as `children.explained` has them
    "^make the model: .*(No module|module .* has no attribute)": HOW_TO_NAME,
    "No space left": "The disk is full: free some, or name another with folder=",
    "^(?!make the model|call it eagerly).*(Permission denied|Read-only)": "The cache "
    "cannot be written: name another place with folder=",
}
FRUGAL = {"TORCH_WARM_POOL": "0"}
"""Processes that compile Triton code start when there is some, and not before."""
_News = dict[str, Any]


def reports(
    function: str,
    order: _News,
    timeout: float,
    memory: int | None = None,
    env: Mapping[str, str] = FRUGAL,
    folder: Path | None = None,
) -> Iterator[_News]:
    """Yield what *function* reports in a sandbox: see `children.reports`."""
    return children.reports(
        *_asked(function, order),
        timeout,
        memory,
        env,
        folder,
        folders_of(order["target"]),
        ADVICE,
    )


def parts(
    function: str,
    order: _News,
    names: Sequence[str],
    timeout: float,
    memory: int | None = None,
    env: Mapping[str, str] = FRUGAL,
) -> Iterator[tuple[str, _News]]:
    """Yield what *function* finds of each part in a sandbox: see `children.parts`."""
    path = folders_of(order["target"])
    asked = _asked(function, order)
    return children.parts(*asked, names, timeout, memory, path, ADVICE, env)


def _asked(function: str, order: _News) -> tuple[str, _News]:
    return f"{__package__}.sandbox", {**order, "function": function}


def main(order: _News) -> None:
    """Run the function that an *order* names, and report that it is done."""
    end_with_parent()
    report = Report(order["report"])
    module, _, function = order["function"].partition(":")
    getattr(import_module(f"{__package__}.{module}"), function)(order, report)
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


def made_by(target: str) -> tuple[Callable, tuple, dict[str, Any], Callable | None]:
    """Return the function or module, what its first call is given, and its loss."""
    from .helpers.capture import given_calls  # these import torch
    from .helpers.session import uncompiled

    fn, inputs, loss = given(module_function(target))
    return uncompiled(fn), *given_calls(inputs)[0], loss


def trained(fn: Callable[..., Any], loss: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return *fn* as a training step has it: with a backward of its *loss*."""

    def step(*inputs: Any, **kwargs: Any) -> Any:
        result = loss(fn(*inputs, **kwargs))
        result.backward()
        return result.detach()

    return step


def target_of(make: str | Callable[[], tuple]) -> str:
    """Return *make* as text that another process can follow.

    Raises InputError for what no process could import.
    """
    if isinstance(make, str):
        home, _, name = make.rpartition(":")
        if not home or not name.isidentifier():
            raise InputError(f"{make!r} names no function. {HOW_TO_NAME}")
        if home.endswith(".py"):
            if not Path(home).is_file():
                raise InputError(f"there is no file {home}. {HOW_TO_NAME}")
            return f"{Path(home).resolve()}:{name}"
        return make
    name, module = getattr(make, "__qualname__", ""), getattr(make, "__module__", "")
    if not inspect.isfunction(make) or "<" in name or module == "__main__":
        raise InputError(
            f"{make!r} cannot be imported by another process. {HOW_TO_NAME}"
        )
    return f"{module}:{name}"


if __name__ == "__main__":
    main(json.load(sys.stdin))
