"""Exercises: checks and hints, judged by what an answer does and never by its text.

``course/ch01/checks.py`` defines the exercises of notebook 01.  A check takes
what the reader made, and returns None for a pass or says what is wrong and why.
"""

from __future__ import annotations

import contextlib
import dis
import inspect
import io
import itertools
import math
import random
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from course.cell_errors import causes
from course.signs import Sign, folds, verdict
from course.teach import lesson, strict
from helpers.text import count

_FOLDER = Path(__file__).resolve().parent
_STUB = "not attempted yet. Fill in the cell above, run it, then run this one."
_STUCK = 'Stuck? hint("{key}", 1) is a nudge, and 3 is nearly the answer.'
_NUMBERS = itertools.count()
Check = Callable[[Any], str | None]
Call = tuple[Any, ...]


class ExerciseError(ValueError):
    """An exercise that does not exist, or a chapter that cannot be read."""


@dataclass(frozen=True)
class Exercise:
    """One exercise: what an answer must do, three hints, and what a pass is told."""

    key: str
    hints: tuple[str, str, str]
    passed: str
    declared: Declared
    also: Check | None = None

    def __call__(self, also: Check) -> Exercise:
        """Decorator: *also* is asked once an answer does what is declared.

        It returns None for a pass, or a message; an AssertionError is a message too.
        """
        return replace(self, also=also)

    def check(self, answer: Any) -> str | None:
        """Return None for a pass, or what is wrong with *answer*."""
        from course.left_set import put_back  # here, for `teach` is used without torch

        with _torch()._dynamo.config.patch(_UNSET), put_back() as left:
            told = self.declared.check(answer) or (self.also and self.also(answer))
        if told or not left:
            return told
        return f"it leaves {left[0]} behind: put back what you set, or use a with block"


# What a reader may have switched on while trying: answers hold by default.
_UNSET = {"capture_scalar_outputs": False, "capture_dynamic_output_shape_ops": False}


@dataclass(frozen=True)
class Declared:
    """What an answer must do, as data: see `exercise`."""

    like: Callable[..., Any] | None = None
    inputs: Iterable[Call] | Callable[[], Iterable[Call]] = ()
    made: Callable[[Any], Callable[..., Any]] = lambda answer: answer
    gradient: bool = False
    graphs: int | None = None
    compiles: int | None = None
    kernels: int | None = None
    trips: int | None = None
    cases: Sequence[tuple[str, Call, Any]] = ()

    def check(self, answer: Any) -> str | None:
        """Return None for a pass, or the first thing that is wrong with *answer*."""
        again = random.sample(self.cases, len(self.cases))  # for who counts the calls
        for what, call, wanted in (*self.cases, *again):
            with asked_about(what):
                given = answer(*_copied(call))
            no_count = type(wanted) is int and isinstance(given, float)  # 18.0 stages
            if no_count or not same(given, wanted):
                kind = ", an int" if no_count else ""
                return f"{what}: you return {given!r}, and it is {wanted!r}{kind}"
        calls = list(self.inputs() if callable(self.inputs) else self.inputs)
        steps = (self._values, self._graphs, self._compiles, self._kernels)
        steps += (self._compiled,)
        return next(filter(None, (step(answer, calls) for step in steps)), None)

    def _values(self, answer: Any, calls: list[Call], build: Any = None) -> str | None:
        if self.like is None:
            return None
        reference, ours = self.made(self.like), self.made(answer)
        if isinstance(reference, _torch().nn.Module):
            if strange := reference.state_dict().keys() ^ ours.state_dict().keys():
                names = ", ".join(sorted(strange))
                return f"the keys of the state_dict differ: {names}"
            ours.load_state_dict(reference.state_dict())
        ours = build(ours) if build else ours
        return what_differs(ours, reference, calls, self.gradient)

    def _graphs(self, answer: Any, calls: list[Call]) -> str | None:
        if self.graphs is None:
            return None
        from helpers.capture import graphs

        found = graphs(self.made(answer), *_copied(calls[0]))
        if found.count == self.graphs and (self.graphs > 1 or not found.breaks):
            return None
        whole = "1 graph without a break"
        wanted = whole if self.graphs == 1 else f"{self.graphs} graphs"
        return f"asked for: {wanted}. Found: {found}"

    def _compiles(self, answer: Any, calls: list[Call]) -> str | None:
        if self.compiles is None:
            return None
        return few_compiles(lambda: self.made(answer), calls, self.compiles)

    def _kernels(self, answer: Any, calls: list[Call]) -> str | None:
        if self.kernels is None:
            return None
        from helpers.codegen import kernels

        found = kernels(self.made(answer), *_copied(calls[0]))
        launches = len(found.kernels)
        if launches > self.kernels:
            return f"{launches} launches, and at most {self.kernels} asked for"
        extra = self.trips and found.bytes / calls[0][0].nbytes - self.trips
        # Small tensors are no trip.
        return f"extra trips to memory: {extra:.0f}" if extra and extra > 0.1 else None

    def _compiled(self, answer: Any, calls: list[Call]) -> str | None:
        if not (self.graphs or self.compiles or self.kernels):
            return None  # an answer may ask whether it is compiled: only if it will be
        build = partial(_torch().compile, backend="eager")
        told = self._values(answer, calls, build)
        return told and f"compiled, {told}"


