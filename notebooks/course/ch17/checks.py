"""Checks and hints of notebook 17."""

import torch

from course.backend import CountingBackend
from course.exercises import exercise

# --- 17.1 ----------------------------------------------------------------------

SCALES = 1.0, 2.0, 3.5, -4.0
WORKS = {
    "sin(x) + 1": lambda x: torch.sin(x) + 1,
    "x @ x": lambda x: x @ x,
    "x + x.mT, summed": lambda x: (x + x.mT).sum(),
    "a plain tensor times x": lambda x: torch.full((3, 3), 2.0) * x,
    "torch.cat of a list with x": lambda x: torch.cat([x, torch.ones(1, 3)]),
    "a sum that keeps its dimension": lambda x: x.sum(0, keepdim=True),
    "another dtype by keyword": lambda x: torch.zeros_like(x, dtype=torch.float64),
}


@exercise(
    "17.1",
    hints=(
        "What __tensor_flatten__ lists first may change without a compile. What kind "
        "of thing must it be?",
        "Make a tensor of the scale in __init__, and list both names.",
        "self.scale = torch.as_tensor(scale), and __tensor_flatten__ returns ['raw', "
        "'scale'], None. What __tensor_unflatten__ gets there is a tensor already.",
    ),
    passed="A number that changes is a tensor inside.",
)
def free(answer):
    raw = torch.linspace(-1, 1, 9).reshape(3, 3)
    if not isinstance(made := answer(raw, 2.0), answer):
        return f"Free(raw, scale) makes a {type(made).__name__}, and no Free"
    for name, work in WORKS.items():
        if fault := _scale_fault(answer, name, work, raw):
            return fault
    return None


def _scale_fault(answer, name, work, raw):
    torch.compiler.reset()
    backend = CountingBackend("aot_eager")
    compiled = torch.compile(work, backend=backend, fullgraph=True)
    for scale in SCALES:
        wanted = work(raw * scale)
        for call, said in ((work, "eager"), (compiled, "compiled")):
            try:
                found = call(answer(raw, scale))
            except RecursionError:
                return f"{name}, {said}: a Free is left inside, so it calls itself"
            if type(found) is not torch.Tensor:
                return (
                    f"{name}: {said} gives a {type(found).__name__}, not a plain tensor"
                )
            if found.dtype != wanted.dtype:
                mine, theirs = (str(x.dtype)[6:] for x in (found, wanted))
                return f"{name}, {said}: {mine}, and raw * scale gives {theirs}"
            if found.shape != wanted.shape or not torch.allclose(found, wanted):
                return (
                    f"{name}, {said}, with a scale of {scale}: not that of raw * scale"
                )
    if (many := len(backend.captured)) != 1:
        return f"{name}: {len(SCALES)} scales cost {many} graphs, and one is enough"
    return None


# --- 17.2 ----------------------------------------------------------------------

LISTS = [
    [2, 3],
    [5, 4],
    [5, 1],
    [1, 1],
    [1, 2, 3],
    [7, 7, 7, 7],
    [1, 1, 1, 1, 1],
    [2, 5, 3, 4],
]


def _mean(texts):
    lengths = texts.offsets().diff()[:, None]
    return texts.sum(1) / lengths


def _squares(texts):
    return (texts * texts).sum(1)


@exercise(
    "17.2",
    hints=(
        "Which of the two ways of the page to make a jagged tensor measures nothing?",
        "values are all texts one below the other. offsets begin with 0 and end with "
        "the number of all rows.",
        "values = torch.cat(texts); offsets = torch.tensor([0, *map(len, texts)])"
        ".cumsum(0); then nested_tensor_from_jagged(values, offsets), outside of what "
        "is compiled.",
    ),
    passed="A batch is a batch, however long its texts are.",
)
def serve(answer):
    for name, work in {"the mean": _mean, "the sum of squares": _squares}.items():
        torch.compiler.reset()
        backend = CountingBackend("aot_eager")
        serving = answer(work, backend)
        if fault := _batch_fault(serving, name, work, backend):
            return fault
        if (many := len(backend.captured)) > 2:
            return f"{name}: {len(LISTS)} lists cost {many} graphs, and two are enough"
    return None


def _batch_fault(serving, name, work, backend):
    for lengths in LISTS:
        texts = [torch.linspace(0, n, 4 * n).reshape(n, 4) for n in lengths]
        one_by_one = torch.nested.nested_tensor(texts, layout=torch.jagged)
        before = len(backend.ran)
        found = serving(texts)
        if not torch.allclose(found, work(one_by_one)):
            return f"{name} of texts with {lengths} rows is another one"
        if (ran := len(backend.ran) - before) == 0:
            return f"{name}: texts with {lengths} rows ran eagerly"
        if ran > 1:
            return (
                f"{name}: work ran {ran} times for {len(texts)} texts: it takes one "
                "jagged tensor of all"
            )
    return None
