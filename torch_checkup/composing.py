"""composes(): does a compiled training step work with what people put around it?

Each situation is tried in a sandbox: one that hangs, or kills its process, does not
take the others with it.
"""

from __future__ import annotations

import copy
import os
import tempfile
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.multiprocessing import ProcessExitedException, ProcessRaisedException, spawn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import checkpoint

from . import explain, sandbox
from .helpers import correctness, text
from .helpers.errors import InputError, one_line
from .helpers.judge import CHANGES_DIFFER, agreement
from .helpers.outcomes import Trial
from .helpers.results import Measured, TableResult
from .helpers.session import one_device, restored, tensors_of, undisturbed
from .helpers.tensors import tensors
from .helpers.text import Table, mark
from .model import Model, doubled, in_turn
from .report import Part, by_name, shown
from .sandbox import Report, end_with_parent, target_of


class Around(NamedTuple):
    """What is done around a step; *advice* where torch's design fails every model."""

    does: str
    ways: Sequence[str] = ("",)
    advice: str = ""


_TEXT = (files(__package__) / "situations.toml").read_text(encoding="utf-8")
SITUATIONS = {name: Around(**one) for name, one in tomllib.loads(_TEXT).items()}
VERDICTS = {  # from good to bad: of two ways, the worse counts
    "agrees": "as near to float64 as eager is",
    "eager raises": "eager raises, and compiled may too",
    "not decided": "it could not be judged",
    "not done": "it had to be ended",
    "raises": "compiled raises, where eager does not",
    "differs": "no error, and not eager's numbers",
}


@dataclass(frozen=True)
class Situation:
    """One thing around a training step, and the verdict on compiled code in it.

    *verdict* is one of `VERDICTS`.  *says* is torch's message, or how far both are from
    float64.  *known* names the entry of ``explain_error`` that knows the message.
    """

    name: str
    verdict: str
    says: str
    known: str = ""


@dataclass(frozen=True, repr=False)
class Composition(Measured, TableResult):
    """What ``composes`` found: a situation for each that was asked."""

    target: str
    situations: tuple[Situation, ...]
    interrupted: bool = False

    def __getitem__(self, name: str) -> Situation:
        return by_name(self.situations, name)

    def named(self, verdict: str, own: bool = False) -> list[str]:
        """Return which have this *verdict*; with *own*, those of this model alone."""
        names = [s.name for s in self.situations if s.verdict == verdict]
        return [name for name in names if not (own and SITUATIONS[name].advice)]

    @property
    def ok(self) -> bool:
        """Whether nothing differs in silence or raises that is this model's own."""
        return not self.named("differs", own=True) + self.named("raises", own=True)

    def table(self) -> Table:
        """Return a row for each situation, measured values marked."""
        rows = []
        for one in self.situations:
            found = one.says + f" (explained as: {one.known})" * bool(one.known)
            rows.append((one.name, SITUATIONS[one.name].does, one.verdict, found))
        return Table.of(["around the step", "what is done", "compiled", "found"], rows)

    def _last(self) -> str:
        return "interrupted: these were done" if self.interrupted else ""


def composes(
    make: str | Callable[[], tuple],
    *,
    only: Sequence[str] = (),
    timeout: float = 300.0,
    memory: int | None = None,
) -> Composition:
    """Return whether a compiled training step works with what people put around it.

    *make* is what ``checkup`` takes: ``"module:function"``, ``"file.py:function"`` or a
    function of a module, which returns a model and its inputs, and may return a loss as
    a third value; else a weighted sum of what the model returns is trained.  *only*
    names some of `SITUATIONS`.  Each runs eagerly, compiled, and eagerly in float64,
    which decides whether compiled values and gradients are right.  What takes more than
    *timeout* seconds, or *memory* bytes (by default three quarters of what is free), is
    ended, and says so.  Ctrl-C keeps what is done.

    Raises InputError when *make* cannot be found, or gives nothing that can be trained.
    """
    target, names = target_of(make), sandbox.chosen(only, SITUATIONS)
    order = {"target": target, "train": True}
    done: dict[str, Situation] = {}
    interrupted = False
    with text.progress("composes", len(names), "situations") as bar:
        try:
            tried = sandbox.parts(".composing:look", order, names, timeout, memory)
            for name, found in tried:
                if problem := found.get("problem"):
                    done[name] = Situation(name, "not done", problem)
                elif name:
                    done[name] = Situation(**found)
                bar.update(len(done) - bar.n)
        except KeyboardInterrupt:
            interrupted = True
    every = tuple(done[name] for name in names if name in done)
    return Composition(Path(target).name, every, interrupted)


def part(order: dict[str, Any]) -> Part:
    """Does a training step still work with what people put around it?"""
    limits = {name: order[name] for name in ("timeout", "memory")}
    found = composes(order["target"], **limits)
    if found.interrupted:
        raise KeyboardInterrupt
    return verdict_on(found)


