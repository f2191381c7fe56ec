"""Faults of the ways out of Python: what an exported program and its files lose."""

from __future__ import annotations

from typing import Any

from tests.proof.broken import around, fault


@fault("export forgets a declared size", "torch.export", "26")
def no_declared_sizes(module: Any) -> None:
    """A program exported for any number of rows has the example's rows inside."""
    original, program = module.export, module.ExportedProgram
    guarded = program.module

    def export(*given: Any, dynamic_shapes: Any = None, **how: Any) -> Any:
        return original(*given, **how)

    def unguarded(self: Any, check_guards: bool = True) -> Any:
        return guarded(self, check_guards=False)

    module.export, program.module = export, unguarded


@fault("export forgets the write of a buffer", "torch.export", "26")
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


@fault("ONNX bakes in another constant", "torch.onnx", "26")
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
