"""Checks and hints of notebook 21."""

import contextlib

import torch

from course.backend import CountingBackend
from course.exercises import exercise, near

# --- 21.1 ----------------------------------------------------------------------


def _many(x):
    for gain in (1.1, 0.93, 1.07, 0.88, 1.21, 0.97, 1.03, 0.91):
        x = x * gain
    return x


def _one_far_off(x):
    first = torch.arange(x.numel()).view_as(x) == 0
    return _many(x) - first * (0.1 if torch.compiler.is_compiling() else 0.0)


def _one_small(x):  # off by little, and by much of what it is
    least = x.abs() == x.abs().min()
    return _many(x) + least * (1e-3 if torch.compiler.is_compiling() else 0.0)


def _lost(x):  # both sides lose x beside 2**30: a float32 judge does not see it
    return _many(x) + ((x + 2**30) - 2**30)


def _a_fifth(x):
    return _lost(x) + (x * 0.2 if torch.compiler.is_compiling() else 0.0)


def _beside(x):  # 1000 and 1004 in bfloat16: 1.9 and 2.1 from the truth
    return x * 0 + 1001.9 + (4.0 if torch.compiler.is_compiling() else 0.0)


def _steps(x):  # exact in float16, and rounded in between in bfloat16
    return x.round() * 257 - 256


TRIALS = {  # a program, and whose result is nearer by its largest distance
    "eight multiplications": (_many, "compiled"),
    "nothing to round": (lambda x: x * 2, "same"),
    "one number far off": (_one_far_off, "eager"),
    "one small number off": (_one_small, "compiled"),
    "two distances, nearly the same": (_lost, "same"),
    "one distance shorter by a fifth": (_a_fifth, "compiled"),
    "one multiplication": (lambda x: x * 1.1, "same"),
    "two neighbours of the truth": (_beside, "same"),
}


@exercise(
    "21.1",
    hints=(
        "Three results for each program: eager's, compiled's, and the truth. Which of "
        "the three is the judge?",
        "truth = program(x.double()). Keep it in float64, and widen the other two to "
        "subtract: (result.double() - truth).abs().max().",
        'e and c are the two distances. "same" if abs(e - c) < 0.1 * max(e, c), or if '
        'e == c: both may be 0. Else "eager" if e < c, and "compiled" if not.',
    ),
    passed="It trusts neither side: float64 says who is nearer.",
)
def who_is_nearer(nearer):
    torch.manual_seed(0)
    torch.compiler.reset()
    programs = {name: program for name, (program, _) in TRIALS.items()}
    verdicts = nearer(programs, torch.randn(16, 64).bfloat16())
    for name, (_, wanted) in TRIALS.items():
        if verdicts[name] != wanted:
            return f'{name}: you say "{verdicts[name]}", it is "{wanted}"'
    [verdict] = nearer({"257 steps": _steps}, torch.randn(16, 64).half()).values()
    if verdict != "same":
        return f'in float16, you say "{verdict}" of exact numbers, it is "same"'
    return None


# --- 21.2 ----------------------------------------------------------------------

CALLERS = {  # how a caller comes, in this order
    "bare": contextlib.nullcontext,
    "within autocast of float16": lambda: torch.autocast("cpu", torch.float16),
    "within autocast of bfloat16": lambda: torch.autocast("cpu", torch.bfloat16),
}


def _nll(logits, y):
    return -logits.log_softmax(-1).gather(1, y[:, None]).mean()


def _outside(graph):
    """Return which part of the loss a graph has not, or None."""
    if not any("linear" in str(node.target) for node in graph.nodes):
        return "the model"
    results = (node.meta["example_value"] for node in graph.output_node().args[0])
    return None if any(result.dim() == 0 for result in results) else "nll"


@exercise(
    "21.2",
    hints=(
        "Autocast is on around the model, and off around nll. And what is guarded "
        "when the caller brings a third context?",
        "Autocast is guarded where the compiled function is entered. So enter it from "
        "a function of your own, which is not compiled, and which sets the same "
        "autocast each time: best none.",
        "inner(x, y): with torch.autocast('cpu', torch.bfloat16): logits = model(x); "
        "then return nll(logits.float(), y). Compile inner with fullgraph=True. Return "
        "a function that calls it within torch.autocast('cpu', enabled=False).",
    ),
    passed="One context of your own in front of the guards: one graph for everybody.",
)
def compiles_once(make_loss):
    torch.manual_seed(0)
    model, backend = torch.nn.Linear(16, 1000), CountingBackend()
    x, y = torch.randn(8, 16), torch.randint(1000, (8,))
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(x)
    wanted = _nll(logits.float(), y)
    [slope] = torch.autograd.grad(wanted, [model.weight])
    torch.compiler.reset()
    loss_of = make_loss(model, backend)
    for caller, context in CALLERS.items():
        backend.ran.clear()
        with context():
            loss = loss_of(x, y)
        if model.weight.dtype != torch.float32:
            return "the weights of the model are no longer float32"
        if not backend.ran:
            return f"called {caller}, nothing compiled with backend ran"
        if (graphs := len(backend.captured)) > 1:
            return f"called {caller}, it is at {graphs} graphs: one for all was wanted"
        if part := _outside(backend.captured[0].graph):
            return f"{part} is not in the graph that backend was given"
        if not near(loss, wanted, 2e-6):
            return (
                f"called {caller}, the loss is {loss.item():.6f}, in {loss.dtype}, and "
                f"{wanted.item():.6f} comes from a model in bfloat16 and a "
                "log_softmax in float32"
            )
        if not loss.requires_grad:
            return f"called {caller}, the loss has no gradient: nothing can train by it"
        [found] = torch.autograd.grad(loss, [model.weight])
        if not near(found, slope, 1e-6):
            return f"called {caller}, the gradient of the weights is another"
    return None