def verdict_on(found: Composition) -> Part:
    """Return the part that says which situations work."""
    agrees, differs = found.named("agrees"), found.named("differs")
    raises, ended = found.named("raises"), found.named("not done")
    says = f"{len(agrees)} of {len(found.situations)} agree"
    issues = {"differs in silence": differs, "raises": raises, "had to be ended": ended}
    for issue, names in issues.items():
        if names:
            says += f"; {issue}: {', '.join(names)}"
    known = [SITUATIONS[name].advice for name in differs + raises]
    if found.ok and known:
        says += ", as in every compiled model"
    own = {verdict: found.named(verdict, own=True) for verdict in ("differs", "raises")}
    counts = {"silently_different": len(own["differs"]), "raises": len(own["raises"])}
    verdict = "bad" if own["differs"] else "look" if own["raises"] + ended else "good"
    if not agrees + differs + raises:
        verdict, counts = "cannot tell", dict.fromkeys(counts)  # nothing was judged
    advice = tuple(filter(None, known))
    return Part("composes", verdict, says, counts, shown(found), advice)


_RATE = 1e-3  # small: a few steps of any model stay near where they began


class TrainingStep:
    """A model as a training step has it: eager, or compiled.

    Each situation is a method that calls `fn` with inputs, does the backward, and
    returns the loss.  *way* is one of its ways, where there are two.
    """

    def __init__(self, m: Model, compiling: bool, way: str) -> None:
        self.m, self.compiling, self.way = m, compiling, way
        self.fn = m.compiled() if compiling else m.fn
        self.held = [*m.module.parameters()] if m.module else tensors_of(m.fn)
        self.begin(m.calls[0])

    def begin(self, call: tuple) -> None:
        """Forget gradients: those of the model, and of what a function is given."""
        held = tensors((self.held, () if self.m.module else call))
        self.leaves = [t for t in held if t.requires_grad and t.is_leaf]
        for leaf in self.leaves:
            leaf.grad = None

    def loss(self, call: tuple, fn: Callable[..., Any] | None = None) -> torch.Tensor:
        """Return the loss of one call."""
        inputs, kwargs = call
        return self.m.loss((fn or self.fn)(*inputs, **kwargs))

    def step(self, call: tuple, fn: Callable[..., Any] | None = None) -> torch.Tensor:
        """Return the loss of one call, after its backward."""
        loss = self.loss(call, fn)
        loss.backward()
        return loss

    def autocast(self, call: tuple) -> torch.Tensor:
        device = one_device((call, self.m.module))
        with torch.autocast(device.type, torch.bfloat16):
            loss = self.loss(call)
        loss.backward()
        return loss

    def checkpoint(self, call: tuple) -> torch.Tensor:
        def kept(*inputs: Any, **kwargs: Any) -> Any:
            return checkpoint(self.fn, *inputs, use_reentrant=False, **kwargs)

        return self.step(call, kept)

    def accumulation(self, call: tuple) -> torch.Tensor:
        calls, total = self.m.calls, 0.0
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
        leaf = next(one for one in self._layers() if one is not self.m.module)
        with leaf.register_forward_hook(doubled):
            return self.step(call)

    def _layers(self) -> list[torch.nn.Module]:
        if not self.m.module:
            raise _NotHere("it has no layers: it is a function")
        layers = [one for one in self.m.module.modules() if not list(one.children())]
        if layers == [self.m.module]:
            raise _NotHere("it has no layer inside")
        return layers

    def _trained(self) -> list[torch.Tensor]:
        if not self.leaves:
            raise _NotHere("neither it nor its inputs have a gradient")
        return self.leaves

    def gradient_hook(self, call: tuple) -> torch.Tensor:
        self.loss(call)
        with self._trained()[0].register_hook(lambda gradient: gradient * 2):
            return self.step(call)

    def state_dict(self, call: tuple) -> torch.Tensor:
        self._layers()
        self.step(call)
        torch.optim.SGD(self._trained(), lr=_RATE).step()
        saved, other = self.fn, copy.deepcopy(self.m.module)
        if self.compiling and self.way == "plain into compiled":
            # Its owner's pieces, made by a copy, for the maker keeps what it made.
            again = copy.copy(self.m).made_again() if self.m.in_pieces else self.m.fn
            other = torch.compile(other) if again is self.m.fn else again
            saved = self.m.module
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.zero_()
        other.load_state_dict(saved.state_dict())
        return self.loss(call, other)

    def worker_process(self, call: tuple) -> torch.Tensor:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            return self.m.loss(pool.submit(_answer, self.fn, *call).result())

    def two_ranks(self, call: tuple) -> torch.Tensor:
        self._layers()
        way = self.way if self.compiling else ""
        with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
            torch.save(self.m.module.state_dict(), f"{folder}/state")
            try:
                spawn(_rank, (self.m.order, Path(folder), way), nprocs=2)
            except (ProcessRaisedException, ProcessExitedException) as error:
                said = sandbox.explained("in one rank", str(error))
                raise RuntimeError(said.removeprefix("failed at: ")) from error
            results = [torch.load(f"{folder}/{r}", weights_only=True) for r in (0, 1)]
        for name, parameter in self.m.module.named_parameters():
            parameter.grad = results[0][1][name]
        return sum(loss for loss, _ in results) / 2


