"""Checks and hints of notebook 05."""

import contextlib
import itertools
from unittest import mock

import torch

from course.backend import CountingBackend
from course.call_strips import Calls
from course.exercises import difference, exercise, near, one_graph

# --- 05.1 ----------------------------------------------------------------------


def _sampled(logits, temperature, history):
    if torch.isnan(logits).any():
        raise ValueError("the model has diverged")
    if logits.max().item() > 5:
        logits = logits / 2
    probs = torch.softmax(logits / temperature, dim=-1)
    likely = probs[probs > 0.01]
    entropy = -(likely * likely.log()).sum()
    history.append(entropy.item())
    if entropy > 1:
        return probs, probs.topk(3).values.sum()
    return probs, probs.max()


def _with_slopes(function, logits, history):
    """Return the results, and the gradient of their sum by the logits."""
    logits = logits.clone().requires_grad_()
    probs, sure = function(logits * 1, 0.7, history)
    weighed = (probs * torch.arange(len(probs))).sum() + sure
    return (probs, sure), torch.autograd.grad(weighed, logits)[0]


LOGITS = {  # each for another way through the function
    "unsure": torch.linspace(-1, 1, 12),
    "spread out": torch.linspace(-1, 1, 12) * 9,
    "one very likely letter": torch.tensor([9.0] + [0.0] * 11),
    "some letters impossible": torch.tensor([2.0, 1.0, 0.5] + [-torch.inf] * 9),
}


SETTINGS = (  # that put a break into the graph, or drop it
    "capture_scalar_outputs",
    "capture_dynamic_output_shape_ops",
    "reorderable_logging_functions",
    "ignore_logging_functions",
)


def _own_operators(answer, *inputs):
    """Return the operators in the graphs of a call that are not torch's own."""
    calls = Calls(answer)
    calls(*inputs)
    return {
        str(node.target)
        for graph in calls.graphs
        for module in graph.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
        and node.target.namespace not in ("aten", "prims")
    }


@exercise(
    "05.1",
    hints=(
        "graphs(repaired, logits, 0.7, []) lists the breaks that are left. Remove one, "
        "and look again.",
        "Each break has a row in the zoo: an error if some value is NaN, .item(), "
        "two branches on a tensor, a mask, a print. A list may hold tensors.",
        "assert (~torch.isnan(logits)).all(), and not assert not; torch.where for "
        "logits, for the terms of the entropy (1 in the log and 0 in the sum where not "
        "likely), and for sure, whose two values you compute both; "
        "history.append(entropy.detach()); no print.",
    ),
    passed="One graph, and whoever calls it will not notice.",
)
def repaired(answer):
    config = torch._dynamo.config
    with config.patch({name: getattr(config, name) for name in SETTINGS}):
        return _repair_fault(answer)


def _repair_fault(answer):
    for name, logits in LOGITS.items():
        given = f"for logits that are {name}, "
        history, wanted_history = [], []
        wanted, slopes = _with_slopes(_sampled, logits, wanted_history)
        try:
            result, ours = _with_slopes(answer, logits, history)
        except AssertionError as error:
            what = "infinity" if logits.isinf().any() else "none of them"
            return f"{given}it raises AssertionError {error}: {what} is no NaN"
        for part, theirs, mine in zip(("probs", "sure"), wanted, result, strict=True):
            if not near(mine, theirs):
                return f"{given}{part} is not what sampled returns"
        if not near(ours, slopes):
            return f"{given}the gradient is not that of sampled"
        if len(history) != 1:
            return f"{given}history is not what sampled makes it"
        if getattr(history[0], "requires_grad", False):
            return (
                "history holds a tensor that requires a gradient, and with it the "
                "graph of its step, for as long as the list lives"
            )
        if abs(float(history[0]) - wanted_history[0]) > 1e-4:
            return f"{given}history is not what sampled makes it"
    with contextlib.suppress(Exception):
        answer(torch.tensor([0.0, float("nan"), 1.0, 2.0]), 1.0, [])
        return "logits with a NaN in them raise no error"
    try:
        answer(torch.tensor([torch.inf, 1.0, 0.0, 0.0]), 1.0, [])
    except Exception:
        return "a logit of infinity raises an error, and sampled raises none"
    if changed := [name for name in SETTINGS if getattr(torch._dynamo.config, name)]:
        return f"default settings were asked for, and {changed[0]} is set"
    if fault := one_graph(answer, LOGITS["unsure"], 0.7, []):
        return fault
    if own := _own_operators(answer, LOGITS["unsure"], 0.7, []):
        return f"no operator of your own was asked for: the graph calls {own.pop()}"
    return None


