"""Compares what compiled calls of the model give with eager's, place by place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .helpers import judge
from .helpers.differences import Difference
from .helpers.judge import Judgement

if TYPE_CHECKING:
    from .model import Call, Model


def differences(
    m: Model, compiled: Callable[..., Any], **how: Any
) -> tuple[Difference, ...]:
    """Return all in which *compiled* is not what the model of *m* is, run eagerly."""
    return judged(m, compiled, **how).differences


def judged(
    m: Model,
    compiled: Callable[..., Any],
    *,
    calls: Sequence[Call] | None = None,
    **how: Any,
) -> Judgement:
    """Compare *compiled* with the model of *m*, run eagerly, in *calls* or those of *m*.

    The rest is as for `helpers.judge.judged`.
    """
    calls = m.every_call if calls is None else calls
    loss = m.loss if m.train else False
    return judge.judged(m.eager, compiled, calls, gradients=loss, model=m.fn, **how)
