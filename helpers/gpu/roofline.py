"""The roofline: what one call takes on a chip, by its bytes and its operations."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..codegen import Kernel
from ..text import seconds, size
from . import gpus

# The same for every chip and model, chosen on twelve published rows of an A100.  Tuned
# code reaches such a share of a peak, and a kernel takes so long however small.
SHARE = 0.8
SMALLEST_S = 2e-6
# What a launch adds to its kernel, even where it is replayed: a CUDA graph of empty
# kernels took 0.58 µs for each, https://github.com/ahrefs/ocannl/issues/488.
GAP_S = 0.6e-6
# A product is computed in square tiles of its result, one for each multiprocessor at a
# time.  Smaller ones fill a chip better, and reuse less of what they read.
TILES = {128: 1.0, 64: 0.8, 32: 0.5}
# A convolution on tensor cores reaches less: its layout is changed, and its channels
# are few.  One with fewer multiplications for each result, such as a depthwise one, is
# no product of matrices: its kernels read their neighbours again and again.
CONVOLUTION_SHARE = 0.25
FEW, FEW_SHARE = 32, 0.25
# A GeForce multiplies matrices of 16 bits or less at half its peak where the sums are
# float32, as torch's are by default: NVIDIA, GA102 and Ada architectures.
GEFORCE_SHARE = 0.5

PARTS = ("products", "attention", "between")


@dataclass(frozen=True)
class Roof:
    """One call or launch on a chip: seconds by its bytes and operations, and the least.

    *part* is one of `PARTS`.
    """

    part: str
    moving: float
    computing: float
    least: float
    beyond: int  # bytes that no cache holds: of the launch before, for the next, twice

    @property
    def took(self) -> float:
        """The estimate."""
        return max(self.moving, self.computing, SMALLEST_S) + GAP_S

    @property
    def decides(self) -> str:
        """What takes longest: ``memory`` or ``arithmetic``."""
        return "memory" if self.moving >= self.computing else "arithmetic"


def roof(call: Kernel, chip: gpus.Gpu, peaks: gpus.Peaks) -> Roof:
    """Return what a launch, or one of eager's calls, takes on *chip*.

    Raises InputError for a product in a dtype without a published peak.
    """
    moving = call.bytes / peaks.bandwidth
    beyond = max(0, call.bytes - call.gathered - 2 * chip.l2)
    if not call.flops:
        return Roof("between", moving / SHARE, 0.0, 0.0, beyond)
    convolution = "conv" in call.name
    tf32 = torch.backends.cudnn.allow_tf32
    if not convolution:
        tf32 = torch.get_float32_matmul_precision() != "highest"
    rate = peaks.rate(call.dtype, tf32)
    least, computing = call.needed / rate, call.flops / rate
    if "GeForce" in chip.title and call.dtype != "float32" and not convolution:
        computing /= GEFORCE_SHARE
    if "attention" in call.name:
        return Roof("attention", moving / SHARE, computing / SHARE, least, beyond)
    if convolution and call.flops < 2 * FEW * call.results:
        return Roof("products", moving / FEW_SHARE, computing, least, beyond)
    slow = convolution and rate > peaks.rates["float32"]
    share = (CONVOLUTION_SHARE if slow else SHARE) * _filled(call.results, chip)
    return Roof("products", moving / SHARE, computing / share, least, beyond)


def says(call: Kernel, chip: gpus.Gpu) -> str:
    """Return the same in words; InputError where no peak is published."""
    peaks = gpus.peaks(chip)
    one = roof(call, chip, peaks)
    least = max(one.least, one.beyond / peaks.bandwidth)
    never = f", never under {seconds(least)}" if least else ""
    took = f"{seconds(one.took)} by estimate{never}"
    return f"{size(call.bytes)} moved, {took}: {one.decides} decides"


def _filled(results: int, chip: gpus.Gpu) -> float:
    """Return the share of the chip that the best size of tiles keeps busy."""
    shares = []
    for side, quick in TILES.items():
        tiles = -(-results // side**2)
        rounds = -(-tiles // chip.multiprocessors)
        shares.append(quick * tiles / (rounds * chip.multiprocessors))
    return max(shares)
