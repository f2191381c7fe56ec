"""Somebody's model, its calls, eager and compiled; and one part after another."""

from __future__ import annotations

import functools
import logging
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from importlib import import_module
from typing import Any
from unittest import mock

import torch

from .helpers import correctness, outcomes, session, text
from .helpers._torch import is_compiled, needed_for
from .helpers.benchmark import Comparison, compare
from .helpers.capture import given_calls
from .helpers.codegen import Kernels, kernels
from .helpers.errors import CompiledRaises, InputError, UsedUp, one_line
from .helpers.frames import line_in
from .helpers.judge import Judgement, judged
from .helpers.tensors import clone
from .report import Part
from .sandbox import Report, given, module_function

with needed_for("first calls without a cache"):
    from torch._inductor import compile_fx
    from torch._inductor.utils import fresh_cache
with needed_for("seeing what a model compiles inside"):
    from torch._dynamo import eval_frame
with needed_for("telling a build that is slow from code that never ends"):
    from torch._dynamo.callback import callback_handler

Call = tuple[tuple[Any, ...], dict[str, Any]]
_HOW = ("dynamic", "fullgraph", "mode", "options")
_OTHER_CODE = {"backend", "mode", "options"}


class Model:
    """A model or function, its calls, and whether a backward belongs to each."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        with noted() as self._imported:  # where a decorator compiles it
            self.make = module_function(order["target"])
        self.fn, inputs, loss = self._made()
        self.loss = loss or correctness.weighted_sum
        self._calls: list[Call] = given_calls(inputs)
        self.train = bool(order["train"] or loss)
        self.module = self.fn if isinstance(self.fn, torch.nn.Module) else None

    def _made(self) -> tuple[Callable[..., Any], Any, Callable[..., Any] | None]:
        """Return the model, inputs and loss: random numbers are the same each time."""
        with correctness.seeded(0), noted() as self._asked:
            fn, *rest = given(self.make)
        self.whole = is_compiled(fn)
        own = session.uncompiled(fn)  # compiled, it would be held against itself
        asked = [*self._asked, *self._imported]
        asked = [how for one, _, how in asked if one is own or not self.whole]
        self.how = asked[0] if self.whole and asked else {}
        if (dynamic := self.how.get("dynamic")) is not None:  # as torch.compile does
            torch._dynamo.config.assume_static_by_default = not dynamic
            torch._dynamo.config.automatic_dynamic_shapes = dynamic
        if asked and all(how.get("fullgraph") for how in asked):
            torch._dynamo.config.capture_scalar_outputs = True
            torch._dynamo.config.capture_dynamic_output_shape_ops = True
        return own, *rest

    fails: Mapping[int, Exception] = {}
    """The exceptions of eager, by the number of the call."""
    whole = True
    """Whether its owner compiles all of it, and not only what is inside."""
    how: Mapping[str, Any] = {}
    """The options with which its owner compiles all of it."""

    @property
    def calls(self) -> list[Call]:
        """Copies of the inputs of each call that eager can run.

        A call may write to a cache among them; what calls share, the copies share.
        Raises InputError for inputs that cannot be copied.
        """
        return [c for n, c in enumerate(self.every_call) if n not in self.fails]

    @property
    def every_call(self) -> list[Call]:
        """Copies of the inputs of each call, also of those in which eager raises."""
        try:
            return clone(self._calls)
        except Exception as error:
            raise InputError(f"the inputs cannot be copied: {error}") from error

    def made_again(self) -> Callable[..., Any]:
        """Return a new model, which was never called."""
        fresh = self._made()[0]
        if isinstance(fresh, torch.nn.Module) and self.module is not None:
            fresh.load_state_dict(self.module.state_dict())
        return fresh

    def made_with(self, **options: Any) -> Callable[..., Any]:
        """Return a new model; what it compiles is compiled with these *options*, too.

        Raises InputError where it was compiled before it was made.
        """
        with noted(**options) as asked:
            fresh = self.made_again()
        if not asked:
            raise InputError("what it compiles is compiled when its file is imported")
        return fresh

    @property
    def in_pieces(self) -> bool:
        """Whether its owner compiles pieces of it: these are judged, not the whole."""
        return bool(self.inside) and not self.whole

    @functools.cached_property
    def program(self) -> Callable[..., Any]:
        """The model as the compiler gets it: whole, or in its owner's pieces."""
        return session.InPieces(self.fn, self.made_with) if self.in_pieces else self.fn

    def on(self, backend: str, fn: Callable[..., Any] | None = None) -> Callable:
        """Return the model itself, or one *made_again*, its captures on *backend*."""
        compiling = session.given_to if self.in_pieces else torch.compile
        return compiling(self.fn if fn is None else fn, backend=backend)

    @functools.cached_property
    def inside(self) -> tuple[str, ...]:
        """The names of what the model compiles by itself: blocks, functions it calls.

        Where something compiled is called that has no name: that.
        """
        return session.pieces_of(self.fn) or tuple(self._met)

    running: Callable[[str], None] = staticmethod(lambda side: None)
    """Reports which side runs, or is built: known even if that ends the process."""
    versions: int | None = None  # that `matches` compiled, with kernels
    raised = ""  # what only compiled code raised there
    _met: Sequence[str] = ()

    @functools.cached_property
    def eager(self) -> Callable[..., Any]:
        """The model, run eagerly: what is compiled inside it is taken off."""
        fn = self.fn
        if not self.inside:
            return fn

        def eager(*inputs: Any, **kwargs: Any) -> Any:
            with eager.around():
                return fn(*inputs, **kwargs)

        # Also around a backward, in which a checkpointed block runs again.
        eager.around = functools.partial(torch.compiler.set_stance, "force_eager")
        return eager

    @property
    def unused(self) -> str:
        """The line that compiles the model, or a part, which no call uses, or ''."""
        if self.whole or self._met:
            return ""
        own = {*map(id, self.module.modules() if self.module else [self.fn])}
        return next((line for fn, line, _ in self._asked if id(fn) in own), "")

    def try_out(self) -> None:
        """Call it eagerly, as its owner does: the compiler has no part in what fails.

        A call that raises is kept in `fails`.  Raises what it raised where no call
        runs, neither eagerly nor compiled, and InputError for inputs that cannot be
        copied, or have no numbers.
        """
        for call in self._calls:
            session.check_callable(self.fn, call)
        with _compiled_calls() as met:
            self.fails = self.failures(self.run(self.fn), "force_eager")
        self._met = met
        if len(self.fails) == len(self._calls):
            compiled = self.failures(self.run(self.compiled()), "default")
            if len(compiled) == len(self._calls):
                raise self.fails[0]

    def failures(self, run: Callable[..., Any], stance: str) -> dict[int, Exception]:
        """Return the exceptions of calls by number, each from the first state."""
        failed = dict[int, Exception]()
        for number, (inputs, kwargs) in enumerate(self.every_call):
            with session.undisturbed(run), torch.compiler.set_stance(stance):
                try:
                    run(*inputs, **kwargs)
                except Exception as error:
                    failed[number] = error
        return failed

    @functools.cached_property
    def gradients(self) -> bool:
        """Whether grad mode is needed: in training, or where a call calls autograd.

        Elsewhere, kernels for a backward would be built in vain.
        """
        if self.train:
            return True
        inputs, kwargs = self.calls[0]
        try:
            with session.undisturbed(self.fn), torch.no_grad():
                self.eager(*inputs, **kwargs)
        except Exception:  # in grad mode it ran: see try_out
            return True
        return False

    @functools.cached_property
    def kernels(self) -> Kernels:
        """What the first call becomes, with its backward in training: two parts ask."""
        inputs, kwargs = self.calls[0]
        return kernels(self.program, *inputs, kwargs=kwargs, backward=self.train)

    def run(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return *fn* as it is used: called, or called with a backward of the loss."""

        def step(*inputs: Any, **kwargs: Any) -> torch.Tensor:
            with getattr(fn, "around", nullcontext)():
                result = self.loss(fn(*inputs, **kwargs))
                result.backward()
            return result.detach()

        return step if self.train else fn

    def owners(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return *options* and its owner's; mode and options exclude each other."""
        gone = {"mode", "options"} if options.keys() & _OTHER_CODE else set()
        return {k: v for k, v in self.how.items() if k not in gone} | options

    def compiled(self, **options: Any) -> Callable[..., Any]:
        """Return the model, compiled apart from all that was compiled before.

        Of a model that compiles pieces of itself, these are compiled with *options*.
        """
        options = self.owners(options)
        torch.compiler.reset()  # this forgets callbacks, too
        if self.in_pieces:
            compiled = session.compile_apart(self.program, **options)
        else:
            compiled = torch.compile(session.fresh_code(self.fn), **options)
        callback_handler.register_start_callback(lambda _: self.running("the build"))
        callback_handler.register_end_callback(lambda _: self.running("compiled"))
        return compiled

    def judged(
        self,
        compiled: Callable[..., Any],
        calls: Sequence[Call] | None = None,
        again: Callable[[], Callable[..., Any]] | None = None,
    ) -> Judgement:
        """Compare *compiled* with the model, run eagerly, in *calls* or all of them.

        *again* compiles once more in the same way, where random numbers are drawn.
        """
        loss = self.loss if self.train else False
        how = {"gradients": loss, "model": self.fn, "again": again}
        calls = self.every_call if calls is None else calls
        return judged(self.eager, compiled, calls, running=self.running, **how)


@contextmanager
def without_backward(m: Model) -> Iterator[None]:
    """Build no kernels of a backward before it is called, in the block.

    Where a size varies, torch lowers it with the forward; where that fails, it waits
    for the call.  In training there is one.
    """
    usual = getattr(compile_fx, "compile_fx_backward", None)  # not in each torch
    if m.train or not usual:
        yield
        return

    def in_backward(*inputs: Any, **options: Any) -> Any:
        if torch._C._current_graph_task_id() < 0:
            raise NotImplementedError("this backward was not called")
        return usual(*inputs, **options)

    log = logging.getLogger("torch._functorch._aot_autograd.graph_compile")
    with (
        mock.patch.object(compile_fx, "compile_fx_backward", in_backward),
        mock.patch.object(log, "disabled", True),  # it tells that it waits
    ):
        yield


@contextmanager
def noted(**more: Any) -> Iterator[list[tuple[Any, str, dict[str, Any]]]]:
    """Collect what the block gives to ``torch.compile``, its owner's line, and how.

    Of a method, as in ``module.compile()``, that is the module; *more* are options.
    """
    usual, noted = torch.compile, list[tuple[Any, str, dict[str, Any]]]()

    def compiling(fn: Any = None, **options: Any) -> Any:
        stack = traceback.extract_stack()[:-1]
        if not stack[-1].filename.endswith("nn/attention/flex_attention.py"):  # itself
            line = line_in("".join(traceback.format_list(stack)))
            how = {k: v for k, v in options.items() if k in _HOW and v is not None}
            noted.append((getattr(fn, "__self__", fn), line, how))
        return usual(fn, **{**options, **more})

    torch.compile = compiling
    try:
        yield noted
    finally:  # what its file has put there stays
        torch.compile = usual if torch.compile is compiling else torch.compile


@contextmanager
def _compiled_calls() -> Iterator[list[str]]:
    """Collect, in the block, a word for each thing that is compiled, and is called."""
    met: list[str] = []
    usual = eval_frame._callback_from_stance

    def noted(callback: Any) -> Any:
        if callback not in (None, False) and not met:
            met.append("a function that it calls")
        return usual(callback)

    with mock.patch.object(eval_frame, "_callback_from_stance", noted):
        yield met


class TooFewCalls(InputError):
    """The model's state takes fewer calls than a race needs."""


def race(
    m: Model, sides: tuple[Callable, Callable], inputs: Any, **how: Any
) -> Comparison:
    """Return `compare` of both *sides*, on copies where a call uses its inputs up.

    The time of these counts on both sides.  Raises TooFewCalls where it is the model
    that is used up, and not its inputs.
    """

    def on_copies(run: Callable[..., Any], *inputs: Any, **kwargs: Any) -> Any:
        inputs, kwargs = clone((inputs, kwargs))
        return run(*inputs, **kwargs)

    try:
        return compare(*sides, *inputs, **how)
    except InputError as error:
        _check_calls(m)
        if not isinstance(error, UsedUp):
            raise
    torch.compiler.reset()  # what a first call takes is asked too
    copied = (functools.partial(on_copies, run) for run in sides)
    with fresh_cache():
        return compare(*copied, *inputs, **how)


def _check_calls(m: Model) -> None:
    """Raise TooFewCalls where eager takes fewer calls, on copies, than a race makes."""
    with session.undisturbed(m.fn):
        for taken in range(3 * len(m.calls)):
            inputs, kwargs = m.calls[taken % len(m.calls)]
            try:
                m.run(m.eager)(*inputs, **kwargs)
            except Exception as error:
                often, why = text.count(taken, "call"), one_line(error)
                raise TooFewCalls(
                    f"the model takes {often}, then raises {why}: each run needs a "
                    "fresh model\nuntried: room for more calls in one model"
                ) from error


def doubled(_module: torch.nn.Module, _inputs: Any, out: Any) -> Any:
    """Hook a layer: what it returns is twice as much."""
    return out * 2 if isinstance(out, torch.Tensor) else None


def answer_of(fn: Callable[..., Any], call: Call) -> list[torch.Tensor]:
    """Return the tensors that a call of *fn* returns."""
    inputs, kwargs = call
    return outcomes.values_of(fn(*inputs, **kwargs))


def near(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    """Return whether tensors are roughly equal: a stale answer is off by more."""
    return [t.shape for t in some] == [t.shape for t in others] and all(
        correctness.close(a.to(b.dtype), b, rtol=1e-2, atol=1e-3)
        for a, b in zip(some, others, strict=True)
    )


_UNCALLED = ("matches", "gpu")  # asked even where eager raises in every call
_VERDICTS = {CompiledRaises: "bad", TooFewCalls: "cannot tell"}  # and not ours
_MODULES = {"recompiles": "again"}  # the package has a function of the part's name


def look(order: dict[str, Any], report: Report) -> None:
    """Look at the model of an *order*, part by part: a sandbox runs this."""
    in_turn(order, report, found_of)


def in_turn(
    order: dict[str, Any], report: Report, find: Callable[[Model, str], dict[str, Any]]
) -> None:
    """Make the model of an *order*, and report what *find* finds of each part."""
    report.stage("make the model")
    m = Model(order)
    m.running = lambda side: report.put(running=side)
    if order["parts"] != ["gpu"]:
        report.stage("call it eagerly")
        try:
            m.try_out()
        except Exception:
            if "gpu" not in order["parts"]:
                raise  # its own kernels may need the GPU that is missing
    about = {"trains": m.train, "in_pieces": m.in_pieces}
    report.put(calls=len(m.every_call), **about)
    for name in order["parts"]:
        report.stage(name)
        report.put(part={"name": name, **find(m, name)})


def found_of(m: Model, name: str) -> dict[str, Any]:
    """Return the findings of one part, or how it failed: the others go on."""
    try:
        if m.fails and not m.calls and name not in _UNCALLED:
            why = one_line(m.fails[0])
            part = Part(name, "not run", f"eager raises in every call: {why}")
        else:
            part = import_module(f"{__package__}.{_MODULES.get(name, name)}").part(m)
    except InputError as error:
        first, *rest = str(error).splitlines()
        verdict = _VERDICTS.get(type(error), "failed")
        part = Part(name, verdict, first, advice=tuple(rest))
    except (Exception, SystemExit) as error:
        known = m.raised.startswith(f"{type(error).__name__}:")
        said = ("not run", "see matches") if known else ("failed", one_line(error))
        part = Part(name, *said)
    # The clock is one for all processes of a machine: some parts are read at once.
    return asdict(part) | {"when": time.monotonic()}
