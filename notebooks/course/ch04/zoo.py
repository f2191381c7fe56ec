"""The zoo of lesson 04: lines that break a graph, and lines people fear for.

Each snippet is a small function as it was given.  Where it breaks, the
function below it does the same in one graph: ``@name.repair(tool)`` names the
tool.  Both are called with each of the snippet's inputs, which take every
branch, also the one that raises.

    for snippet in ZOO:
        snippet.given(*snippet.inputs[0])

Tensors are on the CPU: where a graph breaks does not depend on the device.
"""

import bisect
import collections
import contextlib
import copy
import dataclasses
import functools
import gc
import io
import itertools
import json
import logging
import math
import os
import pickle
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch._higher_order_ops import while_loop

X = torch.linspace(-1, 2, 8)
INPUTS = ((X,), (-X,), (X / 7,))  # so that both sides of each branch are taken

ZOO: list["Snippet"] = []
_group = ""  # the heading below which the next snippets stand


def group(name: str) -> None:
    """Put the snippets that follow below a heading."""
    global _group
    _group = name


@dataclasses.dataclass
class Snippet:
    """A function as given and, if it breaks, one that does the same unbroken.

    *settings* are those of the compiler under which *repaired* has one graph.
    """

    name: str
    group: str
    given: Callable[..., Any]
    inputs: tuple[tuple[Any, ...], ...]
    repaired: Callable[..., Any] | None = None
    tool: str = ""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)

    def repair(self, tool: str, **settings: Any) -> Callable[..., "Snippet"]:
        """Decorator: the function does the same, by *tool*."""

        def keep(function: Callable[..., Any]) -> "Snippet":
            self.repaired, self.tool, self.settings = function, tool, settings
            return self

        return keep

    def repair_by(self, **settings: Any) -> None:
        """Repair the given function by a setting of the compiler."""
        self.repair(next(iter(settings)), **settings)(self.given)

    def checked(self) -> tuple[int, bool]:
        """Compile repaired; return its graphs, and whether it acts as given.

        That is: returns the same, prints the same, and raises where given
        raises, in eager.  Both get each of the inputs, in copies.  A graph
        break raises, so a function with one does not act as given.
        """
        graphs: list[Any] = []
        compiled = torch.compile(
            self.repaired,
            backend=lambda graph, _: graphs.append(graph) or graph.forward,
        )
        with torch._dynamo.error_on_graph_break(True):
            agree = [
                _same(_run(self.given, inputs), _run(compiled, inputs))
                for inputs in self.inputs
            ]
        return len(graphs), all(agree)


Outcome = tuple[torch.Tensor | None, str]


def _same(wanted: Outcome, found: Outcome) -> bool:
    (a, said), (b, also) = wanted, found
    if a is None or b is None or said != also:
        return a is b and said == also
    return a.shape == b.shape and torch.allclose(a, b, equal_nan=True)


