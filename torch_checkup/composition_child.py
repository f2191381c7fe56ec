"""The process in which ``composes`` tries a training step, one situation at a time.

python -m torch_checkup.composition_child < order.json
"""

from __future__ import annotations

import copy
import json
import os
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import (
    ProcessExitedException,
    ProcessRaisedException,
    spawn,
)
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import checkpoint

from . import explain
from .composition import VERDICTS, WAYS, off
from .guest import ADVICE, end_with_parent
from .helpers import children, correctness
from .helpers.correctness import Trial
from .helpers.errors import InputError, one_line
from .helpers.session import one_device, tensors_of, undisturbed
from .helpers.tensors import clone, tensors
from .patient import Patient, ask_for_instructions, doubled, in_turn

_RATE = 1e-3  # small: a few steps of any model stay near where they began


class TrainingStep:
    """A model as a training step has it: eager, or compiled.

    Each situation is a method that calls `fn` with inputs, does the backward, and
    returns the loss.  *way* is one of those of `WAYS`, where there are two.
    """

    def __init__(self, p: Patient, compiling: bool, way: str) -> None:
        self.p, self.compiling, self.way = p, compiling, way
        self.fn = p.compiled() if compiling else p.fn
        self.held = [*p.module.parameters()] if p.module else tensors_of(p.fn)
        self.begin(p.calls[0])

    def begin(self, call: tuple) -> None:
        """Forget gradients: those of the model, and of what a function is given."""
        held = tensors((self.held, () if self.p.module else call))
        self.leaves = [t for t in held if t.requires_grad and t.is_leaf]
        for leaf in self.leaves:
            leaf.grad = None

    def loss(self, call: tuple, fn: Callable[..., Any] | None = None) -> torch.Tensor:
        """Return the loss of one call."""
        inputs, kwargs = call
        return self.p.loss((fn or self.fn)(*inputs, **kwargs))

    def step(self, call: tuple, fn: Callable[..., Any] | None = None) -> torch.Tensor:
        """Return the loss of one call, after its backward."""
        loss = self.loss(call, fn)
        loss.backward()
        return loss

    def autocast(self, call: tuple) -> torch.Tensor:
        device = one_device((call, self.p.module))
        with torch.autocast(device.type, torch.bfloat16):
            loss = self.loss(call)
        loss.backward()
        return loss

    def checkpoint(self, call: tuple) -> torch.Tensor:
        def kept(*inputs: Any, **kwargs: Any) -> Any:
            return checkpoint(self.fn, *inputs, use_reentrant=False, **kwargs)

        return self.step(call, kept)

    def accumulation(self, call: tuple) -> torch.Tensor:
        calls, total = self.p.calls, 0.0
        for each in (call, calls[1 % len(calls)]):
            with correctness.seeded():  # the numbers that each of two ranks draws
                loss = self.loss(each) / 2
                loss.backward()
            total += loss.detach()
        return total

    def retain_graph(self, call: tuple) -> torch.Tensor:
        self.step(call)  # a first backward that keeps its graph would compile for that
        self.begin(call)
        loss = self.loss(call)
        loss.backward(retain_graph=True)
        loss.backward()
        return loss

    def scheduler(self, call: tuple) -> torch.Tensor:
        optimizer = torch.optim.SGD(self._trained(), lr=_RATE)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        step = torch.compile(optimizer.step) if self.compiling else optimizer.step
        for _ in range(3):
            optimizer.zero_grad()
            loss = self.step(call)
            step()
            scheduler.step()
        return loss

    def late_hook(self, call: tuple) -> torch.Tensor:
        self.loss(call)
        leaf = next(m for m in self._layers() if m is not self.p.module)
        with leaf.register_forward_hook(doubled):
            return self.step(call)

    def _layers(self) -> list[torch.nn.Module]:
        if not self.p.module:
            raise _NotHere("it has no layers: it is a function")
        layers = [m for m in self.p.module.modules() if not list(m.children())]
        if layers == [self.p.module]:
            raise _NotHere("it has no layer inside")
        return layers

    def _trained(self) -> list[torch.Tensor]:
        if not self.leaves:
            raise _NotHere("neither it nor what it is given has a gradient of its own")
        return self.leaves

    def gradient_hook(self, call: tuple) -> torch.Tensor:
        self.loss(call)
        with self._trained()[0].register_hook(lambda gradient: gradient * 2):
            return self.step(call)

    def state_dict(self, call: tuple) -> torch.Tensor:
        self._layers()
        self.step(call)
        torch.optim.SGD(self._trained(), lr=_RATE).step()
        saved, other = self.fn, copy.deepcopy(self.p.module)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.zero_()
        if self.compiling and self.way == "plain into compiled":
            saved, other = self.p.module, torch.compile(other)
        other.load_state_dict(saved.state_dict())
        return self.loss(call, other)

    def worker_process(self, call: tuple) -> torch.Tensor:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            return self.p.loss(pool.submit(_answer, self.fn, *call).result())

    def two_ranks(self, call: tuple) -> torch.Tensor:
        self._layers()
        way = self.way if self.compiling else ""
        with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
            torch.save(self.p.module.state_dict(), f"{folder}/state")
            try:
                spawn(_rank, (self.p.order, Path(folder), way), nprocs=2)
            except (ProcessRaisedException, ProcessExitedException) as error:
                said = children.explained("in one rank", str(error), ADVICE)
                raise RuntimeError(said.removeprefix("failed at: ")) from error
            results = [torch.load(f"{folder}/{r}", weights_only=True) for r in (0, 1)]
        for leaf, gradient in zip(self.leaves, results[0][1:], strict=True):
            leaf.grad = gradient
        return sum(loss for loss, *_ in results) / 2


