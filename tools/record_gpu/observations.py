"""What is recorded besides times: the machine, texts of CUDA graphs, launches, sources.

All of it needs a GPU but the bandwidth of a copy.
"""

from __future__ import annotations

import ctypes
import logging
import re
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from helpers.capture import Watch
from helpers.gpu import gpus
from helpers.gpu.dump import dump_triton
from helpers.timing import copy_bandwidth
from tools.record_gpu import programs
from tools.record_gpu.cases import (
    LAST,
    Case,
    Facts,
    Outcome,
    Setting,
    cold,
    count_launches,
    reserved,
)
from tools.record_gpu.experiments import MODES, model

# --- the machine ------------------------------------------------------------------


def machine(setting: Setting) -> Iterator[Case]:
    """Yield how fast the machine copies, and what the driver says of it."""
    for size in setting.size((2**26, 2**29, 2**31), (2**20,)):
        run = partial(_copy, size=size)
        yield Case("machine", "copy bandwidth", size, run, rank=0, bytes=2 * size)
    for moment in ("idle", "busy"):
        run = partial(_state, busy=moment == "busy")
        yield Case("machine", "state", moment, run, rank=0, gpu=True)


def _copy(setting: Setting, size: int) -> Outcome:
    budget = 0.01 if setting.quick else 1.0
    bandwidth = copy_bandwidth(size, setting.device, budget)
    return Outcome(facts={"GB/s": bandwidth.bytes_per_s / 1e9})


_ASKED = ("clocks.sm", "clocks.mem", "clocks.max.sm", "temperature.gpu", "power.draw")


def _state(setting: Setting, busy: bool) -> Outcome:
    """Ask the driver for clocks, temperature and power, perhaps under load."""
    properties = torch.cuda.get_device_properties(0)
    facts: Facts = {
        "multiprocessors": properties.multi_processor_count,
        "memory, bytes": properties.total_memory,
        "L2, bytes": getattr(properties, "L2_cache_size", 0),
        "capability": f"{properties.major}.{properties.minor}",
        "CUDA": str(torch.version.cuda),
    }
    if busy:  # launched, and not waited for: the GPU works while the driver is asked
        a = setting.randn(8192, 8192, dtype=torch.bfloat16)
        for _ in range(1000):
            a @ a
    query = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(_ASKED)}"]
    query.append("--format=csv,noheader")
    try:
        answers = subprocess.check_output(query, text=True, timeout=30).split(",")
        facts |= zip(_ASKED, map(str.strip, answers), strict=False)
    except (OSError, subprocess.SubprocessError) as error:
        facts["nvidia-smi"] = type(error).__name__
    torch.cuda.synchronize()
    return Outcome(facts=facts)


# --- what CUDA graphs say ---------------------------------------------------------


def _square(x: torch.Tensor) -> torch.Tensor:
    return x * x


def _counter(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)  # writes into the caller's tensor
    return x * x


def _on_cpu(x: torch.Tensor) -> torch.Tensor:
    return x + (torch.arange(64.0) * 2).to(x.device)


def _keep(
    x: torch.Tensor, f: Callable = _square, clone: bool = False, mark: bool = False
) -> float:
    """Return the sum of the fourth of five results, read after the fifth."""
    compiled, results = torch.compile(f, mode="reduce-overhead"), []
    for _ in range(5):
        if mark:
            torch.compiler.cudagraph_mark_step_begin()
        result = compiled(x)
        results.append(result.clone() if clone else result)
    return results[-1 if mark else -2].sum().item()


def _sizes(x: torch.Tensor, **options: Any) -> float:
    compiled = torch.compile(_square, options={"triton.cudagraphs": True, **options})
    return sum(
        compiled(x[:n].clone()).sum().item() for n in range(2, 60) for _ in "123"
    )


