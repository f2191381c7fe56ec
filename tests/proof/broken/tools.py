"""Faults of what watches and explains: logs, profiler, bisector, minifier, fakes."""

from __future__ import annotations

from typing import Any

from tests.proof.broken import around, fault, probes, setting, shared
from tests.proof.broken.probes import did, inputs, printed, rows, sine


@shared("logs silent", "torch._logging._internal", "17 13 01", lambda: _logged())
def no_logs(internal: Any) -> None:
    """set_logs is accepted, and nothing is ever logged."""
    internal.set_logs = lambda **_: None


def _logged() -> bool:
    import contextlib
    import io

    import torch

    out = io.StringIO()
    with contextlib.redirect_stderr(out):
        torch._logging.set_logs()
        torch._logging.set_logs(recompiles=True)
        did(sine, rows(8, 6))
    return "size mismatch" in out.getvalue()


@shared("trace silent", "torch._logging._internal", "04 03 00", lambda: _breaks())
def no_trace(internal: Any) -> None:
    """The structured trace is empty: tools that read it report no graph break."""
    internal.trace_structured = lambda *_, **__: None


def _breaks() -> int:
    from helpers import graphs

    return len(graphs(printed, inputs()[0]).breaks)


@shared(
    "compiles are not recorded", "torch._dynamo.utils", "17 13 14", lambda: _recorded()
)
def no_metrics(utils: Any) -> None:
    """torch's own history of compiles stays empty: every count is none."""
    utils.record_compilation_metrics = lambda *_, **__: None


def _recorded() -> int:
    import torch

    did(sine, rows(8))
    return len(torch._dynamo.utils.get_compilation_metrics())


@shared("profiler empty", "torch.profiler.profiler", "17 02 01", lambda: _profiled())
def no_events(profiler: Any) -> None:
    """The profiler runs, and its list of events is empty."""
    profiler._KinetoProfile.events = lambda self: []


def _profiled() -> bool:
    import torch
    from torch.profiler import profile

    with profile() as profiled:
        torch.ones(4).sin()
    return bool(profiled.events())


@shared(
    "bisector names the wrong place",
    "torch._inductor.compiler_bisector",
    "16",
    lambda: _bisected(),
)
def first_lowering(bisector: Any) -> None:
    """The bisector answers at once, and always with the first lowering."""
    found = bisector.BisectionResult("inductor", "lowerings", 0, "add")
    bisector.CompilerBisector.do_bisect = classmethod(lambda *_, **__: found)


def _bisected() -> Any:
    import contextlib
    import io

    from torch._inductor.compiler_bisector import CompilerBisector

    with contextlib.redirect_stdout(io.StringIO()):
        return CompilerBisector.do_bisect(lambda: True)


@shared(
    "minifier shortens nothing",
    "torch._functorch.fx_minifier",
    "16",
    lambda: _minified(),
)
def no_minifier(fx_minifier: Any) -> None:
    """A bug report holds the whole model, as large as it was."""

    def minifier(
        module: Any, given: Any, fails: Any, dump: Any = None, **_: Any
    ) -> Any:
        if dump:
            dump(module, given)
        return module, given

    fx_minifier.minifier = minifier


def _minified() -> int:
    import contextlib
    import io
    import tempfile

    import torch
    from functorch.compile import minifier

    out = io.StringIO()
    graph = torch.fx.symbolic_trace(lambda x: x.sin().relu().cos().exp())

    def fails(module: Any, _: Any) -> bool:
        return "relu" in module.code

    folder = tempfile.TemporaryDirectory()  # it leaves what it found
    with folder as here, contextlib.chdir(here), contextlib.redirect_stdout(out):
        small, _ = minifier(graph, (torch.ones(4),), fails, lambda *_: None)
    return len(small.graph.nodes)


@shared(
    "fake of an operator ignored", "torch._library.custom_ops", "04 11", lambda: _fake()
)
def no_fake(custom_ops: Any) -> None:
    """An operator of your own is compiled no more: its shape function is not asked."""

    @around(custom_ops.CustomOpDef, "register_fake")
    def register_fake(original, self, fn):
        torch_own = self._namespace in ("prims", "aten", "inductor")
        return original(self, fn) if torch_own else fn


def operator(function: Any, fake: Any) -> Any:
    """Return an operator of your own, which makes a tensor of a tensor."""
    import torch

    schema = "(Tensor x) -> Tensor"
    make = torch.library.custom_op("probe::own", mutates_args=(), schema=schema)
    made = make(function)
    made.register_fake(fake)
    return made


def _fake() -> bool:
    import torch

    twice = operator(lambda x: x * 2, torch.empty_like)
    return probes.right(lambda x: twice(x) + 1, inputs()[0])


@fault(
    "gradient of an operator lost",
    "torch._library.custom_ops",
    "24",
    lambda: _gradient_of_operator(),
)
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


def _gradient_of_operator() -> float:
    import torch

    twice = operator(lambda x: x * 2, torch.empty_like)
    twice.register_autograd(lambda ctx, gradient: gradient * 2)
    x = torch.ones(4, requires_grad=True)
    torch.compile(lambda x: twice(x) + 1)(x).sum().backward()
    return float(x.grad.sum())


