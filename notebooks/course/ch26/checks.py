"""Checks and hints of notebook 26."""

import tempfile
from pathlib import Path

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from course.ch26.leaving import quietly
from course.exercises import exercise, near

# --- 26.1 ----------------------------------------------------------------------


class _MeanOf(torch.nn.Module):
    def forward(self, x, mask):
        total = (x * mask[..., None]).sum(1)
        return total / mask.sum(1, keepdim=True)


@exercise(
    "26.1",
    hints=(
        "Two sizes vary, and nothing was declared. What does torch do with a size "
        "of 1 in the example?",
        "Both inputs share their sizes: declare them with the same Dim, and take an "
        "example of two rows or more.",
        'batch, length = Dim("batch"), Dim("length"); both = {0: batch, 1: length}; '
        "return export(model, (torch.randn(2, 6, 8), torch.ones(2, 6)), "
        "dynamic_shapes=(both, both)).",
    ),
    passed="One program serves every batch, and one of a single row.",
)
def every_batch(export_it):
    with quietly():
        exported = export_it(_MeanOf())
    if not isinstance(exported, torch.export.ExportedProgram):
        return f"it returns {type(exported).__name__}, and no exported program"
    program = exported.module()
    torch.manual_seed(26)
    for batch, length in ((4, 9), (1, 5), (7, 3), (300, 1), (2, 300)):
        x = torch.randn(batch, length, 8)
        mask = torch.rand(batch, length) + 0.5
        if not near(program(x, mask), _MeanOf()(x, mask), 1e-4):
            return f"a batch of {batch}, length {length}: another answer"
    return None


# --- 26.2 ----------------------------------------------------------------------


def _reference(stream):
    level = torch.ones(())
    for x in stream:
        top = x.abs().max()
        level = top if top > level else 0.9 * level + 0.1 * top
        yield x / level, level


def _onnx(program):
    """Return the program as what runs its ONNX file, on tensors."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as home:
        path = str(Path(home) / "portable.onnx")
        torch.onnx.export(program, dynamo=True, verbose=False).save(path)
        session = onnxruntime.InferenceSession(path)
    names = [given.name for given in session.get_inputs()]

    def run(*tensors):
        arrays = [tensor.numpy() for tensor in tensors]
        results = session.run(None, dict(zip(names, arrays, strict=True)))
        return map(torch.from_numpy, results)

    return run


@exercise(
    "26.2",
    hints=(
        "What does a program know of a tensor's value before the call, and where "
        "may it keep a value between two calls?",
        "Both new levels can be computed, and one of them chosen in the graph, by "
        "torch.where or torch.cond. Nothing is written into self.",
        "def forward(self, x, level): top = x.abs().max(); new = "
        "torch.where(top > level, top, 0.9 * level + 0.1 * top); "
        "return x / new, new.",
    ),
    passed="The file follows the stream, and has no state of its own.",
)
def portable(answer):
    torch.manual_seed(26)
    stream = [scale * torch.randn(5, 4) for scale in (1, 6, 2, 9, 1)]
    stream[1] = -stream[1].abs()  # loud, and below 0
    level = torch.ones(())
    model = answer() if isinstance(answer, type) else answer
    try:
        with quietly():
            run = _onnx(torch.export.export(model, (stream[0], level)))
    except GuardOnDataDependentSymNode as error:
        return f"it cannot be exported. {str(error).splitlines()[0]}"
    for turn, (x, (right, right_level)) in enumerate(
        zip(stream, _reference(stream), strict=True), 1
    ):
        result, level = run(x, level)
        if not near(level, right_level, 1e-4):
            return f"after {turn} inputs, the file has another level"
        if not near(result, right, 1e-4):
            return f"input {turn} has another answer"
    return None
