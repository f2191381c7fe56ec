"""The process in which ``checkup`` looks at a model, one part after the other.

    python -m torch_checkup.checkup_child < order.json

What a part finds goes to the report file as it comes, a line of JSON each, so that a
process that is ended has told what it knew.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
import types
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

import torch
from torch.autograd import DeviceType

from .checkups import Part
from .helpers import correctness, text
from .helpers.capture import Watch, graphs, recompiles
from .helpers.codegen import kernels
from .helpers.correctness import Agreement
from .helpers.errors import InputError, one_line
from .helpers.plots import plot_comparison
from .helpers.session import compile_apart, restored, undisturbed
from .helpers.tensors import tensors
from .helpers.text import Table
from .helpers.traffic import eager_bytes
from .patient import Call, Patient, doubled, in_turn, race
from .tries import tried

_ANSWERS = {True: "agree", False: "DIFFER", None: "not decided"}

_BISECT = (
    "find the layer that is wrong: torch.compile(model, backend='aot_eager'), and the "
    "bisector (lesson 16)"
)
_MOST_NUMBERS = 6
"""So many attributes are changed after the first call: each change compiles."""
_FEWER_BYTES = 0.95
"""Below this share of eager's bytes, kernels move less than eager does."""
_LATE_HOOKS = (
    "No compiled model notices a hook on an inner module that comes after the first "
    "call, unless torch._dynamo.config.skip_nnmodule_hook_guards is False: add hooks "
    "before the first call."
)

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


def captured(p: Patient) -> Part:
    """Is everything captured?"""
    every = [graphs(p.fn, *inputs, **kwargs) for inputs, kwargs in p.calls]
    seen = max(every, key=lambda one: (not one.count, len(one.breaks), one.count))
    graph, stops = text.count(seen.count, "graph"), len(seen.breaks)
    verdict, says = "good", "all of it is one graph"
    if not seen.count:
        verdict, says = "bad", "nothing was captured: all of it runs eagerly"
    elif stops:
        verdict = "look"
        says = f"{text.count(stops, 'graph break')} cut it into {graph}"
    elif seen.count > 1:
        says = f"{graph}, without a graph break"
    messages = filter(None, (stop.message for stop in seen.breaks))
    evidence = (*map(str, seen.breaks), *messages)
    advice = tuple(
        f"line {stop.line} of {stop.file}: {stop.fix or '; '.join(stop.hints)}"
        for stop in seen.breaks
    )
    counts = {"graphs": seen.count, "breaks": stops}
    return Part("capture", verdict, says, counts, evidence, advice)