# Each takes a tensor of 64 rows; what it raises is what it is run for.
CUDA_GRAPHS: dict[str, Callable[[torch.Tensor], float]] = {
    "a result is kept, then overwritten": _keep,
    "a result is cloned": partial(_keep, clone=True),
    "each step is marked": partial(_keep, mark=True),
    "writes its input": partial(_keep, f=_counter),
    "an operation on the CPU": partial(_keep, f=_on_cpu),
    "58 sizes": _sizes,
    "58 sizes, dynamic ones skipped": partial(
        _sizes, **{"triton.cudagraph_skip_dynamic_graphs": True}
    ),
}


def cuda_graphs(setting: Setting) -> Iterator[Case]:
    """Yield what torch says when a result is overwritten, or a graph is skipped."""
    for name, program in CUDA_GRAPHS.items():
        run = partial(watch_cuda_graph, program=program)
        yield Case("CUDA graphs", "texts", name, run, rank=0, gpu=True)


def watch_cuda_graph(setting: Setting, program: Callable) -> Outcome:
    """Run a program with CUDA graphs, and keep what torch says about it."""
    x, texts = setting.randn(64, 64), {}
    with (
        cold(),
        Watch() as watch,
        cudagraph_log() as log,
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        try:
            texts["result"] = f"{program(x):.6g}"
        except RuntimeError as error:
            texts["error"] = str(error)
    texts["ignored"] = "\n".join(watch.ignored)
    texts["log"] = "\n".join(dict.fromkeys(log))
    texts["warnings"] = "\n".join(dict.fromkeys(str(w.message) for w in warned))
    texts = {name: text for name, text in texts.items() if text}
    messages = [texts[k] for k in ("error", "ignored", "warnings") if k in texts]
    says = messages[0] if messages else "the result can be read"
    facts: Facts = {
        "compiles": watch.compiles,
        "recordings": watch.recordings,
        "says": says.split(". ")[0].split("\n")[0],
    }
    return Outcome(facts=facts, texts=texts)


@contextmanager
def cudagraph_log() -> Iterator[list[str]]:
    """Collect what ``TORCH_LOGS=cudagraphs`` would print inside the block."""

    names = [n for n in logging.root.manager.loggerDict if n.endswith("__cudagraphs")]
    logs, messages = [logging.getLogger(name) for name in names], list[str]()
    levels = [log.level for log in logs]
    collector = logging.Handler()
    collector.emit = lambda record: messages.append(record.getMessage())
    for log in logs:
        log.addHandler(collector)
        log.setLevel(logging.INFO)
    try:
        yield messages
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.removeHandler(collector)
            log.setLevel(level)


# --- the Triton sources that were really generated ---------------------------------


def sources(setting: Setting) -> Iterator[Case]:
    """Yield programs of every kind, dumped here and without a GPU."""
    for name in programs.KINDS:
        run, rank = partial(_source, name=name), int(name != "running example")
        phase = "training" if programs.KINDS[name][1] else "inference"
        yield Case("sources", name, phase, run, rank=rank, seconds=6, gpu=True)


def _source(setting: Setting, name: str) -> Outcome:
    """Return the sources that ran, and whether the dump made without a GPU is equal."""
    make, training = programs.KINDS[name]
    on_cpu = make()
    with torch.device(setting.device):
        on_gpu = make()
    return hold_sources(on_gpu, on_cpu, training=training)


def hold_sources(on_gpu: tuple, on_cpu: tuple, **how: bool) -> Outcome:
    """Dump (function, *inputs) as it runs here and as it would, and compare both."""
    ran = dump_triton(*on_gpu, gpu="this", **how)
    dump = dump_triton(*on_cpu, gpu=gpus.here().name, **how)
    launches = [[launch.name for launch in d.launches] for d in (ran, dump)]
    texts = [[without_hash(k.generated) for k in d.kernels] for d in (ran, dump)]
    facts: Facts = {
        "launches": "same" if launches[0] == launches[1] else "differ",
        "sources": "same" if texts[0] == texts[1] else "differ",
        "kernels": len(ran.kernels),
        "library calls": len(ran.library),
    }
    names = [kernel.name for kernel in ran.kernels]
    return Outcome(facts=facts, texts=dict(zip(names, texts[0], strict=True)))


def without_hash(source: str) -> str:
    """Return generated source without the hash that names the machine."""
    return re.sub(r"'backend_hash': '\w*', ", "", source)


# --- what CUDA graphs hold, and what a call costs in energy -------------------------


def held(setting: Setting) -> Iterator[Case]:
    """Yield the memory that compiled calls hold, of one size and of several."""
    for mode in MODES[:2]:
        for sizes in (1, 4):
            run = partial(_held, mode=mode, sizes=sizes)
            series = f"{mode}, batch sizes"
            yield Case("held", series, sizes, run, rank=2, seconds=6, gpu=True)


def _held(setting: Setting, mode: str, sizes: int) -> Outcome:
    """Return what stays reserved after each size was called four times."""
    net, _, x = model(setting, "large Transformer", "forward", "bfloat16")
    with cold():
        before = reserved()
        compiled = torch.compile(net, mode=mode, dynamic=False)
        for rows in range(len(x), len(x) - sizes, -1):
            for _ in range(4):  # compile, warm, record, replay
                compiled(x[:rows])
        return Outcome(facts={"held, bytes": max(0, reserved() - before)})


def energy(setting: Setting) -> Iterator[Case]:
    """Yield the energy of a call, eager and compiled, by the driver's own counter."""
    for label, kind, dtype in (
        ("large Transformer", "training", "bfloat16"),
        ("ResNet-50", "forward", "float32"),
    ):
        for mode in ("eager", "default"):
            run = partial(_energy, label=label, kind=kind, dtype=dtype, mode=mode)
            series = f"{label}, {kind}, {dtype}"
            yield Case("energy", series, mode, run, rank=2, seconds=12, gpu=True)


def _energy(setting: Setting, label: str, kind: str, dtype: str, mode: str) -> Outcome:
    eager, compiled, x = model(setting, label, kind, dtype)
    with cold():
        call = partial(eager if mode == "eager" else compiled(mode), x)
        for _ in range(4):
            call()
        facts = joules(call, 5.0, energy_counter(), torch.cuda.synchronize)
        return Outcome(facts=facts)


def energy_counter() -> Callable[[], float]:
    """Return a function that tells the joules the first GPU has used, as NVML does.

    Raises OSError without a driver, RuntimeError where the GPU has no such counter.
    """
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    device, used = ctypes.c_void_p(), ctypes.c_ulonglong()

    def ask(function: str, *given: Any) -> None:
        if code := getattr(nvml, function)(*given):
            raise RuntimeError(f"{function} answers {code}")

    ask("nvmlInit_v2")
    ask("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(device))

    def joules() -> float:
        ask("nvmlDeviceGetTotalEnergyConsumption", device, ctypes.byref(used))
        return used.value / 1000

    return joules


def joules(
    call: Callable[[], Any],
    seconds: float,
    counter: Callable[[], float],
    wait: Callable[[], Any],
) -> Facts:
    """Repeat *call* for so many seconds, and return the energy of one."""
    wait()
    calls, before, start = 0, counter(), time.perf_counter()
    while (took := time.perf_counter() - start) < seconds:
        for _ in range(10):
            call()
        wait()
        calls += 10
    used = counter() - before
    return {"calls": calls, "J a call": used / calls, "W": used / took}


# --- launches, counted by the profiler --------------------------------------------


def launches(setting: Setting) -> Iterator[Case]:
    """Yield how many launches a call takes, eager, compiled and with CUDA graphs."""
    for label, dtype in (
        ("tiny operations", "float32"),
        ("small Transformer", "float32"),
        ("large Transformer", "bfloat16"),
        ("MLP", "float32"),
        ("ResNet-50", "float32"),
    ):
        for mode in ("eager", *MODES[:2]):
            run = partial(_launches, label=label, dtype=dtype, mode=mode)
            series = f"{label}, forward, {dtype}"
            yield Case("launches", series, mode, run, rank=LAST, seconds=15, gpu=True)


def _launches(setting: Setting, label: str, dtype: str, mode: str) -> Outcome:
    eager, compiled, x = model(setting, label, "forward", dtype)
    with cold():
        call = eager if mode == "eager" else compiled(mode)
        return Outcome(facts=count_launches(partial(call, x)))
