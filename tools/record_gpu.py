"""Measure on this machine's NVIDIA GPU what lessons show of one: ``make record``.

Each case is a call of a helper, and its result is one file,
``data/recorded/GPU/experiment/series/value.json``, which a lesson shows by
``recorded(experiment, series)``.  What has a file is not measured again unless it
failed, so after an interrupt or a failure the same command goes on.

Of the course this needs the helpers alone, and the programs are written out: a machine
that is lent for its GPU has torch, and not much besides.
"""

from __future__ import annotations

import difflib
import gc
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._inductor.utils import fresh_cache
from torch.nn import functional as F

from helpers.benchmark import Comparison, compare
from helpers.gpu import gpus
from helpers.gpu.dump import Dump, dump_triton
from helpers.results import Machine, Observed, Result, now, write_atomically
from tools.commands import command

FOLDER = Path(__file__).resolve().parents[1] / "data" / "recorded"
MODES = ("default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_NEAR = {"float32": 1e-3, "bfloat16": 0.05}  # tolerance of whole models


# --- running the cases --------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Record what is not there yet; return the exit status."""
    command("tools.record_gpu", __doc__, "a case failed").parse_args(arguments)
    if not torch.cuda.is_available():
        print("record_gpu: PyTorch has no NVIDIA GPU here", file=sys.stderr)
        return 2
    here = f"{torch.cuda.get_device_name()} torch {torch.__version__}".lower()
    folder = FOLDER / re.sub(r"[^a-z0-9.]+", "-", here)
    try:
        failed = record(folder, cases())
    except KeyboardInterrupt:
        print("interrupted: every finished case is kept, run it again to go on")
        return 130
    print(f"recorded in data/recorded/{folder.name}, {failed} failed")
    return int(failed > 0)


def cases() -> dict[str, Callable[[], Result]]:
    """Return each case by the name of its file; what autotunes is slow, and last."""
    races = {
        f"modes/{', '.join(program)}/{mode}": partial(race, *program, mode)
        for *program, modes in RACES
        for mode in modes
    }
    last = sorted(races, key=lambda name: "autotune" in name)
    taken = {
        f"energy/{', '.join(program)}/default": partial(energy, *program)
        for program in ENERGY
    }
    graphs = {
        f"graphs/{name}/reduce-overhead": partial(seen, program)
        for name, program in GRAPHS.items()
    }
    first = {"sources/running example/inference": sources, **graphs}
    return first | taken | {name: races[name] for name in last}


def record(folder: Path, cases: Mapping[str, Callable[[], Result]]) -> int:
    """Run the cases that *folder* does not hold; return how many have failed.

    A case that raises is kept as failed, with its message, and the others go on.
    """
    failed = 0
    for number, (name, run) in enumerate(cases.items(), 1):
        path = folder / f"{name}.json"
        if _is_done(path):
            continue
        try:
            kept, said = run().to_json(), "done"
        except Exception as error:
            said = anonymous(f"{type(error).__name__}: {error}".strip()[:2000])
            kept = _failure(said)
            failed += 1
        write_atomically(path, kept)
        print(f"[{number}/{len(cases)}] {name}: {said.splitlines()[0]}", flush=True)
    return failed


def _is_done(path: Path) -> bool:
    try:
        return "failed" not in json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):  # not there, or damaged
        return False


def _failure(message: str) -> str:
    """Return the JSON of a case that failed, with the origin that every result has."""
    whole = {"failed": message, "machine": asdict(Machine.here()), "when": now()}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def anonymous(text: str) -> str:
    """Return *text* with each file named without the folders it lies in."""
    return re.sub(r"(?<![\w.])(?:/[\w.@+-]+){2,}/([\w.@+-]+)", r"\1", text)


# --- the Triton that runs, held against the dump ------------------------------------


def sources() -> Dump:
    """Return what really runs for the running example on this GPU.

    Raises RuntimeError, with the difference, when the dump made without a GPU differs.
    """
    ran = dump_triton(*example("cuda"), gpu="this")
    dump = dump_triton(*example("cpu"), gpu=gpus.here().name)
    if unlike := difference(ran, dump):
        raise RuntimeError(f"the dump made without a GPU differs:\n{unlike}")
    return ran


