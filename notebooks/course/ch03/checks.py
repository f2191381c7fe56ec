"""Checks and hints of notebook 03."""

import torch

from course.exercises import (
    exercise,
    in_place,
    left_behind,
    near,
    one_compile,
    what_differs,
)
from torch_checkup.report import Checkup, Part

# --- 03.1 ----------------------------------------------------------------------

GOOD = {
    "matches": True,
    "compiled": True,
    "graphs": 2,
    "breaks": 1,
    "recompiles": 1,
    "later_recompiles": 0,
    "limit_hit": False,
    "stale": 0,
    "kernels": 4,
    "library": 3,
    "promotes": 0,
    "speedup": 1.4,
}
PASS = {
    "a good model": {},
    "a good model after an upgrade": {
        "kernels": 9999,
        "recompiles": 10**6,
        "speedup": 0.01,
    },
    "a good model with fewer kernels": {"kernels": 0, "library": 0, "speedup": 9.0},
}
STOP = {
    "one that runs eagerly": {
        "compiled": False,
        "graphs": 0,
        "breaks": 0,
        "recompiles": 0,
        "kernels": 0,
        "speedup": 1.0,
    },
    "one that runs eagerly from its one break on": {"graphs": 1},
    "one with a second break": {"graphs": 3, "breaks": 2},
    "one with a second break, and nothing compiled behind it": {"breaks": 2},
    "one that goes stale": {"stale": 1},
    "one that compiles for inputs it has seen": {
        "recompiles": 2,
        "later_recompiles": 1,
    },
    "one that is fast and wrong": {"matches": False},
}


@exercise(
    "03.1",
    hints=(
        "Seven versions to stop: which part of a report names each?",
        "A rule on kernels, on speed, or on all recompiles stops the good one too.",
        "matches, compiled, graphs=2, breaks=1, stale=0 and later_recompiles=0: with "
        "commas, one text.",
    ),
    passed="It stops what is worse, and not what is only different.",
)
def gate(answer):
    if not isinstance(rules := answer(), str):
        return f"return one text with commas, and not {rules!r:.40}"
    for name, changed in {**PASS, **STOP}.items():
        parts = (Part("all", "good", "", GOOD | changed),)
        report = Checkup(target="", parts=parts, trains=False, calls=2)
        unmet = report.unmet(rules)
        if name in PASS and unmet:
            return f"{name} is stopped by {unmet[0]}"
        if name in STOP and not unmet:
            return f"{name} passes your gate"
    return None


# --- 03.2 ----------------------------------------------------------------------


class Meter(torch.nn.Module):
    """The one with issues."""

    def __init__(self):
        super().__init__()
        self.calls, self.largest = 0, 0.0

    def forward(self, x):
        self.calls += 1
        self.largest = max(self.largest, x.abs().max().item())
        return x / self.largest * self.calls


def _called(factory):
    """Return what gives the results of some calls of a new module, and gradients."""

    def run(*inputs):
        module, found, gradients = factory(), [], []
        for x in inputs:
            x = x.detach().requires_grad_()
            found.append(module(x))
            gradients += torch.autograd.grad(found[-1].square().sum(), x)
        return {"results": found, "gradients": gradients}

    return run


def _inputs(dtype=torch.float32):
    """Return inputs whose largest number grows, and grows no longer."""
    draw = torch.Generator().manual_seed(0)
    sizes = 1e-9, 3.0, 9.0, 0.5, 4.0
    found = [(s * torch.randn(6, 4, generator=draw)).to(dtype) for s in sizes]
    found[2][0, 0] = torch.nan  # which is no call's largest number
    return found


def _mixed():
    """Return inputs of both dtypes, in turn."""
    full, half = _inputs(), _inputs(torch.bfloat16)
    return full[1], half[3], full[3]


@exercise(
    "03.2",
    hints=(
        "Both issues are Python numbers that change: one is made from a tensor, the "
        "other is counted. What keeps a number that changes, in a module?",
        "Two buffers without dimensions, and torch.fmax in place of max. A number "
        "has no gradient: what must the largest one not have?",
        "Buffers, persistent=False: torch.tensor(0) for 'calls', torch.zeros(()) for "
        "'largest'; then self.calls = self.calls + 1, self.largest = "
        "torch.fmax(self.largest, x.detach().abs().max()), and the same return.",
    ),
    passed="One graph, no matter how often it's called.",
    like=Meter,
    made=_called,
    inputs=lambda: [tuple(_inputs()), tuple(_inputs(torch.bfloat16)), _mixed()],
)
def meter(answer):
    if keys := sorted(answer().state_dict()):
        return f"the state_dict has {', '.join(keys)}, which no old checkpoint has"
    module = answer()
    module(torch.ones(2, requires_grad=True))
    kept = [*module.buffers(), *vars(module).values()]
    if any(getattr(value, "requires_grad", False) for value in kept):
        return "what the module keeps requires a gradient: each call's graph stays"
    if told := left_behind(module):
        return told
    if not [*module.buffers()]:
        return "it keeps no buffer, and what is elsewhere stays where it is"
    half, one = answer().bfloat16(), torch.ones(1, dtype=torch.bfloat16)
    for _ in range(300):  # bfloat16 has no 257
        result = half(one)
    if not near(result, 300 * one, 0.01):
        return f"as bfloat16, it has counted to {result.item():g} after 300 calls"
    compiled = _called(lambda: torch.compile(answer(), backend="eager"))
    if told := what_differs(compiled, _called(Meter), [tuple(_inputs())]):
        return f"compiled, {told}"
    if told := in_place(module, torch.full((2,), 2.0)):
        return told
    low = answer().bfloat16()(torch.tensor([3.01, 1.0]))
    if not near(low, torch.tensor([1.0, 1 / 3.01])):
        return "as bfloat16, it rounds the largest number of a float32 input"
    return one_compile(answer, [(x,) for x in _inputs()])
