"""The two ceilings of a machine, and where programs lie below them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

from helpers import eager_bytes, kernels
from helpers.plots import CEILING, COLOURS, QUIET, Picture, styled
from helpers.text import mark, seconds


def operations(function: Callable[..., Any], *inputs: Any) -> int:
    """Return the arithmetic of ``function(*inputs)``, for tensors.

    Products as FlopCounterMode counts them; each pointwise operation is one
    for each number that it makes, a tanh as much as an addition.
    """
    made = 0

    class Pointwise(TorchDispatchMode):
        def __torch_dispatch__(
            self,
            operation: Any,
            types: Any,
            given: Any = (),
            named: Any = None,
        ) -> Any:
            nonlocal made
            result = operation(*given, **(named or {}))
            if torch.Tag.pointwise in operation.tags:
                made += result.numel()
            return result

    fake = FakeTensorMode(allow_non_fake_inputs=True)  # nothing is computed
    with fake, FlopCounterMode(display=False) as products, Pointwise():
        function(*map(fake.from_tensor, inputs))
    return made + products.get_total_flops()


@dataclass(frozen=True)
class Timed:
    """A program: what it computes and moves, and how long its calls took."""

    name: str
    operations: int
    bytes: int
    low: float
    median: float
    high: float
    side: int = 0  # 0: eager, 1: compiled

    def __str__(self) -> str:
        return f"{self.name}: {mark(self.middle)}"

    @property
    def middle(self) -> str:
        """The middle half of the times, as text."""
        return f"{seconds(self.low)} to {seconds(self.high)}"

    @property
    def intensity(self) -> float:
        """Operations for each byte."""
        return self.operations / self.bytes

    @property
    def rates(self) -> tuple[float, float, float]:
        """Operations a second: of the slow, the median and the quick call."""
        times = (self.high, self.median, self.low)
        return tuple(self.operations / time for time in times)


def call_seconds(function: Callable[..., Any], *inputs: Any) -> list[float]:
    """Return the seconds of a call, from several blocks, in order.

    With all threads: Timer's own default is one.
    """
    timer = Timer(
        "function(*inputs)",
        globals={"function": function, "inputs": inputs},
        num_threads=torch.get_num_threads(),
    )
    start = time.perf_counter()
    function(*inputs)
    once = time.perf_counter() - start
    run = timer.blocked_autorange(min_run_time=max(0.1, 3 * once))
    return sorted(run.times)


def timed(
    name: str,
    function: Callable[..., Any],
    *inputs: Any,
    compiled: bool = False,
) -> Timed:
    """Return the program with its counts, its median and its middle half."""
    counted = (kernels if compiled else eager_bytes)(function, *inputs)
    work = operations(function, *inputs)
    run = torch.compile(function) if compiled else function
    if compiled:
        run(*inputs)
    times = call_seconds(run, *inputs)
    quartiles = (times[round(share * (len(times) - 1))] for share in (0.25, 0.5, 0.75))
    return Timed(name, work, counted.bytes, *quartiles, int(compiled))


@dataclass(frozen=True)
class Ceilings:
    """The ceilings: bytes a second of a copy, operations of a product."""

    bytes_per_s: float
    operations_per_s: float

    @property
    def balance(self) -> float:
        """Operations that fit into the time of one byte."""
        return self.operations_per_s / self.bytes_per_s


def product_rate(device: str, width: int = 2048) -> float:
    """Return the most operations a second that a square float32 product reached."""
    a = torch.randn(width, width, device=device)
    out = torch.empty_like(a)
    times = call_seconds(lambda: torch.mm(a, a, out=out))
    return 2 * width**3 / times[0]


# --- pictures ---------------------------------------------------------------


@styled
def roofline(machine: Ceilings, programs: Sequence[Timed]) -> Picture:
    """Draw both ceilings, and each program below them."""
    figure = Figure(figsize=(10.5, 5.6), layout="constrained")
    axes = figure.subplots()
    ends = [one.intensity for one in programs] + [machine.balance]
    low, high = min(ends) / 2.5, max(ends) * 2.5
    _ceilings(axes, machine, low, high)
    alt = (
        f"A roofline. Memory gives {mark(f'{machine.bytes_per_s / 1e9:.3g}')} "
        "GB/s, arithmetic "
        f"{mark(f'{machine.operations_per_s / 1e9:.3g}')} billion operations "
        f"a second; they meet at {mark(f'{machine.balance:.2g}')} operations "
        "a byte."
    )
    for number, one in enumerate(programs, 1):
        slow, middle, quick = (rate / 1e9 for rate in one.rates)
        axes.errorbar(
            one.intensity,
            middle,
            yerr=[[middle - slow], [quick - middle]],
            color=COLOURS[one.side],
            marker="os"[one.side],
            ls="",
            capsize=5,
            label=f"{number}  {one.name}",
        )
        axes.annotate(
            str(number),
            (one.intensity, middle),
            xytext=(-16, 4) if one.side or number == 1 else (9, -13),
            textcoords="offset points",
            fontweight="bold",
        )
        alt += (
            f" {number}: {one.name}, {one.intensity:.3g} operations a byte, "
            f"{mark(f'{slow:.3g} to {quick:.3g}')}."
        )
    axes.set(xscale="log", yscale="log", xlim=(low, high))
    axes.set_ylim(top=3e-9 * machine.operations_per_s)  # room for the roof's name
    axes.set_title("what memory and arithmetic allow, and what programs reach")
    _plain_ticks(axes)
    axes.set_xlabel("operations for each byte that is moved")
    axes.set_ylabel("billion operations a second")
    figure.legend(loc="outside lower center", ncols=2)
    return Picture(figure, alt)


def _ceilings(axes: Any, machine: Ceilings, low: float, high: float) -> None:
    ridge, top = machine.balance, machine.operations_per_s / 1e9
    axes.plot(
        [low, ridge, max(high, ridge)],
        [low * machine.bytes_per_s / 1e9, top, top],
        color=CEILING,
        lw=3,
    )
    axes.axvline(ridge, color=QUIET, ls=":", lw=1)
    middle = (low * ridge) ** 0.5
    axes.annotate(
        "memory",
        (middle, middle * machine.bytes_per_s / 1e9),
        xytext=(-14, 10),
        textcoords="offset points",
        ha="right",
        color=CEILING,
    )
    axes.annotate(
        "arithmetic",
        ((ridge * max(high, ridge)) ** 0.5, top),
        xytext=(0, 7),
        textcoords="offset points",
        ha="center",
        color=CEILING,
    )


def _plain_ticks(axes: Any) -> None:
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
