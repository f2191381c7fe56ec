"""Programs of every kind that a dump has to handle, small enough for an interpreter.

Each maker returns a function and its inputs.  `tests/helpers/gpu/test_dump.py` dumps
them, and `python -m tests.benchmarks dumps` compares them with what a real GPU
compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Kind:
    """A program, and what its dump must show: the launches of each graph, in order."""

    name: str
    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    expected: tuple[str, ...]  # "0 forward: reduction, library"
    dynamic: bool | None = None

    @property
    def training(self) -> bool:
        """Whether its backward is dumped, too."""
        return self.name.endswith(", training")

    def shown(self, dump: Any) -> tuple[str, ...]:
        """Return the launches of *dump* in the form of ``expected``."""
        kinds: dict[str, list[str]] = {}  # by graph
        for launch in dump.launches:
            kinds.setdefault(f"{launch.graph} {launch.phase}", []).append(launch.kind)
        return tuple(f"{graph}: {', '.join(of_it)}" for graph, of_it in kinds.items())


KINDS: dict[str, Kind] = {}


def kind(name: str, *launches: str, dynamic: bool | None = None):
    """Register a maker under *name*, with the launches of each graph of its dump."""

    def register(make: Callable[..., Any]) -> Callable[..., Any]:
        training = name.endswith(", training")
        graphs = (
            ("0 forward", "0 backward") if training else ("0 inference", "1 inference")
        )
        expected = tuple(map(": ".join, zip(graphs, launches, strict=False)))
        KINDS[name] = Kind(name, make, expected, dynamic)
        return make

    return register


@cache
def dumped(name: str) -> Any:
    """Return the dump of a kind for an H100; made once for all tests."""
    from helpers import dump_triton

    chosen = KINDS[name]
    fn, inputs = chosen.make()
    return dump_triton(fn, *inputs, training=chosen.training, dynamic=chosen.dynamic)


def _generator() -> torch.Generator:
    return torch.Generator("cpu").manual_seed(0)


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return normal numbers of *shape*, the same in every run and on every device."""
    numbers = torch.randn(*shape, generator=_generator(), device="cpu")
    return numbers.to(torch.get_default_device(), dtype)


def integers(high: int, *shape: int) -> torch.Tensor:
    """Return whole numbers below *high* of *shape*, the same in every run."""
    numbers = torch.randint(high, shape, generator=_generator(), device="cpu")
    return numbers.to(torch.get_default_device())


def _takes_normal_numbers(fn: Callable[..., Any], *shapes: tuple[int, ...]):
    return lambda: (fn, tuple(randn(*shape) for shape in shapes))


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos() * 2


def _ordered(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.sort(x)[0], x.reshape(-1).cumsum(0)


_ONE, _SPLIT = ["pointwise"], "reduction, persistent reduction"

for _name, _launches, _fn, *_shapes in (
    ("pointwise chain", _ONE, lambda x: torch.relu(x.sin() * 2 + 1), (64, 1000)),
    ("pointwise chain, training", _ONE * 2, lambda x: x.sin().tanh(), (64, 1000)),
    ("two outputs", _ONE, lambda x: (x.sin(), x.cos() + 1), (4096,)),
    ("broadcast and transpose", _ONE, lambda x, y: x.t() + y, (128, 48), (128,)),
    ("only on the CPU", _ONE, lambda x: x + torch.arange(64, device="cpu"), (64,)),
    ("a sum in two kernels", [_SPLIT], torch.sum, (1 << 20,)),
    ("graph break", _ONE * 2, broken, (4096,)),
    ("no tensor operation", [], lambda x: 3, (4,)),
    ("a QR by a library", ["library, pointwise"], lambda x: torch.linalg.qr(x)[0] * 2,
     (8, 8)),
    ("sort and running sum", ["persistent reduction, reduction"], _ordered, (32, 128)),
):  # fmt: skip
    kind(_name, *_launches)(_takes_normal_numbers(_fn, *_shapes))


for _columns, _forward, _backward in (
    (1024, "persistent reduction", "persistent reduction"),
    (4096, "reduction", "reduction"),
    (65536, f"{_SPLIT}, pointwise", f"{_SPLIT}, pointwise"),
):
    _make = _takes_normal_numbers(lambda x: torch.softmax(x, -1), (4, _columns))
    kind(f"softmax over {_columns}", _forward)(_make)
    kind(f"softmax over {_columns}, training", _forward, _backward)(_make)


@kind("LayerNorm, training", "persistent reduction", "persistent reduction")
def layer_norm():
    return nn.LayerNorm(256), (randn(48, 256),)


@kind(
    "GELU MLP, training",
    "library, pointwise, library",
    "library, library, persistent reduction, persistent reduction, library",
)
def mlp():
    net = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64))
    return net, (randn(32, 64),)


