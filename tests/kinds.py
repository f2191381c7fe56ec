"""Programs of every kind that a dump has to handle, small enough for an interpreter.

Each maker returns a function and its inputs.  `tests/test_dump.py` dumps them, and
`python -m tests.benchmarks dumps` compares them with what a real GPU compiled.
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
    """A program, and what its dump must show: launches by graph, in order."""

    name: str
    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]]
    expected: tuple[str, ...]  # "0 forward: reduction, library"
    training: bool = False
    dynamic: bool | None = None

    def shown(self, dump: Any) -> tuple[str, ...]:
        """Return the launches of *dump* in the form of ``expected``."""
        found: dict[str, list[str]] = {}
        for launch in dump.launches:
            found.setdefault(f"{launch.graph} {launch.phase}", []).append(launch.kind)
        return tuple(f"{graph}: {', '.join(kinds)}" for graph, kinds in found.items())


KINDS: dict[str, Kind] = {}


def kind(name: str, *expected: str, training: bool = False, dynamic: Any = None):
    """Register a maker under *name*, with what its dump must show."""

    def register(make: Callable[..., Any]) -> Callable[..., Any]:
        KINDS[name] = Kind(name, make, expected, training, dynamic)
        return make

    return register


@cache
def dumped(name: str) -> Any:
    """Return the dump of a kind for an H100; made once for all tests."""
    from helpers import dump_triton

    made = KINDS[name]
    fn, inputs = made.make()
    return dump_triton(fn, *inputs, training=made.training, dynamic=made.dynamic)


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return normal numbers of *shape*, the same in every run and on every device."""
    made = torch.randn(
        *shape, generator=torch.Generator("cpu").manual_seed(0), device="cpu"
    )
    return made.to(torch.get_default_device(), dtype)


def integers(high: int, *shape: int) -> torch.Tensor:
    """Return whole numbers below *high* of *shape*, the same in every run."""
    made = torch.randint(
        high, shape, generator=torch.Generator("cpu").manual_seed(0), device="cpu"
    )
    return made.to(torch.get_default_device())


@kind("pointwise chain", "0 inference: pointwise")
def chain():
    return lambda x: torch.relu(x.sin() * 2 + 1), (randn(64, 1000),)


@kind(
    "pointwise chain, training",
    "0 forward: pointwise",
    "0 backward: pointwise",
    training=True,
)
def chain_training():
    return lambda x: torch.tanh(x.sin() * 2 + 1), (randn(64, 1000),)


@kind("two outputs", "0 inference: pointwise")
def two_outputs():
    return lambda x: (x.sin(), x.cos() + 1), (randn(4096),)


@kind("broadcast and transpose", "0 inference: pointwise")
def transposed():
    return lambda x, y: x.t() + y, (randn(128, 48), randn(128))


def _softmax(rows: int, columns: int):
    return lambda: (lambda x: torch.softmax(x, -1), (randn(rows, columns),))


# torch 2.11 still finds the maximum and the sum in two passes when it splits a row.
_SPLIT = "reduction, persistent reduction"
_ONLINE = f"{_SPLIT}, {_SPLIT}" if torch.__version__ < "2.12" else _SPLIT

for _columns, _forward, _backward in (
    (1024, "persistent reduction", "persistent reduction"),
    (4096, "reduction", "reduction"),
    (65536, f"{_ONLINE}, pointwise", f"{_SPLIT}, pointwise"),
):
    kind(f"softmax over {_columns}", f"0 inference: {_forward}")(_softmax(4, _columns))
    kind(
        f"softmax over {_columns}, training",
        f"0 forward: {_forward}",
        f"0 backward: {_backward}",
        training=True,
    )(_softmax(4, _columns))


@kind(
    "LayerNorm, training",
    "0 forward: persistent reduction",
    "0 backward: persistent reduction",
    training=True,
)
def layer_norm():
    return nn.LayerNorm(256), (randn(48, 256),)


@kind(
    "RMSNorm, training",
    "0 forward: persistent reduction",
    "0 backward: persistent reduction",
    training=True,
)
def rms_norm():
    return nn.RMSNorm(256), (randn(48, 256),)


@kind("a sum in two kernels", "0 inference: reduction, persistent reduction")
def full_sum():
    return lambda x: x.sum(), (randn(1 << 20),)


@kind(
    "GELU MLP, training",
    "0 forward: library, pointwise, library",
    "0 backward: library, library, persistent reduction, persistent reduction, library",
    training=True,
)
def mlp():
    net = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64))
    return net, (randn(32, 64),)


