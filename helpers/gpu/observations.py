"""What is recorded besides times: the machine, texts of CUDA graphs, launches, sources.

All of it needs a GPU but the bandwidth of a copy.
"""

from __future__ import annotations

import re
import subprocess
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import torch

from helpers._torch import cudagraph_log
from helpers.capture import Watch
from helpers.gpu import programs
from helpers.gpu.cases import Case, Facts, Outcome, Setting, cold, launches, wait
from helpers.gpu.experiments import MODES, model
from helpers.timing import copy_bandwidth

LAST = 9  # the rank of what must come after all that is timed


def observed(setting: Setting) -> Iterator[Case]:
    """Yield every case that is not a race, in no order."""
    for size in setting.size((2**26, 2**29, 2**31), (2**20,)):
        run = partial(_copy, size=size)
        yield Case("machine", "copy bandwidth", size, run, rank=0, bytes=2 * size)
    for moment in ("idle", "busy"):
        run = partial(_state, busy=moment == "busy")
        yield Case("machine", "state", moment, run, rank=0, gpu=True)
    for name, run in _GRAPHS.items():
        yield Case("CUDA graphs", "texts", name, partial(_graph, run=run), 0, gpu=True)
    yield Case("sources", "running example", "block", _block, rank=0, gpu=True)
    for name in _kinds():
        run = partial(_sources, name=name)
        yield Case("sources", "kinds", name, run, rank=1, seconds=6, gpu=True)
    yield from _launches(setting)


# --- the machine ------------------------------------------------------------------


def _copy(setting: Setting, size: int) -> Outcome:
    budget = 0.01 if setting.quick else 1.0
    found = copy_bandwidth(size, setting.device, budget)
    return Outcome(facts=(("GB/s", found.bytes_per_s / 1e9),))


_ASKED = ("clocks.sm", "clocks.mem", "clocks.max.sm", "temperature.gpu", "power.draw")


def _state(setting: Setting, busy: bool) -> Outcome:
    """Ask the driver for clocks, temperature and power, perhaps under load."""
    found = torch.cuda.get_device_properties(0)
    facts: list[tuple[str, Any]] = [
        ("multiprocessors", found.multi_processor_count),
        ("memory, bytes", found.total_memory),
        ("L2, bytes", getattr(found, "L2_cache_size", 0)),
        ("capability", f"{found.major}.{found.minor}"),
        ("CUDA", str(torch.version.cuda)),
    ]
    if busy:  # launched, and not waited for: the GPU works while the driver is asked
        a = setting.randn(8192, 8192, dtype=torch.bfloat16)
        for _ in range(1000):
            a @ a
    query = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(_ASKED)}"]
    try:
        said = subprocess.check_output(
            [*query, "--format=csv,noheader"], text=True, timeout=30
        )
        facts += zip(_ASKED, (part.strip() for part in said.split(",")), strict=False)
    except (OSError, subprocess.SubprocessError) as error:
        facts.append(("nvidia-smi", type(error).__name__))
    wait()
    return Outcome(facts=tuple(facts))


# --- what CUDA graphs say ---------------------------------------------------------


def _square(x: torch.Tensor) -> torch.Tensor:
    return x * x


def _counter(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)  # writes into the caller's tensor
    return x * x


def _on_cpu(x: torch.Tensor) -> torch.Tensor:
    return x + (torch.arange(64.0) * 2).to(x.device)


def _keep(x: torch.Tensor, f: Callable = _square, clone: bool = False) -> Any:
    fast = torch.compile(f, mode="reduce-overhead")
    kept = [fast(x).clone() if clone else fast(x) for _ in range(5)]
    return kept[-2].sum().item()


def _marked(x: torch.Tensor) -> Any:
    fast = torch.compile(_square, mode="reduce-overhead")
    for _ in range(5):
        torch.compiler.cudagraph_mark_step_begin()
        last = fast(x)
    return last.sum().item()


def _sizes(x: torch.Tensor, **options: Any) -> Any:
    fast = torch.compile(_square, options={"triton.cudagraphs": True, **options})
    return sum(fast(x[:n].clone()).sum().item() for n in range(2, 60) for _ in "123")


# Each takes a tensor of 64 rows; what it raises is what it is run for.
_GRAPHS = {
    "a result is kept, then overwritten": _keep,
    "a result is cloned": partial(_keep, clone=True),
    "each step is marked": _marked,
    "writes its input": partial(_keep, f=_counter),
    "an operation on the CPU": partial(_keep, f=_on_cpu),
    "58 sizes": _sizes,
    "58 sizes, dynamic ones skipped": partial(
        _sizes, **{"triton.cudagraph_skip_dynamic_graphs": True}
    ),
}


