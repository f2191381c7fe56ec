"""The zoo of lesson 05: lines that break a graph, and lines people fear for.

A row is a line, a small function with it as it was given, and, where that
breaks, a tool and the function that does the same in one graph by it.  Some are
mended by a setting of the compiler alone.  Both functions are called with each
of the row's inputs, which take every branch, also the one that raises.

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


@dataclasses.dataclass(frozen=True)
class Snippet:
    """A function as given and, if it breaks, one that does the same unbroken.

    *settings* are those of the compiler under which *repaired* has one graph.
    """

    group: str
    name: str
    given: Callable[..., Any]
    tool: str
    repaired: Callable[..., Any] | None
    inputs: tuple[tuple[Any, ...], ...]
    settings: dict[str, Any]


ZOO: list[Snippet] = []


def _row(
    group: str,
    name: str,
    given: Callable[..., Any],
    tool: str = "",
    repaired: Callable[..., Any] | None = None,
    inputs: tuple[tuple[Any, ...], ...] = INPUTS,
    **settings: Any,
) -> None:
    if settings:  # the tool is a setting, for the function as it was given
        tool, repaired = next(iter(settings)), given
    ZOO.append(Snippet(group, name, given, tool, repaired, inputs, settings))


# ----------------------------------------------------------------------------
row = functools.partial(_row, "A branch or a loop asks a tensor")


def branch(x):
    if x.sum() > 0:
        return x.cos()
    return x.sin()


row(
    "if on a tensor",
    branch,
    "torch.where",
    lambda x: torch.where(x.sum() > 0, x.cos(), x.sin()),
)


def long_branch(x):
    if x.sum() > 0:
        for _ in range(3):
            x = (x * 1.5).tanh()
    else:
        x = x.exp().cumsum(0)
    return x


def long_branch_cond(x):
    def up(x):
        for _ in range(3):
            x = (x * 1.5).tanh()
        return x

    def down(x):
        return x.exp().cumsum(0)

    return torch.cond(x.sum() > 0, up, down, (x,))


row("if with long branches", long_branch, "torch.cond", long_branch_cond)


def halving(x):
    while x.abs().max() > 0.1:
        x = x / 2
    return x


def halving_loop(x):
    def too_large(x):
        return x.abs().max() > 0.1

    return while_loop(too_large, lambda x: (x / 2,), (x,))[0]


row("while on a tensor", halving, "while_loop", halving_loop)


def repeat(x, times):
    for _ in range(int(times)):
        x = x.sin()
    return x


def repeat_loop(x, times):
    def more(i, x):
        return i < times

    start = torch.zeros_like(times)
    return while_loop(more, lambda i, x: (i + 1, x.sin()), (start, x))[1]


row(
    "for over int(tensor)",
    repeat,
    "while_loop with a counter",
    repeat_loop,
    inputs=((X, torch.tensor(3)), (X, torch.tensor(5))),
)


def converge(x):
    for _ in range(10):
        step = x / 3
        if step.abs().max() < 0.05:
            break
        x = x - step
    return x


def converge_masked(x):
    going = torch.tensor(True)
    for _ in range(10):
        step = x / 3
        going = going & (step.abs().max() >= 0.05)
        x = torch.where(going, x - step, x)
    return x


row(
    "early exit from a loop",
    converge,
    "a mask: later steps change nothing",
    converge_masked,
)


def any_positive(x):
    if any(part.sum() > 1 for part in x.split(2)):
        return x * 2
    return x.cos()


def any_positive_where(x):
    sums = torch.stack([part.sum() for part in x.split(2)])
    return torch.where((sums > 1).any(), x * 2, x.cos())


row(
    "if any(...) over tensors",
    any_positive,
    "torch.stack, .any(), torch.where",
    any_positive_where,
)


def if_equal(x):
    y = x.sin()
    return y + 1 if torch.equal(x, x.abs()) else y


row(
    "if torch.equal(...)",
    if_equal,
    "compare, .all(), torch.where",
    lambda x: torch.where((x == x.abs()).all(), x.sin() + 1, x.sin()),
)

NAN, INF = X * math.nan, X * math.inf


def guard_nan(x):
    y = x.exp()
    if torch.isnan(y).any():
        raise ValueError("not a number")
    return y + 1


def guard_nan_assert(x):
    y = x.exp()
    assert (~torch.isnan(y)).all(), "not a number"
    return y + 1


row(
    "if isnan: raise",
    guard_nan,
    "assert, which a graph can hold",
    guard_nan_assert,
    inputs=((X,), (INF,), (NAN,)),
)


def guard_large(x):
    assert not (x > 9).any()
    return x.exp()


def guard_small(x):
    assert (x <= 9).all()
    return x.exp()


row(
    "assert not on a tensor",
    guard_large,
    "assert without the not",
    guard_small,
    inputs=((X,), (INF,), (X * 5,)),
)

# ----------------------------------------------------------------------------
row = functools.partial(_row, "A tensor becomes a Python number or list")

row(
    ".item() as a factor",
    lambda x: x.sin() * x.sum().item(),
    "leave out the .item()",
    lambda x: x.sin() * x.sum(),
)
row(
    ".item() that must stay",
    lambda x: x.sin() * x.sum().item(),
    capture_scalar_outputs=True,
)


def clipped(x):
    y = x.sin()
    if x.max().item() > 1:
        y = y / 2
    return y + 1


row(
    "if on an .item()",
    clipped,
    "torch.where",
    lambda x: torch.where(x.max() > 1, x.sin() / 2, x.sin()) + 1,
)
row(
    "float() into math",
    lambda x: x * math.exp(float(x.max())),
    "torch.exp in place of math.exp",
    lambda x: x * torch.exp(x.max()),
)


def extremes(x):
    high = x.max().item()
    low = x.min().item()
    return torch.tensor([high, low])


row(
    "a tensor from two items",
    extremes,
    "torch.stack",
    lambda x: torch.stack([x.max(), x.min()]),
)
row(
    "index by an .item()",
    lambda x, i: x.sin()[i.item()],
    "index_select by the tensor",
    lambda x, i: x.sin().index_select(0, i.reshape(1))[0],
    inputs=((X, torch.tensor(3)), (X, torch.tensor(6))),
)
row(
    "max of a .tolist()",
    lambda x: x.sin() * max(x.tolist()),
    "a torch function: amax",
    lambda x: x.sin() * x.amax(),
)
row(
    "sorted(x.tolist())",
    lambda x: x.sin() + torch.tensor(sorted(x.tolist())),
    "a torch function: sort",
    lambda x: x.sin() + x.sort().values,
)

# ----------------------------------------------------------------------------
row = functools.partial(_row, "A shape depends on data")

row(
    "x[mask].sum()",
    lambda x: x[x > 0].sum(),
    "torch.where keeps the shape",
    lambda x: torch.where(x > 0, x, 0).sum(),
)
row(
    "nonzero that must stay",
    lambda x: x.sin()[(x > 0).nonzero().squeeze(-1)],
    capture_dynamic_output_shape_ops=True,
)


row(
    "len(unique())",
    lambda x: x.sin() / len(x.unique()),
    "sort, and count the steps",
    lambda x: x.sin() / ((x.sort().values.diff() != 0).sum() + 1),
    inputs=((X.round(),), (X,)),
)


def parted(x, sizes):
    first, second = x.split(sizes.tolist())
    return first.sum() - second.sum()


row(
    "split by a .tolist()",
    parted,
    "a mask made of the sizes",
    lambda x, sizes: torch.where(torch.arange(len(x)) < sizes[0], x, -x).sum(),
    inputs=((X, torch.tensor([3, 5])), (X, torch.tensor([6, 2]))),
)

# ----------------------------------------------------------------------------
row = functools.partial(_row, "A side effect, or the world outside")


def printed(x):
    y = x.sin()
    print("mean", y.mean())
    return y.cos()


row("print", printed, reorderable_logging_functions={print})


def printed_often(x):
    for step in range(3):
        x = x.sin()
        print("step", step, "mean", x.mean())
    return x


row("print in a loop", printed_often, reorderable_logging_functions={print})

log = logging.getLogger("zoo")


def logged(x):
    y = x.sin()
    log.info("halfway")
    return y.cos()


def logged_in_eager(x):
    y = x.sin()
    if not torch.compiler.is_compiling():
        log.info("halfway")
    return y.cos()


row("logging", logged, "torch.compiler.is_compiling", logged_in_eager)


def warned(x):
    y = x.sin()
    warnings.warn("halfway", stacklevel=2)
    return y.cos()


row("warnings.warn", warned, "let the caller warn", lambda x: x.sin().cos())

SECONDS = []


def timed(x):
    begin = time.time()
    y = x.sin().cumsum(0)
    SECONDS.append(time.time() - begin)
    return y + 1


row("time.time", timed, "let the caller time it", lambda x: x.sin().cumsum(0) + 1)


def tidy(x):
    y = x.sin()
    gc.collect(0)
    return y.cos()


row("gc.collect", tidy, "let the caller do it", lambda x: x.sin().cos())


def from_file(x):
    y = x.sin()
    with open(os.devnull) as file:
        size = len(file.read())
    return y.cos() + size


SIZE = 0  # len of the file, read once, before the first call
row(
    "open(...).read()",
    from_file,
    "read it before the call",
    lambda x: x.sin().cos() + SIZE,
)

LOCK = threading.Lock()


def locked(x):
    with LOCK:
        y = x.sin()
    return y + 1


row("with a lock", locked, "let the caller take the lock", lambda x: x.sin() + 1)


def noisy(x):
    noise = np.random.default_rng(0).random(8, dtype=np.float32)
    return x.sin() + torch.from_numpy(noise)


NOISE = torch.from_numpy(np.random.default_rng(0).random(8, dtype=np.float32))
row(
    "a NumPy random generator",
    noisy,
    "draw it outside, pass it in",
    lambda x, noise=NOISE: x.sin() + noise,
)

# ----------------------------------------------------------------------------
row = functools.partial(_row, "Python that Dynamo cannot enter")


def interpolated(x):
    y = np.interp(x.numpy(), [-1, 0, 2], [0, 1, 0])
    return x.sin() + torch.from_numpy(y).float()


@torch.library.custom_op("zoo::interp", mutates_args=())
def interp(x: torch.Tensor) -> torch.Tensor:
    y = np.interp(x.numpy(), [-1, 0, 2], [0, 1, 0])
    return torch.from_numpy(y).float()


interp.register_fake(torch.empty_like)
row(
    "a function that torch lacks",
    interpolated,
    "torch.library.custom_op",
    lambda x: x.sin() + interp(x),
)


@torch.compiler.disable
def hidden(x):
    return x * 2


@torch.library.custom_op("zoo::hidden", mutates_args=())
def hidden_op(x: torch.Tensor) -> torch.Tensor:
    return hidden(x)


hidden_op.register_fake(torch.empty_like)
hidden_op.register_autograd(lambda ctx, slope: slope * 2)  # or no backward
row(
    "a helper under compiler.disable",
    lambda x: hidden(x.sin()).cos(),
    "custom_op, register_autograd",
    lambda x: hidden_op(x.sin()).cos(),
)
row(
    "a C function: bisect",
    lambda x: x.sin() * bisect.bisect([2, 4, 16], len(x)),
    "the same in Python",
    lambda x: x.sin() * sum(border <= len(x) for border in [2, 4, 16]),
)


@torch.compiler.assume_constant_result
def gain():
    return json.loads('{"gain": 2}')["gain"]


row(
    "a C function: json.loads",
    lambda x: x.sin() * json.loads('{"gain": 2}')["gain"],
    "torch.compiler.assume_constant_result",
    lambda x: x.sin() * gain(),
)


def measured(x):
    return x * len(pickle.dumps(7))


allowed = torch.compiler.allow_in_graph(lambda x: measured(x))
row(
    "a C function: pickle.dumps",
    lambda x: measured(x.sin()).cos(),
    "torch.compiler.allow_in_graph",
    lambda x: allowed(x.sin()).cos(),
)


def shallow(x):
    parts = [x, x + 1]
    first, second = copy.copy(parts)
    return first * second


def shallow_list(x):
    parts = [x, x + 1]
    first, second = list(parts)
    return first * second


row("copy.copy of a list", shallow, "list(...)", shallow_list)
row(
    "copy.deepcopy of a tensor",
    lambda x: copy.deepcopy(x).add_(1) * x,
    ".clone()",
    lambda x: x.clone().add_(1) * x,
)


def classy(x):
    class Pair:
        def __init__(self, value):
            self.value = value

    return Pair(x.sin()).value + 1


class Pair:
    def __init__(self, value):
        self.value = value


row(
    "a class made inside",
    classy,
    "move the class out",
    lambda x: Pair(x.sin()).value + 1,
)


def slope(w):
    loss = (w * w).sum()
    loss.backward()
    return w.grad * 2


row(
    ".backward() inside",
    slope,
    "torch.func.grad",
    lambda w: torch.func.grad(lambda w: (w * w).sum())(w) * 2,
    inputs=((torch.linspace(-1, 2, 8, requires_grad=True),),),
)

# ----------------------------------------------------------------------------
row = functools.partial(_row, "What people fear, and need not")


def caught(x):
    try:
        x = x.sin()
        raise KeyError("halfway")
    except KeyError:
        return x.cos()


def asserted(x):
    assert (x < 5).all()
    return x.sin()


def closed(x):
    factor = 3

    def times(y):
        return y * factor

    return times(x)


def generated(x):
    def powers():
        for n in range(3):
            yield x**n

    return sum(powers())


def appended(x):
    parts = []
    for n in range(3):
        parts.append(x * n)
    return torch.stack(parts)


HISTORY, CALLS = [], 0


def remembered(x):
    y = x.sin()
    HISTORY.append(y.detach())
    return y + 1


def counted(x):
    global CALLS
    CALLS += 1
    return x.sin()


def collected(x):
    parts = {"a": x}
    parts.update(b=x.sin())
    letters = collections.Counter("banana")
    return sum(parts.values()) * letters["a"] * len(set(letters))


@dataclasses.dataclass
class State:
    value: torch.Tensor
    step: int = 0


def stateful(x):
    state = State(x.sin())
    return dataclasses.replace(state, step=2).value + state.step


@contextlib.contextmanager
def twice():
    yield 2


def managed(x):
    with twice() as n:
        return x * n


def regions(x):
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        return x.sin()


@functools.lru_cache
def squared(n):
    return n * n


def iterated(x):
    for a, b in zip(itertools.accumulate([1, 2]), [3, 4], strict=True):
        x = (lambda y, a=a, b=b: y * a + b)(x)
    return x


def nested(x, depth=3):
    return x if depth == 0 else nested(x.sin(), depth - 1)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, slope):
        (x,) = ctx.saved_tensors
        return 2 * x * slope


row("NumPy functions", lambda x: torch.from_numpy(np.sin(x.numpy()) * 2))
row("try and except", caught)
row("assert on a tensor", asserted)
row("a closure", closed)
row("a generator function", generated)
row("appending to a list", appended)
row("appending to a global list", remembered)
row("a global counter", counted)
row("a dict, a set and a Counter", collected)
row("a dataclass", stateful)
row("max() of two tensors", lambda x: max(x[0], x[1]) + x)
row("a context manager of yours", managed)
row("no_grad and autocast", regions)
row("a function under lru_cache", lambda x: x * squared(3))
row("itertools, zip and a lambda", iterated)
row(
    "strings, and an f-string of a shape",
    lambda x: x * len(f"{x.dim()} {tuple(x.shape)}".split()),
)
row(
    "os.environ.get",
    lambda x: x.sin() if os.environ.get("ZOO_LANGUAGE") else x.cos(),
)
row(
    "getattr by name, isinstance",
    lambda x: getattr(torch, "sin")(x) if isinstance(x, torch.Tensor) else x,  # noqa: B009
)
row("recursion", nested)
row("vmap and func.grad", lambda x: torch.vmap(torch.func.grad(torch.sin))(x))
row("an autograd.Function", lambda x: Square.apply(x) + 1)