@fault(
    "declared write of an operator lost",
    "torch._higher_order_ops.auto_functionalize",
    "24",
    lambda: _declared_write(),
)
def no_declared_write(auto_functionalize: Any) -> None:
    """An operator that updates a cache in place says so, and the cache stays old."""
    name = "_do_auto_functionalize_v2_for_generic_mutable_operator"
    original = getattr(auto_functionalize, name)

    def without_update(ctx: Any, *rest: Any, **more: Any) -> Any:
        ctx.replace = ctx.commit_update = ctx.sync = lambda *_: None
        return original(ctx, *rest, **more)

    setattr(auto_functionalize, name, without_update)


def _declared_write() -> float:
    import torch

    schema = "(Tensor(a!) x) -> ()"
    make = torch.library.custom_op("probe::write", mutates_args=("x",), schema=schema)
    write = make(_add_one)
    write.register_fake(lambda x: None)

    def step(x: Any) -> Any:
        write(x)
        return x * 2

    x = torch.zeros(4)
    return float(torch.compile(step)(x).sum() + x.sum())


def _add_one(x: Any) -> None:
    x.add_(1)


@shared(
    "opcheck believes the fake",
    "torch.testing._internal.optests.generate_tests",
    "24",
    lambda: _fake_is_checked(),
)
def credulous(generate_tests: Any) -> None:
    """A fake with a wrong shape passes its test, and fails in production."""
    generate_tests.ALL_TEST_UTILS["test_faketensor"] = lambda *_, **__: None


def _fake_is_checked() -> str:
    import torch

    twice = operator(lambda x: x * 2, lambda x: x.new_empty(1))
    given = (torch.ones(4),)
    return str(torch.library.opcheck(twice, given, raise_exception=False))[:200]


setting(
    "strides of an operator unchecked",
    "torch._inductor.config",
    {"size_asserts": False},
    "24",
    lambda: _strides_are_checked(),
    "A fake with wrong strides is believed, and memory is read in the wrong order.",
)


def _strides_are_checked() -> bool:
    import torch

    rows = operator(lambda x: (x * 2).contiguous(), torch.empty_like)
    try:
        torch.compile(lambda x: rows(x) + 1)(torch.ones(4, 3).t())
    except AssertionError:
        return True
    return False


@shared("recompile does not rebuild", "torch.fx.graph_module", "05", lambda: _rebuilt())
def stale_module(graph_module: Any) -> None:
    """A pass changes the graph, and the module goes on computing the old program."""

    @around(graph_module.GraphModule, "recompile")
    def recompile(original, self):
        if "_code" in self.__dict__ and "forward" in type(self).__dict__:
            return None
        return original(self)


def _rebuilt() -> bool:
    import torch

    module = torch.fx.symbolic_trace(lambda x: torch.sin(x))
    for node in module.graph.find_nodes(op="call_function", target=torch.sin):
        node.target = torch.cos
    module.recompile()
    return torch.equal(module(torch.ones(4)), torch.ones(4).cos())


@shared(
    "operations counted by half",
    "torch.utils.flop_counter",
    "32 10",
    lambda: _operations(),
)
def half_the_operations(flop_counter: Any) -> None:
    """FlopCounterMode counts a multiply-add as one: numbers seem half as impossible."""
    for name in ("mm", "addmm", "bmm"):
        operation = getattr(flop_counter.aten, name)
        original = flop_counter.flop_registry[operation]
        flop_counter.flop_registry[operation] = _half(original)


def _half(original: Any) -> Any:
    return lambda *given, **named: original(*given, **named) // 2


def _operations() -> int:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        torch.ones(4, 4) @ torch.ones(4, 4)
    return counter.get_total_flops()


@shared(
    "bytes without the writes",
    "torch._inductor.scheduler",
    "32 10 00",
    lambda: _bytes(),
)
def bytes_without_writes(scheduler: Any) -> None:
    """Inductor counts what a kernel reads, and not what it writes."""
    node = scheduler.BaseSchedulerNode

    @around(node, "get_read_write_buffers_sizes_impl")
    def reads(original, self, include_reads, include_writes):
        return original(self, include_reads=include_reads, include_writes=False)


def _bytes() -> int:
    import torch

    from helpers import kernels

    return kernels(sine, torch.ones(64)).bytes


@shared("optimizer keeps one array more", "torch.optim.adamw", "32", lambda: _states())
def amsgrad_unasked(adamw: Any) -> None:
    """AdamW remembers three numbers for each parameter, and memory runs out."""

    @around(adamw.AdamW, "__init__")
    def __init__(original, self, *given, **named):
        original(self, *given, **{**named, "amsgrad": True})


def _states() -> int:
    import torch

    weight = torch.ones(3, requires_grad=True)
    weight.grad = torch.ones(3)
    optimizer = torch.optim.AdamW([weight])
    optimizer.step()
    return len(optimizer.state[weight])
