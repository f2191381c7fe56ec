"""Checks and hints of notebook 04."""

import contextlib
import math
import random

import torch
from torch._functorch import config as functorch_config
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as trees
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.exercises import exercise
from helpers.exercises import number
from helpers.text import count

# --- 04.1 ----------------------------------------------------------------------


class _Ran(TorchDispatchMode):
    """Counts the transposes that run, and all else."""

    def __init__(self):
        super().__init__()
        self.transposes = self.others = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func is torch.ops.aten.transpose.int
        self.transposes += found
        self.others += not found
        return func(*args, **(kwargs or {}))


def _shared(x):
    y = x.transpose(0, 1)
    return y.transpose(0, 1).sin() + 1, y.cos()


def _chain(length):
    def chain(x):
        for _ in range(length):
            x = x.transpose(0, 2)
        return x.exp() + 1

    return chain


# What it is called, the program, and how many transposes must be left.
_PAIRS = (
    ("a plain pair", lambda x: x.transpose(0, 1).transpose(0, 1).sin(), 0),
    ("dims in the other order", lambda x: x.transpose(0, 1).transpose(1, 0).sin(), 0),
    ("a negative dim", lambda x: x.transpose(1, 2).transpose(-1, 1).sin(), 0),
    ("other dims", lambda x: x.transpose(0, 1).transpose(1, 2).sin(), 2),
    ("something in between", lambda x: x.transpose(0, 1).cumsum(0).transpose(0, 1), 2),
    ("a first one that others use", _shared, 1),
    ("three in a row", _chain(3), 1),
    ("four in a row", _chain(4), 0),
)


@exercise(
    "04.1",
    hints=(
        "A transpose is undone if its tensor is itself the result of a transpose "
        "of the same two dims. Which node may then take its place?",
        "node.args[0] is the inner node; inner.target says what it is. Compare dims "
        "as a set, each modulo node.meta['val'].ndim.",
        "For each such node: node.replace_all_uses_with(inner.args[0]), then "
        "graph.erase_node(node). At last graph.eliminate_dead_code() drops the inner "
        "ones that nobody uses any more, and module.recompile() makes it real.",
    ),
    passed="Pairs are gone, their results are not, and other transposes stay.",
)
def there_and_back(drop_pairs):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4)
    for name, program, left in _PAIRS:
        module = make_fx(program, tracing_mode="fake")(x)
        wanted = trees.tree_leaves(program(x))
        others = _ran(module, x).others
        drop_pairs(module)
        module.graph.lint()
        if _in_graph(module) == left != _ran(module, x).transposes:
            return (
                f"{name}: the graph is right, and the module still runs its old code."
                " What makes new code of a graph?"
            )
        try:
            got = trees.tree_leaves(module(x))
        except (RuntimeError, TypeError) as error:
            return f"{name}: the module cannot run any more: {error}"
        if not _same(got, wanted):
            return f"{name}: the module computes something else than before"
        ran = _ran(module, x)
        if ran.transposes != left:
            many = count(ran.transposes, "transpose")
            return f"{name}: {many} left, and {left} is right"
        if ran.others > others:
            return (
                f"{name}: it runs {count(ran.others, 'other operation')}, and had "
                f"{others}: a pair goes, and nothing takes its place"
            )
    return None


def _in_graph(module):
    target = torch.ops.aten.transpose.int
    return len(module.graph.find_nodes(op="call_function", target=target))


def _ran(module, x):
    with contextlib.suppress(RuntimeError, TypeError), _Ran() as mode:
        module(x)
    return mode


def _same(got, wanted):
    pairs = zip(got, wanted, strict=True)
    return all(a.shape == b.shape and torch.equal(a, b) for a, b in pairs)


# --- 04.2 ----------------------------------------------------------------------


def _log_of_negative(x):
    shifted = x - 2
    y = torch.log(shifted) * 3
    return y + torch.sqrt(shifted)


def _method(x):
    best = x.max(dim=-1)
    return best.values.log() + best.indices


def _innocent(x):
    y = torch.log(x) - torch.log(x)
    return torch.sqrt(torch.div(y, y))


def _twice(x):
    return torch.sqrt(x - 1).sum() + x.sum()


# A name, the program, the inputs of each call, and the culprit in each call.
_POSITIVE, _NEGATIVE = torch.full((2, 3), 4.0), torch.full((2, 3), -1.0)
_WITH_NAN = torch.tensor([[1.0, math.nan, 2.0]])
_DAYS = (
    ("numbers only", lambda x: torch.log(x) + 1, (_POSITIVE,), (None,)),
    ("two culprits, the first counts", _log_of_negative, (_NEGATIVE,), ("log",)),
    ("an operation with two results", _method, (_NEGATIVE,), ("log",)),
    ("a NaN that came in", lambda x: x * 2 + 1, (_WITH_NAN,), (None,)),
    ("an innocent log", _innocent, (_POSITIVE,), ("div",)),
    ("a second call", _twice, (_POSITIVE, _NEGATIVE), (None, "sqrt")),
)


