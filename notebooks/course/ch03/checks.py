"""Checks and hints of notebook 03."""

import torch

from course.exercises import exercise, near, one_compile
from helpers.text import count
from torch_checkup.checkups import Checkup, Part

# --- 03.1 ----------------------------------------------------------------------


class Meter(torch.nn.Module):
    """The sick one."""

    def __init__(self):
        super().__init__()
        self.calls, self.largest = 0, 0.0

    def forward(self, x):
        self.calls += 1
        self.largest = max(self.largest, x.abs().max().item())
        return x / self.largest * self.calls


def _inputs(dtype):
    """Return inputs whose largest number grows, and grows no more."""
    draw = torch.Generator().manual_seed(0)
    sizes = (1.0, 3.0, 0.5, 4.0)
    return [s * torch.randn(6, 4, generator=draw).to(dtype) for s in sizes]


def _step(model, x):
    x = x.clone().requires_grad_()
    result = model(x)
    result.float().square().sum().backward()
    return result.detach(), x.grad


@exercise(
    "03.1",
    hints=(
        "Both ills are numbers of Python that change: one is made of a tensor, the "
        "other is counted. What keeps a number that changes, in a module?",
        "Two buffers without dimensions, and torch.maximum in place of max. A number "
        "has no gradient: what must the largest one not have?",
        "Buffers, persistent=False: torch.tensor(0) for 'calls', torch.zeros(()) for "
        "'largest'; then self.calls = self.calls + 1, self.largest = "
        "torch.maximum(self.largest, x.detach().abs().max()), and the same return.",
    ),
    passed="One graph, no matter how often it is called.",
)
def meter(answer):
    for dtype in (torch.float32, torch.bfloat16):
        healthy, sick = answer(), Meter()
        for number, x in enumerate(_inputs(dtype), 1):
            (result, slope), (wanted, wanted_slope) = _step(healthy, x), _step(sick, x)
            if result.dtype != dtype:
                wider = result.dtype
                return f"{dtype} goes in, and {wider} comes out: find what is wider"
            if not near(result, wanted, 0.02):
                return f"call {number} gives another result than the sick one"
            if not near(slope, wanted_slope, 0.03):
                return f"call {number} has another gradient than the sick one"
    if keys := sorted(answer().state_dict()):
        return (
            f"the state_dict has {', '.join(keys)}, which no old checkpoint has: "
            "persistent=False"
        )
    half, one = answer().bfloat16(), torch.ones(1, dtype=torch.bfloat16)
    for _ in range(300):  # bfloat16 has no 257
        result = half(one)
    if not near(result, 300 * one, 0.01):
        return (
            f"as bfloat16, it has counted to {result.item():g} after "
            f"{count(300, 'call')}: count in an integer"
        )
    return one_compile(answer, [(x,) for x in _inputs(torch.float32)])


# --- 03.2 ----------------------------------------------------------------------


def _report(**counts):
    """Return a report with these counts, and a healthy model's others."""
    whole = {"matches": True, "graphs": 2, "breaks": 1, "recompiles": 1}
    whole |= {"later_recompiles": 0, "limit_hit": False, "compiled": True}
    whole |= {"stale": 0, "kernels": 4, "library": 4, "promotes": False}
    whole |= {"speedup": 1.4, "speedup_low": 1.3, "speedup_high": 1.5, **counts}
    return Checkup("mine:make", (Part("all", "good", "", whole),), False, 2)


PASS = {
    "the healthy one": _report(),
    "healthy, with a newer torch": _report(
        kernels=5, library=3, recompiles=2, speedup=0.9, speedup_low=0.8
    ),
}
STOP = {
    "it runs eagerly": _report(
        graphs=0,
        breaks=0,
        compiled=False,
        recompiles=0,
        kernels=0,
        library=0,
        speedup=1.0,
    ),
    "it runs eagerly, from its one break on": _report(
        graphs=0, breaks=1, compiled=False, kernels=0, library=0
    ),
    "it has a second break": _report(graphs=3, breaks=2),
    "it goes stale": _report(stale=1, speedup=1.5),
    "it compiles for inputs that it has seen": _report(
        recompiles=2, later_recompiles=1
    ),
    "it is fast and wrong": _report(matches=False, speedup=3.0, speedup_low=2.9),
}


@exercise(
    "03.2",
    hints=(
        "Five versions to stop: which part of a report names each?",
        "A rule on kernels, on speed, or on all recompiles stops the healthy one too.",
        "matches, compiled, graphs=2, stale=0 and later_recompiles=0: with commas, one "
        "text.",
    ),
    passed="It stops what is worse, and not what is only different.",
)
def gate(answer):
    rules = answer()
    for name, report in PASS.items():
        if unmet := report.unmet(rules):
            return f"stopped, though it is healthy: {name}: {'; '.join(unmet)}"
    for name, report in STOP.items():
        if not report.unmet(rules):
            return f"not stopped: {name}"
    return None