def _run(f: Callable[..., torch.Tensor], inputs: tuple[Any, ...]) -> Outcome:
    """Return what f returns (None: it raises), and what it prints."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(*copy.deepcopy(inputs)), text.getvalue()
        except (ValueError, AssertionError, RuntimeError):
            return None, text.getvalue()


def snippet(
    name: str, *inputs: tuple[Any, ...]
) -> Callable[[Callable[..., Any]], Snippet]:
    """Decorator: put the function into the zoo."""

    def keep(function: Callable[..., Any]) -> Snippet:
        ZOO.append(Snippet(name, _group, function, inputs or INPUTS))
        return ZOO[-1]

    return keep


group("A branch or a loop asks a tensor")


@snippet("if on a tensor")
def branch(x):
    if x.sum() > 0:
        return x.cos()
    return x.sin()


@branch.repair("torch.where")
def branch(x):
    return torch.where(x.sum() > 0, x.cos(), x.sin())


@snippet("if with long branches")
def long_branch(x):
    if x.sum() > 0:
        for _ in range(3):
            x = (x * 1.5).tanh()
    else:
        x = x.exp().cumsum(0)
    return x


@long_branch.repair("torch.cond")
def long_branch(x):
    def up(x):
        for _ in range(3):
            x = (x * 1.5).tanh()
        return x

    def down(x):
        return x.exp().cumsum(0)

    return torch.cond(x.sum() > 0, up, down, (x,))


@snippet("while on a tensor")
def halving(x):
    while x.abs().max() > 0.1:
        x = x / 2
    return x


@halving.repair("while_loop")
def halving(x):
    def too_large(x):
        return x.abs().max() > 0.1

    return while_loop(too_large, lambda x: (x / 2,), (x,))[0]


@snippet("for over int(tensor)", (X, torch.tensor(3)), (X, torch.tensor(5)))
def repeat(x, times):
    for _ in range(int(times)):
        x = x.sin()
    return x


@repeat.repair("while_loop with a counter")
def repeat(x, times):
    def more(i, x):
        return i < times

    start = torch.zeros_like(times)
    return while_loop(more, lambda i, x: (i + 1, x.sin()), (start, x))[1]


@snippet("early exit from a loop")
def converge(x):
    for _ in range(10):
        step = x / 3
        if step.abs().max() < 0.05:
            break
        x = x - step
    return x


@converge.repair("a mask: later steps change nothing")
def converge(x):
    going = torch.tensor(True)
    for _ in range(10):
        step = x / 3
        going = going & (step.abs().max() >= 0.05)
        x = torch.where(going, x - step, x)
    return x


@snippet("if any(...) over tensors")
def any_positive(x):
    if any(part.sum() > 1 for part in x.split(2)):
        return x * 2
    return x.cos()


@any_positive.repair("torch.stack, .any(), torch.where")
def any_positive(x):
    sums = torch.stack([part.sum() for part in x.split(2)])
    return torch.where((sums > 1).any(), x * 2, x.cos())


@snippet("if torch.equal(...)")
def if_equal(x):
    y = x.sin()
    return y + 1 if torch.equal(x, x.abs()) else y


@if_equal.repair("compare, .all(), torch.where")
def if_equal(x):
    y = x.sin()
    return torch.where((x == x.abs()).all(), y + 1, y)


NAN, INF = X * math.nan, X * math.inf


@snippet("if isnan: raise", (X,), (INF,), (NAN,))
def guard_nan(x):
    y = x.exp()
    if torch.isnan(y).any():
        raise ValueError("not a number")
    return y + 1


@guard_nan.repair("assert, which a graph can hold")
def guard_nan(x):
    y = x.exp()
    assert (~torch.isnan(y)).all(), "not a number"
    return y + 1


@snippet("assert not on a tensor", (X,), (INF,), (X * 5,))
def guard_large(x):
    assert not (x > 9).any()
    return x.exp()


@guard_large.repair("assert without the not")
def guard_large(x):
    assert (x <= 9).all()
    return x.exp()


group("A tensor becomes a Python number or list")


@snippet(".item() as a factor")
def scaled(x):
    return x.sin() * x.sum().item()


@scaled.repair("leave out the .item()")
def scaled(x):
    return x.sin() * x.sum()


@snippet(".item() that must stay")
def scalar(x):
    return x.sin() * x.sum().item()


scalar.repair_by(capture_scalar_outputs=True)


@snippet("if on an .item()")
def clipped(x):
    y = x.sin()
    if x.max().item() > 1:
        y = y / 2
    return y + 1


@clipped.repair("torch.where")
def clipped(x):
    y = x.sin()
    return torch.where(x.max() > 1, y / 2, y) + 1


@snippet("float() into math")
def tempered(x):
    return x * math.exp(float(x.max()))


@tempered.repair("torch.exp in place of math.exp")
def tempered(x):
    return x * torch.exp(x.max())


@snippet("a tensor from two items")
def extremes(x):
    high = x.max().item()
    low = x.min().item()
    return torch.tensor([high, low])


@extremes.repair("torch.stack")
def extremes(x):
    return torch.stack([x.max(), x.min()])


@snippet("index by an .item()", (X, torch.tensor(3)), (X, torch.tensor(6)))
def picked(x, i):
    return x.sin()[i.item()]


@picked.repair("index by the tensor")
def picked(x, i):
    return x.sin().index_select(0, i.reshape(1))[0]


@snippet("max of a .tolist()")
def list_max(x):
    return x.sin() * max(x.tolist())


@list_max.repair("a torch function: amax")
def list_max(x):
    return x.sin() * x.amax()


@snippet("sorted(x.tolist())")
def list_sorted(x):
    return x.sin() + torch.tensor(sorted(x.tolist()))


@list_sorted.repair("a torch function: sort")
def list_sorted(x):
    return x.sin() + x.sort().values


group("A shape depends on data")


@snippet("x[mask].sum()")
def masked_sum(x):
    return x[x > 0].sum()


@masked_sum.repair("torch.where keeps the shape")
def masked_sum(x):
    return torch.where(x > 0, x, 0).sum()


@snippet("nonzero that must stay")
def positive(x):
    return x.sin()[(x > 0).nonzero().squeeze(-1)]


positive.repair_by(capture_dynamic_output_shape_ops=True)


@snippet("len(unique())", (X.round(),), (X,))
def kinds(x):
    return x.sin() / len(x.unique())


@kinds.repair("sort, and count the steps")
def kinds(x):
    steps = x.sort().values.diff() != 0
    return x.sin() / (steps.sum() + 1)


SIZES = ((X, torch.tensor([3, 5])), (X, torch.tensor([6, 2])))


@snippet("split by a .tolist()", *SIZES)
def parted(x, sizes):
    first, second = x.split(sizes.tolist())
    return first.sum() - second.sum()


@parted.repair("a mask made of the sizes")
def parted(x, sizes):
    inside = torch.arange(len(x)) < sizes[0]
    return torch.where(inside, x, -x).sum()


group("A side effect, or the world outside")


@snippet("print")
def printed(x):
    y = x.sin()
    print("mean", y.mean())
    return y.cos()


printed.repair_by(reorderable_logging_functions={print})


@snippet("print in a loop")
def printed_often(x):
    for step in range(3):
        x = x.sin()
        print("step", step, "mean", x.mean())
    return x


printed_often.repair_by(reorderable_logging_functions={print})


log = logging.getLogger("zoo")


@snippet("logging")
def logged(x):
    y = x.sin()
    log.info("halfway")
    return y.cos()


@logged.repair("torch.compiler.is_compiling")
def logged(x):
    y = x.sin()
    if not torch.compiler.is_compiling():
        log.info("halfway")
    return y.cos()


@snippet("warnings.warn")
def warned(x):
    y = x.sin()
    warnings.warn("halfway", stacklevel=2)
    return y.cos()


@warned.repair("let the caller warn")
def warned(x):
    return x.sin().cos()


SECONDS = []


@snippet("time.time")
def timed(x):
    begin = time.time()
    y = x.sin().cumsum(0)
    SECONDS.append(time.time() - begin)
    return y + 1


@timed.repair("let the caller time it")
def timed(x):
    return x.sin().cumsum(0) + 1


@snippet("gc.collect")
def tidy(x):
    y = x.sin()
    gc.collect(0)
    return y.cos()


@tidy.repair("let the caller do it")
def tidy(x):
    return x.sin().cos()


@snippet("open(...).read()")
def from_file(x):
    y = x.sin()
    with open(os.devnull) as file:
        size = len(file.read())
    return y.cos() + size


SIZE = 0  # len of the file, read once, before the first call


@from_file.repair("read it before the call")
def from_file(x):
    return x.sin().cos() + SIZE


LOCK = threading.Lock()


@snippet("with a lock")
def locked(x):
    with LOCK:
        y = x.sin()
    return y + 1


@locked.repair("let the caller take the lock")
def locked(x):
    return x.sin() + 1


@snippet("a NumPy random generator")
def noisy(x):
    noise = np.random.default_rng(0).random(8, dtype=np.float32)
    return x.sin() + torch.from_numpy(noise)


NOISE = torch.from_numpy(np.random.default_rng(0).random(8, dtype=np.float32))


@noisy.repair("draw it outside, pass it in")
def noisy(x, noise=NOISE):
    return x.sin() + noise


group("Python that Dynamo cannot enter")


@snippet("a function that torch lacks")
def interpolated(x):
    y = np.interp(x.numpy(), [-1, 0, 2], [0, 1, 0])
    return x.sin() + torch.from_numpy(y).float()


@torch.library.custom_op("zoo::interp", mutates_args=())
def interp(x: torch.Tensor) -> torch.Tensor:
    y = np.interp(x.numpy(), [-1, 0, 2], [0, 1, 0])
    return torch.from_numpy(y).float()


@interp.register_fake
def _(x):
    return torch.empty_like(x)


@interpolated.repair("torch.library.custom_op")
def interpolated(x):
    return x.sin() + interp(x)


@torch.compiler.disable
def hidden(x):
    return x * 2


@snippet("a helper under compiler.disable")
def helped(x):
    return hidden(x.sin()).cos()


@torch.library.custom_op("zoo::hidden", mutates_args=())
def hidden_op(x: torch.Tensor) -> torch.Tensor:
    return hidden(x)


@hidden_op.register_fake
def _(x):
    return torch.empty_like(x)


@helped.repair("torch.library.custom_op around it")
def helped(x):
    return hidden_op(x.sin()).cos()


@snippet("a C function: bisect")
def bucket(x):
    return x.sin() * bisect.bisect([2, 4, 16], len(x))


@bucket.repair("the same in Python")
def bucket(x):
    return x.sin() * sum(border <= len(x) for border in [2, 4, 16])


@snippet("a C function: json.loads")
def configured(x):
    return x.sin() * json.loads('{"gain": 2}')["gain"]


@torch.compiler.assume_constant_result
def gain():
    return json.loads('{"gain": 2}')["gain"]


@configured.repair("torch.compiler.assume_constant_result")
def configured(x):
    return x.sin() * gain()


def measured(x):
    return x * len(pickle.dumps(7))


@snippet("a C function: pickle.dumps")
def weighed(x):
    return measured(x.sin()).cos()


allowed = torch.compiler.allow_in_graph(lambda x: measured(x))


@weighed.repair("torch.compiler.allow_in_graph")
def weighed(x):
    return allowed(x.sin()).cos()


@snippet("copy.copy of a list")
def shallow(x):
    parts = [x, x + 1]
    first, second = copy.copy(parts)
    return first * second


@shallow.repair("list(...)")
def shallow(x):
    parts = [x, x + 1]
    first, second = list(parts)
    return first * second


@snippet("copy.deepcopy of a tensor")
def deep(x):
    y = copy.deepcopy(x)
    return y.add_(1) * x


@deep.repair(".clone()")
def deep(x):
    y = x.clone()
    return y.add_(1) * x


@snippet("a class made inside")
def classy(x):
    class Pair:
        def __init__(self, value):
            self.value = value

    return Pair(x.sin()).value + 1


class Pair:
    def __init__(self, value):
        self.value = value


@classy.repair("move the class out")
def classy(x):
    return Pair(x.sin()).value + 1


LEAF = torch.linspace(-1, 2, 8, requires_grad=True)


@snippet(".backward() inside", (LEAF,))
def slope(w):
    loss = (w * w).sum()
    loss.backward()
    return w.grad * 2


@slope.repair("torch.func.grad")
def slope(w):
    return torch.func.grad(lambda w: (w * w).sum())(w) * 2


group("What people fear, and need not")


@snippet("NumPy functions")
def numpy_math(x):
    return torch.from_numpy(np.sin(x.numpy()) * 2)


@snippet("try and except")
def caught(x):
    try:
        x = x.sin()
        raise KeyError("halfway")
    except KeyError:
        return x.cos()


@snippet("assert on a tensor")
def asserted(x):
    assert (x < 5).all()
    return x.sin()


@snippet("a closure")
def closed(x):
    factor = 3

    def times(y):
        return y * factor

    return times(x)


@snippet("a generator function")
def generated(x):
    def powers():
        for n in range(3):
            yield x**n

    return sum(powers())


@snippet("appending to a list")
def appended(x):
    parts = []
    for n in range(3):
        parts.append(x * n)
    return torch.stack(parts)


HISTORY = []


@snippet("appending to a global list")
def remembered(x):
    y = x.sin()
    HISTORY.append(y.detach())
    return y + 1


CALLS = 0


@snippet("a global counter")
def counted(x):
    global CALLS
    CALLS += 1
    return x.sin()


@snippet("a dict, a set and a Counter")
def collected(x):
    parts = {"a": x}
    parts.update(b=x.sin())
    letters = collections.Counter("banana")
    return sum(parts.values()) * letters["a"] * len(set(letters))


@dataclasses.dataclass
class State:
    value: torch.Tensor
    step: int = 0


@snippet("a dataclass")
def stateful(x):
    state = State(x.sin())
    return dataclasses.replace(state, step=2).value + state.step


@snippet("max() of two tensors")
def larger(x):
    return max(x[0], x[1]) + x


@contextlib.contextmanager
def twice():
    yield 2


@snippet("a context manager of yours")
def managed(x):
    with twice() as n:
        return x * n


@snippet("no_grad and autocast")
def regions(x):
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        return x.sin()


@functools.lru_cache
def squared(n):
    return n * n


@snippet("a function under lru_cache")
def cached(x):
    return x * squared(3)


@snippet("itertools, zip and a lambda")
def iterated(x):
    for a, b in zip(itertools.accumulate([1, 2]), [3, 4], strict=True):
        x = (lambda y, a=a, b=b: y * a + b)(x)
    return x


@snippet("strings, and an f-string of a shape")
def spelled(x):
    return x * len(f"{x.dim()} {tuple(x.shape)}".split())


@snippet("os.environ.get")
def from_shell(x):
    return x.sin() if os.environ.get("ZOO_LANGUAGE") else x.cos()


@snippet("getattr by name, isinstance")
def looked_up(x):
    return getattr(torch, "sin")(x) if isinstance(x, torch.Tensor) else x  # noqa: B009


@snippet("recursion")
def nested(x, depth=3):
    return x if depth == 0 else nested.given(x.sin(), depth - 1)


@snippet("vmap and func.grad")
def transformed(x):
    return torch.vmap(torch.func.grad(torch.sin))(x)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        return 2 * x * slope


@snippet("an autograd.Function")
def differentiated(x):
    return Square.apply(x) + 1
