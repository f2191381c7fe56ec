"""Run the kernels of a dump on the CPU, and compare what comes out with eager.

Triton has an interpreter, which runs a kernel program by program.  Each graph's
module runs whole in a child process, with the inputs the program had, and eager runs
the graph it was made from.  Launches agree when all that their graph gives agrees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from helpers import session
from helpers.errors import InputError
from helpers.gpu import gpus
from helpers.gpu import interpret_eager as eager
from helpers.gpu.interpret_process import interpreter
from helpers.results import Result
from helpers.text import Table, count, mark, pre, progress

SLACK = 8.0  # times torch.testing's tolerances: sums are taken in another order


@dataclass(frozen=True)
class CheckedKernel:
    """One launch: whether its graph's outputs agree, and how far off they are at most.

    *error* and *relative* are the largest difference from eager of what it wrote
    (else of all outputs), as it is and over the output's size; *reason* is '' unless
    something is wrong.
    """

    name: str
    graph: int
    phase: str
    status: str  # agrees, differs or not run
    error: float = 0.0
    relative: float = 0.0
    programs: int = 0
    blocks: str = ""  # such as XBLOCK 128
    instead: str = ""  # Inductor's blocks, where larger ones were used
    reason: str = ""

    def row(self) -> tuple[str, ...]:
        """Return the cells of a table row; the errors depend on the machine."""
        blocks = f"{self.blocks} for {self.instead}" if self.instead else self.blocks
        ran = self.status != "not run"
        error = mark(f"{self.relative:.1g}") if ran else ""
        programs = str(self.programs or "")
        phase = f"{self.graph} {self.phase}"
        return (phase, self.status, programs, blocks, self.name, error)


@dataclass(frozen=True, repr=False)
class Numerics(Result):
    """What each Triton kernel of a dump computed in the interpreter."""

    kernels: tuple[CheckedKernel, ...]

    @property
    def checked(self) -> int:
        """The number of kernels that agree with eager."""
        return sum(k.status == "agrees" for k in self.kernels)

    @property
    def share(self) -> float:
        """The fraction of kernels that agree with eager; 1 when there is none."""
        return self.checked / len(self.kernels) if self.kernels else 1.0

    @property
    def ok(self) -> bool:
        """Whether no kernel differs from eager."""
        return all(k.status != "differs" for k in self.kernels)

    def table(self) -> Table:
        """Return a row for each launch."""
        headings = ("graph", "status", "programs", "blocks", "name", "error")
        return Table.of(headings, [k.row() for k in self.kernels])

    def _last(self) -> str:
        if not self.kernels:
            return "no Triton kernel to run"
        total = count(len(self.kernels), "kernel")
        verb = "agrees" if self.checked == 1 else "agree"
        lines = [f"{self.checked} of {total} {verb} with eager"]
        lines += dict.fromkeys(
            f"{k.name}: {k.reason}" for k in self.kernels if k.reason
        )
        return "\n".join(lines)

    def __str__(self) -> str:
        table = str(self.table()) if self.kernels else ""
        return "\n".join(filter(None, (table, self._last())))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = self.table()._repr_html_() if self.kernels else ""
        return table + pre(self._last())


def check_numerics(dump: Any, limit_s: float = 120.0) -> Numerics:
    """Return how each Triton kernel of *dump* compares with eager, run on the CPU.

    Inputs are those of the call that was dumped; a backward gets what the forward
    saved, and normal numbers for its gradients.  An output agrees within 8 times this:
    the relative tolerance of ``torch.testing`` for the graph's narrowest type, of the
    element or the output's root mean square, whichever is larger; plus what the last
    digit of the inputs changes in eager.  A graph may take *limit_s* seconds.

    Raises InputError for a dump that was read from a file: it holds no graphs.
    """
    captured = getattr(dump, "_captured", None)
    if captured is None:
        raise InputError(
            "a dump that was read from a file holds the code but not the graphs: dump "
            "again, and check that with dump_triton(f, x).check_numerics()"
        )
    launches = list(dump.launches)
    # What really ran here names its configurations itself: the GPU is not asked.
    gpu = "h100" if dump.gpu == "this" else gpus.find(dump.gpu).name
    found: list[CheckedKernel] = []
    saved: dict[int, dict[str, Any]] = {}
    with progress("graphs", len(captured)) as bar:
        for graph in captured:
            mine = [launches.pop(0) for _ in graph.launches]
            kernels = [_unchecked(each) for each in mine if each.kind != "library"]
            if kernels or graph.phase == "forward":  # what a backward is given
                with session.undisturbed():
                    found += _check(graph, kernels, saved, gpu, limit_s)
            bar.update()
    return Numerics(tuple(found))


def _unchecked(launch: Any) -> CheckedKernel:
    return CheckedKernel(launch.name, launch.graph, launch.phase, "not run")


def _check(
    graph: Any,
    kernels: list[CheckedKernel],
    saved: dict[int, dict[str, Any]],
    gpu: str,
    limit_s: float,
) -> list[CheckedKernel]:
    """Return *kernels* with what running their *graph* on both sides showed."""
    known = saved.pop(graph.index, {}) if graph.phase == "backward" else {}
    inputs = eager.make_inputs(graph, known)
    order = {"source": graph.source, "chosen": graph.chosen, "seed": eager.SEED}
    order |= {"inputs": inputs, "gpu": gpu}
    started, answer, reason = interpreter().ask(order, limit_s)
    kernels = [
        replace(k, programs=s["programs"], blocks=s["blocks"], instead=s["instead"])
        for k, s in zip(kernels, started, strict=False)
    ] + kernels[len(started) :]
    own = answer.get("own", [])
    try:
        wanted = eager.values(graph, inputs, own)
        nudged = eager.values(graph, [eager.nudged(value) for value in inputs], own)
    except Exception as error:  # an operation of the program's, whichever it is
        why = reason or f"eager cannot run: {_line(error)}"
        return [replace(k, reason=why) for k in kernels]
    if graph.phase == "forward":
        saved[graph.index] = eager.by_node_name(graph, wanted)
    if reason:
        return _stopped(kernels, len(started), reason)
    outputs, launches = answer["outputs"], answer["launches"]
    got = eager.named_values(
        graph, outputs, answer["inputs"], [b for before, _ in own for b in before]
    )
    if len(outputs) != len(eager.output_nodes(graph)) or len(launches) != len(kernels):
        why = "the module gave another number of outputs or launches"
        return [replace(k, status="differs", reason=why) for k in kernels]
    limit = _tolerance(graph)
    found = {n: _difference(wanted[n], got[n], nudged[n], limit) for n in wanted}
    return [_verdict(k, n, found) for k, n in zip(kernels, launches, strict=True)]


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


def _stopped(
    kernels: list[CheckedKernel], started: int, reason: str
) -> list[CheckedKernel]:
    """Return *kernels*, the last of those *started* being the one that failed."""
    if not kernels:
        return []
    failed = kernels[max(started - 1, 0)].name
    reasons = [reason if k.name == failed else f"{failed} failed" for k in kernels]
    return [replace(k, reason=r) for k, r in zip(kernels, reasons, strict=True)]


# --- comparing ---------------------------------------------------------------------

_TOLERANCES = {  # relative, as in torch.testing.assert_close
    torch.bfloat16: 1.6e-2,
    torch.float16: 1e-3,
    torch.float32: 1.3e-6,
    torch.float64: 1e-7,
}


def _tolerance(graph: Any) -> float:
    """Return the tolerance of the narrowest type that *graph* computes in."""
    values = [node.meta.get("val") for node in graph.aten.graph.nodes]
    kinds = {v.dtype for v in values if isinstance(v, torch.Tensor)}
    return max((_TOLERANCES.get(kind, 0.0) for kind in kinds), default=0.0)


def _difference(
    wanted: Any, got: Any, nudged: Any, tolerance: float
) -> tuple[float, float, bool]:
    """Return the largest absolute and relative difference, and whether it is fine.

    What eager itself cannot tell is fine: as far as *nudged* is from *wanted*, which
    are the same but for the last digit of the inputs.
    """
    far = math.inf, math.inf, False
    if not isinstance(wanted, torch.Tensor) or not isinstance(got, torch.Tensor):
        return (0.0, 0.0, True) if wanted == got else far
    if wanted.shape != got.shape or wanted.dtype != got.dtype:
        return far
    a, b, c = wanted.double(), got.double(), nudged.double()
    alike = (a == b) | (a.isnan() & b.isnan())
    if bool(alike.all()):
        return 0.0, 0.0, True
    if not bool((a.isfinite() & b.isfinite() | alike).all()):
        return far
    a, b, c = (x[a.isfinite()] for x in (a, b, c))
    off, size = (a - b).abs(), a.abs().clamp(min=float(a.square().mean().sqrt()))
    unsure = float((a - c).abs().nan_to_num(0.0, 0.0).max())
    exact = not wanted.is_floating_point()
    allowed = 0 * size if exact else SLACK * (tolerance * size + unsure)
    relative = off / size.clamp(min=torch.finfo(torch.float64).tiny)
    return float(off.max()), float(relative.max()), bool((off <= allowed).all())


def _verdict(
    kernel: CheckedKernel, launch: dict[str, Any], found: dict[str, Any]
) -> CheckedKernel:
    """Return *kernel* with its verdict, and what is wrong where it differs."""
    bad = [name for name, (*_, fine) in found.items() if not fine]
    wrote = [name for i, name in enumerate(found) if i in launch["outputs"]]
    errors = [found[name][:2] for name in wrote or found] or [(0.0, 0.0)]
    error, relative = (max(column) for column in zip(*errors, strict=True))
    status, reason = "agrees", ""
    if bad:
        mine = [name for name in wrote if name in bad]
        status, reason = "differs", f"wrong: {', '.join(mine or bad)}"
        reason += ", which it writes" if mine else ""
    if launch["own"]:
        status = "not run"
        reason = "it ran, but a kernel of your own has no eager twin to agree with"
    return replace(kernel, status=status, error=error, relative=relative, reason=reason)
