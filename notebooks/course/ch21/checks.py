"""Checks and hints of notebook 21."""

import contextlib
import copy

import torch

from course.backend import CountingBackend
from course.exercises import exercise, near
from course.words import unlogged
from helpers.text import count

CALLERS = {  # how a caller comes, in this order
    "bare": contextlib.nullcontext,
    "within autocast of float16": lambda: torch.autocast("cpu", torch.float16),
    "within autocast of bfloat16": lambda: torch.autocast("cpu", torch.bfloat16),
}


def _nll(logits, y):
    return -logits.log_softmax(-1).gather(1, y[:, None]).mean()


def _autocast():
    return torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")


def _outside(graph):
    """Return the part of the loss that a graph lacks, or None."""
    if not any("linear" in str(node.target) for node in graph.nodes):
        return "the model"
    results = (node.meta["example_value"] for node in graph.output_node().args[0])
    return None if any(result.dim() == 0 for result in results) else "nll"


@exercise(
    "21.1",
    hints=(
        "Autocast is on around the model, and off around nll. And what is guarded "
        "when the caller brings a third context?",
        "Autocast is guarded where the compiled function is entered. So enter it from "
        "a function that isn't compiled, and that sets the same autocast each time: "
        "best none.",
        "inner(x, y): with torch.autocast('cpu', torch.bfloat16): logits = model(x); "
        "then return nll(logits.float(), y). Compile inner with fullgraph=True. Return "
        "a function that calls it within torch.autocast('cpu', enabled=False).",
    ),
    passed="One context in front of the guards: one graph for all these callers.",
)
def compiles_once(make_loss):
    torch.manual_seed(0)
    norm = torch.nn.LayerNorm(16)  # in float32, so weights alone don't make bfloat16
    layers = torch.nn.Linear(16, 16), norm, torch.nn.Linear(16, 1000)
    model, backend = torch.nn.Sequential(*layers), CountingBackend()
    torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
    eager = copy.deepcopy(model)  # not what the answer may change
    torch.compiler.reset()
    loss_of = make_loss(model, backend)
    for caller, context in CALLERS.items():
        x = torch.randn(8, 16, requires_grad=True)
        y = torch.randint(1000, (8,))
        with torch.autocast("cpu", torch.bfloat16):
            logits = eager(x)
        wanted = _nll(logits.float(), y)
        slopes = torch.autograd.grad(wanted, [eager[0].weight, x])
        backend.ran.clear()
        with context():
            before = _autocast()
            loss = loss_of(x, y)
            if _autocast() != before:
                return f"called {caller}, the caller's autocast is changed"
        if (graphs := len(backend.captured)) != 1 or not backend.ran:
            return (
                f"called {caller}, {count(len(backend.ran), 'graph')} ran, and "
                f"{graphs} captured so far: one for all callers was asked for"
            )
        if part := _outside(backend.captured[0].graph):
            return f"{part} is not in the graph that backend was given"
        wrt = [model[0].weight, x]
        if not loss.requires_grad:
            return f"called {caller}, the loss has no gradient"
        found = torch.autograd.grad(loss, wrt, materialize_grads=True)
        pairs = *zip(found, slopes, strict=True), (loss, wanted)
        if not all(near(*pair, 2e-6) for pair in pairs):
            return (
                f"called {caller}, the loss is {loss.item():.6f}, in {loss.dtype}, its "
                f"gradients off by {max((a - b).abs().max() for a, b in pairs):.0e}. "
                f"{wanted.item():.6f} comes from a model in bfloat16 and a log_softmax "
                "in float32, with a gradient in float32"
            )
    with torch.autocast("cpu", torch.bfloat16):
        before = _autocast()
        with unlogged(), contextlib.suppress(Exception):
            loss_of(x[:, 1:], y)  # too narrow
        if _autocast() != before:
            return "after a call that raises, the caller's autocast is changed"
    return None
