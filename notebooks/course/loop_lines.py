"""What a line of a training loop does, once the model in it is compiled.

Each line runs on three fresh models: eager, compiled, and eager in float64,
which judges the other two by the gradients that are there in the end.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._dynamo import compiled_autograd
from torch._dynamo.utils import counters
from torch._functorch import config as functorch_config
from torch._inductor.utils import fresh_cache

from course.backend import CountingBackend
from course.values import as_near
from course.words import silence
from helpers.text import Table, count

Make = Callable[[], torch.nn.Module]


HOOKS = """
model.register_forward_hook(hear)
model.register_full_backward_hook(hear)
model.head.register_forward_hook(hear)
model.head.register_full_backward_hook(hear)
model.head.weight.register_hook(hear)
model.head.weight.register_post_accumulate_grad_hook(hear)
""".strip().split("\n")
STAGES = """
with torch.inference_mode(): model.eval(); call(x)
with torch.no_grad(): call(x)
step()
model.train(); step()
model.body.requires_grad_(False); step()
model.body.requires_grad_(True); step()
""".strip().split("\n")
LINES = """
step()
model.load_state_dict(other); step()
call.load_state_dict(other); step()
call.load_state_dict(other, strict=False); step()
model.head.weight.data.clamp_(-0.01, 0.01); step()
torch.vmap(call)(x[:, None])
""".strip().split("\n")


@dataclass
class Outcome:
    """What is there after a line: gradients, hooks that ran, what was made."""

    gradients: list[Any] = field(default_factory=list)
    heard: int = 0
    error: str = ""
    graphs: int = 0
    ran: int = 0
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
    backend: str = "inductor",
    **options: Any,
) -> Outcome:
    """Run *line* on a fresh model, which took a step before if *warm*.

    The line may use ``model``, ``call``, which is the compiled model, ``x``,
    ``step()``, a forward and its backward, ``hear``, a hook that notes that it
    ran, and ``other``, weights under the names of ``model``.
    """
    torch.compiler.reset()
    torch.manual_seed(0)
    model = make().to(x.device, dtype)
    found, noting = Outcome(), CountingBackend(backend)
    other = {k: v / 2 for k, v in model.state_dict().items()}
    call = model
    if compiled:
        call = torch.compile(model, backend=noting, **options)
    x = x.detach().to(dtype, copy=True)  # a line may change it

    def hear(*_: Any) -> None:
        found.heard += 1

    def step() -> None:
        call(x).square().mean().backward()

    if warm:
        step()
    model.zero_grad()
    graphs, ran = len(noting.captured), len(noting.ran)
    before = sum(counters["graph_break"].values())
    names = {"torch": torch, "model": model, "call": call, "x": x}
    names |= {"step": step, "hear": hear, "other": other}
    with torch.random.fork_rng():
        try:
            exec(line, names)
        except RuntimeError as error:
            found.error = str(error)
    found.graphs = len(noting.captured) - graphs
    found.ran = len(noting.ran) - ran
    found.breaks = sum(counters["graph_break"].values()) - before
    grads = [p.grad for p in model.parameters()]
    found.gradients = [None if g is None else g.clone() for g in grads]
    heard = found.heard
    found.later = _runs_later(model, call, x, noting)  # adds to both
    found.heard = heard
    return found


def _runs_later(model: Any, call: Any, x: Any, noting: CountingBackend) -> bool:
    """Return whether plain training steps after the line run compiled code."""
    model.train().requires_grad_(True)
    for _ in range(2):
        noting.ran.clear()
        call(x.detach()).square().mean().backward()
    return bool(noting.ran)


def right_step(line: str, make: Make, x: torch.Tensor) -> bool:
    """Return whether float64 finds the gradients after *line* right."""
    return _right(*_three(line, make, x))


def right_gradients(
    judge: Callable[..., Any], way: Callable[..., Any], model: Any, x: Any
) -> bool:
    """Return whether *way*'s loss and gradients are as near as eager's.

    Both get the model and x, and return a loss; *judge* is the eager one, and
    runs in float64, too.
    """
    exact = _loss_and_gradients(judge, copy.deepcopy(model).double(), x)
    sides = (_loss_and_gradients(f, model, x) for f in (judge, way))
    return all(as_near(*three) for three in zip(exact, *sides, strict=True))


def _loss_and_gradients(
    loss_of: Callable[..., Any], model: torch.nn.Module, x: torch.Tensor
) -> list[torch.Tensor]:
    model.zero_grad()
    if x.is_floating_point():
        x = x.to(next(model.parameters()).dtype)
    loss = loss_of(model, x)
    loss.backward()
    found = [p.grad for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    return [loss.detach(), *found]


def obeyed(
    function: Callable[..., Any],
    second: Callable[[Any], None],
    x: torch.Tensor,
    weight: torch.Tensor,
) -> dict[str, bool]:
    """Return whether gradients are right, without donated buffers.

    *function* is compiled and took a usual step; then donation is switched
    off, in three ways, and *second* runs two backwards of one result.
    """

    def gradient(call: Callable[..., Any], dtype: torch.dtype) -> Any:
        leaf = weight.detach().to(dtype).requires_grad_()
        second(call(x.to(dtype), leaf))
        return leaf.grad

    def right(call: Callable[..., Any]) -> bool:
        exact = gradient(function, torch.float64)
        usual, ours = (gradient(f, torch.float32) for f in (function, call))
        return as_near(exact, usual, ours)

    found = {}
    torch.compiler.reset()
    call = torch.compile(function)
    call(x, weight).mean().backward()
    with functorch_config.patch(donated_buffer=False):
        found["set now:             right"] = right(call)
        torch.compiler.reset()
        found["set, compiled anew:  right"] = right(call)
        torch.compiler.reset()
        with fresh_cache():
            found["and in a new folder: right"] = right(call)
    return found


def _three(line: str, make: Make, x: torch.Tensor) -> tuple[Outcome, ...]:
    eager = {"compiled": False}
    exact = outcome(line, make, x, dtype=torch.float64, **eager)
    return exact, outcome(line, make, x, **eager), outcome(line, make, x)


def _right(exact: Outcome, usual: Outcome, ours: Outcome) -> bool:
    sides = (exact.gradients, usual.gradients, ours.gradients)
    return all(as_near(*three) for three in zip(*sides, strict=True))


def what_lines_do(lines: Sequence[str], make: Make, x: torch.Tensor) -> Table:
    """Return, for each line, what it does that the eager model does not."""
    rows = []
    for line in lines:
        rows.append([line, _in_words(*_three(line, make, x))])
    return Table.of(["line, after a first step", "what happens"], rows)


def _in_words(exact: Outcome, usual: Outcome, ours: Outcome) -> str:
    if ours.error and not usual.error:
        return f"error: {_short(ours.error)}"
    if ours.heard != usual.heard or not _right(exact, usual, ours):
        return "ignored, in silence"
    if not ours.later:
        return "eager from here on, in silence"
    if not ours.ran:
        return "runs eagerly, in silence"
    if ours.breaks:
        return "breaks the graph"
    if ours.graphs:
        return count(ours.graphs, "more version")
    return "nothing: as in eager"


def _short(message: str) -> str:
    if "donated" in message:
        return "donated buffers"
    return re.split(r"[.:\n]", message)[0]


# ------------------------------------------------------------------- the hooks


def hooks_table(lines: Sequence[str], make: Make, x: torch.Tensor) -> Table:
    """Return whether each hook runs, added before the first call or after.

    A hook that is there before the first call may cost the graph a break.
    """
    rows = []
    for line in lines:
        early, late = (
            outcome(f"{line}; step()", make, x, warm=warm) for warm in (False, True)
        )
        rows.append([line, _heard(early), _heard(late)])
    return Table.of(["hook", "before the first call", "after it"], rows)


def backward_captured(make: Make, x: torch.Tensor) -> bool:
    """Return whether compiled autograd takes a hook without a graph break.

    The hook is on the backward of a submodule, and a break would raise.
    """
    torch.compiler.reset()
    model, heard = make().to(x.device), []
    model.head.register_full_backward_hook(lambda *_: heard.append(1))
    call = torch.compile(model, fullgraph=True)
    with compiled_autograd._enable(torch.compile(backend="eager")):
        call(x).square().mean().backward()
    return bool(heard)


def _heard(found: Outcome) -> str:
    said = "runs" if found.heard else "does not run"
    return f"{said}, and breaks the graph" if found.breaks else said


# ---------------------------------------------------------------- versions


def stages_table(lines: Sequence[str], make: Make, x: torch.Tensor) -> Table:
    """Return what each line costs one model that meets them one by one."""
    torch.compiler.reset()
    model, noting = make().to(x.device), CountingBackend("inductor")
    call = torch.compile(model, backend=noting)

    def step() -> None:
        call(x).square().mean().backward()

    names = {"torch": torch, "model": model, "call": call, "x": x}
    rows = []
    for line in lines:
        before = len(noting.captured)
        exec(line, {**names, "step": step})
        rows.append([line, len(noting.captured) - before])
    return Table.of(["line, one after the other", "compiles"], rows)


class Layer(torch.nn.Linear):
    """A layer with a forward of its own, which may be compiled by itself."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's result, bent."""
        return super().forward(x).relu()


