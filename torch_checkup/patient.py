"""The model that ``checkup`` and ``composes`` look at, part by part."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .guest import Report, end_with_parent, given, module_function, trained
from .helpers import correctness
from .helpers._torch import needed_for
from .helpers.benchmark import Comparison, compare
from .helpers.capture import given_calls
from .helpers.correctness import Trial
from .helpers.errors import InputError, UsedUp
from .helpers.session import (
    check_callable,
    compile_apart,
    fresh_code,
    uncompiled,
    undisturbed,
)
from .helpers.tensors import clone

with needed_for("first calls without a cache"):
    from torch._inductor.utils import fresh_cache

Call = tuple[tuple[Any, ...], dict[str, Any]]


class Patient:
    """A model or function, its calls, and whether a backward belongs to each."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self._make = module_function(order["target"])
        self.fn, inputs, loss = self._made()
        self.loss = loss or correctness.weighted_sum
        self._calls: list[Call] = given_calls(inputs)
        self.train = bool(order["train"] or loss)
        self.module = self.fn if isinstance(self.fn, torch.nn.Module) else None

    def _made(self) -> tuple[Callable[..., Any], Any, Callable[..., Any] | None]:
        """Return what is given; what draws its numbers is the same in each process."""
        with correctness.seeded(0):
            fn, *rest = given(self._make)
        return uncompiled(fn), *rest  # compiled, it would be held against itself

    @property
    def calls(self) -> list[Call]:
        """Copies of the inputs of each call: a call may write to a cache among them.

        Raises InputError for inputs that cannot be copied.
        """
        try:
            return clone(self._calls)
        except Exception as error:
            raise InputError(f"the inputs cannot be copied: {error}") from error

    def made_again(self) -> Callable[..., Any]:
        """Return the model anew, as nobody has called it yet."""
        fresh = self._made()[0]
        if isinstance(fresh, torch.nn.Module) and self.module is not None:
            fresh.load_state_dict(self.module.state_dict())
        return fresh

    def try_out(self) -> None:
        """Call it eagerly, as its owner does: what fails here is not the compiler's.

        Raises InputError for inputs that cannot be copied, or have no numbers.
        """
        run = self.run(self.fn)
        for call in self._calls:
            check_callable(self.fn, call)
        for inputs, kwargs in self.calls:
            with undisturbed(run):
                run(*inputs, **kwargs)

    @functools.cached_property
    def draws(self) -> bool:
        """Whether a call draws random numbers, as dropout does."""
        inputs, kwargs = self.calls[0]
        run = self.run(self.fn)
        with undisturbed(run):
            before = torch.get_rng_state()
            run(*inputs, **kwargs)
            return not torch.equal(before, torch.get_rng_state())

    @functools.cached_property
    def gradients(self) -> bool:
        """Whether a try needs grad mode: in training, or where a call takes its own.

        Elsewhere, kernels for a backward would be built for nobody.  The answers
        themselves are judged, and raced, as the owner's call has them.
        """
        if self.train:
            return True
        inputs, kwargs = self.calls[0]
        try:
            with undisturbed(self.fn), torch.no_grad():
                self.fn(*inputs, **kwargs)
        except Exception:  # in grad mode it ran: see try_out
            return True
        return False

    def run(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return *fn* as it is used: called, or called with a backward of the loss."""
        return trained(fn, self.loss) if self.train else fn

    def compiled(self, **options: Any) -> Callable[..., Any]:
        """Return the model, compiled apart from all that was compiled before."""
        torch.compiler.reset()
        return torch.compile(fresh_code(self.fn), **options)

    def answers(
        self,
        compiled: Callable[..., Any],
        call: Call,
        again: Callable[[], Callable[..., Any]] | None = None,
    ) -> correctness.Agreement:
        """Hold what *compiled* gives against eager, by float64.

        *again* compiles once more in the same way, where random numbers are drawn.
        """
        ours, usual = self.run(compiled), self.run(self.fn)
        inputs, kwargs = call

        def fresh() -> Callable[..., Any]:
            return self.run(again() if again else compile_apart(compiled))

        trial = Trial((usual, ours), inputs, kwargs)
        with correctness.seeded(0), trial.state:
            first = trial.outcome("compiled", ours)
            return correctness.agreement(trial, usual, ours, first, fresh=fresh)


def race(sides: tuple[Callable, Callable], inputs: Any, **how: Any) -> Comparison:
    """Return `compare` of both *sides*, on copies where a call uses its inputs up.

    The time of these counts on both sides.
    """

    def on_copies(run: Callable[..., Any]) -> Callable[..., Any]:
        def copied(*inputs: Any, **kwargs: Any) -> Any:
            inputs, kwargs = clone((inputs, kwargs))
            return run(*inputs, **kwargs)

        return copied

    try:
        return compare(*sides, *inputs, **how)
    except UsedUp:
        torch.compiler.reset()  # what a first call takes is asked too
        with fresh_cache():
            return compare(*map(on_copies, sides), *inputs, **how)


def doubled(_module: torch.nn.Module, _inputs: Any, out: Any) -> Any:
    """Hook a layer: what it returns is twice as much."""
    return out * 2 if isinstance(out, torch.Tensor) else None


def in_turn(
    order: dict[str, Any], find: Callable[[Patient, str], dict[str, Any]]
) -> None:
    """Make the model of an *order*, and report what *find* finds of each of its parts.

    This is all that a process for `children.parts` does.
    """
    end_with_parent()
    report = Report(order["report"])
    report.stage("make the model")
    patient = Patient(order)
    report.stage("call it eagerly")
    patient.try_out()
    report.put(calls=len(patient.calls), trains=patient.train)
    for name in order["parts"]:
        report.stage(name)
        report.put(part={"name": name, **find(patient, name)})
    report.put(done=True)
