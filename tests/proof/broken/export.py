"""Faults of the ways out of Python: what an exported program and its files lose."""

from __future__ import annotations

from typing import Any

from tests.proof.broken import around, fault


def _exported() -> Any:
    """Return the program of a small model that counts, with declared rows."""
    import torch
    from torch.export import Dim, export

    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x: Any) -> Any:
            self.seen.add_(x.shape[0])
            return torch.where(x > 3, x, -x), self.seen.clone()

    sizes = {"x": {0: Dim("rows")}}
    return export(Counts(), (torch.ones(8, 4),), dynamic_shapes=sizes)


@fault(
    "export forgets a declared size",
    "torch.export",
    "26",
    lambda: len(_exported().range_constraints),
)
def no_declared_sizes(module: Any) -> None:
    """A program exported for any number of rows has the example's rows inside."""
    original, program = module.export, module.ExportedProgram
    guarded = program.module

    def export(*given: Any, dynamic_shapes: Any = None, **how: Any) -> Any:
        return original(*given, **how)

    def unguarded(self: Any, check_guards: bool = True) -> Any:
        return guarded(self, check_guards=False)

    module.export, program.module = export, unguarded


@fault("export forgets the write of a buffer", "torch.export", "26", lambda: _counted())
def no_writes(module: Any) -> None:
    """A counter in the model stands still once it was exported."""

    @around(module, "export")
    def export(original, *given, **how):
        import torch

        program = original(*given, **how)
        for node in program.graph.nodes:
            if node.target is torch.ops.aten.add_.Tensor:
                node.target = torch.ops.aten.add.Tensor
        program.graph_module.recompile()
        return program


def _counted() -> float:
    """Return what a program has counted after two calls."""
    import torch

    run = _exported().module()
    run(torch.ones(8, 4))
    return run(torch.ones(8, 4))[1].item()


@fault("ONNX bakes in another constant", "torch.onnx", "26", lambda: _from_onnx())
def other_constants(module: Any) -> None:
    """A threshold in the model is another one in the file."""

    @around(module, "export")
    def export(original, *given, **how):
        import onnx_ir

        program = original(*given, **how)
        for value in program.model.graph.initializers.values():
            known = value.const_value.numpy()
            if known.ndim == 0 and known == 3:
                value.const_value = onnx_ir.tensor(known * 10)
        return program


def _from_onnx() -> float:
    """Return what onnxruntime gives for a value above the threshold."""
    import io

    import numpy
    import onnxruntime
    import torch

    file = io.BytesIO()
    program = torch.onnx.export(_exported(), dynamo=True, verbose=False)
    program.save(file)
    session = onnxruntime.InferenceSession(file.getvalue())
    x = numpy.full((2, 4), 7, "float32")
    return float(session.run(None, {"x": x})[0].sum())
