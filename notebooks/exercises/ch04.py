"""Checks and hints of notebook 04."""

import functools
import math

import torch
from torch._functorch import config as functorch_config
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as trees
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.exercises import exercise, fresh, number
from helpers.text import count

# --- 04.1 ----------------------------------------------------------------------

TRANSPOSE = torch.ops.aten.transpose.int


class Ran(TorchDispatchMode):
    """Notes the operations that run."""

    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.ops.append(func)
        return func(*args, **(kwargs or {}))


def _shared(x):
    y = x.transpose(0, 1)
    return y.transpose(0, 1).sin() + 1, y.cos()


PAIRS = (  # what it is called, the program, and how many transposes must be left
    ("a plain pair", lambda x: x.transpose(0, 1).transpose(0, 1).sin(), 0),
    ("dims in the other order", lambda x: x.transpose(0, 1).transpose(1, 0).sin(), 0),
    ("a negative dim", lambda x: x.transpose(1, 2).transpose(-1, 1).sin(), 0),
    ("other dims", lambda x: x.transpose(0, 1).transpose(1, 2).sin(), 2),
    ("something in between", lambda x: x.transpose(0, 1).cumsum(0).transpose(0, 1), 2),
    ("a first one that others use", _shared, 1),
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
    for name, program, left in PAIRS:
        module = make_fx(program, tracing_mode="fake")(x)
        drop_pairs(module)
        module.graph.lint()
        try:
            with Ran() as ran:
                result = module(x)
        except (RuntimeError, TypeError) as error:
            return f"{name}: the module cannot run any more: {error}"
        in_graph = len(module.graph.find_nodes(op="call_function", target=TRANSPOSE))
        if in_graph == left != ran.ops.count(TRANSPOSE):
            return (
                f"{name}: the graph is right, and the module still runs its old code."
                " What makes new code of a graph?"
            )
        leaves = zip(*map(trees.tree_leaves, (result, program(x))), strict=True)
        if not all(a.shape == b.shape and torch.equal(a, b) for a, b in leaves):
            return f"{name}: the module computes something else than before"
        if ran.ops.count(TRANSPOSE) != left:
            many = count(ran.ops.count(TRANSPOSE), "transpose")
            return f"{name}: {many} left, and {left} is right"
    return None


# --- 04.2 ----------------------------------------------------------------------


def _two_culprits(x):
    shifted = x - 2
    y = torch.log(shifted) * 3
    return y + torch.sqrt(shifted)


def _two_results(x):
    best = x.max(dim=-1)
    return best.values.log() + best.indices


def _innocent_log(x):
    y = torch.log(x) - torch.log(x)
    return torch.sqrt(torch.div(y, y))


FOURS, MINUS = torch.full((2, 3), 4.0), torch.full((2, 3), -1.0)
WITH_NAN = torch.tensor([[1.0, math.nan, 2.0]])
DAYS = (  # a name, the program, the input of each call, and the culprit in each call
    ("numbers only", lambda x: torch.log(x) + 1, (FOURS,), (None,)),
    ("two culprits, the first counts", _two_culprits, (MINUS,), ("log",)),
    ("an operation with two results", _two_results, (MINUS,), ("log",)),
    ("a NaN that came in", lambda x: x * 2 + 1, (WITH_NAN,), (None,)),
    ("an innocent log", _innocent_log, (FOURS,), ("div",)),
    ("a second call", lambda x: (x - 1).sqrt() + x, (FOURS, MINUS), (None, "sqrt")),
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
    for name, program, calls, culprits in DAYS:
        found = []
        backend = nan_finder(found)
        if not callable(backend):
            return (
                f"it returned {backend!r}, and a backend was asked for: a function "
                "that takes a graph and inputs, and returns what runs in its place"
            )
        compiled = torch.compile(fresh(program), backend=backend)
        for x, culprit in zip(calls, culprits, strict=True):
            found.clear()
            result = compiled(x)
            if type(result) is not torch.Tensor:
                return f"{name}: what runs returns no tensor, and the graph does"
            if not torch.equal(result.nan_to_num(7), program(x).nan_to_num(7)):
                return f"{name}: the result is not that of the graph"
            if strange := [n for n in found if not isinstance(n, torch.fx.Node)]:
                return (
                    f"found holds {strange[0]!r}: append the node itself, a "
                    "torch.fx.Node"
                )
            names = [str(getattr(n.target, "__name__", n.target)) for n in found]
            if names != [culprit] * (culprit is not None):
                wanted = f"is [{culprit}]" if culprit else "stays empty"
                return f"{name}: found {wanted}, not [{', '.join(names)}]"
    return None


# --- 04.3 ----------------------------------------------------------------------

SHARES = [n / 10 for n in range(10, -1, -1)]


def _program(x, w):
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
    torch.manual_seed(0)
    inputs = [torch.randn(24, 24).requires_grad_() for _ in range(2)]
    kept = functools.cache(lambda share: _kept(inputs, share))
    for limit in (10**9, kept(1.0) // 2):
        answer = frugal(fresh(_program), inputs, limit)
        share = round(number(answer) or 0.0, 6)
        if number(answer) is None or share not in SHARES:
            return f"{answer!r} is none of 1.0, 0.9, ... 0.0"
        if kept(share) > limit:
            return (
                f"with a share of {share} it keeps {kept(share)} bytes, and the limit "
                f"is {limit}: was that share in force when the compile happened?"
            )
        wanted = next(share for share in SHARES if kept(share) <= limit)
        if share < wanted:
            return (
                f"{share} is less than it takes: a share of {wanted} keeps "
                f"{kept(wanted)} bytes, and the limit is {limit}"
            )
    return None


def _kept(inputs, share):
    """Return the bytes that the program keeps for the backward with this budget."""
    own = {t.untyped_storage().data_ptr() for t in inputs}
    kept = {}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with functorch_config.patch(activation_memory_budget=share):
        compiled = torch.compile(fresh(_program), backend="aot_eager")
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            compiled(*inputs)
    return sum(t.untyped_storage().nbytes() for at, t in kept.items() if at not in own)
