"""The timed experiments: chains, modes, products, precision, lengths, a kernel by hand.

``timed(setting)`` gives their cases.  The first rank is what is told first.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from helpers.benchmark import Comparison
from helpers.gpu import programs
from helpers.gpu.cases import Case, Facts, Outcome, Setting, race, rate

MODES = ("default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
NARROW = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_CLOSE = {"float32": 1e-3, "bfloat16": 0.05}  # of models; errors are kept as well
_ARRAYS = 12  # of the size of the input, at most, that a comparison needs


def timed(setting: Setting) -> Iterator[Case]:
    """Yield every timed case, in no order."""
    yield from _chains(setting)
    yield from _models(setting)
    yield from _products(setting)
    yield from _precisions(setting)
    yield from _lengths(setting)
    yield from _by_hand(setting)


# --- chains: length, size, and the share of a copy --------------------------------


def _chains(setting: Setting) -> Iterator[Case]:
    case = partial(Case, "chains", seconds=4)
    usual, large = setting.size((2**24, 2**28), (2**14, 2**16))
    for n in setting.size((1, 2, 4, 8, 16, 32), (1, 8)):
        for series, numel in (("length", usual), ("length, 256 Mi numbers", large)):
            run, rank = partial(_chain, n=n, numel=numel), int(n not in (1, 8))
            yield case(series, n, run, rank=rank, bytes=_ARRAYS * 4 * numel)
    half = partial(_chain, n=8, numel=usual, dtype=torch.bfloat16)
    yield case("length", "8, bfloat16", half, bytes=_ARRAYS * 4 * usual)
    sizes = [2**power for power in (10, 14, 18, 21, 24, 26, 28)]
    for numel in setting.size(sizes, [2**10, 2**14]):
        run, rank = partial(_chain, n=8, numel=numel), int(numel < 2**28)
        yield case("size", numel, run, rank=rank, bytes=_ARRAYS * 4 * numel)
    for numel in setting.size(sizes[2:], [2**14, 2**16]):
        run, rank = partial(_share, numel=numel), 0 if numel == 2**28 else 1
        yield case("share of a copy", numel, run, rank=rank, bytes=_ARRAYS * 4 * numel)


def _chain(
    setting: Setting, n: int, numel: int, dtype: torch.dtype = torch.float32
) -> Outcome:
    x, run = setting.randn(numel, dtype=dtype), programs.chain(n)
    moved = rate(2 * x.nbytes)
    # Rounding after each step, eager drifts from a fused bfloat16 chain.
    near = {} if dtype is torch.float32 else {"rtol": 0.05, "atol": 0.05}
    return race(setting, run, torch.compile(run), x, facts=moved, **near)


def _share(setting: Setting, numel: int) -> Outcome:
    """Race a compiled chain of eight against a copy: the speed-up is the share."""
    x, run = setting.randn(numel), programs.chain(8)
    target = torch.empty_like(x)
    options = {"names": ("copy", "compiled"), "same_answer": False, "budget": 2.0}
    moved = rate(2 * x.nbytes)
    return race(setting, target.copy_, torch.compile(run), x, facts=moved, **options)


# --- modes: what each buys for five programs --------------------------------------


def _models(setting: Setting) -> Iterator[Case]:
    q = setting.size
    shape = programs.Transformer
    small = partial(shape, q(256, 32), 4), q((2, 64, 256), (1, 8, 32))
    large = partial(shape, q(2048, 64), q(16, 4)), q((8, 1024, 2048), (1, 16, 64))
    image = q((32, 3, 224, 224), (1, 3, 32, 32))
    net = partial(programs.resnet, q((3, 4, 6, 3), (1, 1)), q(64, 8)), image
    mlp = partial(programs.mlp, q(512, 32)), q((64, 512), (4, 32))
    square = (lambda: programs.tiny), q((64, 64), (8, 8))
    example = partial(programs.Example, q(256, 32)), q((64, 256), (8, 32))
    for rank, label, made, asked, seconds, modes in (
        (0, "running example", example, "forward, float32", 5, MODES),
        (0, "tiny operations", square, "forward, float32", 5, MODES),
        (0, "small Transformer", small, "forward, float32", 8, MODES),
        (0, "large Transformer", large, "forward, bfloat16", 8, MODES),
        (0, "large Transformer", large, "training, bfloat16", 15, MODES[:2]),
        (0, "MLP", mlp, "forward, float32", 6, MODES[:2]),
        (1, "small Transformer", small, "training, float32", 12, MODES[:2]),
        (1, "ResNet-50", net, "forward, float32", 40, MODES[:2]),
        (1, "large Transformer", large, "forward, float32", 8, MODES[:1]),
        (2, "MLP", mlp, "training, bfloat16", 8, MODES[:2]),
        (2, "MLP", mlp, "forward, bfloat16", 8, MODES),
        (3, "ResNet-50", net, "training, bfloat16", 80, MODES[:2]),
    ):
        kind, dtype = asked.split(", ")
        for mode in modes:
            tuned = "autotune" in mode
            run = partial(_model, made=made, kind=kind, dtype=dtype, mode=mode)
            case = partial(Case, "modes", f"{label}, {asked}", mode, run)
            yield case(rank=rank + tuned, seconds=max(seconds, 40 * tuned))


def model(
    setting: Setting, made: tuple[Callable, tuple[int, ...]], kind: str, dtype: str
) -> tuple[Callable, Callable[[str | None], Callable], torch.Tensor]:
    """Return a program, a function that compiles it in a mode, and its input."""
    torch.manual_seed(0)
    make, shape = made
    x = setting.randn(*shape, dtype=NARROW[dtype])
    net = make()
    if not isinstance(net, torch.nn.Module):
        x = x / shape[-1]  # small numbers stay small in a chain of products
        return net, lambda how: torch.compile(net, mode=how), x
    net = net.to(setting.device, NARROW[dtype])
    if kind == "training":
        step = programs.training(net)
        return step, lambda how: programs.training(torch.compile(net, mode=how)), x
    return programs.forward(net), lambda how: torch.compile(net, mode=how), x


def _model(
    setting: Setting, made: tuple[Callable, tuple], kind: str, dtype: str, mode: str
) -> Outcome:
    eager, compiled, x = model(setting, made, kind, dtype)
    near = {"rtol": _CLOSE[dtype], "atol": _CLOSE[dtype]}
    return race(setting, eager, compiled(mode), x, names=("eager", mode), **near)


# --- one matrix product, and what it is rounded to --------------------------------


def _matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def _products(setting: Setting) -> Iterator[Case]:
    for dtype in NARROW:
        for n in setting.size((1024, 4096, 8192), (64,)):
            run = partial(_product, n=n, dtype=dtype, mode="default")
            yield Case("matmul", dtype, n, run, rank=int(n != 4096), seconds=4)
    n, tuned = setting.size(4096, 64), MODES[2]
    run = partial(_product, n=n, dtype="bfloat16", mode=tuned)
    yield Case("matmul", f"bfloat16, {tuned}", n, run, rank=2, seconds=30)


def _product(setting: Setting, n: int, dtype: str, mode: str) -> Outcome:
    a, b = (setting.randn(n, n, dtype=NARROW[dtype], seed=i) for i in (0, 1))
    near = {"rtol": 0.05, "atol": 0.05 * n**0.5} if dtype == "bfloat16" else {}
    return race(setting, _matmul, torch.compile(_matmul, mode=mode), a, b, **near)


def _precisions(setting: Setting) -> Iterator[Case]:
    for precision in ("high", "medium"):
        for n in setting.size((2048, 4096, 8192), (64,)):
            run = partial(_precision, n=n, precision=precision)
            rank = int((n, precision) != (4096, "high"))
            yield Case("tf32", precision, n, run, rank=rank, seconds=3)


def _precision(setting: Setting, n: int, precision: str) -> Outcome:
    """Race float32 products in full against rounded ones; hold both to float64."""
    a, b = (setting.randn(n, n, seed=i) for i in (0, 1))

    def at(name: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch.set_float32_matmul_precision(name)
        return x @ y

    usual, sides = torch.get_float32_matmul_precision(), ("highest", precision)

    def errors(found: Comparison) -> Facts:
        exact = a.double() @ b.double()
        scale = exact.abs().mean()
        apart = [((at(s, a, b) - exact).abs().max() / scale).item() for s in sides]
        return tuple((f"error, {s}", e) for s, e in zip(sides, apart, strict=True))

    both = [partial(at, side) for side in sides]
    try:
        return race(setting, *both, a, b, names=sides, same_answer=False, facts=errors)
    finally:
        torch.set_float32_matmul_precision(usual)


# --- sentences of every length ----------------------------------------------------


def _lengths(setting: Setting) -> Iterator[Case]:
    ways = ("exact", "padded to the longest", "six buckets", "marked dynamic")
    for mode in MODES[:2]:
        for way in ways:
            run, rank = partial(_length, way=way, mode=mode), int(mode != "default")
            yield Case("lengths", mode, way, run, rank=rank, seconds=15)


def _length(setting: Setting, way: str, mode: str) -> Outcome:
    """Serve sentences one by one: padded as *way* says, against eager and exact."""
    every = programs.sentences()
    rows = every[: setting.size(64, 6)]
    longest = max(map(len, every))
    net = programs.Sentence(1 + max(map(max, every)), setting.size(256, 16))
    net = programs.forward(net.to(setting.device))
    halves = sorted(-(-longest // 2**n) for n in range(6))
    edges = {"padded to the longest": [longest], "six buckets": halves}.get(way)

    def tokens(row: list[int], pad: bool) -> torch.Tensor:
        edge = edges[bisect.bisect_left(edges, len(row))] if pad and edges else len(row)
        return torch.tensor([row + [0] * (edge - len(row))], device=setting.device)

    exact, given = ([tokens(row, pad) for row in rows] for pad in (False, True))
    if way == "marked dynamic":
        for words in given:
            torch._dynamo.mark_dynamic(words, 1)
    dynamic = None if way == "marked dynamic" else False
    fast = torch.compile(net, mode=mode, dynamic=dynamic)

    def serve(one: Callable, sentences: list[torch.Tensor]) -> list[torch.Tensor]:
        # Cloned: with CUDA graphs, the next call overwrites what this one gave.
        return [one(words).clone() for words in sentences]

    def facts(found: Comparison) -> Facts:
        work = sum(t.numel() for t in given) / sum(t.numel() for t in exact)
        return ("computed for a real token", work), ("compiles", found.compiles)

    sides = partial(serve, net, exact), partial(serve, fast, given)
    near = {"rtol": 1e-3, "atol": 1e-3}
    return race(setting, *sides, names=("eager", way), facts=facts, **near)


# --- a kernel by hand -------------------------------------------------------------


def _by_hand(setting: Setting) -> Iterator[Case]:
    for numel in setting.size((2**20, 2**24, 2**27), (2**10,)):
        run, rank = partial(_hand, numel=numel), int(numel != 2**24)
        room = _ARRAYS * 4 * numel
        yield Case("by hand", "size", numel, run, rank, bytes=room, gpu=True)


def _hand(setting: Setting, numel: int) -> Outcome:
    from helpers.gpu import by_hand  # needs Triton

    h, x = (setting.randn(numel, seed=i) for i in (0, 1))
    generated = torch.compile(programs.residual)
    options: dict[str, Any] = {"names": ("by hand", "generated")}
    moved = rate(3 * x.nbytes)
    return race(setting, by_hand.residual, generated, h, x, facts=moved, **options)
