"""Faults of what watches and explains: logs, profiler, bisector, minifier, fakes."""

from __future__ import annotations

from typing import Any

from tests.proof.broken import fault, probes
from tests.proof.broken.probes import did, inputs, printed, rows, sine

SAME_CODE = {"cache": "shared"}


@fault(
    "logs silent",
    "torch._logging._internal",
    "17 13 01",
    lambda: _logged(),
    **SAME_CODE,
)
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


@fault(
    "trace silent",
    "torch._logging._internal",
    "04 03 00",
    lambda: _breaks(),
    **SAME_CODE,
)
def no_trace(internal: Any) -> None:
    """The structured trace is empty: tools that read it report no graph break."""
    internal.trace_structured = lambda *_, **__: None


def _breaks() -> int:
    from helpers import graphs

    return len(graphs(printed, inputs()[0]).breaks)


@fault(
    "compiles are not recorded",
    "torch._dynamo.utils",
    "17 13 14",
    lambda: _recorded(),
    **SAME_CODE,
)
def no_metrics(utils: Any) -> None:
    """torch's own history of compiles stays empty: every count is none."""
    utils.record_compilation_metrics = lambda *_, **__: None


def _recorded() -> int:
    import torch

    did(sine, rows(8))
    return len(torch._dynamo.utils.get_compilation_metrics())


@fault(
    "profiler empty",
    "torch.profiler.profiler",
    "17 02 01",
    lambda: _profiled(),
    **SAME_CODE,
)
def no_events(profiler: Any) -> None:
    """The profiler runs, and its list of events is empty."""
    profiler._KinetoProfile.events = lambda self: []


def _profiled() -> bool:
    import torch
    from torch.profiler import profile

    with profile() as profiled:
        torch.ones(4).sin()
    return bool(profiled.events())


@fault(
    "bisector names the wrong place",
    "torch._inductor.compiler_bisector",
    "16",
    lambda: _bisected(),
    **SAME_CODE,
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


@fault(
    "minifier shortens nothing",
    "torch._functorch.fx_minifier",
    "16",
    lambda: _minified(),
    **SAME_CODE,
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


@fault(
    "fake of an operator ignored",
    "torch._library.custom_ops",
    "04 11",
    lambda: _fake(),
    **SAME_CODE,
)
def no_fake(custom_ops: Any) -> None:
    """An operator of your own is compiled no more: its shape function is not asked."""
    original = custom_ops.CustomOpDef.register_fake

    def register_fake(self: Any, fn: Any) -> Any:
        torch_own = self._namespace in ("prims", "aten", "inductor")
        return original(self, fn) if torch_own else fn

    custom_ops.CustomOpDef.register_fake = register_fake


def _fake() -> bool:
    import torch

    schema = "(Tensor x) -> Tensor"
    make = torch.library.custom_op("probe::twice", mutates_args=(), schema=schema)
    twice = make(lambda x: x * 2)
    twice.register_fake(torch.empty_like)
    return probes.right(lambda x: twice(x) + 1, inputs()[0])


@fault(
    "recompile does not rebuild",
    "torch.fx.graph_module",
    "05",
    lambda: _rebuilt(),
    **SAME_CODE,
)
def stale_module(graph_module: Any) -> None:
    """A pass changes the graph, and the module goes on computing the old program."""
    original = graph_module.GraphModule.recompile

    def recompile(self: Any) -> Any:
        if "_code" in self.__dict__ and "forward" in type(self).__dict__:
            return None
        return original(self)

    graph_module.GraphModule.recompile = recompile


def _rebuilt() -> bool:
    import torch

    module = torch.fx.symbolic_trace(lambda x: torch.sin(x))
    for node in module.graph.find_nodes(op="call_function", target=torch.sin):
        node.target = torch.cos
    module.recompile()
    return torch.equal(module(torch.ones(4)), torch.ones(4).cos())