def exercise(
    key: str,
    *,
    hints: tuple[str, str, str],
    passed: str,
    like: Callable[..., Any] | None = None,
    inputs: Iterable[Call] | Callable[[], Iterable[Call]] = (),
    made: Callable[[Any], Callable[..., Any]] = lambda answer: answer,
    gradient: bool = False,
    graphs: int | None = None,
    compiles: int | None = None,
    kernels: int | None = None,
    trips: int | None = None,
    cases: Sequence[tuple[str, Call, Any]] = (),
) -> Exercise:
    """Declare the exercise *key* of its chapter.

    *like* is a function that is right, and *inputs* are the calls (tuples of
    arguments, or a function that returns them) on which an answer must do the same:
    values, shapes, dtypes, what it writes into its inputs, and with *gradient* the
    gradients, too.  *made* turns an answer, and *like*, into what is called: a class
    into a module, for instance; modules share the state of *like*'s.

    The first call must be captured as *graphs* graphs and become at most *kernels*
    launches, library calls too, which read and write *trips* times its first tensor;
    all calls in order may cost *compiles* compiles.
    *cases* are for answers that decide something: (what it is, arguments, what must
    come back).

    Messages of its own are one function, with the exercise as its decorator.
    """
    declared = Declared(
        like, inputs, made, gradient, graphs, compiles, kernels, trips, tuple(cases)
    )
    return Exercise(key, hints, passed, declared)


def chapter(number: str) -> dict[str, Exercise]:
    """Return the exercises of a chapter such as "01", read fresh from its file.

    Raises ExerciseError when there is no such file, or when it cannot be used.
    """
    path = _FOLDER / f"ch{number}" / "checks.py"
    if not path.is_file():
        raise ExerciseError(f"there are no exercises for notebook {number}")
    spec = spec_from_file_location(f"course_ch{number}_checks", path)
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and torch look a module up by name
    where = f"course/{path.parent.name}/{path.name}"
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ExerciseError(
            f"{where} cannot be used ({type(error).__name__}: {error}). If you "
            f"changed it, put it back: git checkout -- notebooks/{where}"
        ) from error
    exercises = [item for item in vars(module).values() if isinstance(item, Exercise)]
    return {item.key: item for item in exercises}


def find(key: str) -> Exercise:
    """Return the exercise *key*; ExerciseError lists the known ones."""
    known = chapter(str(key)[:2])
    if key not in known:
        listed = ", ".join(sorted(known)) or "none"
        raise ExerciseError(f"There is no exercise {key}; the known ones are {listed}")
    return known[key]


def check(key: str, answer: Any) -> None:
    """Try *answer* against exercise *key*, and print what was found.

    The reader sees a message, never a traceback, whatever the answer does; in a live
    notebook, with the hints below it, each behind a click.
    """
    try:
        exercise = find(key)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            message = _judge(exercise, answer)
    except ExerciseError as error:
        _report(error)
        return
    if message is None:
        lesson.progress.put("exercises", key, {"passed": True})
        told = f"{key} passed. {exercise.passed}"
        verdict(Sign.PASSED, f"{key}: {exercise.passed}", told)
    elif message == _STUB:
        verdict(Sign.OPEN, f"{key} {_STUB}", f"{key} {_STUB}", _folded(exercise))
    else:
        told = f"{key} not yet: {message}\n{_STUCK.format(key=key)}"
        verdict(Sign.NOT_YET, f"{key}: {message}", told, _folded(exercise))
    if printed.getvalue():
        print("Your answer printed:", printed.getvalue(), sep="\n")


