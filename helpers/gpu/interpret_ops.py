"""Operations that a CPU lacks, or does otherwise, computed from their definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

# --- random numbers as Triton draws them ------------------------------------------


def draw(size: Sequence[int], seed: int, mode: str, fourfold: bool) -> torch.Tensor:
    """Return ``tl.rand`` or ``tl.randn`` of *seed* at 0, 1, 2 and so on, as *size*.

    With *fourfold*, four neighbours share one round of the generator.
    """
    offset = np.arange(int(np.prod(size)), dtype=np.uint64)
    words = philox(seed, offset // np.uint64(4) if fourfold else offset)
    numbers = [_uniform(word) for word in words]
    if mode == "randn":
        numbers = [*_normal(*numbers[:2]), *_normal(*numbers[2:])]
    lane = (offset % np.uint64(4)).astype(int) if fourfold else np.zeros(1, int)
    found = np.take_along_axis(
        np.stack(numbers), np.atleast_2d(lane * np.ones_like(offset, int)), 0
    )
    return torch.from_numpy(found.astype(np.float32)).reshape(tuple(size))


def draw_integers(size: Sequence[int], seed: int, low: int, high: int) -> torch.Tensor:
    """Return Inductor's integers from *low* to below *high*."""
    words = philox(seed, np.arange(int(np.prod(size)), dtype=np.uint64))
    wide = words[0] | words[1] << np.uint64(32)
    found = (wide % np.uint64(high - low)).astype(np.int64) + low
    return torch.from_numpy(found).reshape(tuple(size))


def philox(seed: int, offset: np.ndarray) -> list[np.ndarray]:
    """Return four words of 32 bits for each offset.

    Source: Philox-4x32-10 of Salmon et al., "Parallel random numbers: as easy as
    1, 2, 3" (2011), keyed and counted as in ``triton.language.random``.
    """
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    first, second = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
    keys = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32 & 0xFFFFFFFF)
    count = [offset & low, *(np.zeros_like(offset) for _ in range(3))]
    for _ in range(10):
        a, b = first * count[0], second * count[2]
        count = [
            b >> half ^ count[1] ^ keys[0],
            b & low,
            a >> half ^ count[3] ^ keys[1],
            a & low,
        ]
        raised = zip(keys, (0x9E3779B9, 0xBB67AE85), strict=True)
        keys = tuple(key + np.uint64(step) & low for key, step in raised)
    return count


def _uniform(word: np.ndarray) -> np.ndarray:
    signed = word.astype(np.uint32).view(np.int32)
    return np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(
        4.6566127342e-10
    )


def _normal(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    radius = np.sqrt(-2 * np.log(np.maximum(np.float32(1e-7), first)))
    angle = np.float32(6.283185307179586) * second
    return radius * np.cos(angle), radius * np.sin(angle)


# --- attention that only a GPU has ------------------------------------------------


def _attend(
    q: Any, k: Any, v: Any, bias: Any, dropout: float, causal: bool, scale: Any
):
    """Return attention, and the logarithm of each row's sum, by the definition."""
    scores = (q.float() @ k.float().mT) * (scale or q.shape[-1] ** -0.5)
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = scores + torch.full_like(scores, float("-inf")).triu(1)
    weights = scores.softmax(-1)
    if dropout:  # the same elements on both sides, forward and backward
        same = torch.Generator().manual_seed(0)
        kept = torch.rand(weights.shape, generator=same) >= dropout
        weights = weights * kept / (1 - dropout)
    return weights @ v.float(), scores.logsumexp(-1)


def _gradients(grad: Any, inputs: Sequence[Any], *rest: Any) -> list[Any]:
    with torch.enable_grad():
        leaves = [x if x is None else x.detach().requires_grad_() for x in inputs]
        out, _ = _attend(*leaves, *rest)
        used = [leaf for leaf in leaves if leaf is not None]
        found = iter(torch.autograd.grad(out, used, grad.float()))
    return [leaf if leaf is None else next(found) for leaf in leaves]


def _efficient(q, k, v, bias, save, dropout=0.0, causal=False, *, scale=None):
    return _attend(q, k, v, bias, dropout, causal, scale)


def _flash(q, k, v, dropout=0.0, causal=False, debug=False, *, scale=None):
    return _attend(q, k, v, None, dropout, causal, scale)


def _efficient_backward(
    grad,
    q,
    k,
    v,
    bias,
    out,
    sums,
    seed,
    offset,
    dropout,
    mask,
    causal=False,
    *,
    scale=None,
):
    return _gradients(grad, (q, k, v, bias), dropout, causal, scale)


def _flash_backward(
    grad,
    q,
    k,
    v,
    out,
    sums,
    cu_q,
    cu_k,
    max_q,
    max_k,
    dropout,
    causal,
    seed,
    offset,
    *,
    scale=None,
):
    return _gradients(grad, (q, k, v, None), dropout, causal, scale)[:3]


def _shaped(name: str, compute: Callable[..., Any]) -> SimpleNamespace:
    """Return *compute* with the shapes, strides and types of the real operation."""
    real = getattr(torch.ops.aten, name).default

    def on_meta(value: Any) -> Any:
        return value.to("meta") if isinstance(value, torch.Tensor) else value

    def run(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        trees = pytree
        shapes = real(*trees.tree_map(on_meta, args), **kwargs)
        values = [*compute(*args, **kwargs)] + [None] * len(shapes)
        return tuple(map(_filled, shapes, values))

    return SimpleNamespace(default=run)


def _filled(shape: Any, value: Any) -> Any:
    if not isinstance(shape, torch.Tensor):
        return shape
    made = torch.empty_strided(shape.shape, shape.stride(), dtype=shape.dtype).zero_()
    if value is not None and made.numel():  # sums are padded, or left out
        made[tuple(map(slice, value.shape))] = value.to(made.dtype)
    return made


_SDPA = "_scaled_dot_product_"
ATTENTION = SimpleNamespace(
    **{
        f"{_SDPA}{name}": _shaped(f"{_SDPA}{name}", compute)
        for name, compute in {
            "efficient_attention": _efficient,
            "efficient_attention_backward": _efficient_backward,
            "flash_attention": _flash,
            "flash_attention_backward": _flash_backward,
        }.items()
    }
)
