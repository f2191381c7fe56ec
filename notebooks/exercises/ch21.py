"""Checks and hints of notebook 21."""

import contextlib

import torch

from helpers.exercises import CountingBackend, exercise
from helpers.text import count

# --- 21.1 ----------------------------------------------------------------------


def _many(x):
    for gain in (1.1, 0.93, 1.07, 0.88, 1.21, 0.97, 1.03, 0.91):
        x = x * gain
    return x


def _wrong_when_compiled(x):
    return x * 3 + (0.1 if torch.compiler.is_compiling() else 0.0)


def _one_far_off(x):
    first = torch.arange(x.numel()).view_as(x) == 0
    return _many(x) + first * (0.5 if torch.compiler.is_compiling() else 0.0)


# A name, the program, whose result is nearer by its largest distance.
TRIALS = {
    "eight multiplications": (_many, "compiled"),
    "there and back": (lambda x: (x + 100) - 100, "compiled"),
    "one multiplication": (lambda x: x * 3, "same"),
    "nothing to round": (lambda x: x * 2, "same"),
    "wrong when compiled": (_wrong_when_compiled, "eager"),
    "one number far off": (_one_far_off, "eager"),
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
    x = torch.randn(16, 64)
    programs = {name: program for name, (program, _) in TRIALS.items()}
    for dtype in (torch.bfloat16, torch.float16):
        torch.compiler.reset()
        said = nearer(dict(programs), x.to(dtype))
        if not isinstance(said, dict) or said.keys() != programs.keys():
            return f"it returned {said!r:.80}, and a verdict for each name is wanted"
        for name, (_, wanted) in TRIALS.items():
            if said[name] != wanted:
                kind = str(dtype).removeprefix("torch.")
                return f'{name}, in {kind}: you say "{said[name]}", it is "{wanted}"'
    return None


# --- 21.2 ----------------------------------------------------------------------

BF16, FP16 = torch.bfloat16, torch.float16
CALLERS = {  # how a caller comes, in this order
    "bare": contextlib.nullcontext,
    "within autocast of float16": lambda: torch.autocast("cpu", FP16),
    "within autocast of bfloat16": lambda: torch.autocast("cpu", BF16),
    "with autocast off": lambda: torch.autocast("cpu", enabled=False),
    "bare again": contextlib.nullcontext,
}


def _loss(logits, y):
    return -logits.log_softmax(-1).gather(1, y[:, None]).mean()


def _wanted(model, x, y):
    with torch.autocast("cpu", BF16):
        logits = model(x)
    return _loss(logits.float(), y)


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
    torch.compiler.reset()
    loss = make_loss(model, backend)
    for caller, context in CALLERS.items():
        runs = len(backend.ran)
        with context():
            found = loss(x, y)
        if model.weight.dtype != torch.float32:
            return "the weights of the model are no longer float32"
        if len(backend.ran) == runs:
            return f"called {caller}, nothing compiled with backend ran"
        if len(backend.captured) > 1:
            many = count(len(backend.captured), "graph")
            return f"called {caller}, it is at {many}: one for all callers was wanted"
        if found.dtype != torch.float32:
            return f"called {caller}, the loss is {found.dtype}, and not float32"
        exact, [slope] = (
            _wanted(model, x, y),
            torch.autograd.grad(found, model.weight),
        )
        if not abs(float((found - exact).detach())) <= 2e-6 * float(exact.detach()):
            return (
                f"called {caller}, the loss is {found.item():.6f}, and "
                f"{exact.item():.6f} comes from a model in bfloat16 and a "
                "log_softmax in float32"
            )
        [wanted] = torch.autograd.grad(exact, model.weight)
        if not (slope - wanted).abs().max() <= 0.01 * wanted.abs().max():
            return f"called {caller}, the gradient of the weights is another one"
    return None
