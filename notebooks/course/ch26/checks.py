"""Checks and hints of notebook 26."""

import tempfile
from pathlib import Path

import torch
from torch.export import ExportedProgram, export
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from course.cell_errors import causes
from course.ch26.quiet import quiet_stderr
from course.exercises import exercise, near
from course.words import silence

# --- 26.1 ----------------------------------------------------------------------


class _MeanOf(torch.nn.Module):
    """Twice what the page's model gives: it's the one to be exported."""

    def forward(self, x, mask):
        total = 2 * (x * mask[..., None]).sum(1)
        return total / mask.sum(1, keepdim=True)


def _program(export_it):
    """Return the exported program of what *export_it* makes, as a function."""
    if export_it is _MeanOf:  # the reference: no export
        return _MeanOf().forward
    with silence():
        program = export_it(_MeanOf())
    assert isinstance(program, ExportedProgram), "return what export() gives you"
    most = [bounds.upper for bounds in program.range_constraints.values()]
    assert all(upper > 10**9 for upper in most), f"a size may be {min(most)} at most"
    return program.module().forward


SIZES = (4, 9), (1, 5), (7, 3), (70_000, 1), (2, 70_000)


every_batch = exercise(
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
    like=_MeanOf,
    made=_program,
    inputs=lambda: [(torch.randn(*n, 8), torch.rand(*n) + 0.5) for n in SIZES],
)


# --- 26.2 ----------------------------------------------------------------------


def _reference(stream):
    level = torch.ones(())
    for x in stream:
        top = x.abs().max()
        level = top if top > level else 0.9 * level + 0.1 * top
        yield x / level, level


def _onnx(program):
    """Return what runs the ONNX file of the program, on tensors."""
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
        "torch.where or torch.cond. Nothing is written into self. (ONNX has max(), and "
        "no amax() without a dim.)",
        "def forward(self, x, level): top = x.abs().max(); new = "
        "torch.where(top > level, top, 0.9 * level + 0.1 * top); "
        "return x / new, new.",
    ),
    passed="The file follows the stream, and keeps no state.",
)
def portable(answer):
    torch.manual_seed(26)
    stream = [scale * torch.randn(5, 4) for scale in (0.1, 6, 2, 900, 1)]
    stream[1] = -stream[1].abs()  # loud, and below 0
    stream[3] = stream[0].clone()
    stream[3][0, 0] = 40  # a click: the mean stays below the level
    stream.insert(2, stream[1])  # as loud as the level
    level = torch.ones(())
    assert isinstance(answer, type), "hand on the class, not a module that it made"
    model = answer()
    try:
        with silence(), quiet_stderr():
            program = export(model, (stream[0], level))
            run = _onnx(program)
    except GuardOnDataDependentSymNode as error:
        return f"it can't be exported. {str(error).splitlines()[0]}"
    except torch.onnx.OnnxExporterError as error:
        return f"torch.onnx can't store it: {[*causes(error)][-1]}"
    written = program.run_decompositions().graph_signature
    if written.buffers_to_mutate or written.user_inputs_to_mutate:
        return "it writes into an input or a buffer"
    if [*model.buffers()]:
        return "it has a buffer, and is to keep nothing: a constant is a plain number"
    before = str(vars(model))
    found = model(stream[0], level)
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        return "two results were asked for: the answer, and the new level"
    if str(vars(model)) != before:
        return "it keeps something in self"
    for turn, (x, (right, right_level)) in enumerate(
        zip(stream, _reference(stream), strict=True), 1
    ):
        result, level = run(x, level)
        if level.shape:
            return f"the level has the shape {list(level.shape)}, and is a number: []"
        if not near(level, right_level, 1e-4):
            return f"at input {turn}, the file's level is wrong"
        if not near(result, right, 1e-4):
            return f"the answer to input {turn} is wrong"
    return None