def layers(number: int, wider: int = 0) -> torch.nn.Sequential:
    """Return a tower of so many layers, each *wider* by so much than the last."""
    sizes = [8 + wider * at for at in range(number + 1)]
    return torch.nn.Sequential(*map(Layer, sizes[:-1], sizes[1:]))


def unfreezing(
    tower: torch.nn.Sequential, call: Callable[..., Any], backend: CountingBackend
) -> list[int | str]:
    """Unfreeze a tower from its top, a layer in each epoch; *call* runs it.

    Returns for each epoch how many graphs *backend* got, or "eager" where no
    compiled code runs at all.
    """
    tower.requires_grad_(False)
    found: list[int | str] = []
    with silence():
        for layer in reversed(tower):
            layer.requires_grad_(True)
            before = len(backend.captured)
            backend.ran.clear()
            call(torch.ones(2, 8)).sum().backward()
            made = len(backend.captured) - before
            found.append(made if backend.ran else "eager")
    return found


# ------------------------------------------------------------- checkpoints


def one_mask(call: Callable[..., Any], x: torch.Tensor) -> bool:
    """Return whether the backward drops exactly what the forward dropped.

    *call* is dropout and what keeps 0 at 0, so each is seen as a 0.
    """
    x = x.detach().requires_grad_()
    result = call(x)
    [gradient] = torch.autograd.grad(result.sum(), x)
    dropped = result == 0
    return bool(dropped.any()) and torch.equal(dropped, gradient == 0)