# --- 05.2 ----------------------------------------------------------------------

LIBRARY = """
def note(text):
    torch._dynamo.graph_break()

def weigh(x):
    torch._dynamo.graph_break()
    return torch.erf(x) * 7

def stranger(x, w):
    h = x @ w
    note(f"halfway {h.dim()}")
    return weigh(h).tanh() + x.sum()
"""


def _library():
    """Return the names of a small library, in which two functions break a graph."""
    names = {"torch": torch, "__name__": "library"}
    exec(LIBRARY, names)
    return names


def _results(fn, x, w):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    out = fn(x, w)
    return out, *torch.autograd.grad(out.sum(), (x, w), materialize_grads=True)


@exercise(
    "05.2",
    hints=(
        "Two tools of the table in 'Lines that are not yours', below: one for note "
        "and one for weigh. When is a setting read: at torch.compile, or at the first "
        "call?",
        "weigh is looked up in namespace, so a nonstrict_trace of it can stand there. "
        "note goes into ignore_logging_functions, by config.patch, round each call: "
        "any of them may compile.",
        'namespace["weigh"] = torch._dynamo.nonstrict_trace(namespace["weigh"]); '
        "compiled = torch.compile(stranger, fullgraph=True); return a function that "
        "does `with torch._dynamo.config.patch(ignore_logging_functions={note}): "
        "return compiled(*inputs)`.",
    ),
    passed="One graph, gradients and all, of a function that nobody edited.",
)
def somebody_elses_function(adopted):
    torch.manual_seed(0)
    eager, names = _library()["stranger"], _library()
    note, backend, original = names["note"], CountingBackend("aot_eager"), torch.compile

    def compile(function=None, **how):
        return original(function, **{**how, "backend": backend})

    config = torch._dynamo.config
    # What a wrong answer adds to the set itself would stay there: it gets a copy.
    own = config.patch(ignore_logging_functions={*config.ignore_logging_functions})
    with own, mock.patch.object(torch, "compile", compile):
        before = str(config.get_config_copy())
        ours = adopted(names["stranger"], note, names)
        for rows in (4, 6):
            x, w = torch.randn(rows, 5), torch.randn(5, 5)
            backend.ran.clear()
            results = _results(ours, x, w)
            if not all(map(torch.allclose, results, _results(eager, x, w))):
                return f"{rows} rows: result or gradient is not that of stranger"
            if len(backend.ran) != 1:
                return (
                    f"one call runs {len(backend.ran)} graphs, and 1 was asked for: "
                    "if something breaks it, fullgraph=True says what"
                )
            if str(config.get_config_copy()) != before:
                return "a call leaves a setting of torch._dynamo.config changed"
    if names["note"] is not note:
        return "namespace has another note now, and its other callers need it"
    return None


# --- 05.3 ----------------------------------------------------------------------


def _longest_run(bits):
    runs = [max(sum(g) for _, g in itertools.groupby(r)) for r in bits.tolist()]
    return torch.tensor(runs, device=bits.device)


@exercise(
    "05.3",
    hints=(
        "Open course/ch05/zoo.py and look for custom_op: the row is 'a function that "
        "torch lacks'.",
        "custom_op reads the annotations: longest_run takes a torch.Tensor and "
        "returns one. The fake gets a tensor without values, and says shape, dtype "
        "and device of the result by making an empty one.",
        "longest_run_op = torch.library.custom_op('course::longest_run', longest_run, "
        "mutates_args=()), once longest_run has annotations. In the fake: return "
        "bits.new_empty(bits.shape[0]) with dtype=torch.int64.",
    ),
    passed="Python in the middle of a graph, and the graph stays whole.",
)
def longest_run_op(answer):
    bits = (torch.linspace(-40, 40, 45).reshape(5, 9).sin() > 0).long()
    if fault := difference(answer, _longest_run, [(bits,)]):
        return f"called by itself, it does not return what longest_run does: {fault}"
    try:
        for given in (bits, bits.bool(), bits[:3]):  # other dtypes, and rows
            torch.library.opcheck(answer, (given,))
    except Exception as error:
        return f"torch.library.opcheck finds: {' '.join(str(error).split())[:300]}"
    return None