def hint(key: str, level: int = 1) -> None:
    """Print a hint: 1 is a nudge, 3 is nearly the answer, 0 prints none."""
    try:
        if level not in range(4):
            raise ExerciseError(f"A hint has level 1, 2 or 3 (0: none), not {level!r}")
        if level:
            print(f"Hint {level} of 3 for {key}: {find(key).hints[level - 1]}")
    except ExerciseError as error:
        _report(error)


def _folded(exercise: Exercise) -> str:
    """Return the hints as HTML, each behind a click."""
    weights = ("a nudge", "more", "nearly the answer")
    titles = [f"Hint {n} of 3: {weight}" for n, weight in enumerate(weights, 1)]
    return folds(titles, list(exercise.hints))


def _report(error: ExerciseError) -> None:
    if strict():
        raise error
    print(error)


# What is said of an answer.


def _judge(exercise: Exercise, answer: Any) -> str | None:
    """Return None for a pass, or what to tell the reader."""
    try:
        return _STUB if is_stub(answer) else exercise.check(answer)
    except (Exception, SystemExit) as error:
        # Of the error and its causes, the innermost that a line of the reader's raised.
        own = [cause for cause in causes(error) if _own_frames(cause)]
        if isinstance(error, AssertionError) and _ends_in(error, _is_check):
            return str(error) or "a check of the result failed"
        # A part of the answer that is not written yet, however deep it was called.
        if any(
            isinstance(e, NotImplementedError) and _ends_in(e, _is_cell) for e in own
        ):
            return _STUB
        cause = own[-1] if own else error
        who = "your answer" if own else "your answer, or the check with it,"
        lines = [f"{who} raised {type(cause).__name__}: {cause}"]
        frames = [f"{f.lineno}, in {f.name}: {f.line}" for f in _own_frames(cause)]
        lines += [f"  your line {one}" for one in dict.fromkeys(frames)]
        lines += getattr(error, "__notes__", ())
        lines.append("  Call it yourself in a new cell, to see where it goes wrong.")
        return "\n".join(lines)


def _own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the part of the traceback that lies in the reader's cells."""
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if _is_cell(frame.filename)]


def _ends_in(error: BaseException, there: Callable[[str], bool]) -> bool:
    """Return whether a line of a file that is *there* raised this, and no library."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and there(frames[-1].filename)


def _is_check(filename: str) -> bool:
    return Path(filename).is_relative_to(_FOLDER)


def _is_cell(filename: str) -> bool:
    return "ipykernel_" in filename or filename.startswith("<ipython-input")


def is_stub(answer: Any) -> bool:
    """Return whether nothing was filled in.

    That is None, ``...``, a function that only raises NotImplementedError, or a tuple,
    list or dict with one of these in it.
    """
    if answer is None or answer is ...:
        return True
    if isinstance(answer, dict):
        return any(map(is_stub, answer.values()))
    if isinstance(answer, (tuple, list)):
        return any(map(is_stub, answer))
    if not callable(answer):
        return False
    inner = inspect.unwrap(answer)
    inner = getattr(inner, "fn", inner)  # a Triton kernel keeps its function there
    code = getattr(inner, "__code__", None)
    if not isinstance(code, types.CodeType):
        return False
    # Read, not called: the compiler would hide what a compiled stub raises.
    steps = list(dis.get_instructions(code))
    returns = any(step.opname.startswith("RETURN") for step in steps)
    raised = ("NotImplementedError", NotImplementedError)  # by name before 3.14
    return not returns and any(step.argval in raised for step in steps)


# What checks are made of.


def number(value: Any) -> float | None:
    """Return an answer as a float; None for text, a bool, NaN, what is no number."""
    if isinstance(value, (bool, str, bytes)):
        return None
    try:
        answer = float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None
    return None if math.isnan(answer) else answer


def same(value: Any, wanted: Any) -> bool:
    """Return whether an answer is the number, text, bool, None or list of these."""
    if isinstance(wanted, (tuple, list)):
        alike = isinstance(value, (tuple, list)) and len(value) == len(wanted)
        return alike and all(map(same, value, wanted))
    if wanted is None or isinstance(wanted, bool):
        return getattr(value, "item", lambda: value)() is wanted  # also of NumPy, torch
    if isinstance(wanted, str):
        return isinstance(value, str) and value == wanted
    return number(value) == wanted


def near(value: Any, wanted: Any, tolerance: float = 1e-5) -> bool:
    """Return whether an answer is a tensor of this shape and dtype, and near *wanted*.

    *tolerance* is relative and absolute: rounding is no difference.
    """
    torch = _torch()
    return (
        type(value) is torch.Tensor
        and (value.shape, value.dtype) == (wanted.shape, wanted.dtype)
        and torch.allclose(value, wanted, rtol=tolerance, atol=tolerance)
    )


@contextlib.contextmanager
def asked_about(what: str) -> Iterator[None]:
    """Note on what the block raises what the answer was asked about."""
    try:
        yield
    except Exception as error:
        error.add_note(f"  It was asked about {what}.")
        raise


def left_behind(module: Any) -> str | None:
    """Say so, if ``.to(...)`` doesn't move a tensor that *module* keeps; else None."""
    from helpers.tensors import tensors

    moved = {"_parameters": {}, "_buffers": {}, "_modules": {}}
    if not [*tensors([vars(part) | moved for part in module.modules()])]:
        return None
    return "a tensor that is no buffer stays where it is when the module moves"


