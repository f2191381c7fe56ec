"""What a GPU that is not here could gain by compiling: bounds, and an estimate.

Counted are eager's aten calls and Inductor's own launches, each with its bytes and the
operations of its products.  The maker's peaks of the chip turn them into times.
Nothing was timed: a bound can be refuted by a measurement, and an estimate has the
error that it was found to have against times which others published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from .. import session
from ..codegen import Kernel
from ..errors import InputError
from ..flops import flops, needed
from ..results import TableResult
from ..tensors import memory_of, tensors
from ..text import Table, count, progress, seconds, size
from ..traffic import BY_INDEX, Counting, bytes_of, counted
from . import gpus
from .dump import Dump, dump_triton
from .roofline import PARTS, roof

# What the host takes for a call of eager, for a launch of compiled code, before the
# first launch of a graph, and before one whose launches are recorded.  The first and
# the last are what tiny programs took on an H100 with torch 2.5, the others those of
# https://github.com/meta-pytorch/tritonbench/pull/1017, with torch of 2026.
EAGER_CALL_S, LAUNCH_S, ENTER_S, REPLAY_S = 12e-6, 8e-6, 35e-6, 60e-6

# By how much the speed-up of an estimate was off, in the median and at most, by what
# decides eager's time, or where launches are recorded: data/published/table.json.
FOUND_ERRORS = {
    "host": (0.12, 0.78),
    "arithmetic": (0.07, 0.63),
    "memory": (0.05, 0.09),
    "recorded": (0.1, 2.52),
}
_RECORDED = ("reduce-overhead", "max-autotune")


@dataclass(frozen=True)
class Side:
    """One side, eager or compiled: what the GPU and the host do, in seconds.

    *products*, *attention* and *between* add up to what the GPU needs, by the estimate;
    *host* is what sending it off needs meanwhile.  *estimate* is a call: no launch
    begins before it is sent.  *bound* is what no run can undercut.
    """

    launches: int
    bytes: int
    products: float
    attention: float
    between: float
    host: float
    estimate: float
    bound: float
    decides: str
    """What takes longest: ``host``, ``memory`` or ``arithmetic``."""

    @property
    def gpu(self) -> float:
        """The seconds that the GPU works."""
        return self.products + self.attention + self.between


_HELPS = {
    "host": "launches: fewer of them, or a larger batch",
    "memory": "bytes: fusion, which compiling does, or a smaller dtype",
    "arithmetic": "operations: another dtype or TF32; fusion changes little",
}


@dataclass(frozen=True, repr=False)
class Forecast(TableResult):
    """What compiling could buy on *gpu*: nothing in it was timed."""

    gpu: str
    mode: str | None
    training: bool
    eager: Side
    compiled: Side
    notes: tuple[str, ...] = ()
    dump: Dump | None = field(default=None, compare=False)
    """The launches that were counted; in no file."""

    @property
    def speedup(self) -> float:
        """Eager's estimate divided by the compiled one."""
        return self.eager.estimate / self.compiled.estimate

    @property
    def error(self) -> tuple[float, float]:
        """How far such speed-ups were off: in the median, and at most."""
        recorded = self.mode in _RECORDED
        return FOUND_ERRORS["recorded" if recorded else self.eager.decides]

    @property
    def verdict(self) -> str:
        """Return ``faster``, ``slower``, or ``cannot tell``: less than the error."""
        off = max(self.speedup, 1 / self.speedup) - 1
        if off <= self.error[0]:
            return "cannot tell"
        return "faster" if self.speedup > 1 else "slower"

    def table(self) -> Table:
        """Return a row for each part of a call, eager and compiled."""
        rows = []
        for part in (*PARTS, "gpu", "host", "estimate", "bound"):
            cells = (seconds(getattr(side, part)) for side in self._sides)
            rows.append(("never under" if part == "bound" else part, *cells))
        rows.append(("launches", *(s.launches for s in self._sides)))
        rows.append(("bytes", *(size(s.bytes) for s in self._sides)))
        title = f"{gpus.GPUS[self.gpu].title}: a forecast, nothing was timed"
        return Table.of(("", "eager", "compiled"), rows, title)

    @property
    def _sides(self) -> tuple[Side, Side]:
        return self.eager, self.compiled

    def _last(self) -> str:
        middle, most = self.error
        said = f"{self.verdict}: {self.speedup:.2f}x by estimate"
        lines = [
            f"{said}; published ones, in float32 and without training, differed from "
            f"such by {middle:.0%} in the median, {most:.0%} at most",
        ]
        recorded = self.mode in _RECORDED
        for name, side in zip(("eager", "compiled"), self._sides, strict=True):
            helps = _HELPS[side.decides]
            if side.decides == "host" and side.host > REPLAY_S and not recorded:
                helps += ", or mode='reduce-overhead'"
            lines.append(f"{name}: {side.decides} decides; what helps: {helps}")
        call, enter, launch = map(seconds, (EAGER_CALL_S, *_sending(self.mode)))
        each = "to replay it" if recorded else f"to enter a graph, {launch} a launch"
        lines.append(f"host, as assumed: {call} a call of eager, {enter} {each}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


@dataclass(frozen=True, repr=False)
class Forecasts(TableResult):
    """A forecast per value of one parameter, such as the batch."""

    parameter: str
    values: tuple[int, ...]
    forecasts: tuple[Forecast, ...]

    @property
    def crossing(self) -> int | None:
        """The first value at which the host no longer decides eager's time, or None."""
        both = zip(self.values, self.forecasts, strict=True)
        return next((v for v, each in both if each.eager.decides != "host"), None)

    def plot(self) -> Any:
        """Return a picture: estimates, bounds, and where the host stops deciding."""
        from ..plots import plot_forecasts

        return plot_forecasts(self)

    def table(self) -> Table:
        """Return a row per value: both estimates, the speed-up, and what decides."""
        rows = []
        for value, each in zip(self.values, self.forecasts, strict=True):
            times = (seconds(side.estimate) for side in (each.eager, each.compiled))
            decides = f"{each.eager.decides}, {each.compiled.decides}"
            rows.append((value, *times, f"{each.speedup:.2f}x", each.verdict, decides))
        heads = self.parameter, "eager", "compiled", "by estimate", "verdict", "decides"
        gpu = gpus.GPUS[self.forecasts[0].gpu].title
        return Table.of(heads, rows, f"{gpu}: a forecast, nothing was timed")

    def _last(self) -> str:
        if self.crossing is None:
            return f"the host decides at every {self.parameter} here"
        return f"eager leaves the host's regime at {self.parameter} {self.crossing}"


def forecast_over(
    make: Callable[[int], tuple[Any, Any]],
    values: Iterable[int],
    *,
    parameter: str = "batch",
    **options: Any,
) -> Forecasts:
    """Return a `forecast` for each of *values* of a *parameter*.

    *make(value)* returns the function and its inputs, one tensor or a tuple; *options*
    go to ``forecast``.  Raises what that raises, and InputError without any value.
    """
    values = tuple(values)
    if not values:
        raise InputError(f"name at least one {parameter}: [1, 4, 16]")
    found = []
    with progress(parameter, len(values)) as bar:
        for value in values:
            fn, inputs = make(value)
            inputs = inputs if isinstance(inputs, tuple) else (inputs,)
            found.append(forecast(fn, *inputs, **options))
            bar.update()
    return Forecasts(parameter, values, tuple(found))


def forecast(
    fn: Callable[..., Any],
    *inputs: Any,
    kwargs: dict[str, Any] | None = None,
    gpu: str = "a100",
    training: bool = False,
    mode: str | None = None,
    dynamic: bool | None = None,
) -> Forecast:
    """Return what compiling *fn* could buy on *gpu*, without one and without a timer.

    ``fn(*inputs, **kwargs)`` runs eagerly on the CPU, twice, on copies of the tensors.
    Eager is its aten calls, compiled are the launches of ``dump_triton`` and what stays
    eager between graphs.  *training* adds the backward, *mode* and *dynamic* are as for
    ``torch.compile``; ``reduce-overhead`` sends all off at once.  Products in float32
    count as TF32 where torch would use it: convolutions, and others by
    ``torch.set_float32_matmul_precision``.

    A **bound** takes the chip's peaks, and the least that must be done: bytes that the
    L2 cannot hold, without rows named by an index; half of attention; of a convolution
    one multiplication a window (Winograd, FFT).  An **estimate** takes the larger of
    bytes and operations for each launch, at shares of the peaks.  Left out: clocks that
    fall, other programs, the library's choice, what stays in the L2, a slow host.

    Raises InputError for an unknown GPU, one or a dtype without published peaks, a
    model that doesn't fit its memory, and what ``dump_triton`` refuses.
    """
    chip, kwargs = gpus.find(gpu), kwargs or {}
    peaks = gpus.peaks(chip)
    _check_memory(fn, inputs, kwargs, chip)
    program, outside = _Working(), _Outside()
    how = {"gpu": chip.name, "training": training, "mode": mode, "dynamic": dynamic}
    with torch.set_grad_enabled(training):
        calls = counted(program, fn, inputs, kwargs, training)
        dump = dump_triton(fn, *inputs, kwargs=kwargs, around=outside, **how)
    graphs = len({graph.index for graph in dump.lowered})
    enter, launch = _sending(mode)
    host = len(dump.launches) * launch + len(outside.calls) * EAGER_CALL_S
    fixed = program.weights, chip, peaks
    return Forecast(
        chip.name,
        mode,
        training,
        _side(calls, 0.0, len(calls) * EAGER_CALL_S, *fixed),
        _side([*dump.launches, *outside.calls], graphs * enter, host, *fixed),
        tuple(_notes(fn, dump, graphs, outside.calls, training)),
        dump,
    )


def _sending(mode: str | None) -> tuple[float, float]:
    """Return the seconds before the first launch of a graph, and those for each."""
    return (REPLAY_S, 0.0) if mode in _RECORDED else (ENTER_S, LAUNCH_S)


def _check_memory(fn: Any, inputs: Any, kwargs: Any, chip: gpus.Gpu) -> None:
    every = session.tensors_of(fn, inputs, kwargs)
    held = {memory_of(t): t for t in every if t.layout is torch.strided}
    needs = sum(tensor.untyped_storage().nbytes() for tensor in held.values())
    if needs > chip.memory:
        raise InputError(
            f"weights and inputs alone are {size(needs)}, and {chip.title} has "
            f"{size(chip.memory)}: name another GPU, or a smaller dtype"
        )


class _Working(Counting):
    """Notes each aten call as a launch; *weights* are the bytes that were there."""

    def __init__(self) -> None:
        super().__init__()
        self.unread, self.weights = set[int](), 0  # storages, bytes

    def begin(self, *objects: Any) -> None:
        self.unread |= set(map(memory_of, session.tensors_of(*objects)))

    def noted(self, func: Any, moved: int, given: Any, result: Any) -> Kernel:
        name, _ = super().noted(func, moved, given, result)
        done = int(flops(func, *given, result))
        dtype = str(next(tensors((given, result))).dtype).removeprefix("torch.")
        results = next(tensors(result)).numel() if done else 0
        by_index = name in BY_INDEX
        for tensor in () if by_index else tensors(given):  # it is read whole
            if (place := memory_of(tensor)) in self.unread:
                self.unread.remove(place)
                self.weights += bytes_of(tensor)
        least = int(needed(func, given[0], done)) if done else 0
        return Kernel(
            name,
            language="eager",
            phase="",
            ops=(name,),
            bytes=moved,
            flops=done,
            dtype=dtype,
            results=results,
            gathered=moved * by_index,
            needed=least,
        )


class _Outside(_Working):
    """The same of what torch.compile leaves out in the block."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True


def _side(
    calls: Sequence[Any],
    enter: float,
    host: float,
    weights: int,
    chip: gpus.Gpu,
    peaks: gpus.Peaks,
) -> Side:
    """Return what *calls*, or launches, cost: sent one by one after *enter*."""
    launches = [roof(call, chip, peaks) for call in calls]
    done = enter
    for place, launch in enumerate(launches, 1):
        done = max(done, enter + host * place / len(launches)) + launch.took

    took = dict.fromkeys((*PARTS, "memory", "arithmetic"), 0.0)
    for launch in launches:
        took[launch.part] += launch.took
        took[launch.decides] += launch.took
    parts = {part: took[part] for part in PARTS}
    gpu = max(("arithmetic", "memory"), key=took.__getitem__)
    moved = sum(call.bytes for call in calls)  # less than the weights where eager alone
    must = max(sum(x.beyond for x in launches), min(weights, moved) - chip.l2)
    return Side(
        launches=len(calls),
        bytes=moved,
        **parts,
        host=enter + host,
        estimate=done,
        bound=max(sum(x.least for x in launches), must / peaks.bandwidth),
        decides="host" if enter + host > sum(parts.values()) else gpu,
    )


def _notes(
    fn: Any, dump: Dump, graphs: int, outside: Sequence[Kernel], training: bool
) -> Iterable[str]:
    """Yield what the reader must know of this program."""
    if graphs == 0:
        yield "nothing was captured: both sides are eager"
    elif graphs > 1 or outside:
        stays = count(len(outside), "call")
        yield f"{count(graphs, 'graph')}, and {stays} between them that stay eager"
        if training:
            yield "in training the backward of what stays eager counts for eager alone"
    if any(isinstance(part, nn.RNNBase) for part in getattr(fn, "modules", tuple)()):
        yield "a recurrent layer counts as on a CPU: on a GPU it is one call of cuDNN's"
    if any("u0" in graph.source for graph in dump.graphs):
        yield "a size that only the data tell is torch's guess on the compiled side"
