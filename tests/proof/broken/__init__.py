"""Ways to break torch.compile from outside: a setting, a variable, or a small patch.

Nothing is edited.  A fault waits for a module of torch, and changes it as soon as
it has been imported.
"""

from __future__ import annotations

import importlib
import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from typing import Any

from course.bugs import WhenImported

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).parent
Patch = Callable[[Any], None]


@dataclass(frozen=True)
class Fault:
    """One way to break the compiler.

    *meets* is what a user would meet in life, *notebooks* where it should be
    noticed, most likely first.  *how* says in words how it is planted.  The caches are
    *shared* with the healthy compiler where the code that is written stays the same.
    """

    name: str
    meets: str
    notebooks: tuple[str, ...]
    how: str
    module: str = ""
    patch: Patch | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    shared: bool = False
    patience: float | None = None

    def plant(self) -> None:
        """Change the module as soon as it is imported."""
        if self.patch:
            sys.meta_path.insert(0, WhenImported(self.module, self.patch))


FAULTS: dict[str, Fault] = {}


def fault(
    name: str, module: str, notebooks: str, **rest: Any
) -> Callable[[Patch], Patch]:
    """Register the decorated function, which changes *module*, as a fault.

    Its docstring says what a user would meet; *notebooks* are ids, "07 10 11".
    """

    def register(patch: Patch) -> Patch:
        meets, order = " ".join((patch.__doc__ or "").split()), tuple(notebooks.split())
        how = f"patch in {module}"
        every = {"how": how, "meets": meets, "module": module, "patch": patch, **rest}
        FAULTS[name] = Fault(name, notebooks=order, **every)
        return patch

    return register


shared = partial(fault, shared=True)


def setting(
    name: str, module: str, notebooks: str, values: dict[str, Any], **rest: Any
) -> None:
    """Register a fault that is a few settings, dotted where they are nested."""

    def patch(config: Any) -> None:
        for key, value in values.items():
            *groups, last = key.split(".")
            setattr(reduce(getattr, groups, config), last, value)

    how = f"setting of {module}: {', '.join(f'{k}={v}' for k, v in values.items())}"
    fault(name, module, notebooks, how=how, **rest)(patch)


def variable(name: str, notebooks: str, variables: dict[str, str], **rest: Any) -> None:
    """Register a fault that is an environment variable; BIN is the folder beside."""
    how = "variable: " + ", ".join(f"{k}={Path(v).name}" for k, v in variables.items())
    known = {k: v.replace("BIN", str(HERE / "bin")) for k, v in variables.items()}
    FAULTS[name] = Fault(
        name, notebooks=tuple(notebooks.split()), how=how, variables=known, **rest
    )


def lowered(lowering: Any, op: Any) -> Callable[[Callable[..., Any]], None]:
    """Lower *op* by the decorated function, which takes the usual lowering first."""
    usual = lowering.lowerings[op]

    def replace(changed: Callable[..., Any]) -> None:
        lowering.lowerings[op] = partial(changed, usual)

    return replace


def environment(fault: Fault | None) -> dict[str, str]:
    """Return the environment of a process with *fault* in it, or with none."""
    path = [str(ROOT), str(ROOT / "notebooks"), os.environ.get("PYTHONPATH", "")]
    planted = {}
    if fault:
        path.insert(0, str(HERE / "start"))
        planted = {"PLANTED_FAULT": fault.name, **fault.variables}
    joined = os.pathsep.join(filter(None, path))
    return {**os.environ, "PYTHONPATH": joined, "HELPERS_QUIET": "1", **planted}


MODULES = "dynamo autograd inductor codegen modes uses promises libraries tools"
for each in MODULES.split():
    importlib.import_module(f"{__name__}.{each}")
KNOWN = tomllib.loads((HERE / "settings.toml").read_text("utf-8"))
for register in (setting, variable):
    for each in KNOWN[register.__name__]:
        register(**each)
