"""One small model, shipped in five ways, and what each does when something changes."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental import _config as exports

from course.ch26.quiet import QUICK, quiet_stderr
from course.failures import failure
from course.values import right_answer
from course.words import silence
from helpers.text import Table

Ran = Callable[["Scaled", Tensor], Tensor]


class Scaled(torch.nn.Module):
    """Two layers, and a number that Python keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)
        self.head = torch.nn.Linear(16, 4)
        self.factor = 2.0

    def forward(self, x: Tensor) -> Tensor:
        """Return the layers' answer, times the number."""
        return self.head(self.layer(x)) * self.factor


def call(model: Scaled, x: Tensor) -> Tensor:
    """Return the answer of *model*: what precompile and aot_compile compile."""
    return model(x)


def _artifacts(model: Scaled, x: Tensor, folder: Path) -> Ran:
    torch.compile(model)(x).sum().backward()
    data, _ = torch.compiler.save_cache_artifacts()
    torch.compiler.reset()
    torch.compiler.load_cache_artifacts(data)
    return torch.compile(call)


def _precompiled(model: Scaled, x: Tensor, folder: Path) -> Ran:
    paths = {name: folder / name for name in ("artifact_path", "cache_path")}
    with torch.compiler.precompile.capture(call, **paths) as capture:
        capture(model, x)
    return torch.compiler.precompile.load(**paths)


def _aot_compiled(model: Scaled, x: Tensor, folder: Path) -> Ran:
    compiled = torch.compile(call, fullgraph=True).aot_compile(((model, x), {}))
    compiled.save_compiled_function(folder / "scaled.aot")
    with (folder / "scaled.aot").open("rb") as file:
        return torch.compiler.load_compiled_function(file)


def _exported(model: Scaled, x: Tensor, folder: Path) -> Ran:
    torch.export.save(torch.export.export(model, (x,)), folder / "scaled.pt2")
    program = torch.export.load(folder / "scaled.pt2").module()
    return lambda model, x: program(x)


def _packaged(model: Scaled, x: Tensor, folder: Path) -> Ran:
    how = {"package_path": str(folder / "AOTInductor.pt2"), "inductor_configs": QUICK}
    with torch.no_grad(), exports.patch(backed_size_oblivious=True):
        rows = torch.export.Dim("rows", max=64)
        program = torch.export.export(model, (x,), dynamic_shapes=[{0: rows}])
        path = torch._inductor.aoti_compile_and_package(program, **how)
    package = torch._inductor.aoti_load_package(path)
    return lambda model, x: package(x)


WAYS = {
    "artifacts": _artifacts,
    "precompile": _precompiled,
    "aot_compile": _aot_compiled,
    "export": _exported,
    "AOTInductor": _packaged,
}


def _another(model: Scaled, **numbers: float) -> Scaled:
    """Return a model with these numbers; without any, with other weights."""
    found = deepcopy(model)
    vars(found).update(numbers)
    if not numbers:
        with torch.no_grad():
            found.layer.weight.mul_(0.5)
    return found


def ways_to_ship(folder: Path) -> Table:
    """Return what each way does when something changes; its files stay in *folder*.

    "right" is as eager, judged by float64, "old" the answer before the change.
    """
    torch.manual_seed(0)
    model, x = Scaled(), torch.randn(8, 16)
    changes = {
        "nothing changes": (model, x),
        "5 rows, not 8": (model, x[:5]),
        "transposed memory": (model, x.t().contiguous().t()),
        "another checkpoint": (_another(model), x),
        "another self.factor": (_another(model, factor=3.0), x),
        "a float64 input": (model, x.double()),
    }
    columns: dict[str, list[str]] = {}
    for name, ship in WAYS.items():
        torch.compiler.reset()
        with silence(), quiet_stderr():  # C++ prints its errors as well
            ran = ship(model, x, folder)
            old = ran(model, x).detach()
            found = [_outcome(ran, old, *given) for given in changes.values()]
            columns[name] = [*found, _gradient(ran, model, x)]
    rows = zip([*changes, "gradients of weights"], *columns.values(), strict=True)
    return Table.of(["what changes", *columns], list(rows))


def _outcome(ran: Ran, old: Tensor, model: Scaled, x: Tensor) -> str:
    found: list[Any] = []
    if failure(lambda: found.append(ran(model, x).detach())):
        return "raises"
    if torch.no_grad()(right_answer)(model, found[0], x):
        return "right"
    return "old" if torch.equal(found[0], old) else "wrong"


def _gradient(ran: Ran, model: Scaled, x: Tensor) -> str:
    model.zero_grad()
    failed = failure(lambda: ran(model, x).sum().backward())
    return "no" if failed or model.layer.weight.grad is None else "yes"
