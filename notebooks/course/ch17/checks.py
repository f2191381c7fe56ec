"""Checks and hints of notebook 17."""

import torch

from course.backend import CountingBackend
from course.exercises import asked_about, exercise, near

SCALES = 1.0, 2.0, 3.5, -0.1
DTYPES = torch.bfloat16, torch.float64
WORKS = {
    "sin(x)": torch.sin,
    "x @ x": lambda x: x @ x,
    "torch.cat of a list with x": lambda x: torch.cat([x, torch.ones(1, 3)]),
    "another dtype by keyword": lambda x: x.sum(0, dtype=torch.float64),
    "x.float()": lambda x: x.float(),
    "x.reshape(-1)": lambda x: x.reshape(-1) + 1,
}


@exercise(
    "17.1",
    hints=(
        "What __tensor_flatten__ lists first may change without a compile. What kind "
        "of thing must it be?",
        "Make a tensor of the scale in __init__, and list both names. What "
        "__tensor_unflatten__ gets is a tensor already, which torch.tensor can't copy.",
        "self.scale = torch.as_tensor(scale, dtype=torch.float64), and "
        "__tensor_flatten__ returns ['raw', 'scale'], None.",
    ),
    passed="What changes is in a tensor that is listed: an input of the graph.",
)
def free(answer):
    raw = torch.linspace(-3, 3, 9).reshape(3, 3)
    if not isinstance(made := answer(raw, 2.0), answer):
        return f"Free(raw, scale) makes a {type(made).__name__}, and no Free"
    every = (_on(answer, raw.T.to(dtype)) for dtype in DTYPES)
    if told := next(filter(None, every), None):
        return told
    there = answer(raw.to("meta"), 2.0).device.type == "meta"
    return None if there else "Free(raw, scale) isn't on the device of raw"


def _on(answer, raw):
    every = [answer(raw, scale) for scale in SCALES]  # all are there at once
    other = answer(raw, 3.0)
    for name, work in (WORKS | {"x + Free(raw, 3.0)": lambda x: x + other}).items():
        name += f" of {raw.dtype}"
        torch.compiler.reset()
        backend = CountingBackend("aot_eager")
        compiled = torch.compile(work, backend=backend, fullgraph=True)
        for one, scale in zip(every, SCALES, strict=True):
            for call, said in ((work, "eager"), (compiled, "compiled")):
                with asked_about(f"{name}, {said}"):
                    found = call(one)
                if type(found) is answer or not near(found, work(raw * scale), 1e-12):
                    return f"{name}, {said}: not the plain result of raw * {scale}"
        if (many := len({*backend.ran})) != 1:
            return f"{name}: {len(SCALES)} scales cost {many} graphs, and one is enough"
    return None
