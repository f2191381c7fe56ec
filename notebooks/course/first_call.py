"""What a first call costs: its phases, what it leaves, who else works.

    cost = first_step(torch.compile(net), x)      in an empty cache folder
    bars({"whole": cost.seconds, ...})

Seconds come from torch's own records of its compiles, counts from these and
from the folder that the compile has filled.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any

import torch
from torch._dynamo import utils
from torch._dynamo.callback import callback_handler
from torch._dynamo.exc import FailOnRecompileLimitHit
from torch._inductor.codecache import cache_dir
from torch._inductor.cpu_vec_isa import pick_vec_isa
from torch._inductor.utils import fresh_cache

from course import drawing
from course.drawing import BLUE, GREEN, VERMILION, Look
from course.lowering import past_the_caches
from course.words import silence, unlogged
from helpers.plots import Picture
from helpers.text import Table, mark, seconds

# In the order of the work; each holds only what it took for itself.
PHASES = {
    "Dynamo": BLUE,
    "AOTAutograd": Look("#E69F00", "\\\\"),
    "lowering": GREEN,
    "autotuning": Look("#F0E442", "xx"),
    "writing": Look("#56B4E9", "--"),
    "building": VERMILION,
}

# ------------------------------------------------------------ seconds by phase


def phases(record: Any) -> dict[str, float]:
    """Return the seconds that each phase of one compile took for itself.

    torch notes no Dynamo in the record of a backward.
    """

    def of(name: str) -> float:
        return (getattr(record, name, None) or 0) / 1e6

    def whole(name: str) -> float:
        return of(f"{name}_cumulative_compile_time_us")

    aot = whole("aot_autograd") or whole("backward")
    inductor, written = whole("inductor"), whole("inductor_code_gen")
    # Named for Triton, and counts the wait for C++ as well.
    built = of("triton_compile_time_us")
    tuned = of("compile_time_autotune_time_us")
    own = {
        "Dynamo": whole("dynamo") - aot,
        "AOTAutograd": aot - inductor,
        "lowering": inductor - written - tuned,
        "autotuning": tuned,
        "writing": written - built,
        "building": built,
    }
    return {name: max(0.0, took) for name, took in own.items()}


def bars(rows: Mapping[str, Mapping[str, float]]) -> Picture:
    """Return one bar of phases for each row, the first row on top."""
    tuned = any(row["autotuning"] for row in rows.values())
    shown = [name for name in PHASES if tuned or name != "autotuning"]
    words = [
        f"{name}: " + ", ".join(f"{part} {mark(seconds(row[part]))}" for part in shown)
        for name, row in rows.items()
    ]
    return drawing.bars(
        {name: [(part, row[part]) for part in shown] for name, row in rows.items()},
        {name: PHASES[name] for name in shown},
        alt=f"Seconds by phase. {'; '.join(words)}.",
        unit="seconds",
        title="what a first call spends its time on",
    )


# ------------------------------------------------------- what a compile leaves


def written() -> int:
    """Count the kernels that the compiles wrote into the cache folder in use now."""
    texts = [file.read_text() for file in Path(cache_dir()).rglob("*.py")]
    programs = [text for text in texts if "AsyncCompile" in text]
    return len(re.findall(r"^\w+ = async_compile\..*", "\n".join(programs), re.M))


@dataclass(frozen=True)
class Cost:
    """What the first step of a model cost, forward and backward together."""

    compiles: int
    nodes: int
    kernels: int
    seconds: Mapping[str, float]

    @classmethod
    def of(cls, records: Sequence[Any], kernels: int) -> Cost:
        nodes = sum(getattr(r, "graph_node_count", None) or 0 for r in records)
        parts = [phases(record) for record in records]
        took = {name: sum(part[name] for part in parts) for name in PHASES}
        return cls(len(records), nodes, kernels, took)


def first_step(compiled: Callable[..., Any], x: torch.Tensor) -> Cost:
    """Run a forward and a backward in an empty cache folder, and count."""
    torch.compiler.reset()
    utils.clear_compilation_metrics()
    # Asks the C++ compiler for each kind of vector, once in a process: not again
    # in each folder that is empty.
    pick_vec_isa()
    with fresh_cache():
        compiled(x).sum().backward()
        return Cost.of(utils.get_compilation_metrics(), written())


def table(costs: Mapping[tuple[str, int], Cost]) -> Table:
    """Return the counts of each way and depth, in order."""
    headings = ["compiled", "blocks", "compiles", "graph nodes", "kernels"]
    rows = []
    for (way, n), cost in sorted(costs.items(), key=lambda row: row[0]):
        took = mark(seconds(sum(cost.seconds.values())))
        rows.append([way, n, cost.compiles, cost.nodes, cost.kernels, took])
    return Table.of([*headings, "time"], rows)


# ----------------------------------------------------------- counting compiles


@contextmanager
def compiles() -> Iterator[list[Any]]:
    """Collect one entry for each compile in the block, by torch's callback."""
    seen: list[Any] = []
    callback_handler.register_start_callback(seen.append)
    try:
        yield seen
    finally:
        with suppress(ValueError):  # torch.compiler.reset() has removed it
            callback_handler.remove_start_callback(seen.append)