@kind("Transformer layer with dropout, training", training=True)
def transformer():
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
    return layer, (randn(2, 16, 64),)


@kind(
    "Conv, BatchNorm, ReLU, training",
    "0 forward: library, persistent reduction, pointwise",
    "0 backward: persistent reduction, library",
    training=True,
)
def conv():
    net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU())
    return net, (randn(2, 3, 16, 16),)


@kind(
    "embedding and index, training",
    "0 forward: pointwise",
    "0 backward: pointwise, pointwise, pointwise, pointwise",
    training=True,
)
def embedding():
    table = nn.Embedding(100, 32)
    return lambda i, j: table(i)[j], (integers(100, 64), integers(64, 8))


@kind(
    "cross-entropy, training",
    "0 forward: persistent reduction, persistent reduction",
    "0 backward: persistent reduction",
    training=True,
)
def cross_entropy():
    return F.cross_entropy, (randn(32, 500), integers(500, 32))


@kind("mixed dtypes", "0 inference: pointwise")
def mixed():
    return lambda x, y: (x * y).float() + x, (randn(4096).bfloat16(), randn(4096))


@kind(
    "bfloat16 LayerNorm, training",
    "0 forward: persistent reduction",
    "0 backward: persistent reduction",
    training=True,
)
def half_norm():
    return nn.LayerNorm(256).bfloat16(), (randn(48, 256).bfloat16(),)


@kind("dynamic batch", "0 inference: pointwise", dynamic=True)
def dynamic():
    return lambda x: torch.relu(x + 1) * 2, (randn(37, 100),)


@kind(
    "attention, training",
    "0 forward: library, pointwise",
    "0 backward: pointwise, library",
    training=True,
)
def attention():
    qkv = tuple(randn(2, 4, 64, 32) + n for n in range(3))
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v).sin(), qkv


@kind("half attention with a causal mask", "0 inference: library, pointwise")
def causal():
    qkv = tuple(randn(2, 4, 64, 32, dtype=torch.bfloat16) for _ in range(3))

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).sin()

    return attend, qkv


@kind("attention by hand", "0 inference: library")
def attention_by_hand():
    def attend(q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) / 32**0.5, -1) @ v

    return attend, tuple(randn(2, 4, 64, 32, dtype=torch.bfloat16) for _ in range(3))


@kind(
    "attention by hand, in float32",  # the GPU's own would round to TF32
    "0 inference: library, persistent reduction, library",
)
def attention_by_hand_in_full():
    return attention_by_hand()[0], tuple(randn(2, 4, 64, 32) + n for n in range(3))


@kind("FlexAttention", "0 inference: pointwise, pointwise, template")
def flex():
    from torch.nn.attention.flex_attention import flex_attention

    def attend(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j))

    return attend, tuple(randn(1, 2, 128, 64) + n for n in range(3))


@kind("AdamW over several tensors", "0 inference: foreach, foreach")
def adamw():
    parameters = [nn.Parameter(randn(64, 64) + n) for n in range(4)]
    for parameter in parameters:
        parameter.grad = randn(64, 64)
    optimizer = torch.optim.AdamW(parameters, foreach=True)
    return lambda: optimizer.step(), ()


@kind("graph break", "0 inference: pointwise", "1 inference: pointwise")
def graph_break():
    def broken(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos() * 2

    return broken, (randn(4096),)


@kind("your own Triton kernel", "0 inference: pointwise, yours, pointwise")
def own_kernel():
    from tests.triton_kernel import add_one

    def surrounded(x):
        y = x * 2
        out = torch.empty_like(y)
        add_one[(4,)](y, out, y.numel(), BLOCK=256)
        return out.sin()

    return surrounded, (randn(1000),)


@kind("no tensor operation")
def nothing():
    return lambda x: 3, (randn(4),)


@kind("only on the CPU", "0 inference: pointwise")
def cpu_only():
    return lambda x: x + torch.arange(64, device="cpu"), (randn(64),)


@kind("a QR by a library", "0 inference: library, pointwise")
def factorised():
    return lambda x: torch.linalg.qr(x)[0] * 2, (randn(8, 8),)


@kind("sort and running sum", "0 inference: persistent reduction, reduction")
def ordered():
    return lambda x: (torch.sort(x)[0], x.reshape(-1).cumsum(0)), (randn(32, 128),)
