"""A/A: what each tool says about a function raced against itself.

A tool that calls two identical functions different is wrong, by definition.
``compare`` answers in words; the plain loop and ``torch.utils.benchmark`` have no
verdict, so theirs is what people do: more than 1 % apart counts as different.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from torch.utils.benchmark import Timer

from helpers import compare
from tests import records
from tests.benchmarks.common import neighbours

SAME = 0.01


def workloads() -> dict[str, tuple[Callable, torch.Tensor]]:
    """Return {name: (function, input)}: about 15 µs, 1 ms and 5 ms a call."""
    torch.manual_seed(0)
    return {
        "15 µs": (lambda x: torch.sin(x).mul(2).add(1), torch.randn(4096)),
        "1 ms": (lambda x: torch.sin(x).mul(2), torch.randn(1_500_000)),
        "5 ms": (lambda x: x @ x, torch.randn(700, 700)),
    }


def by_loop(f: Callable, x: torch.Tensor) -> float:
    """Return the mean of half a second of calls."""
    f(x)
    begin, calls = time.perf_counter(), 0
    while time.perf_counter() - begin < 0.5:
        f(x)
        calls += 1
    return (time.perf_counter() - begin) / calls


def by_timer(f: Callable, x: torch.Tensor) -> float:
    """Return the median of half a second of ``blocked_autorange``."""
    threads = torch.get_num_threads()
    timer = Timer("f(x)", globals={"f": f, "x": x}, num_threads=threads)
    return timer.blocked_autorange(min_run_time=0.5).median


TOOLS = {"compare": None, "plain loop": by_loop, "torch.utils.benchmark": by_timer}


def race(tool: str, f: Callable, x: torch.Tensor) -> tuple[float, bool, float]:
    """Return ratio, whether it was called different, half width of the interval."""
    if seconds := TOOLS[tool]:
        ratio = seconds(f, x) / seconds(f, x)
        return ratio, abs(ratio - 1) > SAME, float("nan")
    found = compare(f, f, x)
    low, high = found.interval
    wrong = found.verdict in ("faster", "slower")
    return found.speedup, wrong, (high / low) ** 0.5 - 1


def main(runs: int) -> None:
    """Race every workload against itself, quiet and beside a busy neighbour."""
    rows = []
    for busy in (False, True):
        for name, (f, x) in workloads().items():
            for tool in TOOLS:
                times = runs if tool == "compare" else runs // 5
                with neighbours(int(busy), rest=0.03):
                    found = [race(tool, f, x) for _ in range(times)]
                off = [abs(ratio - 1) for ratio, _, _ in found]
                width = median(half for *_, half in found)
                rows.append(
                    {
                        "machine is": "beside a neighbour" if busy else "quiet",
                        "workload": name,
                        "tool": tool,
                        "runs": times,
                        "called different": sum(wrong for _, wrong, _ in found),
                        "largest error": f"{max(off):.2%}",
                        "half width": "none" if width != width else f"{width:.2%}",
                    }
                )
                print(*rows[-1].values(), sep=" | ", flush=True)
    records.write("benchmarks/aa", rows)
    print(records.markdown(rows))
