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
from helpers.text import count

aten = torch.ops.aten

# --- 10.1 ----------------------------------------------------------------------

LADDER = ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor")
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


# What is planted, how, and who is guilty.  The healthy one comes first: it fills
# the caches that hide the bugs after it.
PLANTED = (
    ("nothing", contextlib.nullcontext, None),
    (
        "a wrong lowering of relu",
        lambda: mock.patch.dict(lowerings, {aten.relu.default: _lowered_wrong}),
        "inductor",
    ),
    (
        "a lowering of relu that raises",
        lambda: mock.patch.dict(lowerings, {aten.relu.default: None}),
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
)


def _unknown_program():
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
    program = _unknown_program()
    torch.manual_seed(0)
    x = torch.randn(8, 8).requires_grad_()
    for bug, plant, rung in PLANTED:
        with plant():
            said = guilty(program, x)
        if said not in (None, *LADDER):
            return f"it returned {said!r}, which is no rung of LADDER, and not None"
        if rung is None and said:
            return f"planted: {bug}. You say {said}: who else may have compiled it?"
        if rung and said is None:
            return (
                f"planted: {bug}, and you found nothing. Was fn compiled anew, in "
                "spite of what memory and disk still hold?"
            )
        if said != rung:
            return (
                f"planted: {bug}. You say {said}, and it is {rung}: the lowest rung "
                "that is wrong, compiled anew"
            )
    return None


# --- 10.2 ----------------------------------------------------------------------


class Decayed(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = torch.nn.Linear(features, features)
        self.step = 0

    def forward(self, x):
        self.step += 1
        if self.step > 5:
            return self.linear(x) * 0.5
        return self.linear(x) / self.step


def _steps(module, x):
    return [module(x).detach() for _ in range(8)]


def _first_off(results, wanted):
    """Return the first step whose results differ, from 1, or None."""
    close = map(torch.allclose, results, wanted)
    return next((n for n, right in enumerate(close, 1) if not right), None)


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
        model, x = Decayed(4), torch.randn(2, 4)
        model.step = start
        wanted = _steps(copy.deepcopy(model), x)
        calmed = calm(model)
        if not isinstance(calmed, torch.nn.Module):
            return f"it returned {type(calmed).__name__}, not a module"
        if "step" not in calmed.state_dict():
            return 'state_dict() has no key "step": what does a module save?'
        if not any(p is model.linear.weight for p in calmed.parameters()):
            return "its weights are not those of model.linear"
        if n := _first_off(_steps(copy.deepcopy(calmed), x), wanted):
            return f"in eager, begun at step {start}, call {n} gives another result"
        found = graphs(copy.deepcopy(calmed), x)
        if found.count != 1 or found.breaks:
            breaks = count(len(found.breaks), "break")
            return f"{count(found.count, 'graph')} and {breaks}"
        cost = recompiles(copy.deepcopy(calmed), [(x,)] * 8).total
        if cost > 1:
            return f"8 calls cost {count(cost, 'compile')}, and 1 is enough"
        compiled = torch.compile(calmed, backend="eager")
        if n := _first_off(_steps(compiled, x), wanted):
            return f"compiled, begun at step {start}, call {n} is not that of eager"
        if int(calmed.state_dict()["step"]) != start + 8:
            return "after 8 calls, the step that is saved did not advance by 8"
    return None


# --- 10.3 ----------------------------------------------------------------------


def _chain(x):
    return ((x * 1.1) * 0.9 + x).exp() / 3


def _rounded_once(x):
    return _chain(x.float()).to(x.dtype)


def _mean(x):
    return (x * 0.1).cumsum(-1) / 3


def _root(x):
    return (x - x.min()).sqrt()


gelu, dropout = torch.nn.functional.gelu, torch.nn.Dropout()
TRIALS = (  # a name, what eager does, what is compiled, the verdict
    ("the same function", _chain, _chain, "same"),
    ("the same NaN", torch.log, torch.log, "same"),
    ("sums in float64", _mean, lambda x: _mean(x.double()).to(x.dtype), "rounding"),
    ("bfloat16 that is rounded once", _chain, _rounded_once, "rounding"),
    ("dropout", dropout, dropout, "random"),
    ("the tanh form of gelu", gelu, lambda x: gelu(x, approximate="tanh"), "bug"),
    ("relu, a little off", torch.relu, lambda x: x.relu() + 1e-4, "bug"),
    ("a NaN", _root, lambda x: _root(x).where(x > x.min(), torch.nan), "bug"),
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
    for name, eager, compiled, verdict in TRIALS:
        torch.manual_seed(0)
        x = torch.randn(16, 64)
        if "bfloat16" in name:
            x = x.bfloat16()
        said = why_different(eager, compiled, x)
        if said not in ("same", "random", "rounding", "bug"):
            return f"it returned {said!r}, which is none of the four verdicts"
        if said != verdict:
            return f'{name}: you say "{said}", and it is "{verdict}"'
    return None
