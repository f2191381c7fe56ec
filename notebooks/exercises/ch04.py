"""Checks and hints of notebook 04."""

import itertools
import re
from unittest import mock

import torch
from course.words import unlogged
from functorch.compile import make_boxed_func as boxed
from torch._dynamo.backends.common import aot_autograd

from helpers.exercises import CountingBackend, difference, exercise, one_graph, opaque

# --- 04.1 ----------------------------------------------------------------------


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


LOGITS = {  # each for another way through the function
    "unsure": torch.linspace(-1, 1, 12),
    "rather sure": torch.linspace(-1, 1, 12) * 6,
    "spread out": torch.linspace(-1, 1, 12) * 9,
    "spread out, and unsure": torch.tensor([12.0] * 6 + [-12.0] * 6),
    "one very likely letter": torch.tensor([9.0] + [0.0] * 11),
    "some letters impossible": torch.tensor([2.0, 1.0, 0.5] + [-torch.inf] * 9),
}


@exercise(
    "04.1",
    hints=(
        "graphs(repaired, logits, 0.7, []) lists the breaks that are left. Remove one, "
        "and look again.",
        "Each break has a row in the zoo: an error if some value is NaN, .item(), "
        "two branches on a tensor, a mask, a print. A list may hold tensors.",
        "assert (~torch.isnan(logits)).all(), and not assert not; torch.where for "
        "logits, for the terms of the entropy (0 where not likely), and for sure, "
        "whose two values you compute both; history.append(entropy); no print.",
    ),
    passed="One graph, and whoever calls it will not notice.",
)
def repaired(answer):
    if fault := _sampling_fault(answer, "in eager"):
        return fault
    if fault := one_graph(answer, LOGITS["unsure"], 0.7, []):
        return fault
    backend = CountingBackend()
    if fault := _sampling_fault(torch.compile(answer, backend=backend), "compiled"):
        return fault
    if hidden := [name for graph in backend.captured for name in opaque(graph)]:
        return (
            f"one graph, and the work hides in an operator that nobody sees into, "
            f"{hidden[0]}: that saves the breaks and compiles nothing"
        )
    return None


def _sampling_fault(sampled, how):
    for (name, logits), temperature in itertools.product(LOGITS.items(), (0.7, 2.0)):
        wanted_history, history = [], []
        wanted = _sampled(logits, temperature, wanted_history)
        where = f"{how}, for logits that are {name}"
        try:
            result = sampled(logits.clone(), temperature, history)
        except (AssertionError, ValueError, RuntimeError) as error:
            if not torch.isinf(logits).any():
                raise
            return f"{where}: it raises {type(error).__name__}; infinity is no NaN"
        if not (isinstance(result, tuple) and len(result) == 2):
            return f"{where}: it returned no pair of probs and sure"
        for part, theirs, ours in zip(("probs", "sure"), result, wanted, strict=True):
            if not torch.is_tensor(theirs) or theirs.shape != ours.shape:
                return f"{where}: {part} is no tensor of shape {tuple(ours.shape)}"
            if not torch.allclose(theirs, ours, atol=1e-6):
                return f"{where}: {part} differs from what sampled returns"
        if len(history) != 1:
            return f"{where}: history grew by {len(history)}, and 1 was asked for"
        if not abs(float(history[0]) - wanted_history[0]) < 1e-4:
            return f"{where}: what history got differs from what sampled puts there"
    try:
        sampled(torch.tensor([0.0, float("nan"), 1.0, 2.0]), 1.0, [])
    except NotImplementedError:
        raise
    except Exception:
        return None
    return f"{how}, logits with a NaN in them raise no error"


# --- 04.2 ----------------------------------------------------------------------

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
    names = {"torch": torch}
    exec(LIBRARY, names)
    return names


def _results(fn, x, w):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    out = fn(x, w)
    return out, *torch.autograd.grad(out.sum(), (x, w))


def _settings():
    settings = torch._dynamo.config.get_config_copy()
    return {name: repr(value) for name, value in settings.items()}


