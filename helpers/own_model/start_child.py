"""The process in which ``cold_start`` calls a compiled function for the first time.

    python -m helpers.own_model.start_child < order.json

What it finds goes to the report file as it comes, a line of JSON each, so that a
process that dies has said how far it came.  It imports torch where it times it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.errors import InputError

if TYPE_CHECKING:
    from helpers import _torch, correctness

_HERE = Path(__file__).parents[1]  # the package

# Each kind of cache: torch's counters of what was found, not found, and not looked
# for, and how torch's events of it begin.
_CACHES = {
    "AOTAutogradCache": ("aot_autograd", "autograd_cache", "aotautograd_cache_"),
    "FxGraphCache": ("inductor", "fxgraph_cache", "fx_graph_cache_"),
}


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


def become_theirs() -> None:
    """Make this process the reader's: it ends with its parent, imports as theirs do.

    `children` put the helpers' home first on the path, so that they are found.
    """
    sys.path.remove(str(_HERE.parent))
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def module_function(target: str) -> Callable[[], Any]:
    """Return the function that ``module:function`` or ``file.py:function`` names.

    A file finds what stands beside it, and in a package its neighbours.  Where the
    project has a module ``helpers``, that one is imported by this name from here on:
    our own must all be imported before.
    """
    name, _, function = target.rpartition(":")
    path = Path(name).resolve() if name.endswith(".py") else None
    folders = [Path.cwd()]
    if path:
        name, package = path.stem, path.parent
        while (package / "__init__.py").exists():
            name, package = f"{package.name}.{name}", package.parent
        folders = [package, path.parent, *folders]
    sys.path[:0] = map(str, folders)
    _give_way(sys.path[: len(folders)])
    if path and name == path.stem:  # whatever else has its name
        spec = spec_from_file_location(name, path)
        module = sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        module = import_module(name)
    return getattr(module, function)


def _give_way(folders: list[str]) -> None:
    """Forget our modules by name where ``helpers`` is another's; who has them has them.

    *folders* are the project's, which come before all others.
    """
    theirs = PathFinder.find_spec("helpers", folders) or PathFinder.find_spec("helpers")
    if not theirs or str(_HERE) in (theirs.submodule_search_locations or ()):
        return
    for name in [n for n in sys.modules if n.partition(".")[0] == "helpers"]:
        del sys.modules[name]
    if theirs.origin is None:  # a folder without __init__.py, which ours would hide
        module = sys.modules["helpers"] = module_from_spec(theirs)
        del module.__file__  # None: inspect, which met ours, wants a name


def given(make: Callable[[], Any]) -> tuple[Callable, Any, Callable | None]:
    """Return what *make* gives: a function or module, inputs, and a loss or None."""
    made = make()
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not callable(made[0]):
        raise TypeError(
            f"{make.__name__}() must return (model or function, inputs), and may "
            f"return a loss as a third; it returned {type(made).__name__}"
        )
    return (*made, None)[:3]


def made_by(target: str) -> tuple[Callable, tuple, dict[str, Any], Callable | None]:
    """Return the function or module, what its first call is given, and its loss."""
    from helpers.capture import given_calls  # both before the reader's own `helpers`
    from helpers.session import uncompiled

    fn, inputs, loss = given(module_function(target))
    return uncompiled(fn), *given_calls(inputs)[0], loss


def trained(fn: Callable[..., Any], loss: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return *fn* as a training step has it: with a backward of its *loss*."""

    def step(*inputs: Any, **kwargs: Any) -> Any:
        result = loss(fn(*inputs, **kwargs))
        result.backward()
        return result.detach()

    return step


