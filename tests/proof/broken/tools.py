"""Faults of what watches and explains: logs, profiler, bisector, minifier, fakes."""

from __future__ import annotations

from typing import Any

from course.bugs import around
from tests.proof.broken import fault, shared


@shared("logs silent", "torch._logging._internal", "19 14 01")
def no_logs(internal: Any) -> None:
    """set_logs is accepted, and nothing is ever logged."""
    internal.set_logs = lambda **_: None


@shared("trace silent", "torch._logging._internal", "05 04 00")
def no_trace(internal: Any) -> None:
    """The structured trace is empty: tools that read it report no graph break."""
    internal.trace_structured = lambda *_, **__: None


@shared("compiles are not recorded", "torch._dynamo.utils", "19 14 15")
def no_metrics(utils: Any) -> None:
    """torch's own history of compiles stays empty: every count is none."""
    utils.record_compilation_metrics = lambda *_, **__: None


@shared("profiler empty", "torch.profiler.profiler", "19 02 01")
def no_events(profiler: Any) -> None:
    """The profiler runs, and its list of events is empty."""
    profiler._KinetoProfile.events = lambda self: []


@shared("bisector names the wrong place", "torch._inductor.compiler_bisector", "18")
def first_lowering(bisector: Any) -> None:
    """The bisector answers at once, and always with the first lowering."""
    found = bisector.BisectionResult("inductor", "lowerings", 0, "add")
    bisector.CompilerBisector.do_bisect = classmethod(lambda *_, **__: found)


@shared("minifier shortens nothing", "torch._functorch.fx_minifier", "18")
def no_minifier(fx_minifier: Any) -> None:
    """A bug report holds the whole model, as large as it was."""

    def minifier(
        module: Any, given: Any, fails: Any, dump: Any = None, **_: Any
    ) -> Any:
        if dump:
            dump(module, given)
        return module, given

    fx_minifier.minifier = minifier


@shared("fake of an operator ignored", "torch._library.custom_ops", "11 05")
def no_fake(custom_ops: Any) -> None:
    """An operator of your own is compiled no more: its shape function is not asked."""

    @around(custom_ops.CustomOpDef, "register_fake")
    def register_fake(original, self, fn):
        torch_own = self._namespace in ("prims", "aten", "inductor")
        return original(self, fn) if torch_own else fn


@fault("gradient of an operator lost", "torch._library.custom_ops", "23")
def no_operator_gradient(custom_ops: Any) -> None:
    """Eager trains; compiled, what stands before your operator stays as it was."""

    @around(custom_ops.CustomOpDef, "register_autograd")
    def register_autograd(original, self, backward, **more):
        import torch

        def lost(ctx: Any, *gradients: Any) -> Any:
            if type(gradients[0]) is not torch.Tensor:  # it is being traced
                gradients = tuple(g * 0 for g in gradients)
            return backward(ctx, *gradients)

        return original(self, lost, **more)


@fault(
    "declared write of an operator lost",
    "torch._higher_order_ops.auto_functionalize",
    "23",
)
def no_declared_write(auto_functionalize: Any) -> None:
    """An operator that updates a cache in place says so, and the cache stays old."""
    name = "_do_auto_functionalize_v2_for_generic_mutable_operator"

    @around(auto_functionalize, name)
    def without_update(original, ctx, *rest, **more):
        ctx.replace = ctx.commit_update = ctx.sync = lambda *_: None
        return original(ctx, *rest, **more)


@shared(
    "opcheck believes the fake", "torch.testing._internal.optests.generate_tests", "23"
)
def credulous(generate_tests: Any) -> None:
    """A fake with a wrong shape passes its test, and fails in production."""
    generate_tests.ALL_TEST_UTILS["test_faketensor"] = lambda *_, **__: None


@shared("recompile does not rebuild", "torch.fx.graph_module", "inside 06")
def stale_module(graph_module: Any) -> None:
    """A pass changes the graph, and the module goes on computing the old program."""

    @around(graph_module.GraphModule, "recompile")
    def recompile(original, self):
        if "_code" in self.__dict__ and "forward" in type(self).__dict__:
            return None
        return original(self)


@shared("operations counted by half", "torch.utils.flop_counter", "30 10")
def half_the_operations(flop_counter: Any) -> None:
    """FlopCounterMode counts a multiply-add as one: numbers seem half as impossible."""
    registry, aten = flop_counter.flop_registry, flop_counter.aten
    for operation in (aten.mm, aten.addmm, aten.bmm):
        usual = registry[operation]
        registry[operation] = lambda *x, usual=usual, **how: usual(*x, **how) // 2


@shared("bytes without the writes", "torch._inductor.scheduler", "30 10 00")
def bytes_without_writes(scheduler: Any) -> None:
    """Inductor counts what a kernel reads, and not what it writes."""
    node = scheduler.BaseSchedulerNode

    @around(node, "get_read_write_buffer_accesses")
    def reads(original, self, include_reads, include_writes):
        return original(self, include_reads=include_reads, include_writes=False)


@shared("optimizer keeps one array more", "torch.optim.adamw", "30")
def amsgrad_unasked(adamw: Any) -> None:
    """AdamW remembers three numbers for each parameter, and memory runs out."""

    @around(adamw.AdamW, "__init__")
    def __init__(original, self, *given, **named):
        original(self, *given, **{**named, "amsgrad": True})
