"""Checks and hints of notebook 10."""

import contextlib
import copy
import random
from unittest import mock

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._functorch import config as autograd_config
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.lowering import lowerings

from helpers import graphs, recompiles
from helpers.exercises import exercise
from helpers.exercises import same
from helpers.text import count

aten = torch.ops.aten

# --- 10.1 ----------------------------------------------------------------------

_RUNGS = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")
_send = OutputGraph.call_user_compiler


def _sent_wrong(self, module, *rest):
    for node in module.graph.nodes:
        node.args = tuple(7 if arg == 3 else arg for arg in node.args)
    module.recompile()
    return _send(self, module, *rest)


def _joint_wrong(joint, _):
    [out] = joint.graph.find_nodes(op="output")
    first, *others = out.args[0]
    with joint.graph.inserting_before(out):
        minus = joint.graph.call_function(aten.neg.default, (first,))
    minus.meta = dict(first.meta)
    out.args = ([minus, *others],)
    joint.recompile()
    return joint


def _lowered_wrong(x):
    return lowerings[aten.abs.default](x)


def _raises(x):
    raise NotImplementedError("no lowering for relu")


# What is planted, how, and who is guilty.  The healthy one comes first: it fills
# the caches that hide the bugs after it.
_PLANTED = (
    ("nothing", contextlib.nullcontext, None),
    (
        "a wrong lowering of relu",
        lambda: mock.patch.dict(lowerings, {aten.relu.default: _lowered_wrong}),
        "inductor",
    ),
    (
        "a wrong decomposition of silu",
        lambda: mock.patch.dict(
            select_decomp_table(), {aten.silu.default: lambda x: x * x.tanh()}
        ),
        "aot_eager_decomp_partition",
    ),
    (
        "a wrong pass over the joint graph",
        lambda: autograd_config.patch(joint_custom_pass=_joint_wrong),
        "aot_eager",
    ),
    (
        "a wrong pass behind Dynamo",
        lambda: mock.patch.object(OutputGraph, "call_user_compiler", _sent_wrong),
        "eager",
    ),
    (
        "a lowering of relu that raises",
        lambda: mock.patch.dict(lowerings, {aten.relu.default: _raises}),
        "inductor",
    ),
    ("nothing, once more", contextlib.nullcontext, None),
)


def _rotated(row):
    """Return the row from another place on: its order cannot be learned by heart."""
    start = random.SystemRandom().randrange(1, len(row))
    return (*row[start:], *row[:start])


def _program():
    """Return a function that no cache on disk has seen."""
    number = f"{random.SystemRandom().uniform(1, 2):.6f}"
    source = "lambda x: (F.silu(x * 3) - 1).relu() + x * " + number
    return eval(source, {"F": torch.nn.functional})


@exercise(
    "10.1",
    hints=(
        "Run fn, then climb: the first rung whose result is off is the answer. What "
        "might keep a rung from compiling anew?",
        "torch.compile keeps what it compiled by code object, and Inductor keeps "
        "graphs on disk: torch.compiler.reset() is for the first, uncached for the "
        "second.",
        "For each rung: torch.compiler.reset(); inside `with uncached:` and a try, got "
        "= torch.compile(fn, backend=rung)(*inputs). Return rung if that raises, or if "
        "torch.allclose(got, wanted, rtol=1e-3, atol=1e-3) is False. After the loop, "
        "return None.",
    ),
    passed="It finds the bug of each rung, and clears the innocent.",
)
def the_ladder(guilty):
    program = _program()
    torch.manual_seed(0)
    x = torch.randn(8, 8).requires_grad_()
    first, *bugs, last = _PLANTED
    for bug, plant, rung in (first, *_rotated(bugs), last):
        with plant():
            found = guilty(program, x)
        if not any(same(found, known) for known in (None, *_RUNGS)):
            return f"it returned {found!r}, which is no rung of LADDER, and not None"
        if rung is None and found:
            return f"planted: {bug}. You say {found}: who else may have compiled it?"
        if rung and found is None:
            return (
                f"planted: {bug}, and you found nothing. Was fn compiled anew, in "
                "spite of what memory and disk still hold?"
            )
        if found != rung:
            return (
                f"planted: {bug}. You say {found}, and it is {rung}: the lowest rung "
                "that is wrong, compiled anew"
            )
    return None


# --- 10.2 ----------------------------------------------------------------------