def main(order: dict[str, Any]) -> None:
    """Do what was ordered, and report."""
    become_theirs()
    report = Report(order["report"])
    report.stage("import torch")
    import torch

    report.stage("load the compiler")
    for name in ("async_compile", "compile_fx"):  # or the first compile loads them
        with suppress(ImportError):
            import_module(f"torch._inductor.{name}")

    global _torch, correctness  # which import torch, and come before the reader's own
    from helpers import _torch, correctness

    report.stage("make the model")
    fn, inputs, kwargs, loss = made_by(order["target"])
    if order["load"]:
        report.stage("load the artifacts")
        info = torch.compiler.load_cache_artifacts(Path(order["load"]).read_bytes())
        report.end("load_s")
        report.put(loaded=info is not None)

    report.stage("the first call")
    compiled = torch.compile(fn, **order["options"])  # which may load already
    sides = [fn, compiled]
    if order["train"]:
        sides = [trained(side, loss or correctness.weighted_sum) for side in sides]
    eager, ours = (partial(side, *inputs, **kwargs) for side in sides)
    with torch.set_grad_enabled(order["train"]), _torch.trace() as events:
        ours()
        report.end("first_s")
    report.put(phases=phases(), lookups=lookups(events))
    if order["save"]:
        report.stage("save the artifacts")
        saved = torch.compiler.save_cache_artifacts()
        if saved is not None:
            Path(order["save"]).write_bytes(saved[0])
    report.stage("compare with eager")
    with torch.set_grad_enabled(order["train"]):
        report.put(agrees=agrees(eager, ours))
    report.put(done=True)


def phases() -> dict[str, float]:
    """Return seconds by phase, from torch's records of this process's compiles."""

    def recorded(name: str) -> float:
        field = f"{name}_cumulative_compile_time_us"
        times = (getattr(record, field, None) for record in _torch.compile_history)
        return sum(time or 0 for time in times) / 1e6

    def timed(name: str) -> float:
        return sum(_torch.compile_seconds.get(name, ()))

    aot = recorded("aot_autograd")
    # A graph that was found is not lowered, but its code is loaded.
    loads = timed("AOTAutogradCache.inductor_load") or (
        0.0 if recorded("inductor") else timed("PyCodeCache.load_by_key_path")
    )
    inductor = min(recorded("inductor") + loads, aot)
    building = min(timed("compile_file"), inductor)
    return {
        "Dynamo": max(recorded("dynamo") - aot, 0.0),
        "AOTAutograd": aot - inductor,
        "Inductor": inductor - building,
        "build": building,
    }


def lookups(events: list[Any]) -> list[dict[str, Any]]:
    """Return what each kind of cache found, why not, and its newest key's parts."""
    found = []
    for kind, (group, prefix, begins) in _CACHES.items():
        counts = _torch.counters[group]
        hits, misses, bypasses = (
            counts[f"{prefix}_{word}"] for word in ("hit", "miss", "bypass")
        )
        reasons, parts = [], dict[str, str]()
        for event in events:
            if event.kind.startswith(begins) and event.payload[:1] == "{":
                told = json.loads(event.payload)
                reasons.append(told.get("cache_bypass_reason") or "")
                parts.update(components(told.get("components") or []))
        row = {"kind": kind, "hits": hits, "misses": misses, "bypasses": bypasses}
        why = tuple(dict.fromkeys(filter(None, reasons)))
        found.append({**row, "reasons": why, "parts": parts})
    return found


def components(lines: list[str]) -> dict[str, str]:
    """Return the hash of each part of a key, by the name that torch gives the part."""
    parts = {}
    for line in lines:
        number, _, rest = line.partition("] ")
        parts[rest.partition(": ")[0]] = number.lstrip("[")
    return parts


def agrees(eager: Callable[[], Any], compiled: Callable[[], Any]) -> bool | None:
    """Return whether both give the same answer and gradients; None: nothing to see."""
    setting = correctness.Setting((eager, compiled), ())
    with setting.state:
        try:
            first = setting.outcome("compiled", compiled)
            return correctness.agreement(setting, eager, compiled, first).matches
        except InputError:
            return None


if __name__ == "__main__":
    main(json.load(sys.stdin))