class _NotHere(InputError):
    """This model has nothing to do with the situation; says why."""


def _answer(fn: Callable[..., Any], inputs: tuple, kwargs: dict[str, Any]) -> Any:
    """Return the result of *fn*, cut from its graph, which cannot be sent."""
    with correctness.eager_numbers(), correctness.seeded():
        return tree_map_only(
            torch.Tensor,
            lambda t: t.detach().requires_grad_(t.requires_grad),
            fn(*inputs, **kwargs),
        )


def _both_ranks(step: TrainingStep, call: tuple) -> torch.Tensor:
    """Do the work of two ranks: nothing but their gradients stays here."""
    with restored(step.m.fn, call):
        loss = step.accumulation(call)
        gradients = [leaf.grad for leaf in step.leaves]
    for leaf, gradient in zip(step.leaves, gradients, strict=True):
        leaf.grad = gradient
    return loss


# What eager has to give where a situation wants processes: the same, in this one.
_HERE: dict[str, Callable[[TrainingStep, tuple], torch.Tensor]] = {
    "worker process": lambda step, call: step.loss(call).detach(),
    "two ranks": _both_ranks,
}


@correctness.eager_numbers()
def look(order: dict[str, Any], report: Report) -> None:
    """Try each situation of an *order*: a sandbox runs this."""
    in_turn(order, report, judged)


def judged(m: Model, name: str) -> dict[str, str]:
    """Return verdict and words on one situation; of two ways, both, and the worse."""
    found = {way: _judged(m, name, way) for way in SITUATIONS[name].ways}
    bad = max(found.values(), key=lambda one: list(VERDICTS).index(one["verdict"]))
    if all(one == bad for one in found.values()):
        return bad
    says = [f"{way} {one['verdict']}: {one['says']}" for way, one in found.items()]
    return {**bad, "says": "; ".join(says)}


def _judged(m: Model, name: str, way: str) -> dict[str, str]:
    situation = getattr(TrainingStep, name.replace(" ", "_"))
    eager, compiled = TrainingStep(m, False, way), TrainingStep(m, True, way)
    usual = _function(eager, _HERE.get(name, situation))
    ours = _function(compiled, situation)
    trial = Trial(m.calls[:1], usual, ours, whole=False)
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
            found = agreement(trial, first)
        except InputError as error:
            says = f"eager alone: {one_line(error.__cause__ or error)}"
            return {"verdict": "eager raises", "says": says}
    verdict = {True: "agrees", False: "differs", None: "not decided"}[found.matches]
    says = off(found.off[0]) if found.matches is not None else "; ".join(found.notes)
    if CHANGES_DIFFER in found.notes:
        says = f"{CHANGES_DIFFER}; {says}"
    return {"verdict": verdict, "says": says}


def _function(
    step: TrainingStep, situation: Callable[[TrainingStep, tuple], torch.Tensor]
) -> Callable[..., Any]:
    """Return a function that gives the loss, and draws the same numbers each time."""

    def run(*inputs: Any, **kwargs: Any) -> torch.Tensor:
        step.begin((inputs, kwargs))
        # What the model compiles by itself is taken off where it is eager.
        stance = "default" if step.compiling else "force_eager"
        with correctness.seeded(), torch.compiler.set_stance(stance):
            return situation(step, (inputs, kwargs)).detach()

    return run


@correctness.eager_numbers()
def _rank(number: int, order: dict[str, Any], place: Path, way: str) -> None:
    """Do one step as one of two ranks, and leave its loss and gradients in a file."""
    end_with_parent()
    m = Model(order)
    m.module.load_state_dict(torch.load(place / "state", weights_only=True))
    dist.init_process_group(
        "gloo", init_method=f"file://{place}/meet", rank=number, world_size=2
    )
    inside, outside = "DDP around compiled", "compile around DDP"
    model = torch.compile(m.module) if way == inside else m.module
    model = DistributedDataParallel(model)
    model = torch.compile(model) if way == outside else model
    inputs, kwargs = m.calls[number % len(m.calls)]
    with correctness.seeded():
        loss = m.loss(model(*inputs, **kwargs))
        loss.backward()
    gradients = {name: t.grad for name, t in m.module.named_parameters()}
    torch.save([loss.detach(), gradients], place / str(number))
    dist.destroy_process_group()
    os._exit(0)  # now and then, what is torn down after this waits for ever


def off(errors: tuple[float, float] | None) -> str:
    """Return in words how far eager and compiled are from float64, marked."""
    if errors is None:
        return "no float64 to hold it against"
    eager, compiled = (mark(f"{error:.2g}") for error in errors)
    return f"off from float64: eager {eager}, compiled {compiled}"
