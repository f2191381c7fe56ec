"""What an attention holds in memory, and what torch warns of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

from torch.nn.attention import flex_attention as flex

from course.memory import peak


def most_memory(call: Callable[[], Any]) -> int:
    """Return the most bytes that a second call holds at a time, counted from 0.

    Of the first, warnings are not shown.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()
    return peak(call)


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