def example(device: str) -> tuple[nn.Module, torch.Tensor]:
    """Return the running example and an input for it."""
    with torch.device(device):
        return Example(256), torch.randn(64, 256)


def difference(ran: Dump, dump: Dump) -> str:
    """Return how what ran differs from a dump, as a diff; "" when it does not."""
    lines = _launched(ran), _launched(dump)
    return "\n".join(difflib.unified_diff(*lines, "ran", "dump", lineterm="", n=0))


def _launched(dump: Dump) -> list[str]:
    """Return each launch's name and source, without the hash that names a machine."""
    texts = [f"{launch.name}\n{launch.generated}" for launch in dump.launches]
    return re.sub(r"'backend_hash': '\w*', ", "", "\n".join(texts)).splitlines()


# --- what each mode gains -----------------------------------------------------------


def race(
    label: str,
    kind: str,
    dtype: str,
    mode: str,
    device: str = "cuda",
    budget: float = 1.0,
) -> Comparison:
    """Return eager against a compiled model, from a cold start."""
    eager, compiled, x = sides(label, kind, dtype, mode, device)
    names, near = ("eager", mode), _NEAR[dtype]
    with cold():
        # Starting the compiler's processes is no part of a cold start.
        torch.compile(torch.sin)(x)
        result = compare(
            eager, compiled, x, names=names, rtol=near, atol=near, budget=budget
        )
    if result.interrupted:  # fewer rounds than were asked for: not to be kept
        raise KeyboardInterrupt
    return result


def sides(
    label: str, kind: str, dtype: str, mode: str, device: str
) -> tuple[Callable[..., Any], Callable[..., Any], torch.Tensor]:
    """Return a model in eager and compiled, and its input."""
    make, shape = MODELS[label]
    torch.manual_seed(0)
    with torch.device(device):
        net = make().to(getattr(torch, dtype))
        x = torch.randn(shape, dtype=getattr(torch, dtype))
    if kind == "training":
        return step(net), step(torch.compile(net, mode=mode)), x
    net.eval().requires_grad_(False)
    return net, torch.compile(net, mode=mode), x