@exercise(
    "04.2",
    hints=(
        "Two tools of the last table, one for note and one for weigh. When is a "
        "setting read: at torch.compile, or at the first call?",
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
    note, made, captured = names["note"], [], []

    def forward_compiler(graph, _):
        captured.append({str(n.target) for n in graph.graph.nodes})
        return boxed(graph)

    inner = aot_autograd(
        fw_compiler=forward_compiler, bw_compiler=lambda graph, _: boxed(graph)
    )

    def backend(graph, inputs):
        made.append(graph)
        return inner(graph, inputs)

    config = torch._dynamo.config
    own = config.patch(ignore_logging_functions={*config.ignore_logging_functions})
    with own, _with_backend(backend):
        settings = _settings()
        ours = adopted(names["stranger"], names["note"], names)
        if not callable(ours):
            return f"it returned {type(ours).__name__}, not a function"
        for rows in (4, 6, 9):
            x, w = torch.randn(rows, 5), torch.randn(5, 5)
            made.clear()
            try:
                results = _results(ours, x, w)
            except torch._dynamo.exc.Unsupported as error:
                return f"{_guilty(str(error))} still breaks the graph"
            if not all(map(torch.allclose, results, _results(eager, x, w))):
                return f"{rows} rows: result or gradient is not that of stranger"
            if rows == 4 and not made:
                return "nothing was captured: is it compiled?"
            if len(made) > 1:
                return (
                    f"one call made {len(made)} graphs: something breaks it still. "
                    "fullgraph=True would say what"
                )
            if not any("erf" in target for target in captured[-1]):
                return "the erf of weigh is in no graph: it runs eagerly"
            if _settings() != settings:
                return "a call leaves a setting of torch._dynamo.config changed"
            if names["note"] is not note:
                return "namespace has another note now, and its other callers need it"
    return None


def _guilty(error):
    """Return which function an error of fullgraph=True leads to."""
    places = re.findall(r"line \d+, in (\w+)", error)
    return places[-1] if places else "something"


def _with_backend(backend):
    """Let torch.compile use *backend*, whatever is asked; fullgraph stays."""
    original = torch.compile

    def compile(function=None, *, mode=None, options=None, **how):
        return original(function, **{**how, "backend": backend})

    return mock.patch.object(torch, "compile", compile)


# --- 04.3 ----------------------------------------------------------------------


def _longest_run(bits):
    runs = [max(sum(g) for _, g in itertools.groupby(r)) for r in bits.tolist()]
    return torch.tensor(runs, device=bits.device)


@exercise(
    "04.3",
    hints=(
        "Open course/zoo.py and look for custom_op: the row is 'a function that "
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
    def weighted(x):
        return answer((x > 0).long()) * x.sum(-1)

    def reference(x):
        return _longest_run((x > 0).long()) * x.sum(-1)

    def waves(rows, columns):
        x = torch.linspace(-1, 1, rows * columns).reshape(rows, columns)
        return (x * 40).sin()

    bits = [((waves(*shape) > 0).long(),) for shape in ((5, 9), (2, 30))]
    if fault := difference(answer, _longest_run, bits):
        return f"called by itself, it does not return what longest_run does: {fault}"
    try:
        with unlogged():  # torch logs what the messages below say
            if fault := one_graph(weighted, waves(4, 6)):
                return f"in the middle of a function: {fault}"
            compiled = torch.compile(weighted, backend="aot_eager", dynamic=True)
            shapes = [(waves(*shape),) for shape in ((4, 6), (7, 3), (3, 8))]
            if fault := difference(compiled, reference, shapes):
                return f"compiled, {fault}"
    except Exception as error:
        said = str(error.__cause__ or error)
        if "fake impl" in said:
            return "the compiler does not know what comes out: register_fake is missing"
        return f"with what the fake says, it does not compile: {said.splitlines()[0]}"
    try:
        torch.library.opcheck(answer, bits[0])
    except Exception as error:
        return f"torch.library.opcheck finds: {' '.join(str(error).split())[:300]}"
    return None
