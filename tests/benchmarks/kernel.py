"""A kernel for data/benchmarks: dumped for an H100 where there may be no GPU."""

from __future__ import annotations

import re

import torch

from helpers import dump_triton
from tests.benchmarks.common import record

CODE = """\
import torch
from helpers import dump_triton


def f(x, y):
    return torch.nn.functional.gelu(x + y)


x, y = torch.randn(2, 1 << 20)  # on the CPU
kernel = dump_triton(f, x, y, gpu="h100").kernels[0]
print(kernel)
print(kernel.on("h100"))
"""


def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return what the page's function returns."""
    return torch.nn.functional.gelu(x + y)


def shown() -> str:
    """Return what the page's code prints, and the loads and stores in PTX."""
    x, y = torch.randn(2, 1 << 20)
    (kernel,) = dump_triton(f, x, y, gpu="h100").kernels
    moves = re.findall(r"^\s*((?:@\S+ )?(?:ld|st)\.global\S*)", kernel.ptx, re.M)
    return f"{kernel}\n{kernel.on('h100')}\nin PTX: {', '.join(moves)}"


def main() -> None:
    """Dump the kernel, print it and record it."""
    text = shown()
    record("kernel", [{"code": CODE, "shown": text}])
    print(text)
