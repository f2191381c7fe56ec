"""The timed experiments: chains, modes, products, precision, lengths, a kernel by hand.

Each is a function that yields its cases.  The first rank is what is told first.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from functools import partial

import torch

from helpers.benchmark import Comparison
from tools.record_gpu import programs
from tools.record_gpu.cases import Case, Facts, Outcome, Setting, race, rate

MODES = ("default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.05}  # of models; errors are kept as well
_ARRAYS = 12  # of the size of the input, at most, that a comparison needs


# --- chains: length, size, and the share of a copy --------------------------------


def chains(setting: Setting) -> Iterator[Case]:
    """Yield chains of multiplications, by their length and by their size."""

    def case(
        series: str, value: int | str, rank: int, run: Callable, numel: int
    ) -> Case:
        room = _ARRAYS * 4 * numel
        return Case("chains", series, value, run, rank, seconds=4, bytes=room)

    usual, large = setting.size((2**24, 2**28), (2**14, 2**16))
    for n in setting.size((1, 2, 4, 8, 16, 32), (1, 8)):
        for series, numel in (("length", usual), ("length, 256 Mi numbers", large)):
            run = partial(_chain, n=n, numel=numel)
            yield case(series, n, int(n not in (1, 8)), run, numel)
    half = partial(_chain, n=8, numel=usual, dtype=torch.bfloat16)
    yield case("length", "8, bfloat16", 1, half, usual)
    sizes = setting.size([2**p for p in (10, 14, 18, 21, 24, 26, 28)], [2**10, 2**14])
    for numel in sizes:
        rank = int(numel < 2**28)
        yield case("size", numel, rank, partial(_chain, n=8, numel=numel), numel)
        if numel >= 2**14:
            share = partial(_share, numel=numel)
            yield case("share of a copy", numel, rank, share, numel)


def _chain(
    setting: Setting, n: int, numel: int, dtype: torch.dtype = torch.float32
) -> Outcome:
    x, run = setting.randn(numel, dtype=dtype), programs.chain(n)
    # Rounding after each step, eager drifts from a fused bfloat16 chain.
    near = {} if dtype is torch.float32 else {"rtol": 0.05, "atol": 0.05}
    return race(setting, run, torch.compile(run), x, facts=rate(2 * x.nbytes), **near)


def _share(setting: Setting, numel: int) -> Outcome:
    """Race a compiled chain of eight against a copy: the speed-up is the share."""
    x, run = setting.randn(numel), programs.chain(8)
    target = torch.empty_like(x)
    return race(
        setting,
        target.copy_,
        torch.compile(run),
        x,
        names=("copy", "compiled"),
        same_answer=False,
        budget=2.0,
        facts=rate(2 * x.nbytes),
    )


# --- modes: what each buys for six programs ---------------------------------------


def modes(setting: Setting) -> Iterator[Case]:
    """Yield each program in each mode that could help it."""
    for rank, label, kind, dtype, seconds, chosen in (
        (0, "running example", "forward", "float32", 5, MODES),
        (0, "tiny operations", "forward", "float32", 5, MODES),
        (0, "small Transformer", "forward", "float32", 8, MODES),
        (0, "large Transformer", "forward", "bfloat16", 8, MODES),
        (0, "large Transformer", "training", "bfloat16", 15, MODES[:2]),
        (0, "MLP", "forward", "float32", 6, MODES[:2]),
        (1, "small Transformer", "training", "float32", 12, MODES[:2]),
        (1, "ResNet-50", "forward", "float32", 40, MODES[:2]),
        (1, "large Transformer", "forward", "float32", 8, MODES[:1]),
        (2, "LoRA block", "training", "bfloat16", 12, MODES[:2]),
        (2, "MLP", "training", "bfloat16", 8, MODES[:2]),
        (2, "MLP", "forward", "bfloat16", 8, MODES),
        (3, "ResNet-50", "training", "bfloat16", 80, MODES[:2]),
    ):
        for mode in chosen:
            autotunes = "autotune" in mode
            yield Case(
                "modes",
                f"{label}, {kind}, {dtype}",
                mode,
                partial(_mode, label=label, kind=kind, dtype=dtype, mode=mode),
                rank=rank + autotunes,
                seconds=max(seconds, 40 * autotunes),
            )


def model(
    setting: Setting, label: str, kind: str, dtype: str
) -> tuple[Callable, Callable[[str], Callable], torch.Tensor]:
    """Return a program, a function that compiles it in a mode, and its input."""
    size = setting.size
    make, shape = {
        "running example": (
            partial(programs.Example, size(256, 32)),
            size((64, 256), (8, 32)),
        ),
        "tiny operations": (None, size((64, 64), (8, 8))),
        "small Transformer": (
            partial(programs.Transformer, size(256, 32), 4),
            size((2, 64, 256), (1, 8, 32)),
        ),
        "large Transformer": (
            partial(programs.Transformer, size(2048, 64), size(16, 4)),
            size((8, 1024, 2048), (1, 16, 64)),
        ),
        "LoRA block": (
            partial(programs.adapted, size(2048, 64), size(16, 4), size(16, 2)),
            size((8, 1024, 2048), (1, 16, 64)),
        ),
        "ResNet-50": (
            partial(programs.resnet, size((3, 4, 6, 3), (1, 1)), size(64, 8)),
            size((32, 3, 224, 224), (1, 3, 32, 32)),
        ),
        "MLP": (partial(programs.mlp, size(512, 32)), size((64, 512), (4, 32))),
    }[label]
    torch.manual_seed(0)
    x = setting.randn(*shape, dtype=DTYPES[dtype])
    if make is None:
        x = x / shape[-1]  # small numbers stay small in a chain of products
        return programs.tiny, lambda mode: torch.compile(programs.tiny, mode=mode), x
    net = make().to(setting.device, DTYPES[dtype])
    if kind == "training":
        step = programs.training(net)
        return step, lambda mode: programs.training(torch.compile(net, mode=mode)), x
    return programs.forward(net), lambda mode: torch.compile(net, mode=mode), x


def _mode(setting: Setting, label: str, kind: str, dtype: str, mode: str) -> Outcome:
    eager, compiled, x = model(setting, label, kind, dtype)
    near = {"rtol": _TOLERANCE[dtype], "atol": _TOLERANCE[dtype]}
    return race(setting, eager, compiled(mode), x, names=("eager", mode), **near)


# --- one matrix product, and what it is rounded to --------------------------------


def products(setting: Setting) -> Iterator[Case]:
    """Yield one matrix product, where there is nothing to gain."""
    for dtype in DTYPES:
        for n in setting.size((1024, 4096, 8192), (64,)):
            run = partial(_product, n=n, dtype=dtype, mode="default")
            yield Case("matmul", dtype, n, run, rank=int(n != 4096), seconds=4)
    n, tuned = setting.size(4096, 64), "max-autotune-no-cudagraphs"
    run = partial(_product, n=n, dtype="bfloat16", mode=tuned)
    yield Case("matmul", f"bfloat16, {tuned}", n, run, rank=2, seconds=30)


def _product(setting: Setting, n: int, dtype: str, mode: str) -> Outcome:
    a, b = (setting.randn(n, n, dtype=DTYPES[dtype], seed=seed) for seed in (0, 1))
    near = {"rtol": 0.05, "atol": 0.05 * n**0.5} if dtype == "bfloat16" else {}
    compiled = torch.compile(torch.matmul, mode=mode)
    return race(setting, torch.matmul, compiled, a, b, **near)


def precisions(setting: Setting) -> Iterator[Case]:
    """Yield float32 products in full against rounded ones."""
    for precision in ("high", "medium"):
        for n in setting.size((2048, 4096, 8192), (64,)):
            run = partial(_precision, n=n, precision=precision)
            rank = int((n, precision) != (4096, "high"))
            yield Case("tf32", precision, n, run, rank=rank, seconds=3)


def _precision(setting: Setting, n: int, precision: str) -> Outcome:
    """Race products at two precisions, and hold both to float64."""
    a, b = (setting.randn(n, n, seed=seed) for seed in (0, 1))
    before, names = torch.get_float32_matmul_precision(), ("highest", precision)

    def product(name: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch.set_float32_matmul_precision(name)
        return x @ y

    def errors(comparison: Comparison) -> Facts:
        exact = a.double() @ b.double()
        scale = exact.abs().mean()
        return {
            f"error, {name}": ((product(name, a, b) - exact).abs().max() / scale).item()
            for name in names
        }

    sides = [partial(product, name) for name in names]
    try:
        return race(setting, *sides, a, b, names=names, same_answer=False, facts=errors)
    finally:
        torch.set_float32_matmul_precision(before)


# --- sentences of every length ----------------------------------------------------


def lengths(setting: Setting) -> Iterator[Case]:
    """Yield four ways to serve sentences of every length, in two modes."""
    ways = ("exact", "padded to the longest", "six buckets", "marked dynamic")
    for mode in MODES[:2]:
        for way in ways:
            run, rank = partial(_length, way=way, mode=mode), int(mode != "default")
            yield Case("lengths", mode, way, run, rank=rank, seconds=15)


def _length(setting: Setting, way: str, mode: str) -> Outcome:
    """Serve sentences one by one: padded as *way* says, against eager and exact."""
    sentences = programs.sentences()
    longest, words = max(map(len, sentences)), 1 + max(map(max, sentences))
    halves = sorted(-(-longest // 2**n) for n in range(6))
    edges = {"padded to the longest": [longest], "six buckets": halves}.get(way, [])

    def tokens(sentence: list[int], edges: list[int]) -> torch.Tensor:
        """Return a sentence as a tensor, padded to the next edge."""
        n = len(sentence)
        padding = edges[bisect.bisect_left(edges, n)] - n if edges else 0
        return torch.tensor([sentence + [0] * padding], device=setting.device)

    served = sentences[: setting.size(64, 6)]
    exact = [tokens(sentence, []) for sentence in served]
    padded = [tokens(sentence, edges) for sentence in served]
    dynamic = None if way == "marked dynamic" else False
    if way == "marked dynamic":
        for batch in padded:
            torch._dynamo.mark_dynamic(batch, 1)
    net = programs.Sentence(words, setting.size(256, 16)).to(setting.device)
    net = programs.forward(net)
    compiled = torch.compile(net, mode=mode, dynamic=dynamic)

    def serve(net: Callable, batches: list[torch.Tensor]) -> list[torch.Tensor]:
        # Cloned: with CUDA graphs, the next call overwrites what this one gave.
        return [net(batch).clone() for batch in batches]

    def facts(comparison: Comparison) -> Facts:
        work = sum(t.numel() for t in padded) / sum(t.numel() for t in exact)
        return {"computed for a real token": work, "compiles": comparison.compiles}

    sides = partial(serve, net, exact), partial(serve, compiled, padded)
    near = {"rtol": 1e-3, "atol": 1e-3}
    return race(setting, *sides, names=("eager", way), facts=facts, **near)


# --- a kernel by hand -------------------------------------------------------------


def by_hand(setting: Setting) -> Iterator[Case]:
    """Yield a Triton kernel by hand against the generated one."""
    for numel in setting.size((2**20, 2**24, 2**27), (2**10,)):
        run, rank = partial(_by_hand, numel=numel), int(numel != 2**24)
        room = _ARRAYS * 4 * numel
        yield Case("by hand", "size", numel, run, rank, bytes=room, gpu=True)


def _by_hand(setting: Setting, numel: int) -> Outcome:
    from tools.record_gpu.by_hand import residual  # needs Triton

    h, x = (setting.randn(numel, seed=seed) for seed in (0, 1))
    generated = torch.compile(programs.residual)
    options = {"names": ("by hand", "generated"), "facts": rate(3 * x.nbytes)}
    return race(setting, residual, generated, h, x, **options)
