"""The part ``recompiles``: what compiles again over these inputs?"""

from __future__ import annotations

import re

from .checkups import Part
from .helpers import text
from .helpers.capture import recompiles
from .patient import Patient


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
