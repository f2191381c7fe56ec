"""What lines of a training loop do, once the model in it is compiled.

Each line runs on three fresh models: eager, compiled, and eager in float64, which
judges the other two by the gradients that are there in the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._dynamo.utils import counters

from course.backend import CountingBackend
from course.values import as_near
from course.words import silence
from helpers.text import Table, count

Make = Callable[[], torch.nn.Module]
HOOKS = """
model.register_forward_hook(hear)
model.register_full_backward_hook(hear)
model.head.register_forward_hook(hear)
model.head.register_full_backward_pre_hook(hear)
model.head.register_full_backward_hook(hear)
model.head.weight.register_hook(hear)
model.head.weight.register_post_accumulate_grad_hook(hear)
""".strip().split("\n")
LINES = """
step()
model.load_state_dict(other); step()
call.load_state_dict(other); step()
call.load_state_dict(other, strict=False); step()
model.head.weight.data.clamp_(-0.01, 0.01); step()
y = call(x); y.mean().backward(retain_graph=True); y.square().mean().backward()
torch.vmap(call)(x[:, None])
torch.func.grad(lambda z: call(z).sum())(x)
with torch.no_grad(): call(x)
with torch.inference_mode(): model.eval(); call(x)
model.eval(); step()
model.body.requires_grad_(False); step()
model.body.requires_grad_(False); step(); model.body.requires_grad_(True); step()
""".strip().split("\n")


@dataclass
class Outcome:
    """What is there after a line: gradients, hooks that ran, what was made."""

    gradients: list[Any] = field(default_factory=list)
    heard: int = 0
    error: str = ""
    graphs: int = 0
    breaks: int = 0
    later: bool = False


@silence()  # warnings are of what the counts show, or of a hook at a root
def outcome(
    line: str,
    make: Make,
    x: torch.Tensor,
    compiled: bool = True,
    dtype: torch.dtype = torch.float32,
    warm: bool = True,
) -> Outcome:
    """Run *line* on a fresh model, which took a step before if *warm*.

    The line may use ``model``, ``call``, which is the compiled model, ``x``,
    ``step()``, a forward and its backward, ``hear``, a hook that notes that it
    ran, and ``other``, weights under the names of ``model``.
    """
    torch.compiler.reset()
    torch.manual_seed(0)
    model = make().to(x.device, dtype)
    found, noting = Outcome(), CountingBackend("aot_eager")
    other = {k: v / 2 for k, v in model.state_dict().items()}
    call = torch.compile(model, backend=noting) if compiled else model
    x = x.detach().to(dtype, copy=True)  # a line may change it

    def hear(*_: Any) -> None:
        found.heard += 1

    def step() -> None:
        call(x).square().mean().backward()

    if warm:
        step()
    model.zero_grad()
    graphs, before = len(noting.captured), sum(counters["graph_break"].values())
    names = {"torch": torch, "model": model, "call": call, "x": x}
    with torch.random.fork_rng():
        try:
            exec(line, {**names, "step": step, "hear": hear, "other": other})
        except RuntimeError as error:
            found.error = str(error)
    found.graphs = len(noting.captured) - graphs
    found.breaks = sum(counters["graph_break"].values()) - before
    grads = [p.grad for p in model.parameters()]
    found.gradients = [None if g is None else g.clone() for g in grads]
    heard = found.heard
    model.train().requires_grad_(True)
    for _ in range(2):  # do later steps run compiled code?
        noting.ran.clear()
        step()
    found.heard, found.later = heard, bool(noting.ran)
    return found


def what_lines_do(make: Make, x: torch.Tensor) -> Table:
    """Return, for each line, what it does that the eager model does not."""
    rows = []
    for line in LINES:
        exact = outcome(line, make, x, compiled=False, dtype=torch.float64)
        usual = outcome(line, make, x, compiled=False)
        rows.append([line, _in_words(exact, usual, outcome(line, make, x))])
    return Table.of(["line, after a first step", "what happens"], rows)


def _in_words(exact: Outcome, usual: Outcome, ours: Outcome) -> str:
    if ours.error and not usual.error:
        told = re.search("donated buffers|^(?!.*donated)[^.:]*", ours.error)
        return f"error: {told[0]}"
    sides = zip(exact.gradients, usual.gradients, ours.gradients, strict=True)
    if not all(as_near(*three) for three in sides):
        return "ignored, in silence"
    if not ours.later:
        return "eager from here on, in silence"
    if ours.graphs:
        return count(ours.graphs, "more version")
    return "nothing: as in eager"


def hooks_table(make: Make, x: torch.Tensor) -> Table:
    """Return whether each hook runs, added before the first call or after."""
    rows = []
    for line in HOOKS:
        ways = (outcome(f"{line}; step()", make, x, warm=w) for w in (False, True))
        rows.append([line, *map(_heard, ways)])
    return Table.of(["hook", "before the first call", "after it"], rows)


def _heard(found: Outcome) -> str:
    said = "runs" if found.heard else "does not run"
    return f"{said}, and breaks the graph" if found.breaks else said
