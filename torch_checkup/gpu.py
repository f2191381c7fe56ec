"""The part ``gpu``: what would a GPU run?"""

from __future__ import annotations

from functools import partial

from .helpers import text
from .helpers.gpu.dump import dump_triton
from .model import Model
from .report import Part, shown


def part(m: Model) -> Part:
    """What would a GPU run?"""
    inputs, kwargs = m.every_call[0]  # it needs no eager call
    fn = partial(m.fn, **kwargs) if kwargs else m.fn
    chip = m.order["gpu"]
    dump = dump_triton(fn, *inputs, gpu=chip, training=m.train)
    codes = [kernel.on(chip) for kernel in dump.kernels]
    says = (
        f"on {chip}: {text.count(len(dump.kernels), 'kernel')} of Triton and "
        f"{text.count(len(dump.library), 'library call')}"
    )
    spilled = sum(code.spills or 0 for code in codes)
    counts = {"gpu_kernels": len(dump.kernels), "gpu_spilled": spilled}
    verdict = "look" if spilled else "good"
    return Part("gpu", verdict, says, counts, (*shown(dump), *map(str, codes)))