class _Decayed(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = torch.nn.Linear(features, features)
        self.step = 0

    def forward(self, x):
        self.step += 1
        if self.step > 5:
            return self.linear(x) * 0.5
        return self.linear(x) / self.step


def _steps(module, x, many=8):
    return [module(x).detach() for _ in range(many)]


def _off(got, wanted):
    """Return the first step whose results differ, from 1, or None."""
    pairs = enumerate(zip(got, wanted, strict=True), 1)
    return next((n for n, (a, b) in pairs if not torch.allclose(a, b)), None)


@exercise(
    "10.2",
    hints=(
        "A number in Python is part of the program: Dynamo guards on it. What may "
        "change without a guard?",
        "The values of a tensor. A buffer is a tensor that belongs to the module and "
        "its state_dict. An if on it would break the graph: which function chooses "
        "between two tensors?",
        'In __init__: self.linear = model.linear; self.register_buffer("step", '
        "torch.tensor(float(model.step))). In forward: self.step += 1; scale = "
        "torch.where(self.step > 5, 0.5, 1 / self.step); return self.linear(x) * "
        "scale.",
    ),
    passed="One compile, one graph, the same numbers, and the step is saved.",
)
def calm_the_storm(calm):
    for start in (0, 3):
        torch.manual_seed(0)
        model, x = _Decayed(4), torch.randn(2, 4)
        model.step = start
        wanted = _steps(copy.deepcopy(model), x)
        mine = calm(model)
        if not isinstance(mine, torch.nn.Module):
            return f"it returned {type(mine).__name__}, not a module"
        if "step" not in mine.state_dict():
            return 'state_dict() has no key "step": what does a module save?'
        if not any(p is model.linear.weight for p in mine.parameters()):
            return "its weights are not those of model.linear"
        if problem := _verdict(mine, x, start, wanted):
            return problem
    return None


def _verdict(mine, x, start, wanted):
    if bad := _off(_steps(copy.deepcopy(mine), x), wanted):
        return f"in eager, begun at step {start}, call {bad} gives another result"
    found = graphs(copy.deepcopy(mine), x)
    if found.count != 1 or found.breaks:
        return f"{count(found.count, 'graph')} and {count(len(found.breaks), 'break')}"
    cost = recompiles(copy.deepcopy(mine), [(x,)] * 8).total
    if cost > 1:
        return f"8 calls cost {count(cost, 'compile')}, and 1 is enough"
    apart = copy.deepcopy(mine)
    if bad := _off(_steps(torch.compile(apart, backend="eager"), x), wanted):
        return f"compiled, begun at step {start}, call {bad} is not that of eager"
    if int(apart.state_dict()["step"]) != start + 8:
        return "after 8 calls, the step that is saved did not advance by 8"
    return None


# --- 10.3 ----------------------------------------------------------------------


def _wide(fn):
    """Return fn, computed in float32 and rounded once."""
    return lambda x: fn(x.float()).to(x.dtype)


def _chain(x):
    return ((x * 1.1) * 0.9 + x).exp() / 3


def _mean(x):
    return (x * 0.1).cumsum(-1) / 3


def _turned(x):
    return (x.double() * 0.1).cumsum(-1).div(3).to(x.dtype)


def _root(x):
    return (x - x.min()).sqrt()


_GELU = torch.nn.functional.gelu
_EXACT, _HALF = torch.float32, torch.bfloat16
# A name, what eager does, what is compiled, the dtype, and the verdict.
_TRIALS = (
    ("the same function", _chain, _chain, _EXACT, "same"),
    ("the same NaN", lambda x: x.log(), lambda x: x.log(), _EXACT, "same"),
    ("sums in float64", _mean, _turned, _EXACT, "rounding"),
    ("bfloat16 that is rounded once", _chain, _wide(_chain), _HALF, "rounding"),
    ("dropout", torch.nn.Dropout(), torch.nn.Dropout(), _EXACT, "random"),
    (
        "the tanh form of gelu",
        _GELU,
        lambda x: _GELU(x, approximate="tanh"),
        _EXACT,
        "bug",
    ),
    ("relu, a little off", torch.relu, lambda x: x.relu() + 1e-4, _EXACT, "bug"),
    ("a NaN", _root, lambda x: _root(x).where(x > x.min(), torch.nan), _EXACT, "bug"),
)


@exercise(
    "10.3",
    hints=(
        "Four verdicts, in the order of the docstring. The last two ask a third "
        "function: fn itself, in float64.",
        "truth = fn(*(t.double() for t in inputs)). Then compare two distances to it, "
        "and none between the two results.",
        "own, its = ((t.double() - truth).abs().max() for t in (eager, other)); return "
        '"rounding" if its <= 5 * own else "bug". A NaN makes the comparison False, '
        "which is what you want. For the first two, torch.allclose(a, b, rtol=0, "
        "atol=0, equal_nan=True).",
    ),
    passed="It accuses a bug that tolerances let pass, and clears what is rounding.",
)
def rounding_or_a_bug(why_different):
    for name, eager, compiled, dtype, verdict in _rotated(_TRIALS):
        torch.manual_seed(0)
        x = torch.randn(16, 64).to(dtype)
        found = why_different(eager, compiled, x)
        if not any(same(found, each) for each in ("same", "random", "rounding", "bug")):
            return f"it returned {found!r}, which is none of the four verdicts"
        if not same(found, verdict):
            return f'{name}: you say "{found}", and it is "{verdict}"'
    return None
