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
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch._inductor.utils import fresh_cache
from torch.nn import functional as F

from helpers.benchmark import Comparison, compare
from helpers.errors import InputError
from helpers.gpu import gpus
from helpers.gpu.dump import Dump, dump_triton
from helpers.gpu.forecasts import forecast
from helpers.results import Measured, Observed
from helpers.text import count
from tools.commands import command

FOLDER = Path(__file__).resolve().parents[1] / "data" / "recorded"
MODES = ("default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


# --- running the cases --------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Record what is not there yet; return the exit status."""
    command("tools.record_gpu", __doc__, "a case failed").parse_args(arguments)
    if not torch.cuda.is_available():
        print("record_gpu: PyTorch has no NVIDIA GPU here", file=sys.stderr)
        return 2
    here = f"{torch.cuda.get_device_name()} torch {torch.__version__}".lower()
    folder = FOLDER / re.sub(r"[^a-z0-9.]+", "-", here)
    torch.backends.mha.set_fastpath_enabled(False)  # eager runs its operations
    try:
        failed = record(folder, cases())
    except KeyboardInterrupt:
        print("interrupted: every finished case is kept, run it again to go on")
        return 130
    print(f"recorded in data/recorded/{folder.name}, {failed} failed")
    return int(failed > 0)


def cases() -> dict[str, Callable[[], Measured]]:
    """Return each case by the name of its file; what autotunes is slow, and last."""
    found = {"sources/running example/inference": sources}
    found["graphs/five results that are kept/reduce-overhead"] = kept_results
    for mode in MODES:
        for label in MODELS:
            found[f"modes/{label}/{mode}"] = partial(race, label, mode)
    return found


def record(folder: Path, cases: Mapping[str, Callable[[], Measured]]) -> int:
    """Run the cases that *folder* does not hold; return how many have failed.

    A case that raises is kept as failed, with its message, and the others go on.
    """
    failed = 0
    for number, (name, run) in enumerate(cases.items(), 1):
        path = folder / f"{name}.json"
        if path.exists() and '"what": "failed: ' not in path.read_text("utf-8"):
            continue
        try:
            result, said = run(), "done"
        except Exception as error:
            said = f"{type(error).__name__}: {error}".strip()[:2000]
            # Files are named without their folders.
            said = re.sub(r"(?<![\w.])(?:/[\w.@+-]+){2,}/([\w.@+-]+)", r"\1", said)
            result = Observed(what=f"failed: {said}")
            failed += 1
        result.save(path)
        print(f"[{number}/{len(cases)}] {name}: {said.splitlines()[0]}", flush=True)
    return failed


# --- the Triton that runs, held against the dump ------------------------------------


def sources() -> Observed:
    """Return the dump of the running example as it really runs on this GPU.

    Raises RuntimeError, with the difference, when the dump made without a GPU differs.
    """
    ran = dump_triton(*made("running example", "cuda"), gpu="this")
    dump = dump_triton(*made("running example", "cpu"), gpu=gpus.here().name)
    if unlike := difference(ran, dump):
        raise RuntimeError(f"the dump made without a GPU differs:\n{unlike}")
    kernels = count(len(ran.kernels), "kernel")
    calls = count(len(ran.library), "library call")
    return Observed(what=f"{kernels} and {calls}, the same as without a GPU")


def difference(ran: Dump, dump: Dump) -> str:
    """Return how what ran differs from a dump, as a diff; "" when it does not."""
    lines = _launched(ran), _launched(dump)
    return "\n".join(difflib.unified_diff(*lines, "ran", "dump", lineterm="", n=0))


def _launched(dump: Dump) -> list[str]:
    """Return each launch's name and source, without the hash that names a machine."""
    texts = [f"{launch.name}\n{launch.generated}" for launch in dump.launches]
    return re.sub(r"'backend_hash': '\w*', ", "", "\n".join(texts)).splitlines()


# --- what each mode gains -----------------------------------------------------------


def race(label: str, mode: str) -> Comparison:
    """Return a model in eager against compiled, from a cold start."""
    net, x = made(label, "cuda")
    how = {"names": ("eager", mode), "budget": 1.0}
    with cold():
        # Starting the compiler's processes is no part of a cold start.
        torch.compile(torch.sin)(x)
        result = compare(net, torch.compile(net, mode=mode), x, **how)
    if result.interrupted:  # fewer rounds than were asked for: not to be kept
        raise KeyboardInterrupt
    said = held(result, net.cpu(), x.cpu(), mode)
    return replace(result, notes=(*result.notes, said))


def held(race: Comparison, net: nn.Module, x: torch.Tensor, mode: str) -> str:
    """Return what was forecast for this GPU, and whether the bounds were kept."""
    try:
        said = forecast(net, x, gpu=gpus.here().name, mode=mode)
    except InputError as error:  # no peak of this GPU is published
        return f"no forecast: {error}"
    sides = zip(race.median_s, (said.eager, said.compiled), strict=True)
    kept = "kept" if all(took >= side.bound for took, side in sides) else "undercut"
    return f"forecast: {said.verdict}, {said.speedup:.2f}x; its bounds were {kept}"


@contextmanager
def cold() -> Iterator[None]:
    """Run the block as in a new process: nothing compiled, nothing on disk."""
    torch.compiler.reset()  # the CUDA graphs go, too, and with them their pools
    gc.collect()
    torch.cuda.empty_cache()
    with fresh_cache():
        yield


# --- what CUDA graphs do with results -----------------------------------------------


def kept_results(device: str = "cuda") -> Observed:
    """Return what is in five results that are kept while later calls run."""
    with cold():
        fast = torch.compile(lambda x: x * x + 1, mode="reduce-overhead")
        kept = [fast(torch.full((4,), float(n), device=device)) for n in range(5)]
        fates = [_fate(result, n * n + 1) for n, result in enumerate(kept)]
    return Observed(what=", ".join(fates))


def _fate(result: torch.Tensor, wanted: float) -> str:
    try:
        return "right" if result.tolist() == [wanted] * 4 else "wrong"
    except RuntimeError:
        return "raises"


# --- the programs -------------------------------------------------------------------


def made(label: str, device: str) -> tuple[nn.Module, torch.Tensor]:
    """Return one of the models, and an input for it."""
    make, shape, dtype = MODELS[label]
    torch.manual_seed(0)
    with torch.device(device):
        net = make().to(dtype).eval().requires_grad_(False)
        return net, torch.randn(shape, dtype=dtype)


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


def transformer(width: int, heads: int) -> nn.Module:
    """Return one block, norm before attention and before the MLP; no dropout."""
    how = {"activation": "gelu", "batch_first": True, "norm_first": True}
    return nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, **how)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], torch.dtype]] = {
    "running example": (partial(Example, 256), (64, 256), torch.float32),
    "tiny operations": (Tiny, (64, 64), torch.float32),
    "small Transformer": (partial(transformer, 256, 4), (2, 64, 256), torch.float32),
    "large Transformer": (
        *(partial(transformer, 2048, 16), (8, 1024, 2048), torch.bfloat16),
    ),
}


if __name__ == "__main__":
    sys.exit(main())
