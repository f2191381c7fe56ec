"""The process in which ``checkup`` looks at a model, one part after the other.

    python -m torch_checkup.checkup_child < order.json

What a part finds goes to the report file as it comes, a line of JSON each, so that a
process that is ended has told what it knew.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from statistics import median
from typing import Any

import torch
from torch.autograd import DeviceType

from .answers import answered
from .breaks import captured
from .checkups import Part
from .helpers import correctness, text
from .helpers.codegen import kernels
from .helpers.errors import CompiledRaises, InputError, one_line
from .helpers.plots import plot_comparison
from .helpers.session import undisturbed
from .helpers.tensors import tensors
from .helpers.traffic import eager_bytes
from .patient import Call, Patient, ask_for_instructions, in_turn, race
from .silent import silent
from .tries import next_steps
from .versions import again

_UNCALLED = ("matches", "gpu")
"""Parts that are asked where eager raises in every call, too."""
_BUILT = ("matches", "traffic", "speed", "next")
"""Parts that build kernels."""
_NEXT_TO_NOTHING = 0.01
"""A share of the time that bounds what can be won at more than is ever won."""
_FEWER_BYTES = 0.95
"""Below this share of eager's bytes, kernels move less than eager does."""

# ------------------------------------------------------------------- the parts


def traffic(p: Patient) -> Part:
    """What do kernels and library calls move, and what could fusion win at most?"""
    inputs, kwargs = p.calls[0]
    ours = kernels(p.fn, *inputs, kwargs=kwargs, backward=p.train)
    usual = eager_bytes(p.eager, *inputs, kwargs=kwargs, backward=p.train)
    share = _library_share(p)
    wider = _promoted(p)
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
    bound = "libraries take next to nothing of eager's time, and bound nothing"
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
    return Part("traffic", verdict, says, counts, (str(ours), bound), advice)


def _promoted(p: Patient) -> str:
    """Return the dtype of a result that is wider than all that went in, or ''."""
    inputs, kwargs = p.calls[0]
    with undisturbed(p.fn):
        results = list(tensors(p.eager(*inputs, **kwargs)))
    given = [t for t in tensors((inputs, kwargs, p.module)) if t.is_floating_point()]
    most = max((t.element_size() for t in given), default=8)
    wider = [t for t in results if t.is_floating_point() and t.element_size() > most]
    return str(wider[0].dtype).removeprefix("torch.") if wider else ""


_LIBRARY = re.compile(
    r"aten::(\w*mm|convolution\w*|\w*conv\w*|linear|\w*attention\w*)$"
)


def _library_share(p: Patient) -> float:
    """Return which share of eager's time products, convolutions, attention take.

    The median of some calls: in any one, the machine may do something else.
    """
    begin, shares = time.monotonic(), list[float]()
    run, gpu = p.run(p.eager), correctness.device_of(p.calls[0], p.fn) == "cuda"
    with undisturbed(run):
        inputs, kwargs = p.calls[0]
        run(*inputs, **kwargs)
        while True:
            shares.append(_share_of_call(run, p.calls[0], gpu))
            spent = time.monotonic() - begin
            if len(shares) == 5 or spent > p.order["budget"]:
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


def speed(p: Patient) -> Part:
    """Is it faster, and after how many calls is it paid back?"""
    inputs, kwargs = p.calls[0]
    sides = p.run(p.eager), p.run(p.compiled())
    result = race(sides, inputs, kwargs=kwargs, budget=p.order["budget"])
    counts = {
        "speedup": round(result.speedup, 4),
        "speedup_low": round(result.interval[0], 4),
        "speedup_high": round(result.interval[1], 4),
        "paid_back": min(result.calls_to_pay_back, 1e12),
    }
    verdict = {"faster": "good", "slower": "bad", "same": "look"}.get(
        result.verdict, "cannot tell"
    )
    evidence, picture = (str(result),), plot_comparison(result)._repr_html_()
    says = text.mark(result.ratio())
    return Part("speed", verdict, says, counts, evidence, pictures=(picture,))


def gpu(p: Patient) -> Part:
    """What would a GPU run?"""
    from .helpers.gpu.dump import dump_triton  # here, for its import takes a second

    inputs, kwargs = p.every_call[0]  # it needs no eager call
    fn = partial(p.fn, **kwargs) if kwargs else p.fn
    chip = p.order["gpu"]
    dump = dump_triton(fn, *inputs, gpu=chip, training=p.train)
    codes = [kernel.on(chip) for kernel in dump.kernels]
    says = (
        f"on {chip}: {text.count(len(dump.kernels), 'kernel')} of Triton and "
        f"{text.count(len(dump.library), 'library call')}"
    )
    spilled = sum(code.spills or 0 for code in codes)
    counts = {"gpu_kernels": len(dump.kernels), "gpu_spilled": spilled}
    verdict = "look" if spilled else "good"
    return Part("gpu", verdict, says, counts, (str(dump), *map(str, codes)))


PARTS: dict[str, Callable[[Patient], Part]] = {
    "matches": answered,
    "capture": captured,
    "recompiles": again,
    "silent": silent,
    "traffic": traffic,
    "speed": speed,
    "gpu": gpu,
    "next": next_steps,
}


def found_of(patient: Patient, name: str) -> dict[str, Any]:
    """Return what one part finds, or how it failed: the others go on."""
    try:
        if len(patient.fails) and not patient.calls and name not in _UNCALLED:
            why = one_line(patient.fails[0])
            part = Part(name, "not run", f"eager raises in every call: {why}")
        else:
            if name in _BUILT:
                ask_for_instructions()
            part = PARTS[name](patient)
    except InputError as error:
        first, *rest = str(error).splitlines()
        ours = not isinstance(error, CompiledRaises)
        part = Part(name, "failed" if ours else "bad", first, advice=tuple(rest))
    except (Exception, SystemExit) as error:
        part = Part(name, "failed", one_line(error))
    # When, by the clock that all processes of a machine share: some end at once.
    return asdict(part) | {"when": time.monotonic()}


if __name__ == "__main__":
    in_turn(json.load(sys.stdin), found_of)
