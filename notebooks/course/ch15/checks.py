"""Checks and hints of notebook 15."""

import torch

from course.backend import CountingBackend
from course.exercises import difference, exercise, fresh
from course.words import unlogged
from helpers.text import count

# --- 15.1 ----------------------------------------------------------------------


def _distances(x):
    return (x - x.mean(0)).norm(dim=1)


def _gradient(function):
    def gradient(x):
        return torch.autograd.grad(function(x.requires_grad_()).sum(), x)[0]

    return gradient


@exercise(
    "15.1",
    hints=(
        "mark_dynamic a tensor, call torch.compile(mended, backend='eager') with it, "
        "and read the error from below: which line is it?",
        "A list as long as x, and a loop over its rows, both need to know how long. "
        "A method of x does not.",
        "x.mean(0) for the mean, and (x - mean).norm(dim=1) for all rows at once.",
    ),
    passed="One graph for any number of rows: the mark holds.",
)
def mended(answer):
    torch.manual_seed(0)
    cases = [(torch.randn(n, 5),) for n in (32, 7, 2)]
    if fault := difference(answer, _distances, cases):
        return f"it does not return what distances returns: {fault}"
    if not answer(cases[0][0].clone().requires_grad_()).requires_grad:
        return "no gradient reaches x, as it does through distances"
    backend = CountingBackend()
    compiled = torch.compile(answer, backend=backend, fullgraph=True)

    def promised(x):
        torch._dynamo.mark_dynamic(x, 0)
        return compiled(x)

    with unlogged():  # torch logs what the error says
        if fault := difference(promised, _distances, cases):
            return f"compiled, {fault}"
    if len(backend.captured) != 1:
        many = count(len(backend.captured), "graph")
        return f"{many} for three sizes, and one was asked for"
    for node in backend.captured[0].graph.nodes:
        if getattr(node.target, "namespace", "aten") not in ("aten", "prims"):
            return (
                f"{node.target} is an operator of your own, and torch's were asked for"
            )
    if fault := difference(_gradient(answer), _gradient(_distances), cases[:1]):
        return f"the gradient of x is not that of distances: {fault}"
    return None


# --- 15.2 ----------------------------------------------------------------------


def _centred(x):
    return x - x.mean(0, keepdim=True)


def _in_pairs(x):
    if x.shape[0] % 2:
        x = torch.cat([x, x[-1:]])
    return x.view(-1, 2, x.shape[1]).sum(1)


PLANS = (  # what is asked, the function, the sizes, and the versions that it needs
    ("2 to 19", _centred, range(2, 20), 1),
    ("0 to 12", _centred, range(13), 3),
    ("multiples of 8", _in_pairs, range(8, 40, 8), 1),
    ("1 to 20, even and odd apart", _in_pairs, range(20, 0, -1), 3),
)


@exercise(
    "15.2",
    hints=(
        "Which sizes share a version? List the kinds, and call one size of each.",
        "The exact version of the first size is one too many: a mark on the tensor "
        "saves it.",
        "kinds = {n if n < 2 else 2 + n % 2: n for n in sizes}; for each n in "
        "kinds.values(), make(n), torch._dynamo.maybe_mark_dynamic(x, 0), call.",
    ),
    passed="Compiled before the first request, and never after it.",
)
def warm_up(answer):
    for name, function, sizes, needed in PLANS:
        backend = CountingBackend()
        target = torch.compile(fresh(function), backend=backend)
        answer(target, lambda n: torch.ones(n, 3), list(sizes))
        calls, versions = len(backend.ran), len(backend.captured)
        if calls > 4:
            return f"for {name}: {calls} calls, and at most 4 were asked for"
        with torch.compiler.set_stance("fail_on_recompile"):
            for n in sizes:
                try:
                    target(torch.ones(n, 3))
                except RuntimeError:
                    return (
                        f"for {name}: after the warm-up, size {n} still needs a compile"
                    )
        if versions > needed:
            return (
                f"for {name}: {count(versions, 'version')} were compiled, and {needed} "
                "would do"
            )
    return None