def step(model: Callable[..., Any]) -> Callable[..., Any]:
    """Return a training step: loss and gradients, which are returned, not kept."""
    parameters = [p for p in model.parameters() if p.requires_grad]

    def run(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        torch.compiler.cudagraph_mark_step_begin()  # the step before is done with
        loss = model(x).float().square().mean()
        return loss.detach(), *torch.autograd.grad(loss, parameters)

    return run


@contextmanager
def cold() -> Iterator[None]:
    """Run the block as in a new process: nothing compiled, nothing on disk."""
    free()
    try:
        with fresh_cache():
            yield
    finally:
        free()


def free() -> None:
    """Drop what is compiled and recorded, and give unused memory back."""
    torch.compiler.reset()  # the CUDA graphs go, too, and with them their pools
    gc.collect()
    torch.cuda.empty_cache()


# --- what a call takes from the board -------------------------------------------------


def energy(
    label: str, kind: str, dtype: str, device: str = "cuda", seconds: float = 5.0
) -> Observed:
    """Say how many joules a call takes, eager and compiled, three times in turns."""
    eager, compiled, x = sides(label, kind, dtype, "default", device)
    with cold():
        turns = [
            (joules(eager, x, seconds), joules(compiled, x, seconds)) for _ in range(3)
        ]
    pairs = "; ".join(f"{before:.3g} J, then {after:.3g} J" for before, after in turns)
    shares = [after / before for before, after in turns]
    share = f"{min(shares):.2f} to {max(shares):.2f}"
    return Observed(what=f"eager, then compiled: {pairs}; {share} of eager's")


def joules(fn: Callable[..., Any], x: torch.Tensor, seconds: float) -> float:
    """Return what a call takes; it is called for *seconds*, for the counter is slow."""
    fn(x)
    torch.cuda.synchronize()
    begin, calls, end = millijoules(), 0, time.monotonic() + seconds
    while not calls or time.monotonic() < end:
        for _ in range(10):
            fn(x)
        torch.cuda.synchronize()
        calls += 10
    return (millijoules() - begin) / 1000 / calls


def millijoules() -> int:
    """Return what the board has taken since its driver was loaded: NVML counts it."""
    import pynvml  # of nvidia-ml-py, which torch.cuda.power_draw needs, too

    pynvml.nvmlInit()
    uuid = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
    board = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    return pynvml.nvmlDeviceGetTotalEnergyConsumption(board)


# --- what CUDA graphs do with results, gradients, random numbers and memory ----------


def seen(program: Callable[[str], str], device: str = "cuda") -> Observed:
    """Return what *program* says of itself, from a cold start."""
    torch.manual_seed(0)
    with cold():
        return Observed(what=program(device))


def recording(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return *fn* compiled with CUDA graphs."""
    return torch.compile(fn, mode="reduce-overhead")


def kept_results(device: str) -> str:
    """Say what is in five results that are kept while later calls run."""
    fast = recording(lambda x: x * x + 1)
    kept = [fast(torch.full((4,), float(n), device=device)) for n in range(5)]
    return ", ".join(_fate(result, n * n + 1) for n, result in enumerate(kept))


def _fate(result: torch.Tensor, wanted: float) -> str:
    try:
        return "right" if result.tolist() == [wanted] * 4 else "wrong"
    except RuntimeError:
        return "raises"


def summed_gradients(device: str) -> str:
    """Say whether gradients of two batches add up, with and without .grad before."""
    torch.manual_seed(0)
    net, batches = nn.Linear(4, 1).to(device), torch.randn(4, 2, 8, 4, device=device)
    found = [_adds_up(net, batches, in_place) for in_place in (False, True)]
    return f".grad taken over: {found[0]}; kept in place: {found[1]}"


def _adds_up(net: nn.Module, batches: torch.Tensor, in_place: bool) -> str:
    torch.compiler.reset()
    fast = recording(lambda x: net(x).square().mean())
    for p in net.parameters():
        p.grad = torch.zeros_like(p) if in_place else None
    right = []
    for step in batches:
        net.zero_grad(set_to_none=not in_place)
        total = sum(net(batch).square().mean() for batch in step)
        wanted = torch.autograd.grad(total, [*net.parameters()])
        try:
            for batch in step:
                fast(batch).backward()
            pairs = zip(net.parameters(), wanted, strict=True)
            right.append(all(torch.allclose(p.grad, w) for p, w in pairs))
        except RuntimeError:
            return f"raises in step {len(right)}"
    return f"right in {sum(right)} of {len(right)} steps"


def dropout_masks(device: str) -> str:
    """Say how many different masks six calls of a dropout draw."""
    fast, ones = recording(F.dropout), torch.ones(64, device=device)
    masks = {tuple(fast(ones).tolist()) for _ in range(6)}
    return f"{len(masks)} different masks in 6 calls"


def memory_of_sizes(device: str) -> str:
    """Say how many MiB are reserved after each of six sizes is recorded."""
    fast = torch.compile(
        lambda x: (x @ x.T).sin().sum(0), mode="reduce-overhead", dynamic=True
    )
    reserved = []
    for rows in range(1024, 7 * 1024, 1024):
        for _ in range(3):
            fast(torch.ones(rows, 64, device=device))
        reserved.append(torch.cuda.memory_reserved() >> 20 if device == "cuda" else 0)
    return f"{', '.join(map(str, reserved))} MiB after each size"


def pools_of_threads(device: str) -> str:
    """Say how many memory pools there are after one thread, and after three."""
    fast, x, found = recording(torch.sin), torch.ones(64, device=device), []

    def serve() -> None:
        for _ in range(3):
            fast(x)

    serve()
    found.append(_pools(device))
    for _ in range(2):
        thread = threading.Thread(target=serve)
        thread.start()
        thread.join()
    found.append(_pools(device))
    return f"{found[0]} after one thread, {found[1]} after three"


def _pools(device: str) -> int:
    segments = torch.cuda.memory_snapshot() if device == "cuda" else []
    return len({tuple(each["segment_pool_id"]) for each in segments} - {(0, 0)})


GRAPHS: dict[str, Callable[[str], str]] = {
    "five results that are kept": kept_results,
    "gradients of two batches": summed_gradients,
    "dropout": dropout_masks,
    "memory of six sizes": memory_of_sizes,
    "memory pools of threads": pools_of_threads,
}


# --- the programs -------------------------------------------------------------------


class Example(nn.Module):
    """The course's running example: norm, product, GELU, residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.weight = nn.Parameter(torch.randn(width, width) / width**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = x.square().mean(-1, keepdim=True)
        h = x * torch.rsqrt(size + 1e-6) * self.gain
        return x + F.gelu(h @ self.weight)


class Tiny(nn.Module):
    """Forty small operations on a small square matrix.

    The products stay a library's, so that launches are left for a CUDA graph.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x / len(x)  # small numbers stay small in a chain of products
        for _ in range(10):
            x = x + 0.1 * torch.sin(x @ x)
        return x


class Transformer(nn.Module):
    """One block as in GPT-2: norm, attention, norm, MLP; no dropout."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).chunk(3, dim=-1)
        shape = batch, length, self.heads, width // self.heads
        q, k, v = (part.view(shape).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Adapted(nn.Module):
    """A linear layer that is frozen, and LoRA's two small ones, which are trained."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + 2 * self.up(self.down(x))


def adapted(width: int, heads: int, rank: int) -> nn.Module:
    """Return a Transformer block with an adapter at each of its layers."""
    net = Transformer(width, heads).requires_grad_(False)
    for name in ("qkv", "out", "up", "down"):
        setattr(net, name, Adapted(getattr(net, name), rank))
    return net


class Bottleneck(nn.Module):
    """Three convolutions and a shortcut: He et al., arXiv:1512.03385, figure 5."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *normed(inside, outside, 1),
            nn.ReLU(),
            *normed(outside, outside, 3, stride),
            nn.ReLU(),
            *normed(outside, 4 * outside, 1),
        )
        same = inside == 4 * outside
        shortcut = [] if same else normed(inside, 4 * outside, 1, stride)
        self.shortcut = nn.Sequential(*shortcut)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


def normed(inside: int, outside: int, size: int, stride: int = 1) -> list[nn.Module]:
    """Return a convolution and its batch norm."""
    conv = nn.Conv2d(inside, outside, size, stride, size // 2, bias=False)
    return [conv, nn.BatchNorm2d(outside)]


def resnet50() -> nn.Module:
    """Return ResNet-50, with its 25.6 million parameters."""
    layers: list[nn.Module] = [*normed(3, 64, 7, 2), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inside = 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        outside = 64 * 2**stage
        for n in range(depth):
            layers.append(Bottleneck(inside, outside, 2 if n == 0 < stage else 1))
            inside = 4 * outside
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000)]
    return nn.Sequential(*layers, *head)


def mlp(width: int) -> nn.Module:
    """Return two hidden layers: a model whose calls are mostly launches."""
    wide = 4 * width
    first, second = nn.Linear(width, wide), nn.Linear(wide, wide)
    return nn.Sequential(first, nn.GELU(), second, nn.GELU(), nn.Linear(wide, width))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "running example": (partial(Example, 256), (64, 256)),
    "tiny operations": (Tiny, (64, 64)),
    "small Transformer": (partial(Transformer, 256, 4), (2, 64, 256)),
    "large Transformer": (partial(Transformer, 2048, 16), (8, 1024, 2048)),
    "LoRA block": (partial(adapted, 2048, 16, 16), (8, 1024, 2048)),
    "ResNet-50": (resnet50, (32, 3, 224, 224)),
    "MLP": (partial(mlp, 512), (64, 512)),
}
RACES = (  # the most telling come first
    ("running example", "forward", "float32", MODES),
    ("tiny operations", "forward", "float32", MODES),
    ("small Transformer", "forward", "float32", MODES),
    ("large Transformer", "forward", "bfloat16", MODES),
    ("large Transformer", "training", "bfloat16", MODES[:2]),
    ("MLP", "forward", "float32", MODES[:2]),
    ("small Transformer", "training", "float32", MODES[:2]),
    ("ResNet-50", "forward", "float32", MODES[:2]),
    ("large Transformer", "forward", "float32", MODES[:1]),
    ("LoRA block", "training", "bfloat16", MODES[:2]),
    ("MLP", "training", "bfloat16", MODES[:2]),
    ("MLP", "forward", "bfloat16", MODES),
    ("ResNet-50", "training", "bfloat16", MODES[:2]),
)
ENERGY = (  # one that waits for launches, one that works
    ("small Transformer", "forward", "float32"),
    ("large Transformer", "forward", "bfloat16"),
)


if __name__ == "__main__":
    sys.exit(main())
