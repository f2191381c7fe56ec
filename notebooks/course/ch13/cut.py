"""Where Inductor cuts a graph for an H100, when some of its work stays on the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

from helpers.gpu import fake_gpu


@contextlib.contextmanager
def numbers_stay_on_the_cpu() -> Iterator[None]:
    """Let ``dump_triton`` keep tensors with one number and no dimension on the CPU.

    It moves all tensors to the GPU that is not here; a program with a real one often
    has its learning rate or temperature left behind.
    """
    move = fake_gpu._on_cuda

    def moved(value: Any) -> Any:
        number = isinstance(value, torch.Tensor) and value.dim() == 0
        return value if number else move(value)

    with mock.patch.object(fake_gpu, "_on_cuda", moved):
        yield
