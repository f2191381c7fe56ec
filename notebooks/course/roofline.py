"""The two ceilings of a machine, and where programs lie below them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

from helpers import eager_bytes, kernels
from helpers.plots import CEILING, COLOURS, QUIET, Picture, styled
from helpers.text import Table, mark, seconds, size


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

    shapes = [tensor.to("meta") for tensor in inputs]  # nothing is computed
    with FlopCounterMode(display=False) as products, Pointwise():
        function(*shapes)
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

    def least(self, operations: float, moved: float) -> float:
        """Return the seconds that neither ceiling lets a program beat."""
        return max(moved / self.bytes_per_s, operations / self.operations_per_s)


def product_rate(device: str, width: int = 2048) -> float:
    """Return the most operations a second that a square float32 product reached."""
    a = torch.randn(width, width, device=device)
    out = torch.empty_like(a)
    times = call_seconds(lambda: torch.mm(a, a, out=out))
    return 2 * width**3 / times[0]


def seconds_table(bytes_per_s: float, programs: Sequence[Timed]) -> Table:
    """Return bytes, the time that a copy of them takes, and the time taken."""
    rows = []
    for one in programs:
        copied = one.bytes / bytes_per_s
        share = f"{copied / one.median:.0%}"
        cells = mark(seconds(copied)), mark(one.middle), mark(share)
        rows.append((one.name, size(one.bytes), *cells))
    headings = ("program", "bytes", "a copy of as much")
    return Table.of((*headings, "timed", "copy / timed"), rows)


# --- pictures ---------------------------------------------------------------


@styled
def trips_picture(eager: dict[int, float], compiled: dict[int, float]) -> Picture:
    """Draw how often an array goes to or from memory, by a chain's length."""
    figure = Figure(figsize=(9, 3.9), layout="constrained")
    axes = figure.subplots()
    alt = "Trips of one array to or from memory, by the length of the chain."
    for side, (name, trips) in enumerate(
        {"eager": eager, "compiled": compiled}.items()
    ):
        look = {"color": COLOURS[side], "marker": "os"[side]}
        line = axes.plot([*trips], [*trips.values()], label=name, **look)
        line[0].set_linestyle(("-", "--")[side])
        for length, many in trips.items():
            axes.annotate(
                f"{many:g}",
                (length, many),
                xytext=(0, -22 if side else 10),
                textcoords="offset points",
                ha="center",
            )
        told = ", ".join(f"{n}: {count:g}" for n, count in trips.items())
        alt += f" {name}: {told}."
    axes.set(xlabel="operations in the chain", ylabel="trips of the array")
    axes.set_title("how often an array goes to or from memory")
    top = max(eager.values())
    axes.set(xticks=[*eager], ylim=(-0.12 * top, 1.2 * top))
    axes.set_yticks([top / 2, top])
    axes.legend(loc="upper left")
    return Picture(figure, alt)


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


@styled
def chain_times(
    machine: Ceilings, programs: dict[str, dict[int, Timed]], numbers: int
) -> Picture:
    """Draw what the ceilings predict for chains, and what was timed."""
    lengths = [2**k for k in range(9)]
    free = machine.balance * 8  # up to here, arithmetic costs no time
    steps = sorted({*lengths, free})
    figure = Figure(figsize=(9.5, 4.8), layout="constrained")
    axes = figure.subplots()
    alt = "Seconds by the length of a chain; lines: what the ceilings allow."
    for side, (name, timed) in enumerate(programs.items()):
        look = {"color": COLOURS[side]}
        least = [machine.least(n * numbers, _moved(n, numbers, side)) for n in steps]
        style = ("-", "--")[side]
        axes.plot(steps, least, ls=style, label=f"{name}, at best", **look)
        points = [timed[n] for n in timed]
        middle = [one.median for one in points]
        spread = [
            [one.median - one.low for one in points],
            [one.high - one.median for one in points],
        ]
        look |= {"marker": "os"[side], "ls": "", "capsize": 5}
        axes.errorbar([*timed], middle, yerr=spread, label=f"{name}, timed", **look)
        told = ", ".join(f"{n}: {seconds(one.median)}" for n, one in timed.items())
        alt += f" {name}: {mark(told)}."
    axes.axvline(free, color=CEILING, ls=":")
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: seconds(value))
    axes.set(xlabel="operations in the chain", ylabel="one call takes")
    axes.set_title("a chain of multiplications, eager and compiled")
    figure.legend(loc="outside upper left", ncols=2)
    alt += f" Arithmetic decides from {mark(f'{free:.0f}')} operations on."
    return Picture(figure, alt)


def _moved(length: int, numbers: int, side: int) -> int:
    """Return the bytes of a float32 chain: each step's two trips, or two."""
    return 8 * numbers * (1 if side else length)


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