@kind("Transformer layer with dropout, training")
def transformer():
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
    return layer, (randn(2, 16, 64),)


@kind(
    "Conv, BatchNorm, ReLU, training",
    "library, persistent reduction, pointwise",
    "persistent reduction, library",
)
def conv():
    net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU())
    return net, (randn(2, 3, 16, 16),)


@kind(
    "embedding and index, training",
    "pointwise",
    "pointwise, pointwise, pointwise, pointwise",
)
def embedding():
    table = nn.Embedding(100, 32)
    return lambda i, j: table(i)[j], (integers(100, 64), integers(64, 8))


@kind(
    "cross-entropy, training",
    "persistent reduction, persistent reduction",
    "persistent reduction",
)
def cross_entropy():
    return F.cross_entropy, (randn(32, 500), integers(500, 32))


@kind("mixed dtypes", "pointwise")
def mixed():
    return lambda x, y: (x * y).float() + x, (randn(4096).bfloat16(), randn(4096))


@kind("bfloat16 LayerNorm, training", "persistent reduction", "persistent reduction")
def half_norm():
    return nn.LayerNorm(256).bfloat16(), (randn(48, 256).bfloat16(),)


@kind("dynamic batch", "pointwise", dynamic=True)
def dynamic():
    return lambda x: torch.relu(x + 1) * 2, (randn(37, 100),)


@kind("attention, training", "library, pointwise", "pointwise, library")
def attention():
    qkv = tuple(randn(2, 4, 64, 32) + n for n in range(3))
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v).sin(), qkv


@kind("half attention with a causal mask", "library, pointwise")
def causal():
    qkv = tuple(randn(2, 4, 64, 32, dtype=torch.bfloat16) for _ in range(3))

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).sin()

    return attend, qkv


@kind("attention by hand", "library")
def attention_by_hand():
    def attend(q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) / 32**0.5, -1) @ v

    return attend, tuple(randn(2, 4, 64, 32, dtype=torch.bfloat16) for _ in range(3))


@kind(
    "attention by hand, in float32",  # the GPU's own would round to TF32
    "library, persistent reduction, library",
)
def attention_by_hand_in_full():
    return attention_by_hand()[0], tuple(randn(2, 4, 64, 32) + n for n in range(3))


@kind("FlexAttention", "pointwise, pointwise, template")
def flex():
    from torch.nn.attention.flex_attention import flex_attention

    def attend(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j))

    return attend, tuple(randn(1, 2, 128, 64) + n for n in range(3))


@kind("AdamW over several tensors", "foreach, foreach")
def adamw():
    parameters = [nn.Parameter(randn(64, 64) + n) for n in range(4)]
    for parameter in parameters:
        parameter.grad = randn(64, 64)
    optimizer = torch.optim.AdamW(parameters, foreach=True)
    return lambda: optimizer.step(), ()


@kind("your own Triton kernel", "pointwise, yours, pointwise")
def own_kernel():
    from tests.helpers.gpu.triton_kernel import add_one

    def surrounded(x):
        y = x * 2
        out = torch.empty_like(y)
        add_one[(4,)](y, out, y.numel(), BLOCK=256)
        return out.sin()

    return surrounded, (randn(1000),)
