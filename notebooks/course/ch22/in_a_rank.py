"""What the scripts of lesson 22 do on each rank; torchrun starts them.

The last line of a script calls a function of this module, with functions of its
own.  It joins the other ranks, does what its name says, leaves what it found for
``terminal(...).found``, and ends the process.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from examples.train_two_ranks import Model, batch, connect
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.profiler import ProfilerActivity, profile, record_function

from course.values import as_near

READY = "a bucket is full"
PATIENCE = 120  # seconds for a collective, where a task does not ask for less
Functions = Sequence[Callable[..., Any]]


def _on_each_rank(task: Callable[..., Any]) -> Callable[..., None]:
    """Decorator: make of *task* what a script calls last, with its functions.

    The process ends there, as that of examples/train_two_ranks.py does: Python's
    own end may wait for ever.  Where a rank raises, torchrun sees who was first.
    """

    @functools.wraps(task)
    def run(*functions: Callable[..., Any], **given: Any) -> None:
        status = 1
        try:
            device = connect(PATIENCE)
            found = json.dumps(task(functions, device, **given))
            Path(f"found-{dist.get_rank()}.json").write_text(found)
            dist.barrier()  # no rank leaves while gloo still frees a tensor
            status = 0
        except Exception:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    return run


@_on_each_rank
def try_ways(functions: Functions, device: torch.device) -> dict[str, Any]:
    """Wrap and compile a model in each of these ways, and profile a step."""
    return {f.__name__: _way(f, device) for f in functions}


def _way(wrap: Callable[..., Any], device: torch.device) -> dict[str, Any]:
    with _as_new():
        torch.manual_seed(0)
        plain = Model().to(device)
        wrapped = wrap(copy.deepcopy(plain))
        for module in wrapped.modules():
            if isinstance(module, DDP):
                _note_waits(module)
        x, target = batch(0, device)
        _step(wrapped, x, target)
        captured = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        _step(wrapped, x, target)  # DDP orders its buckets in the first step
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            _step(wrapped, x, target)
        gradients = _gradients(wrapped, x, target)
    together = torch.cat([g.flatten() for g in gradients])
    others = [torch.empty_like(together) for _ in range(dist.get_world_size())]
    dist.all_gather(others, together)
    whole = [torch.cat(parts) for parts in zip(*_all_shares(device), strict=True)]
    usual = _gradients(plain, *whole)
    exact = _gradients(copy.deepcopy(plain).double(), *(t.double() for t in whole))
    return {
        "captured": captured,
        "events": _events(seen),
        "equal": all(torch.equal(together, other) for other in others),
        "right": len(gradients) == len(usual)
        and all(map(as_near, exact, usual, gradients)),
    }


def _step(model: Any, x: torch.Tensor, target: torch.Tensor) -> None:
    model.zero_grad()
    torch.nn.functional.mse_loss(model(x), target).backward()


def _gradients(model: Any, x: torch.Tensor, target: torch.Tensor) -> list[Any]:
    """Run a step, no optimizer; return whole gradients, sharded or not."""
    _step(model, x, target)
    grads = [p.grad for p in model.parameters()]
    whole = [g.full_tensor() if hasattr(g, "full_tensor") else g for g in grads]
    return [torch.zeros(()) if g is None else g.detach().clone() for g in whole]


def _all_shares(
    device: torch.device,
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    shares: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(shares, [t.cpu() for t in batch(0, device)])
    return [tuple(t.to(device) for t in share) for share in shares]


def _events(seen: profile) -> list[tuple[str, float, float]]:
    """Return graphs and collectives of one step: kind, start, end (s)."""
    found, backward_ends = [], 0.0
    for event in sorted(seen.events(), key=lambda e: e.time_range.start):
        start, end = event.time_range.start / 1e6, event.time_range.end / 1e6
        kind = ""
        if event.name == "CompiledFunctionBackward":
            kind, backward_ends = "backward", end
        elif event.name.startswith("## Call CompiledFxGraph"):
            kind = "forward" if start >= backward_ends else ""
        elif event.name == READY:
            kind = "full"
        elif event.name.startswith(("gloo:", "nccl:")):
            kind = event.name.partition(":")[2]
        if kind:
            found.append((kind, start, end))
    return found


@_on_each_rank
def call_each(functions: Functions, device: torch.device) -> dict[str, Any]:
    """Call each with the device of this rank, and note what it returns."""
    found = {}
    for function in functions:
        with _as_new():
            found[function.__name__] = function(device)
    return found


@_on_each_rank
def try_graphs(functions: Functions, device: torch.device) -> dict[str, Any]:
    """Compile what each makes of a model, and note graphs and their collectives.

    All ranks have the same batch, so results, and gradients where the model has
    them, are right where they are those of the model alone.
    """
    return {f.__name__: _graphs(f, device) for f in functions}


def _graphs(make: Callable[..., Any], device: torch.device) -> dict[str, Any]:
    torch.manual_seed(0)
    plain = Model().to(device)
    x = torch.randn(64, 256, device=device)
    seen: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, _: Any) -> Any:
        seen.append(graph)
        return make_boxed_func(graph.forward)

    with _as_new():
        made = make(copy.deepcopy(plain), device)
        compiled = torch.compile(made, backend=aot_autograd(fw_compiler=keep))
        with torch.no_grad():
            answer = compiled(x)
        nodes = [str(node.target) for graph in seen for node in graph.graph.nodes]
        graphs = len(seen)
        if isinstance(made, torch.nn.Module):
            results = [answer, *_gradients_alone(compiled, x)]
        else:
            results = [answer]
    usual = [plain(x), *_gradients_alone(plain, x)]
    twin, exactly = copy.deepcopy(plain).double(), x.double()
    exact = [twin(exactly), *_gradients_alone(twin, exactly)]
    judged = zip(exact, usual, results, strict=False)
    return {
        "graphs": graphs,
        "collectives": [
            name.removesuffix(".default") for name in nodes if "c10d" in name
        ],
        "right": all(as_near(*three) for three in judged),
    }


def _gradients_alone(model: Any, x: torch.Tensor) -> list[Any]:
    """Return whole gradients of a loss without a target."""
    model.zero_grad()
    model(x).square().mean().backward()
    grads = [p.grad for p in model.parameters()]
    whole = [g.full_tensor() if hasattr(g, "full_tensor") else g for g in grads]
    return [g.detach().clone() for g in whole]


@_on_each_rank
def count_graphs(functions: Functions, device: torch.device) -> dict[str, Any]:
    """Compile each function of a tensor; note graphs, answers and gradients.

    A gradient is the first number of it, in eager and compiled.
    """
    return {f.__name__: _counted(f, device) for f in functions}


def _counted(function: Callable[..., Any], device: torch.device) -> dict[str, Any]:
    x = torch.arange(4.0, device=device) + dist.get_rank()
    with _as_new():
        compiled = torch.compile(function, backend="aot_eager")
        try:
            with torch.no_grad():
                right = torch.equal(compiled(x), function(x))
        except RuntimeError as error:  # as all errors of Dynamo are
            return {"raises": type(error).__name__}
        graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        found = {"graphs": graphs, "right": right}
        x.requires_grad_()
        with suppress(RuntimeError):  # eager has no gradient for each
            found["gradients"] = [
                torch.autograd.grad(run(x).sum(), x)[0][0].item()
                for run in (function, compiled)
            ]
    return found


@contextmanager
def _as_new() -> Iterator[None]:
    """Forget what was compiled, and put settings back afterwards."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch._dynamo.utils.clear_compilation_metrics()
    saved = torch._dynamo.config.save_config()
    try:
        yield
    finally:
        torch._dynamo.config.load_config(saved)


