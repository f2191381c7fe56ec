"""The part ``traffic``: what kernels and library calls move, and what bounds a gain."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch.autograd import DeviceType

from .helpers import correctness, text
from .helpers.codegen import kernels
from .helpers.session import undisturbed
from .helpers.tensors import tensors
from .helpers.traffic import eager_bytes
from .model import Call, Model
from .report import Part, shown

_NEXT_TO_NOTHING = 0.01
"""A share of eager's time that sets no bound worth telling."""
_FEWER_BYTES = 0.95
"""Below this share of eager's bytes, kernels move less than eager does."""


def part(m: Model) -> Part:
    """What do kernels and library calls move, and what could fusion win at most?"""
    inputs, kwargs = m.calls[0]
    ours = kernels(m.program, *inputs, kwargs=kwargs, backward=m.train)
    usual = eager_bytes(m.eager, *inputs, kwargs=kwargs, backward=m.train)
    share = _library_share(m)
    wider = _promoted(m)
    counts = {
        "kernels": len(ours.generated),
        "library": len(ours.library),
        "bytes": ours.bytes,
        "eager_bytes": usual.bytes,
        "promotes": bool(wider),
    }
    moved = f"{text.size(ours.bytes)}, eager {text.size(usual.bytes)}"
    says = (
        f"{text.count(len(ours.generated), 'kernel')} and "
        f"{text.count(len(ours.library), 'library call')} move {moved}"
    )
    bound = "libraries take almost none of eager's time: they set no bound"
    if share > _NEXT_TO_NOTHING:
        bound = (
            f"libraries take {text.mark(f'{share:.0%}')} of eager's time; if all else "
            f"took none, it would be {text.mark(f'{1 / share:.1f} times as fast')}"
        )
    fewer = ours.kernels and ours.bytes < _FEWER_BYTES * usual.bytes
    verdict, advice = "good" if fewer else "look", ()
    if wider:
        verdict = "bad" if wider == "float64" else "look"  # a loss may be float32
        says = f"the result is {wider}, wider than all inputs and weights; {says}"
        advice = (f"find the constant or the input of {wider}, and give it x.dtype",)
    return Part("traffic", verdict, says, counts, (*shown(ours), bound), advice)


def _promoted(m: Model) -> str:
    """Return the dtype of a result that is wider than all that went in, or ''."""
    inputs, kwargs = m.calls[0]
    with undisturbed(m.fn):
        results = list(tensors(m.eager(*inputs, **kwargs)))
    given = [t for t in tensors((inputs, kwargs, m.module)) if t.is_floating_point()]
    most = max((t.element_size() for t in given), default=8)
    wider = [t for t in results if t.is_floating_point() and t.element_size() > most]
    return str(wider[0].dtype).removeprefix("torch.") if wider else ""


_LIBRARY = re.compile(
    r"aten::(\w*mm|convolution\w*|\w*conv\w*|linear|\w*attention\w*)$"
)


def _library_share(m: Model) -> float:
    """Return which share of eager's time products, convolutions, attention take.

    The median of some calls: in any one, the machine may do something else.
    """
    begin, shares = time.monotonic(), list[float]()
    run, gpu = m.run(m.eager), correctness.device_of(m.calls[0], m.fn) == "cuda"
    with undisturbed(run):
        inputs, kwargs = m.calls[0]
        run(*inputs, **kwargs)
        while True:
            shares.append(_share_of_call(run, m.calls[0], gpu))
            spent = time.monotonic() - begin
            if len(shares) == 5 or spent > m.order["budget"]:
                return median(shares)


def _share_of_call(run: Callable[..., Any], call: Call, gpu: bool) -> float:
    inputs, kwargs = call
    kind = torch.profiler.ProfilerActivity
    activities = [kind.CPU, kind.CUDA] if gpu else [kind.CPU]
    with torch.profiler.profile(activities=activities) as profile:
        run(*inputs, **kwargs)
    # Of a GPU's time, what each operation launched: its kernels stand there once more.
    events = [e for e in profile.key_averages() if e.device_type == DeviceType.CPU]

    def own(event: Any) -> float:
        return event.self_device_time_total if gpu else event.self_cpu_time_total

    products = sum(own(e) for e in events if _LIBRARY.match(e.key) or "mkldnn" in e.key)
    return products / (sum(map(own, events)) or 1)
