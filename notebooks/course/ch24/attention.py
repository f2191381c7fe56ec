"""What an attention holds in memory, what torch warns of, and texts one by one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any
from unittest import mock

import torch
from torch.nn.attention import flex_attention as flex

from course.memory import record

Tensor = torch.Tensor


def most_memory(call: Callable[[], Any]) -> int:
    """Return the most bytes that a second call holds at a time, counted from 0.

    Of the first, warnings are not shown.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()
    return record(call).peak


def warned(call: Callable[[], Any]) -> str:
    """Return the first line that FlexAttention warns of in a call, or nothing.

    torch warns once a process; here it has warned of nothing before.
    """
    with (
        warnings.catch_warnings(record=True) as told,
        mock.patch.object(flex, "_WARNINGS_SHOWN", set()),
    ):
        warnings.simplefilter("always")
        call()
    return next((str(one.message).split("\n")[0] for one in told), "")


def causal_by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return plain causal attention; the scores are one large tensor."""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    ahead = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return scores.masked_fill(ahead, -torch.inf).softmax(-1) @ v


def one_by_one(texts: Iterable[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """Return causal attention of each text alone, one behind the other."""
    return torch.cat([causal_by_hand(*text) for text in texts], -2)