@_on_each_rank
def train_lengths(
    functions: Functions, device: torch.device, steps: int
) -> dict[str, Any]:
    """Train once for each function but the first.

    The first says how many rows come; the others get each batch first.
    """
    rows, *prepare = functions
    return {f.__name__: _lengths(rows, f, device, steps) for f in prepare}


def _lengths(
    rows: Callable[..., int], prepare: Any, device: torch.device, steps: int
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with _as_new():
        torch.manual_seed(0)
        model = DDP(Model(depth=1).to(device))
        waits = _note_waits(model)
        compiled = torch.compile(model)
        for step in range(steps):
            n = rows(dist.get_rank(), step)
            x = prepare(torch.randn(n, 256, device=device))
            known = len(torch._dynamo.utils.get_compilation_metrics())
            with _compiling() as spans:
                dist.barrier()  # so that both begin a step together
                begin = time.monotonic()
                compiled(x).square().mean().backward()
                end = time.monotonic()
            metrics = torch._dynamo.utils.get_compilation_metrics()[known:]
            reasons = [m.recompile_reason for m in metrics if m.recompile_reason]
            found.append(
                {
                    "step": step,
                    "rows": n,
                    "begin": begin,
                    "end": end,
                    "compiles": spans,
                    "why": reasons,
                    "waits": waits[:],
                }
            )
            waits.clear()
    return found


def _note_waits(model: Any) -> list[tuple[float, float]]:
    """Note when each all-reduce of DDP begins and ends."""
    waits: list[tuple[float, float]] = []

    def hook(_, bucket):  # DDP reads annotations, and wants classes in them
        with record_function(READY):
            begin = time.monotonic()
        work = dist.all_reduce(bucket.buffer(), async_op=True)

        def done(future: Any) -> torch.Tensor:
            waits.append((begin, time.monotonic()))
            return future.value()[0].div_(dist.get_world_size())

        return work.get_future().then(done)

    model.register_comm_hook(None, hook)
    return waits


@contextmanager
def _compiling() -> Iterator[list[tuple[float, float]]]:
    """Note when each compile in the block begins and ends."""
    handler = torch._dynamo.callback.callback_handler
    spans: list[tuple[float, float]] = []
    begun: list[float] = []

    def start(*_: Any) -> None:
        begun.append(time.monotonic())

    def end(*_: Any) -> None:
        spans.append((begun.pop(), time.monotonic()))

    handler.register_start_callback(start)
    handler.register_end_callback(end)
    try:
        yield spans
    finally:
        handler.remove_start_callback(start)
        handler.remove_end_callback(end)


@_on_each_rank
def fail_each(
    functions: Functions, device: torch.device, timeout: float
) -> dict[str, Any]:
    """Call each with a group that waits *timeout* seconds; note errors.

    Each is called with and without TORCH_DISTRIBUTED_DEBUG=DETAIL.
    """
    wait = timedelta(seconds=timeout)
    groups = {}
    for level in ("OFF", "DETAIL"):
        os.environ["TORCH_DISTRIBUTED_DEBUG"] = level
        dist.set_debug_level_from_env()
        groups[level] = [dist.new_group(timeout=wait) for _ in functions]
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "OFF"
    dist.set_debug_level_from_env()
    found: dict[str, Any] = {}
    for level, own in groups.items():
        for f, group in zip(functions, own, strict=True):
            said = ""
            with _as_new():
                dist.barrier()
                try:
                    f(dist.get_rank(), group)
                except RuntimeError as error:
                    said = str(error)
            found[f"{f.__name__} {level}"] = said
    return found


@_on_each_rank
def give_up(functions: Functions, device: torch.device, timeout: float) -> None:
    """Call the function with a group that waits *timeout* seconds, and raise."""
    [function] = functions
    group = dist.new_group(timeout=timedelta(seconds=timeout))
    dist.barrier()
    function(dist.get_rank(), group)


@_on_each_rank
def compile_twice(functions: Functions, device: torch.device) -> dict[str, list[Any]]:
    """Compile one function twice in each kind of folder, and count who builds.

    Each time nothing is known in memory.
    """
    [function] = functions
    found: dict[str, list[Any]] = {}
    empty = [tempfile.mkdtemp(dir=Path.cwd())]
    dist.broadcast_object_list(empty)  # that of rank 0, for all
    starts = {
        "one folder, in step": ("shared", _in_step),
        "one folder, rank 1 later": ("again", _one_by_one),
        "a folder each": (f"rank{dist.get_rank()}", nullcontext),
    }
    for name, (place, start) in starts.items():
        here = {"TORCHINDUCTOR_CACHE_DIR": os.path.join(*empty, place)}
        found[name] = []
        for _ in range(2):
            with mock.patch.dict(os.environ, here), _as_new(), start():
                torch.compile(function)(torch.ones(64, 64, device=device))
                seen = torch._dynamo.utils.counters["inductor"]
                found[name].append(
                    (seen["fxgraph_cache_miss"], seen["fxgraph_cache_hit"])
                )
    return found


class _Meeting(CustomGraphPass):
    """A pass in which ranks meet that have found no graph in the folder."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        dist.barrier()

    def uuid(self) -> str:
        return "a meeting changes nothing"


@contextmanager
def _in_step() -> Iterator[None]:
    """Let no rank write into the folder before all have looked."""
    dist.barrier()
    with torch._inductor.config.patch(post_grad_custom_pre_pass=_Meeting()):
        yield


@contextmanager
def _one_by_one() -> Iterator[None]:
    """Let rank 1 begin when rank 0 has ended."""
    if dist.get_rank():
        dist.barrier()
    yield
    if not dist.get_rank():
        dist.barrier()