def again(p: Patient) -> Part:
    """What compiles again over these inputs?"""
    rounds = max(2, 4 // len(p.calls))
    order = [*p.calls] * rounds  # the same once more: what still compiles has no end
    half = p.order["timeout"] / 2  # of its seconds: it keeps what it has seen
    seen = recompiles(p.fn, order, budget=half)
    later = sum(seen.counts[len(p.calls) :])
    extra = sum(seen.counts[1 : len(p.calls)])
    guards = list(dict.fromkeys(g for call in seen.calls for g in call.guards))
    verdict, says = "good", "one more version serves the rest"
    if later or seen.limit_hit:
        ends = not any(seen.counts[-len(p.calls) :])  # as where a table is made once
        verdict = "look" if ends and not (seen.limit_hit or seen.stopped) else "bad"
        often = f"{text.count(later, 'time')} in {rounds} rounds"
        says = f"inputs that it has seen compile again: {often}"
        if seen.limit_hit:
            says += ", up to the recompile limit, and then run eagerly"
    elif extra > 1:
        verdict, says = "look", f"these inputs compile {extra} more versions"
    elif not extra:
        says = "no second version"
    if len(p.calls) == 1:
        says += "; one set of inputs was given: give a list of those that come"
    if seen.stopped:
        says += f"; {seen.stopped}"
    counts = {
        "recompiles": extra + later,
        "later_recompiles": later,
        "limit_hit": seen.limit_hit,
        "guards": "; ".join(guards),
    }
    advice = tuple(map(_promise, guards))
    return Part("recompiles", verdict, says, counts, (str(seen),), advice)


_SIZE = r"tensor '(.+?)' size mismatch at index (\d+)"


def _promise(guard: str) -> str:
    """Return what would stop a recompile that this guard brings."""
    if match := re.search(_SIZE, guard):
        name, dimension = match.groups()
        return f"first torch._dynamo.mark_dynamic({name}, {dimension})"
    if "dtype mismatch" in guard:
        return "bring all inputs to one dtype before the call"
    if "num_threads" in guard:
        return "call torch.set_num_threads before the first call, and not again"
    if re.search(r"\.size\(\)\[\d+\] == ", guard):  # duck shaping
        return "in the first call, let sizes that vary apart be different numbers"
    if re.search(r"^2 <= .*\.size\(\)", guard):
        return "a size of 0 or 1 has a version of its own: warm it up, too, or pad it"
    if re.search("requires_grad|GLOBAL_STATE|grad_mode", guard):
        return "warm up with gradients as they will be: with or without no_grad()"
    if match := re.search(r"([\w.\[\]']+) == ", guard):
        return f"keep {match[1]} out of the compiled function, or make it a tensor"
    return f"see what changes: {guard}"


def silent(p: Patient) -> Part:
    """Is something silently eager, stale or ignored?"""
    inputs, kwargs = p.calls[0]
    with undisturbed(p.fn):
        compiled = p.compiled(backend="eager")  # enough for what Dynamo knows
        with Watch() as watch:
            compiled(*inputs, **kwargs)
    if not watch.graphs:
        says = "no graph ran: the call is eager"
        why = "look for TORCH_COMPILE_DISABLE, a stance, or torch.compiler.disable"
        counts = {"compiled": False, "stale": 0}
        return Part("silent", "bad", says, counts, advice=(why,))
    noticed = {name: _notices(p, change) for name, change in _changes(p)}
    noticed = {name: seen for name, seen in noticed.items() if seen is not None}
    rows = [(n, "noticed" if seen else "NOT NOTICED") for n, seen in noticed.items()]
    missed = [name for name, seen in noticed.items() if not seen]
    hooks = [name for name in missed if name.startswith("a hook")]
    stale = [name for name in missed if name not in hooks]
    if _later_call_differs(p):
        rows.insert(0, ("nothing: a second call in the same way", "DIFFERS from eager"))
        stale.insert(0, "what the first call itself changed, such as a hook or a list")
    counts = {"compiled": True, "stale": len(stale)}
    table = Table.of(["changed after the first call", "compiled code"], rows)
    evidence = [str(table)] if rows else []
    if hooks:
        evidence.append(_LATE_HOOKS)
    if stale:
        says = f"not noticed after the first call: {', '.join(stale)}"
        mend = "change it before the first call, or call torch.compiler.reset() after"
        return Part("silent", "bad", says, counts, tuple(evidence), (mend,))
    seen = text.count(len(rows) - len(hooks), "change")
    says = f"its graph runs; {seen} after the first call noticed"
    return Part("silent", "good", says, counts, tuple(evidence))


def _later_call_differs(p: Patient) -> bool:
    """Return whether the third of three calls differs, where the first agreed.

    A call can change what the next one does: a hook that it adds, a number that it
    keeps.  Eager follows by itself, compiled code by its guards and by what AOTAutograd
    writes back: kernels have no part in it.
    """

    def three(fn: Callable[..., Any]) -> list[list[torch.Tensor]]:
        state = undisturbed(fn)  # make() may return the same model each time
        with state, torch.no_grad(), correctness.seeded(0):
            return [_answer(fn, p.calls[0]) for _ in range(3)]

    try:
        eager = three(p.made_again())
        torch.compiler.reset()
        ours = three(torch.compile(p.made_again(), backend="aot_eager"))
    except Exception:  # it fails in another part too, and is reported there
        return False
    return _near(eager[0], ours[0]) and not _near(eager[2], ours[2])


def _answer(fn: Callable[..., Any], call: Call) -> list[torch.Tensor]:
    inputs, kwargs = call
    return correctness.values_of(fn(*inputs, **kwargs))


def _near(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    """Return whether tensors are roughly equal: a stale answer is off by more."""
    return [t.shape for t in some] == [t.shape for t in others] and all(
        correctness.close(a, b, rtol=1e-2, atol=1e-3)
        for a, b in zip(some, others, strict=True)
    )


def _changes(p: Patient) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield changes that people make after the first call: of a hook, mode, number."""
    modules = dict(p.module.named_modules()) if p.module else {}
    leaves = [n for n, part in modules.items() if n and not list(part.children())]
    for name in dict.fromkeys(leaves[:1] + leaves[-1:]):
        hook = modules[name].register_forward_hook
        yield f"a hook on {name}", partial(hook, doubled)
    if p.module:
        mode = not p.module.training
        yield "train()" if mode else "eval()", partial(p.module.train, mode)
    numbers = [
        (f"{name}.{key}".removeprefix("."), partial(setattr, part, key, _other(value)))
        for name, part in modules.items()
        for key, value in vars(part).items()
        if _is_number(value) and not key.startswith("_")
    ]
    for name, change in numbers[:_MOST_NUMBERS]:
        yield f"the attribute {name}", change
    function = inspect.unwrap(getattr(p.fn, "forward", p.fn))
    function = getattr(function, "__func__", function)
    if isinstance(function, types.FunctionType):
        scope = function.__globals__
        for name in function.__code__.co_names:
            if _is_number(scope.get(name)):
                change = partial(scope.__setitem__, name, _other(scope[name]))
                yield f"the global {name}", change


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _other(value: float) -> float:
    return value + 1 if isinstance(value, int) else value * 1.5 + 0.5


def _notices(p: Patient, change: Callable[[], Any]) -> bool | None:
    """Return whether compiled code follows *change*; None if it changes no answer."""

    def answer(fn: Callable[..., Any], around: Any = undisturbed) -> list[torch.Tensor]:
        with around(p.fn), correctness.seeded(0), torch.no_grad():
            return _answer(fn, p.calls[0])

    def changed(fn: Callable[..., Any]) -> list[torch.Tensor]:
        with restored(p.fn):
            change()
            return answer(fn)

    try:
        before = answer(p.fn)
        if not _near(before, answer(p.fn)):  # it changes by itself
            return None
        after = changed(p.fn)
        if _near(before, after):
            return None
        torch.compiler.reset()
        # Itself: a copy would not see what changes.  Guards notice, not kernels.
        compiled = torch.compile(p.fn, backend="eager")
        answer(compiled, restored)  # undisturbed would forget what is compiled
        return _near(changed(compiled), after)
    except Exception:  # a number that cannot be another one: nothing to learn
        return None


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


def next_steps(p: Patient) -> Part:
    """What to try next: all of it is tried, and held against the present state."""
    found = tried(p)
    rows = [(t.line, t.effect, _ANSWERS[t.agrees], t.costs) for t in found]
    table = str(Table.of(["tried", "effect", "answers", "costs"], rows))
    helps = [t for t in found if t.helps]
    says = [f"{t.line}: {t.effect}" for t in helps] or ["nothing tried helps"]
    advice = tuple(
        f"{said} ({t.costs})" if t.costs else said
        for said, t in zip(says, helps, strict=False)
    )
    verdict = "look" if helps else "good"
    return Part("next", verdict, says[0], {}, (table,), advice)


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