# ------------------------------------------------------- threads and processes


def all_at_once(call: Callable[..., Any], *inputs: Any, threads: int) -> list[Any]:
    """Call from so many threads at the same time; return what each got.

    Without torch's warnings, which would come from several threads at once.
    """
    gate = Barrier(threads)

    def go(_: int) -> Any:
        gate.wait()
        return call(*inputs)

    with unlogged(logging.WARNING), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(go, range(threads)))


def passes(compiled: Callable[..., Any], *inputs: torch.Tensor, **setting: Any) -> bool:
    """Return whether *compiled* passes a gate that has this setting.

    All inputs but the last are the warm-up; the last comes under the stance.
    """
    *warm_up, late = inputs
    torch.compiler.reset()
    with silence(), torch._dynamo.config.patch(**setting):
        try:
            for x in warm_up:
                compiled(x)
            with torch.compiler.set_stance("fail_on_recompile"):
                compiled(late)
        except (RuntimeError, FailOnRecompileLimitHit):
            return False
    return True


def workers(threads: int) -> list[str]:
    """Start Inductor's compile workers, and return what each process is.

    Afterwards, the workers are stopped again.
    """
    import psutil
    from torch._inductor import async_compile, config

    pool = async_compile.AsyncCompile
    async_compile.shutdown_compile_workers()
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    with config.patch(compile_threads=threads):
        pool.warm_pool()
        pool.wait_pool_ready()
        ours = psutil.Process()
        started = [p for p in ours.children(recursive=True) if p.pid not in before]
        found = ["the pool" if p.ppid() == ours.pid else "a worker" for p in started]
    async_compile.shutdown_compile_workers()
    return found


# ------------------------------------------------------------------ autotuning


def tuning(function: Callable[..., Any], *inputs: Any, mode: str) -> tuple[int, int]:
    """Compile twice in one new folder; return how many candidates each timed.

    The second may use no cached graph.  torch's table of candidates stays away:
    lesson 12 shows it.
    """
    found = []
    with (
        fresh_cache(),
        silence(),
        torch.no_grad(),
    ):
        for _ in range(2):
            utils.counters.clear()
            with past_the_caches():
                again = torch.compile(lambda *x: function(*x), mode=mode)
                again(*inputs)
            found.append(_timed())
    return found[0], found[1]


def _timed() -> int:
    """Return how often torch's benchmarker ran, on any device."""
    counted = utils.counters["inductor"]
    names = [n for n in counted if re.search(r"\.benchmark_(cpu|gpu)$", n)]
    return sum(counted[name] for name in names)