@exercise(
    "04.2",
    hints=(
        "The backend sees each graph once, with no numbers worth looking at. What it "
        "returns is called each time.",
        "Return a function that runs a torch.fx.Interpreter of the module. Override "
        "its run_node(self, node): super().run_node(node) is the result, and "
        "self.env[n] the result of an earlier node n.",
        "In run_node: bad(result) and not any(bad(self.env[n]) for n in "
        "node.all_input_nodes), where bad looks at all tensors of a tuple, for "
        "instance by torch.utils._pytree.tree_leaves. Make a new Interpreter for "
        "each call, so that each has its own first.",
    ),
    passed="It runs what it is given, and names the one that began it, in each call.",
)
def who_made_the_nan(nan_finder):
    for name, program, calls, culprits in _DAYS:
        found = []
        backend = nan_finder(found)
        if not callable(backend):
            return (
                f"it returned {backend!r}, and a backend was asked for: a function "
                "that takes a graph and inputs, and returns what runs in its place"
            )
        compiled = torch.compile(_fresh(program), backend=backend)
        for x, culprit in zip(calls, culprits, strict=True):
            found.clear()
            got = compiled(x)
            if type(got) is not torch.Tensor:
                return f"{name}: what runs returns no tensor, and the graph does"
            if not torch.equal(got.nan_to_num(7), program(x).nan_to_num(7)):
                return f"{name}: the result is not that of the graph"
            names = [_target(node) for node in found]
            if names != [culprit] * (culprit is not None):
                wanted = f"is [{culprit}]" if culprit else "stays empty"
                return f"{name}: found {wanted}, not [{', '.join(names)}]"
    return None


def _fresh(program):
    """Return the program in a code object of its own, so that it is compiled anew."""
    code = program.__code__.replace(co_name=program.__code__.co_name)
    return type(program)(code, program.__globals__)


def _target(node):
    assert isinstance(node, torch.fx.Node), (
        f"found holds {node!r}: append the node itself, a torch.fx.Node"
    )
    return str(getattr(node.target, "__name__", node.target))


# --- 04.3 ----------------------------------------------------------------------


def _deep(x, w):
    for _ in range(3):
        x = torch.tanh(x @ w).square()
    return x


def _wide(x, w):
    y = torch.sigmoid(x) * torch.tanh(x @ w)
    return (y @ w).exp().cos()


@exercise(
    "04.3",
    hints=(
        "Say at which line a compile happens: torch.compile, or the first call?",
        "Both have to be inside `with budget(share):`. And the compile is kept with "
        "the code of fn: the second share would find the graph of the first.",
        "For each share from 1.0 down: torch.compiler.reset(); inside the budget, "
        'compiled = torch.compile(fn, backend="aot_eager") and saved_bytes(compiled, '
        "*inputs). Return the first share that fits.",
    ),
    passed="It turns the dial no further than the memory asks for.",
)
def fit_into_memory(frugal):
    squares = _square(32)
    # First a limit that needs no table: most of what is wrong fails here.
    roomy = frugal(_fresh(_deep), squares, 10**9)
    if problem := _verdict(roomy, 1.0, 10**9, dict.fromkeys(_SHARES, 0)):
        return problem
    for program, inputs in ((_deep, squares), (_wide, _square(random.randint(24, 40)))):
        sizes = {share: _kept(program, inputs, share) for share in _SHARES}
        most = sizes[1.0]
        limits = [most // 2, 0]
        if program is _wide:  # none of it can be known by heart
            limits = random.sample([most, random.choice([*sizes.values()]), 0], 3)
        for limit in limits:
            share = frugal(_fresh(program), inputs, limit)
            wanted = next(s for s, kept in sizes.items() if kept <= limit)
            if problem := _verdict(share, wanted, limit, sizes):
                return problem
    return None


def _square(width):
    torch.manual_seed(0)
    return [torch.randn(width, width).requires_grad_() for _ in range(2)]


_SHARES = [n / 10 for n in range(10, -1, -1)]


def _verdict(share, wanted, limit, sizes):
    said = number(share)
    near = [s for s in sizes if said is not None and abs(s - said) < 1e-6]
    if not near:
        return f"{share!r} is none of 1.0, 0.9, ... 0.0"
    if near[0] > wanted:
        return (
            f"with a share of {near[0]} it keeps {sizes[near[0]]} bytes, and the limit "
            f"is {limit}: was that share in force when the compile happened?"
        )
    if near[0] < wanted:
        return (
            f"{near[0]} is less than it takes: a share of {wanted} keeps "
            f"{sizes[wanted]} bytes, and the limit is {limit}"
        )
    return None


def _kept(program, inputs, share):
    """Return the bytes that the program keeps with this budget."""
    there = {t.untyped_storage().data_ptr() for t in inputs}
    kept = {}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with functorch_config.patch(activation_memory_budget=share):
        compiled = torch.compile(_fresh(program), backend="aot_eager")
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            compiled(*inputs)
    new = [t.untyped_storage().nbytes() for at, t in kept.items() if at not in there]
    return sum(new)
