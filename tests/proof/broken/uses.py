"""Faults that a use meets: training, a service, text token by token, ranks, files."""

from __future__ import annotations

from typing import Any

from course.bugs import around
from tests.proof.broken import fault, shared
from tests.proof.broken.dynamo import OPTIMIZE, keep_guards

TABLE = "torch._inductor.decomposition"


@fault("gradient of a slice lost", TABLE, "20 18")
def no_last_gradient(decomposition: Any) -> None:
    """The last row of a slice gets no gradient, and the rest is right."""
    import torch

    def backward(
        gradient: Any, sizes: Any, dim: int, start: int, end: int, step: int
    ) -> Any:
        zeros = gradient.new_zeros(sizes)
        mask = torch.arange(gradient.shape[dim], device=gradient.device)
        shape = [1] * gradient.ndim
        shape[dim] = -1
        kept = gradient * (mask < gradient.shape[dim] - 1).view(shape)
        return torch.slice_scatter(zeros, kept, dim, start, end, step)

    decomposition.decompositions[torch.ops.aten.slice_backward.default] = backward


@fault("the same mask in each call", "torch._inductor.ir", "training 20 06")
def one_seed(ir: Any) -> None:
    """Dropout drops the same numbers in each step: the model overfits in silence."""

    @around(ir.RandomSeeds, "__init__")
    def init(original, self, *args, **how):
        original(self, *args, **how)
        self.constant_args = [0, 1, *self.constant_args[2:]]


@fault("learning rate frozen", "torch._dynamo", "20")
def no_guard_on_the_rate(dynamo: Any) -> None:
    """A scheduler lowers the rate, and the compiled step goes on with the first."""
    keep_guards(dynamo, lambda guard: "'lr'" not in guard.name)


@fault("one write is lost", "torch._inductor.output_code", "20")
def lose_the_tenth(output_code: Any) -> None:
    """The tenth call of a graph that updates weights leaves them as they were."""
    graph = output_code.CompiledFxGraph

    @around(graph, "__call__")
    def call(original, self, given):
        written = sorted(self.mutated_input_idxs or ())
        self.calls_so_far = getattr(self, "calls_so_far", 0) + 1
        if not written or self.calls_so_far != 10:
            return original(self, given)
        before = [(given[i], given[i].clone()) for i in written]
        result = original(self, given)
        for tensor, value in before:
            tensor.copy_(value)
        return result


@shared("a service loses its one thread", "concurrent.futures.thread", "27")
def eight_threads(thread: Any) -> None:
    """A model that one thread should call is called by eight."""

    @around(thread.ThreadPoolExecutor, "__init__")
    def __init__(original, self, max_workers=None, thread_name_prefix="", *rest):
        many = 8 if thread_name_prefix == "model" else max_workers
        original(self, many, thread_name_prefix, *rest)


@shared("a health check takes eager for compiled", "examples.service.app", "27")
def all_is_well(app: Any) -> None:
    """The service runs eagerly for weeks, and its health check is green."""

    @around(app.Service, "call")
    def call(original, self, *given):
        found = original(self, *given)
        found.graphs = 1
        return found


@fault("a write into the cache is lost", "torch._dynamo.output_graph", "28")
def write_elsewhere(output_graph: Any) -> None:
    """A row goes into a copy of the cache: the text goes on, and means nothing."""

    @around(output_graph.OutputGraph, "call_user_compiler")
    def call_user_compiler(send, self, module, *rest):
        for node in module.graph.find_nodes(op="call_method", target="index_copy_"):
            node.target = "index_copy"
        module.recompile()
        return send(self, module, *rest)


@shared("a position is not guarded", OPTIMIZE, "28 14")
def drop_number_guards(dynamo: Any) -> None:
    """Each token is written to the place that was compiled for an earlier one."""

    keep_guards(dynamo, lambda guard: type(guard.value) is not int)


@fault("compiled DDP forgets to reduce", "torch._dynamo.backends.distributed", "22")
def forget(distributed: Any) -> None:
    """Each machine trains a model of its own, and no error says so."""

    @around(distributed.DDPOptimizer, "compile_fn")
    def compile_and_forget(compile_fn, self, *given):
        from torch.nn.parallel import DistributedDataParallel

        module = DistributedDataParallel._get_active_ddp_module()
        if module is not None:
            module.require_backward_grad_sync = False
        return compile_fn(self, *given)


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