class _NotHere(InputError):
    """This model has nothing to do with the situation; says why."""


def _answer(fn: Callable[..., Any], inputs: tuple, kwargs: dict[str, Any]) -> Any:
    """Return what *fn* gives, cut from its graph, which cannot be sent."""
    with correctness.eager_numbers(), correctness.seeded():
        return tree_map_only(
            torch.Tensor,
            lambda t: t.detach().requires_grad_(t.requires_grad),
            fn(*inputs, **kwargs),
        )


def _both_ranks(step: TrainingStep, call: tuple) -> torch.Tensor:
    """Do here what two ranks do.  Each has buffers of its own, so these stay."""
    buffers = [*step.p.module.buffers()]
    before = clone(buffers)
    loss = step.accumulation(call)
    with torch.no_grad():
        for buffer, value in zip(buffers, before, strict=True):
            buffer.copy_(value)
    return loss


# What eager has to give where a situation wants processes: the same, in this one.
_HERE: dict[str, Callable[[TrainingStep, tuple], torch.Tensor]] = {
    "worker process": lambda step, call: step.loss(call).detach(),
    "two ranks": _both_ranks,
}


def judged(p: Patient, name: str) -> dict[str, str]:
    """Return verdict and words on one situation; of two ways, both, and the worse."""
    if name not in WAYS:
        return _judged(p, name)
    found = {way: _judged(p, name, way) for way in WAYS[name]}
    bad = max(found.values(), key=lambda one: list(VERDICTS).index(one["verdict"]))
    if all(one == bad for one in found.values()):
        return bad
    says = [f"{way} {one['verdict']}: {one['says']}" for way, one in found.items()]
    return {**bad, "says": "; ".join(says)}


def _judged(p: Patient, name: str, way: str = "") -> dict[str, str]:
    """Return verdict and words on one situation, in one way."""
    situation = getattr(TrainingStep, name.replace(" ", "_"))
    eager, compiled = TrainingStep(p, False, way), TrainingStep(p, True, way)
    usual = _function(eager, _HERE.get(name, situation))
    ours = _function(compiled, situation)
    inputs, kwargs = p.calls[0]
    trial = Trial((usual, ours), inputs, kwargs)
    with undisturbed(), trial.state:
        try:
            first = trial.outcome("compiled", ours)
        except InputError as error:
            why = error.__cause__ or error
            if isinstance(why, _NotHere):
                return {"verdict": "not decided", "says": str(why)}
            known = [one.name for one in explain.explain_error(why).meanings[:1]]
            found = {"says": one_line(why), "known": "".join(known)}
            with suppress(InputError):
                trial.outcome("eager", _function(eager, situation))
                return {"verdict": "raises", **found}
            return {"verdict": "eager raises", **found}
        try:
            found = correctness.agreement(trial, usual, ours, first)
        except InputError as error:
            says = f"eager alone: {one_line(error.__cause__ or error)}"
            return {"verdict": "eager raises", "says": says}
    verdict = {True: "agrees", False: "differs", None: "not decided"}[found.matches]
    says = off(found.error64) if found.matches is not None else "; ".join(found.notes)
    if correctness.CHANGES_DIFFER in found.notes:
        says = f"{correctness.CHANGES_DIFFER}; {says}"
    return {"verdict": verdict, "says": says}


def _function(
    step: TrainingStep, situation: Callable[[TrainingStep, tuple], torch.Tensor]
) -> Callable[..., Any]:
    """Return the situation as a function that gives its loss, and leaves gradients.

    It draws the same random numbers in each call.
    """

    def run(*inputs: Any, **kwargs: Any) -> torch.Tensor:
        step.begin((inputs, kwargs))
        # What the model compiles by itself is taken off where it is eager.
        stance = "default" if step.compiling else "force_eager"
        with correctness.seeded(), torch.compiler.set_stance(stance):
            return situation(step, (inputs, kwargs)).detach()

    return run


def _rank(number: int, order: dict[str, Any], place: Path, way: str) -> None:
    """Do one step as one of two ranks, and leave its loss and gradients in a file."""
    end_with_parent()
    correctness.draw_eager_numbers()
    p = Patient(order)
    p.module.load_state_dict(torch.load(place / "state", weights_only=True))
    dist.init_process_group(
        "gloo", init_method=f"file://{place}/meet", rank=number, world_size=2
    )
    inside, outside = "DDP around compiled", "compile around DDP"
    model = torch.compile(p.module) if way == inside else p.module
    model = DistributedDataParallel(model)
    model = torch.compile(model) if way == outside else model
    inputs, kwargs = p.calls[number % len(p.calls)]
    with correctness.seeded():
        loss = p.loss(model(*inputs, **kwargs))
        loss.backward()
    gradients = [t.grad for t in p.module.parameters() if t.requires_grad]
    torch.save([loss.detach(), *gradients], place / str(number))
    dist.destroy_process_group()
    os._exit(0)  # now and then, what is torn down after this waits for ever


if __name__ == "__main__":
    correctness.draw_eager_numbers()
    ask_for_instructions()
    in_turn(json.load(sys.stdin), judged)
