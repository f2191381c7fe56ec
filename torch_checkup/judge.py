"""Compares what compiled calls of the model give with eager's, place by place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .helpers import judge
from .helpers.differences import Difference
from .helpers.judge import Judgement

if TYPE_CHECKING:
    from .model import Call, Patient


def differences(
    p: Patient, compiled: Callable[..., Any], **how: Any
) -> tuple[Difference, ...]:
    """Return all in which *compiled* is not what the model of *p* is, run eagerly."""
    return judged(p, compiled, **how).differences


def judged(
    p: Patient,
    compiled: Callable[..., Any],
    *,
    calls: Sequence[Call] | None = None,
    **how: Any,
) -> Judgement:
    """Compare *compiled* with the model of *p*, run eagerly, in *calls* or those of *p*.

    The rest is as for `helpers.judge.judged`.
    """
    calls = p.every_call if calls is None else calls
    loss = p.loss if p.train else False
    return judge.judged(p.eager, compiled, calls, gradients=loss, model=p.fn, **how)
