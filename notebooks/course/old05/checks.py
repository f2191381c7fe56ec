"""Checks and hints of notebook 05."""

import math

import torch

from course.aot import aten_graph
from course.exercises import exercise, fresh

# --- 05.1 ----------------------------------------------------------------------


def _nothing(x, y):
    z = x.clone()
    z.mul_(2)
    return z + y


def _through_a_view(x, y):
    z = x * 2
    y.t()[0].add_(1)
    return z


def _read_first(x, y):
    before = x + y
    y.copy_(x)
    x.zero_()
    return before


def _copied(x, y):
    z = x + 1  # or y would come first in the graph
    y.copy_(x)
    return z


FUNCTIONS = (  # what it is called, the function, and the inputs that it writes
    ("a write into a clone", _nothing, []),
    ("a write through a view", _through_a_view, [1]),
    ("two inputs are written", _read_first, [0, 1]),
    ("an input is copied into another", _copied, [1]),
)


@exercise(
    "05.1",
    hints=(
        "After functionalisation, one operation is left that writes. Which one, and "
        "where does it say into what?",
        'graph.find_nodes(op="placeholder") gives the inputs in order, and '
        'find_nodes(op="call_function", target=torch.ops.aten.copy_.default) the '
        "writes. The first of a write's args is the tensor that it writes into.",
        'inputs = graph.find_nodes(op="placeholder"); for each copy_ node, '
        "inputs.index(node.args[0]). Return them sorted, each once.",
    ),
    passed="You read it off the graph: clones, views and the order do not deceive you.",
)
def which_inputs(overwritten):
    for name, fn, wanted in FUNCTIONS:
        x, y = torch.full((3, 3), 2.0), torch.full((3, 3), 5.0)
        answer = overwritten(aten_graph(fresh(fn), x, y).graph)
        if answer != wanted:
            return f"{name}: the graph writes {wanted}, not {answer}"
    return None


# --- 05.2 ----------------------------------------------------------------------


def _two_culprits(x):
    shifted = x - 2
    y = torch.log(shifted) * 3
    return y + torch.sqrt(shifted)


def _two_results(x):
    best = x.max(dim=-1)
    return best.values.log() + best.indices


def _hidden(x):
    y = (x - 2).log()
    return torch.where(y.isnan(), 0, y)


def _one_came_in(x):
    mended = x.nan_to_num(-1.0)
    return mended.log() + x


FOURS, MINUS = torch.full((2, 3), 4.0), torch.full((2, 3), -1.0)
WITH_NAN = torch.tensor([[1.0, math.nan, 2.0]])
DAYS = (  # a name, the program, the input of each call, and the culprit in each call
    ("two culprits, the first counts", _two_culprits, (MINUS,), ("log",)),
    ("an operation with two results", _two_results, (MINUS,), ("log",)),
    ("a NaN that came in", lambda x: x * 2 + 1, (WITH_NAN,), (None,)),
    ("one came in, another is made", _one_came_in, (WITH_NAN,), ("log",)),
    ("a NaN in a list", lambda x: torch.cat([x, x * 2]), (WITH_NAN,), (None,)),
    ("a NaN by keyword", lambda x: torch.add(FOURS, other=x), (WITH_NAN,), (None,)),
    ("a second call", lambda x: (x - 1).sqrt() + x, (FOURS, MINUS), (None, "sqrt")),
    ("twice the same", lambda x: (x - 2).sqrt() * x, (MINUS, MINUS), ("sqrt", "sqrt")),
    ("a NaN that does not come out", _hidden, (MINUS,), ("log",)),
)


@exercise(
    "05.2",
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
        compiled = torch.compile(fresh(program), backend=nan_finder(found))
        for x, culprit in zip(calls, culprits, strict=True):
            found.clear()
            result = compiled(x)
            if not torch.equal(result.nan_to_num(7), program(x).nan_to_num(7)):
                return f"{name}: the result is not that of the graph"
            names = [getattr(n.target, "__name__", n.target) for n in found]
            wanted = [] if culprit is None else [culprit]
            if names != wanted:
                return f"{name}: found is {wanted}, not {names}"
    return None