def _graph(setting: Setting, run: Callable[..., Any]) -> Outcome:
    """Run a program with CUDA graphs, and keep what torch says about it."""
    x, texts = setting.randn(64, 64), {}
    with (
        cold(),
        Watch() as watch,
        cudagraph_log() as said,
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("always")
        try:
            texts["result"] = f"{run(x):.6g}"
        except RuntimeError as error:
            texts["error"] = str(error)
        wait()
    texts["ignored"] = "\n".join(watch.ignored)
    texts["log"] = "\n".join(dict.fromkeys(said))
    texts["warnings"] = "\n".join(dict.fromkeys(str(w.message) for w in warned))
    texts = {name: text for name, text in texts.items() if text}
    told = [texts[k] for k in ("error", "ignored", "warnings") if k in texts]
    says = told[0] if told else "the result can be read"
    facts: Facts = (
        ("compiles", watch.compiles),
        ("recordings", watch.recordings),
        ("says", says.split(". ")[0].split("\n")[0]),
    )
    return Outcome(facts=facts, texts=tuple(texts.items()))


# --- launches, counted by the profiler --------------------------------------------

_COUNTED = (
    "tiny operations, forward, float32",
    "small Transformer, forward, float32",
    "large Transformer, forward, bfloat16",
    "MLP, forward, float32",
    "ResNet-50, forward, float32",
)


def _launches(setting: Setting) -> Iterator[Case]:
    from helpers.gpu.experiments import timed

    cases = [case for case in timed(setting) if case.experiment == "modes"]
    made = {case.series: case.run.keywords for case in cases}
    for series in _COUNTED:
        for mode in ("eager", *MODES[:2]):
            asked = {k: v for k, v in made[series].items() if k != "mode"}
            run = partial(_count, mode=mode, **asked)
            yield Case("launches", series, mode, run, rank=LAST, seconds=15, gpu=True)


def _count(setting: Setting, mode: str, **asked: Any) -> Outcome:
    eager, compiled, x = model(setting, **asked)
    with cold():
        call = eager if mode == "eager" else compiled(mode)
        return Outcome(facts=launches(partial(call, x)))


# --- the Triton sources that were really generated ---------------------------------


def _kinds() -> tuple[str, ...]:
    """Return the names of the kinds of program, which the checkout's tests have."""
    try:
        return tuple(import_module("tests.kinds").KINDS)
    except ImportError:  # an installed package has no tests beside it
        return ()


def _block(setting: Setting) -> Outcome:
    x, gain, weight = (setting.randn(*n) for n in ((64, 256), (256,), (256, 256)))
    hidden = tuple(value.cpu() for value in (x, gain, weight))
    return _held(programs.block, (x, gain, weight), programs.block, hidden)


def _sources(setting: Setting, name: str) -> Outcome:
    kind = import_module("tests.kinds").KINDS[name]
    fn, inputs = kind.make()
    with torch.device(setting.device):
        real, there = kind.make()
    options = {"training": kind.training, "dynamic": kind.dynamic}
    return _held(real, there, fn, inputs, **options)


def _held(
    real: Callable, there: tuple, fn: Callable, inputs: tuple, **options: Any
) -> Outcome:
    """Return the sources that ran, and whether the dump made without a GPU is equal."""
    from helpers.gpu.dump import dump_triton
    from helpers.gpu.gpus import here

    hidden = dump_triton(fn, *inputs, gpu=here().name, **options)
    ran = dump_triton(real, *there, gpu="this", **options)
    names = [[launch.name for launch in dump.launches] for dump in (hidden, ran)]
    written = [[normal(k.generated) for k in dump.kernels] for dump in (hidden, ran)]
    facts: Facts = (
        ("launches", "same" if names[0] == names[1] else "differ"),
        ("sources", "same" if written[0] == written[1] else "differ"),
        ("kernels", len(ran.kernels)),
        ("library calls", len(ran.library)),
    )
    named = [kernel.name for kernel in ran.kernels]
    return Outcome(facts=facts, texts=tuple(zip(named, written[1], strict=True)))


def normal(source: str) -> str:
    """Return generated source without hashes, which name the machine."""
    return re.sub(r"'backend_hash': '\w*', ", "", source)
