"""The part ``gpu``: what would a GPU run?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from .helpers import text
from .helpers.errors import InputError
from .helpers.gpu.dump import Dump, dump_triton
from .helpers.gpu.forecasts import forecast
from .model import Model
from .report import Part, shown

_SHOWN, _LARGE = 3, 1_000_000  # kernels with their stages; characters of HTML


def part(m: Model) -> Part:
    """What would a GPU run?"""
    inputs, kwargs = m.every_call[0]  # it needs no eager call
    fn = partial(m.fn, **kwargs) if kwargs else m.fn
    chip = m.order["gpu"]
    try:
        found = forecast(fn, *inputs, gpu=chip, training=m.train)
        dump, evidence = found.dump, shown(found)
        could = f"; {found.verdict}, {found.speedup:.2f}x by estimate"
    except InputError as error:  # no peak is published, or eager doesn't run
        dump = dump_triton(fn, *inputs, gpu=chip, training=m.train)
        could, evidence = "", (f"no forecast: {error}",)
    codes = [kernel.on(chip) for kernel in dump.kernels]
    says = f"on {chip}: {text.count(len(dump.kernels), 'kernel')} of Triton and "
    says += f"{text.count(len(dump.library), 'library call')}{could}"
    spilled = sum(code.spills or 0 for code in codes)
    counts = {"gpu_kernels": len(dump.kernels), "gpu_spilled": spilled}
    verdict = "look" if spilled else "good"
    evidence = *evidence, *shown(dump), *map(str, codes)
    return Part("gpu", verdict, says, counts, evidence, pictures=tuple(_page(dump)))


def _page(dump: Dump) -> Iterator[str]:
    """Yield the page of the kernels that move most, where it isn't large."""
    kernels = {kernel.name: kernel for kernel in dump.kernels}.values()
    most = sorted(kernels, key=lambda kernel: -kernel.bytes)[:_SHOWN]
    page = replace(dump, launches=tuple(most)).page()
    if most and len(page.html) < _LARGE:
        yield page._repr_html_()
