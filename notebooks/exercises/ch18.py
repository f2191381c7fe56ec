"""Checks and hints of notebook 18."""

import torch
from course.planted import planted
from course.sweep import Program, sweep

from helpers.exercises import exercise

# --- 18.1 ----------------------------------------------------------------------

WANTED = {
    "tail": "the last elements of an odd size",
    "repeats": "an embedding's repeated rows",
    "nan": "maximum forgets NaN",
}
MISSED = {
    "tail": "how many elements does its innermost loop have, and does a vector "
    "divide them?",
    "repeats": "does a row of the table occur twice, and does the table get a "
    "gradient?",
    "nan": "does torch.maximum get a NaN on one side, and a number on the other?",
}


@exercise(
    "18.1",
    hints=(
        "What does block have that hides each bug? Its sizes are powers of two, it "
        "looks nothing up, and no number of it is NaN.",
        "tail: one loop over an odd number of elements. repeats: "
        "torch.nn.functional.embedding, with an index that occurs twice. nan: "
        "torch.maximum itself, with a NaN on the left.",
        'return {"tail": (torch.sin, (torch.randn(1003),)), "repeats": '
        "(torch.nn.functional.embedding, (torch.tensor([1, 1]), torch.randn(3, 4))), "
        '"nan": (torch.maximum, (torch.tensor([torch.nan, 1.0]), torch.zeros(2)))}',
    ),
    passed="Three small programs, and none of the three bugs gets past them.",
)
def three_programs(notices):
    given = notices()
    if not isinstance(given, dict) or set(given) != set(WANTED):
        return f"it returned {given!r:.60}, not a dict with the keys tail, repeats, nan"
    programs = {}
    for key, pair in given.items():
        if not (isinstance(pair, tuple) and len(pair) == 2 and callable(pair[0])):
            return f"{key}: wanted a pair, a function and a tuple of tensors"
        programs[key] = Program(key, pair[0], tuple(pair[1]))
    for row in sweep([*programs.values()]):
        if row.wrong:
            what = ", ".join(row.wrong)
            return f"{row.program}: it complains of a healthy compiler ({what})"
        if not row.captured:
            return f"{row.program}: nothing of it is in the graph"
    for key, bug in WANTED.items():
        with planted(bug) as about:
            [row] = sweep([programs[key]], backend=about.backend)
        if not row.wrong:
            return f"{key}: it does not notice; {MISSED[key]}"
    return None


# --- 18.2 ----------------------------------------------------------------------


def _chain(x):
    return (x.sin() * x).tanh().sum()


def _breaks(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return (y * x).sum()


def _steep(function, **how):
    """Compile a function whose gradient is half as large again."""

    def steep(x):
        y = function(x)
        return y + (y - y.detach()) / 2

    return torch.compile(steep, **how)


def _shifted(function, **how):
    return torch.compile(lambda x: function(x) + 1, **how)


def _not_at_all(function, **how):
    return function


TRIALS = (
    ("sin, compiled", _chain, torch.compile, "right"),
    ("a function with a graph break", _breaks, torch.compile, "not captured"),
    ("a wrapper that does not compile", _chain, _not_at_all, "not captured"),
    ("a result that is off by one", _chain, _shifted, "wrong"),
    ("a gradient that is too large", _chain, _steep, "wrong"),
)


@exercise(
    "18.2",
    hints=(
        "A backend of your own sees each graph: count how often it is asked.",
        "graphs = []; def backend(graph, example): graphs.append(graph); return graph. "
        "Compile with it, call, and ask len(graphs) == 1 before you ask for values.",
        "compiled = wrap(function, backend=backend); good = right_values(function, "
        'compiled, *inputs); if len(graphs) != 1: return "not captured"; return '
        '"right" if good else "wrong". Call torch.compiler.reset() first.',
    ),
    passed="A break, a wrapper that does nothing and a wrong gradient are all found.",
)
def cannot_be_fooled(verdict):
    for name, function, wrap, wanted in TRIALS:
        torch.compiler.reset()
        torch.manual_seed(0)
        said = verdict(function, wrap, torch.randn(7, 5))
        if said not in ("right", "wrong", "not captured"):
            return f"it returned {said!r}, which is none of the three verdicts"
        if said != wanted:
            return f'{name}: you say "{said}", and it is "{wanted}"'
    return None