def in_place(module: Any, *inputs: Any) -> str | None:
    """Say so, if a call writes in place into what the module keeps; None: it doesn't.

    See https://github.com/pytorch/pytorch/pull/197039.
    """
    before = [(tensor, tensor.clone()) for tensor in module.buffers()]
    module(*inputs)
    if all(tensor.equal(copy) for tensor, copy in before):
        return None
    return (
        "it writes in place what a compiled backward may read when it was written: "
        "assign a new tensor"
    )


def what_differs(
    answer: Callable[..., Any],
    reference: Callable[..., Any],
    calls: Sequence[Call],
    gradient: bool = False,
) -> str | None:
    """Say where *answer* does not do what *reference* does; None: nowhere."""
    from helpers.judge import differences

    for found in differences(reference, answer, calls, gradients=gradient):
        inputs = [x for x in calls[found.call - 1] if isinstance(x, _torch().Tensor)]
        given = " and ".join(f"{[*x.shape]}" for x in inputs)
        return f"given {given}, {found.says}"
    return None


def one_graph(function: Callable[..., Any], *inputs: Any) -> str | None:
    """Say what a call is captured as; None: as one graph, without a break."""
    return Declared(graphs=1)._graphs(function, [inputs])


def one_compile(make: Callable[[], Any], calls: Sequence[Call]) -> str | None:
    """Say why what is made needs more than one graph, and one compile, for *calls*."""
    return one_graph(make(), *calls[0]) or few_compiles(make, calls, 1)


def few_compiles(
    make: Callable[[], Any], calls: Sequence[Call], most: int
) -> str | None:
    """Say why what is made compiles more than *most* times for *calls*, in order."""
    from helpers.capture import recompiles

    with _torch().compiler.config.patch(recompile_limit=64):
        cost = recompiles(make(), [_copied(call) for call in calls])
    if cost.total <= most:
        return None
    told = [
        f"\n  call {number}: {'; '.join(call.reasons)}"
        for number, call in enumerate(cost.calls, 1)
        if call.compiles
    ]
    spent = f"{len(calls)} calls cost {count(cost.total, 'compile')}"
    told[4:] = ["\n  ..."] * (len(told) > 4)
    return f"{spent}, and {most} was asked for.{''.join(told)}"


def _copied(call: Call) -> Call:
    """Return *call* with its tensors copied, so that a write is seen once."""
    from helpers.tensors import clone  # here, for `teach` is used without torch

    return clone(call)


def _torch() -> Any:
    import torch  # here, for `teach` is used without torch

    return torch


def fresh(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* under a name of its own: nothing is known of it yet.

    What torch learned of sizes it keeps by a function's name, beyond a reset.
    """
    from helpers.session import fresh_code  # here, for `teach` is used without torch

    new, name = fresh_code(function), f"{function.__name__}_{next(_NUMBERS)}"
    new.__code__ = new.__code__.replace(co_name=name)
    return new
