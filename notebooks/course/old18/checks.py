"""Checks and hints of notebook 18."""

import torch

from course.old18.sweep import Program, sweep
from course.exercises import exercise
from course.planted import planted

# --- 18.1 ----------------------------------------------------------------------

BUGS = {  # the bug that is planted, and what to ask of a program that misses it
    "tail": (
        "the last elements of an odd size",
        "how many elements does its innermost loop have? A vector must not divide "
        "them, and 2 or 3 fill none.",
    ),
    "repeats": (
        "an embedding's repeated rows",
        "is it an embedding, does a row of its table occur twice, and does the table "
        "get a gradient?",
    ),
    "nan": (
        "maximum forgets NaN",
        "does torch.maximum get a NaN first, and a number second?",
    ),
}


@exercise(
    "18.1",
    hints=(
        "What does block have that hides each bug? Its sizes are powers of two, it "
        "looks nothing up, and no number of it is NaN.",
        "tail: one loop over an odd number of elements. repeats: "
        "torch.nn.functional.embedding, with an index that occurs twice. nan: "
        "torch.maximum itself, with a NaN in its first argument.",
        'return {"tail": (torch.sin, (torch.randn(1003),)), "repeats": '
        "(torch.nn.functional.embedding, (torch.tensor([1, 1]), torch.randn(3, 4))), "
        '"nan": (torch.maximum, (torch.tensor([torch.nan, 1.0]), torch.zeros(2)))}',
    ),
    passed="Three small programs, and none of the three bugs gets past them.",
)
def three_programs(notices):
    given = notices()
    for key, (bug, question) in BUGS.items():
        function, inputs = given[key]
        if not isinstance(inputs, tuple):
            return f"{key}: wanted a pair, a function and a tuple of tensors"
        program = Program(key, function, inputs)
        [row] = sweep([program])
        if row.wrong:
            what = ", ".join(row.wrong)
            return f"{key}: it complains of a healthy compiler ({what})"
        with planted(bug) as about:
            [row] = sweep([program], backend=about.backend)
        if not row.wrong:
            return f"{key}: it does not notice; {question}"
    return None


# --- 18.2 ----------------------------------------------------------------------


def _chain(x):
    return (x.sin() * x).tanh().sum()


def _breaks(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return (y * x).sum()


def _product(x, y):
    return (x.sin() * y).sum()


def _steep(function, **options):
    """Compile a function whose gradient is half as large again."""

    def steep(x):
        y = function(x)
        return y + (y - y.detach()) / 2

    return torch.compile(steep, **options)


def _shifted(function, **options):
    """Compile a function whose result is off, and whose gradient is right."""
    return torch.compile(lambda *given: function(*given) + 1, **options)


def _beside(function, **options):
    """Compile another program, and return what the function gives eagerly."""
    other = torch.compile(lambda x: x.cos() + 1, **options)

    def run(*given):
        other(given[0].detach())
        return function(*given)

    return run


TRIALS = (
    ("sin, compiled", _chain, torch.compile, "right"),
    ("a function with a graph break", _breaks, torch.compile, "not captured"),
    (
        "a wrapper that does not compile",
        _chain,
        lambda function, **options: function,
        "not captured",
    ),
    ("a wrapper that compiles another program", _chain, _beside, "not captured"),
    ("a gradient that is too large", _chain, _steep, "wrong"),
    ("a result that is off", _chain, _shifted, "wrong"),
    ("two inputs", _product, torch.compile, "right"),
)


@exercise(
    "18.2",
    hints=(
        "A backend of your own sees each graph: count how often it is asked. And what "
        "would show that the graph it was given is the one that runs?",
        "def backend(graph, example): graphs.append(graph); return graph. One graph "
        "has to come. Then once more, with a backend that returns something wrong: if "
        "the answers are right all the same, something else was captured.",
        "compiled = wrap(function, backend=backend); good = right_values(function, "
        "compiled, *inputs). The wrong backend returns lambda *given: [2 * y for y in "
        'graph(*given)]. If len(graphs) != 1, or if that is right, "not captured"; '
        'else "right" if good else "wrong". Call torch.compiler.reset() first.',
    ),
    passed="A break, a wrapper that does nothing or something else, and a wrong "
    "gradient are all found.",
)
def cannot_be_fooled(verdict):
    for name, function, wrap, wanted in TRIALS:
        torch.compiler.reset()
        torch.manual_seed(0)
        inputs = torch.randn(function.__code__.co_argcount, 7, 5)
        answer = verdict(function, wrap, *inputs)
        if answer != wanted:
            return f'{name}: you say "{answer}", and it is "{wanted}"'
    return None
