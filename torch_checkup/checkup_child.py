"""The process in which ``checkup`` looks at a model, one part after the other.

    python -m torch_checkup.checkup_child < order.json

What a part finds goes to the report file as it comes, a line of JSON each, so that a
process that is ended has told what it knew.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch.autograd import DeviceType

from .breaks import captured
from .checkups import Part
from .helpers import correctness, text
from .helpers.codegen import kernels
from .helpers.correctness import Agreement
from .helpers.errors import InputError, one_line
from .helpers.plots import plot_comparison
from .helpers.session import compile_apart, undisturbed
from .helpers.tensors import tensors
from .helpers.text import Table
from .helpers.traffic import eager_bytes
from .patient import Patient, in_turn, race
from .silent import silent
from .tries import next_steps
from .versions import again

_ANSWERS = {True: "agree", False: "DIFFER", None: "not decided"}

_BISECT = (
    "find the layer that is wrong: torch.compile(model, backend='aot_eager'), and the "
    "bisector (lesson 16)"
)
_FEWER_BYTES = 0.95
"""Below this share of eager's bytes, kernels move less than eager does."""

# ------------------------------------------------------------------- the parts


def answered(p: Patient) -> Part:
    """Does compiled code give eager's answers?"""
    what = "answers and gradients" if p.train else "answers"
    rows = []
    notes, found = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for number, (answer, agreed) in enumerate(_answers(p), 1):
        off = ", ".join(f"{e:.2g}" for e in agreed.error64 or (agreed.max_error,))
        rows.append((str(number), answer, text.mark(off)))
        found[answer].append(str(number))
        for note in agreed.notes:
            notes[note].append(str(number))
    head = ["inputs", what, "off from float64: eager, compiled"]
    said = [f"inputs {', '.join(those)}: {note}" for note, those in notes.items()]
    evidence, differ = (str(Table.of(head, rows)), *said), ", ".join(found["DIFFER"])
    verdict, matches, advice = "bad", False, (_BISECT,)
    if raised := ", ".join(found["RAISES"]):
        says = f"compiled {what} fail for inputs {raised}, where eager's come"
        if differ:
            says += f", and are not eager's for inputs {differ}"
        advice = (_fixed_sizes(p) or _BISECT,)
    elif differ:
        says = f"compiled {what} are not eager's"
    elif found["not decided"]:
        verdict, matches, advice = "cannot tell", None, ()
        says = f"whether {what} agree was not decided"
    else:
        verdict, matches, advice = "good", True, ()
        says = f"compiled {what} are as near to float64 as eager's"
    return Part("matches", verdict, says, {"matches": matches}, evidence, advice)


def _answers(p: Patient) -> Iterator[tuple[str, Agreement]]:
    """Yield whether each call agrees, differs or raises, and how far it is off."""
    compiled = p.compiled()
    for number, call in enumerate(p.calls):
        try:
            agreed = p.answers(compiled, call)
            yield _ANSWERS[agreed.matches], agreed
        except InputError as error:
            if number == 0:  # it never ran: there is no answer to judge
                raise
            first = str(error).splitlines()[0]
            yield "RAISES", Agreement(False, math.inf, notes=(first,))


def _fixed_sizes(p: Patient) -> str:
    """Return that code for fixed sizes gives all of eager's answers, if it does."""
    compiled = p.compiled(dynamic=False)
    again = partial(compile_apart, p.fn, dynamic=False)
    with suppress(InputError):
        if all(p.answers(compiled, c, again=again).matches for c in p.calls):
            return (
                "torch.compile(model, dynamic=False): eager's answers for all these "
                "inputs; what failed is code for sizes that vary"
            )
    return ""


def traffic(p: Patient) -> Part:
    """What do kernels and library calls move, and what could fusion win at most?"""
    inputs, kwargs = p.calls[0]
    ours = kernels(p.fn, *inputs, kwargs=kwargs, backward=p.train)
    usual = eager_bytes(p.fn, *inputs, kwargs=kwargs, backward=p.train)
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
    limit = f"{1 / share:.1f} times as fast" if share else "no limit from libraries"
    bound = (
        f"libraries take {text.mark(f'{share:.0%}')} of eager's time; if all else took "
        f"none, it would be {text.mark(limit)}"
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
        results = list(tensors(p.fn(*inputs, **kwargs)))
    given = [t for t in tensors((inputs, kwargs, p.module)) if t.is_floating_point()]
    most = max((t.element_size() for t in given), default=8)
    wider = [t for t in results if t.is_floating_point() and t.element_size() > most]
    return str(wider[0].dtype).removeprefix("torch.") if wider else ""


_LIBRARY = re.compile(
    r"aten::(\w*mm|convolution\w*|\w*conv\w*|linear|\w*attention\w*)$"
)


def _library_share(p: Patient) -> float:
    """Return which share of eager's time products, convolutions, attention take."""
    inputs, kwargs = p.calls[0]
    run = p.run(p.fn)
    gpu = correctness.device_of((inputs, kwargs), p.fn) == "cuda"
    kind = torch.profiler.ProfilerActivity
    activities = [kind.CPU, kind.CUDA] if gpu else [kind.CPU]
    with undisturbed(run):
        run(*inputs, **kwargs)
        inputs, kwargs = p.calls[0]
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
    sides = p.run(p.fn), p.run(p.compiled())
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

    inputs, kwargs = p.calls[0]
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
        part = PARTS[name](patient)
    except InputError as error:
        first, *rest = str(error).splitlines()
        part = Part(name, "failed", first, advice=tuple(rest))
    except (Exception, SystemExit) as error:
        part = Part(name, "failed", one_line(error))
    return asdict(part)


if __name__ == "__main__":
    in_turn(json.load(sys.stdin), found_of)
