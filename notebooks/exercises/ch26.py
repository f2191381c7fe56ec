"""Checks and hints of notebook 26."""

import tempfile
from pathlib import Path

import torch
from course.leaving import quietly

from helpers.exercises import exercise

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
        program = export_it(_MeanOf())
    if not isinstance(program, torch.export.ExportedProgram):
        return f"export_it returned {type(program).__name__}, not a program"
    torch.manual_seed(26)
    for batch, length in ((4, 9), (1, 5), (7, 3)):
        x = torch.randn(batch, length, 8)
        mask = torch.rand(batch, length) + 0.5
        try:
            found = program.module()(x, mask)
        except Exception as error:
            words, *_ = str(error).strip().split("\n")
            return f"a batch of {batch}, length {length}: {words}"
        if not torch.allclose(found, _MeanOf()(x, mask), 1e-4, 1e-5):
            return f"a batch of {batch}, length {length}: another answer"
    return None


# --- 26.2 ----------------------------------------------------------------------


def _reference(stream):
    level = torch.ones(())
    for x in stream:
        top = x.abs().max()
        level = top if top > level else 0.9 * level + 0.1 * top
        yield x / level, level


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
    import onnxruntime

    torch.manual_seed(26)
    stream = [scale * torch.randn(5, 4) for scale in (1, 6, 2, 9, 1, 1)]
    level = torch.ones(())
    try:
        with quietly():
            program = torch.export.export(answer(), (stream[0], level))
    except Exception as error:
        words, *_ = str(error).strip().split("\n")
        return f"it cannot be exported: {words}"
    with tempfile.TemporaryDirectory() as home, quietly():
        path = str(Path(home) / "portable.onnx")
        torch.onnx.export(program, dynamo=True, verbose=False).save(path)
        session = onnxruntime.InferenceSession(path)
    names = [each.name for each in session.get_inputs()]
    if len(names) != 2:
        return f"the file has {len(names)} inputs: x and level are two"
    for turn, (x, wanted) in enumerate(zip(stream, _reference(stream), strict=True), 1):
        values = (each.numpy() for each in (x, level))
        outputs = session.run(None, dict(zip(names, values, strict=True)))
        if len(outputs) != 2:
            return f"the file has {len(outputs)} outputs: return x / new, new"
        found, level = map(torch.from_numpy, outputs)
        if not torch.allclose(level, wanted[1], 1e-4, 1e-5):
            return f"after {turn} inputs, the file has another level"
        if not torch.allclose(found, wanted[0], 1e-4, 1e-5):
            return f"input {turn} has another answer"
    return None
