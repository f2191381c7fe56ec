"""Faults of Dynamo: what is captured, what is guarded, and when it compiles again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tests.proof.broken import around, fault, probes, setting, shared, variable
from tests.proof.broken.probes import block, did, inputs, printed, rows, sine

OPTIMIZE, CONFIG = "torch._dynamo", "torch._dynamo.config"


def sizes(*given: int, **how: Any) -> Callable[[], list[str]]:
    """Return a probe: what is done for each size."""
    return lambda: did(sine, rows(*given), **how)


def optimize_with(dynamo: Any, **forced: Any) -> None:
    """Make every compile go with these arguments, whatever was asked."""
    original = dynamo.optimize

    def optimize(*args: Any, **how: Any) -> Any:
        return original(*args, **{**how, **forced})

    dynamo.optimize = functools.wraps(original)(optimize)


variable(
    "compiler switched off",
    {"TORCH_COMPILE_DISABLE": "1"},
    "01 00 17",
    sizes(4, 4),
    "A variable left in the shell turns torch.compile into nothing.",
    cache="shared",
)


@shared("default backend runs eagerly", "torch", "00 07 01", lambda: _kernels())
def hand_back(torch: Any) -> None:
    """The graph is captured and then run as it is: no kernel is ever generated."""
    torch._TorchCompileInductorWrapper.__call__ = lambda self, graph, given, **_: graph


def _kernels() -> int:
    from torch._inductor import metrics

    probes.right()
    return metrics.generated_kernel_count


@fault("graph break injected", OPTIMIZE, "00 18", lambda: _graphs())
def cannot_take_rsqrt(dynamo: Any) -> None:
    """An update makes a common function untraceable: the model falls into pieces."""
    import torch

    dynamo.disallow_in_graph(torch.rsqrt)


def _graphs() -> int:
    from helpers import graphs

    return graphs(block, *inputs()).count


setting(
    "automatic dynamic shapes off",
    CONFIG,
    {"automatic_dynamic_shapes": False},
    "13 14 15 29",
    sizes(8, 6, 5, 4),
    "Each new batch size compiles again, until the limit is reached.",
    cache="shared",
)
setting(
    "every size dynamic",
    CONFIG,
    {"assume_static_by_default": False},
    "13 14",
    lambda: "s77" in probes.code(),
    "Kernels are written for any size, and are slower for the one size there is.",
)
setting(
    "recompile limit of one",
    CONFIG,
    {"recompile_limit": 1},
    "13 14 17",
    sizes(8, 6, 8),
    "From the second kind of input on, the model runs eagerly, in silence.",
    cache="shared",
)


@shared("guards skipped", OPTIMIZE, "13 03 14 18", sizes(8, 6))
def drop_all_guards(dynamo: Any) -> None:
    """A compiled function is used for inputs that it was not compiled for."""
    optimize_with(dynamo, guard_filter_fn=lambda guards: [False] * len(guards))


@shared("module guards skipped", OPTIMIZE, "03 13", lambda: _scale())
def drop_module_guards(dynamo: Any) -> None:
    """A changed attribute of the model is not noticed: the old value is used."""
    import torch

    keep = torch.compiler.skip_guard_on_all_nn_modules_unsafe
    optimize_with(dynamo, guard_filter_fn=keep)


def _scale() -> list[str]:
    import torch

    class Scaled(torch.nn.Module):
        scale = 1.0

        def forward(self, x: Any) -> Any:
            return x * self.scale

    model = Scaled()

    def call(scale: float) -> float:
        model.scale = scale
        return float(torch.compile(model, backend="eager")(torch.ones(4)).mean())

    return [str(call(scale)) for scale in (1.0, 2.0)]


@shared("fullgraph ignored", OPTIMIZE, "01 04 18 15", lambda: _full())
def not_full(dynamo: Any) -> None:
    """fullgraph=True no longer raises: graph breaks come back unnoticed."""
    optimize_with(dynamo, nopython=False)


def _full() -> list[str]:
    return did(printed, rows(4), fullgraph=True)


@shared("dynamic= ignored", OPTIMIZE, "13 14 15", sizes(8, 6, 5, dynamic=True))
def not_dynamic(dynamo: Any) -> None:
    """dynamic=True and dynamic=False do what the default does."""
    optimize_with(dynamo, dynamic=None)


@fault(
    "constant changed on the way",
    "torch._dynamo.output_graph",
    "00 05 02 07 16",
    probes.right,
)
def other_eps(output_graph: Any) -> None:
    """A constant of the model is another one in the graph: answers are a bit off."""

    @around(output_graph.OutputGraph, "call_user_compiler")
    def call_user_compiler(send, self, module, *rest):
        for node in module.graph.nodes:
            node.args = tuple(0.1 if arg == 1e-6 else arg for arg in node.args)
        module.recompile()
        return send(self, module, *rest)


@shared("stance ignored", "torch.compiler", "01 14 17 22 16 13 27", lambda: _stance())
def no_stance(compiler: Any) -> None:
    """A service set to fail on recompiles recompiles in the middle of the day."""
    original = compiler.set_stance
    compiler.set_stance = lambda *_, **__: original("default")


def _stance() -> list[str]:
    import torch

    with torch.compiler.set_stance("force_eager"):
        return did(sine, rows(4, 4))


@shared(
    "a forbidden compile happens", "torch.compiler", "22 14 17 27", lambda: _forbidden()
)
def no_ban(compiler: Any) -> None:
    """A gate with fail_on_recompile lets everything pass, and compiles."""

    @around(compiler, "set_stance")
    def set_stance(original, stance="default", *rest, **how):
        banned = stance == "fail_on_recompile"
        return original("default" if banned else stance, *rest, **how)


def _forbidden() -> list[str]:
    import torch

    with torch.compiler.set_stance("fail_on_recompile"):
        return did(sine, rows(4))


@shared("blocks share no version", "torch.nn.modules.module", "22", lambda: _shared())
def compile_alone(module: Any) -> None:
    """Each of many equal blocks compiles for itself: a deep model starts slowly."""

    @around(module.Module, "compile")
    def compile(original, self, *given, **how):
        original(self, *given, **{**how, "isolate_recompiles": True})


def _shared() -> int:
    import torch

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4))

        def forward(self, x: Any) -> Any:
            return x * self.weight

    built: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        built.append(graph)
        return graph

    for _ in range(3):
        block = Block()
        block.compile(backend=backend)
        with torch.no_grad():
            block(torch.ones(4))
    return len(built)


@shared("a repeated region is written out", "torch.compiler", "22", lambda: _region())
def no_region(compiler: Any) -> None:
    """A model with a region for its layers compiles as long as one without."""
    compiler.nested_compile_region = lambda fn=None, **_: fn or (lambda each: each)


def _region() -> int:
    import torch

    region, seen = torch.compiler.nested_compile_region(sine), []
    torch.compile(
        lambda x: region(region(x)), backend=lambda g, _: seen.append(g) or g
    )(torch.ones(4))
    return len(list(seen[0].children()))


DECORATORS = "torch._dynamo.decorators"


@shared("mark_dynamic ignored", DECORATORS, "14", lambda: _marked())
def no_mark(decorators: Any) -> None:
    """A dimension that was promised to change is compiled for one size."""
    decorators.mark_dynamic = lambda *_, **__: None


def _marked() -> list[str]:
    import torch

    calls = rows(8, 6)
    torch._dynamo.mark_dynamic(calls[0][0], 0)
    return did(sine, calls)


@shared(
    "in-place compile a no-op", "torch.nn.modules.module", "01", lambda: _in_place()
)
def compile_nothing(module: Any) -> None:
    """module.compile() returns, and the module stays eager."""
    module.Module.compile = lambda self, *_, **__: None


def _in_place() -> int:
    import torch

    class Model(torch.nn.Module):  # one of torch's own is compiled from 2.14 on
        forward = staticmethod(sine)

    seen, model = [], Model()
    model.compile(backend=lambda graph, _: seen.append(graph) or graph)
    model(torch.ones(4))
    return len(seen)


@shared("disable ignored", "torch.compiler", "01 04 17", lambda: _disabled())
def not_disabled(compiler: Any) -> None:
    """What was to stay out of the graph is traced all the same."""
    compiler.disable = lambda fn=None, *_, **__: fn or (lambda each: each)


def _disabled() -> list[str]:
    import torch

    hidden = torch.compiler.disable(sine)
    return did(lambda x: hidden(x), rows(4, 4))


@shared("reset forgets nothing", "torch.compiler", "17 01 03", lambda: _reset())
def no_reset(compiler: Any) -> None:
    """After reset(), the old code still answers."""
    compiler.reset = lambda: None


def _reset() -> list[list[str]]:
    import torch

    first = did(sine, rows(8, 6, 5, 4), dynamic=False)
    torch.compiler.reset()
    return [first, did(sine, rows(8, 6, 5, 4))]


@shared("why it recompiled is lost", "torch._dynamo.guards", "13 14", lambda: _why())
def no_reasons(guards: Any) -> None:
    """A recompile is counted, but nothing says which guard failed."""
    guards.get_and_maybe_log_recompilation_reasons = lambda *_, **__: []


def _why() -> Any:
    import torch

    did(sine, rows(8, 6))
    return torch._dynamo.utils.get_compilation_metrics()[-1].recompile_reason


@shared(
    "the limit is hit in silence", "torch._dynamo.convert_frame", "13", lambda: _limit()
)
def silent_limit(convert_frame: Any) -> None:
    """The recompile limit is reached, and no line in the log says so."""
    convert_frame.log.warning = lambda *_, **__: None


def _limit() -> int:
    import logging

    seen: list[str] = []
    frames = logging.getLogger("torch._dynamo.convert_frame")
    frames.addFilter(lambda record: seen.append(record.getMessage()))
    did(sine, rows(*range(2, 14)), dynamic=False)
    return len(seen)


setting(
    "numbers are compiled in",
    CONFIG,
    {"specialize_int": True},
    "13 29",
    lambda: did(lambda x, n: x * n, [(rows(4)[0][0], n) for n in (3, 4, 5)]),
    "A counter or a length compiles again each time that it changes.",
    cache="shared",
)


HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")


@shared(
    "hooks are dropped", "torch._dynamo.variables.nn_module", "20 03", lambda: _hooked()
)
def without_hooks(nn_module: Any) -> None:
    """A hook watches a layer in eager, and never runs once the model is compiled."""
    variable = nn_module.UnspecializedNNModuleVariable

    @around(variable, "call_function")
    def call_function(call, self, *given):
        own = vars(self.value)
        before = {name: own[name] for name in HOOKS}
        own.update({name: type(hooks)() for name, hooks in before.items()})
        try:
            return call(self, *given)
        finally:
            own.update(before)


def _hooked() -> float:
    import torch

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Identity()

        def forward(self, x: Any) -> Any:
            return self.layer(x) + 1

    model = Model()
    model.layer.register_forward_hook(lambda *call: call[-1] * 3)
    return float(torch.compile(model, backend="eager")(torch.ones(1)))


@fault(
    "autocast is ignored",
    "torch._dynamo.variables.ctx_manager",
    "21 18",
    lambda: _casts(),
)
def no_autocast(ctx_manager: Any) -> None:
    """Mixed precision is switched on, and compiled code goes on in float32."""

    @around(ctx_manager.AutocastModeVariable, "enter")
    def disabled(enter, self, tx):
        device, dtype, _, *cache = self.target_values
        self.target_values = [device, dtype, False, *cache]
        return enter(self, tx)


def _casts() -> str:
    import torch

    def cast(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return x @ x

    return str(torch.compile(cast, backend="eager")(torch.ones(4, 4)).dtype)


@shared("keywords are not guarded", OPTIMIZE, "28", lambda: _masked())
def any_keywords(dynamo: Any) -> None:
    """A mask that comes in a later call is ignored: the version without it runs."""

    def kept(guard: Any) -> bool:
        on_keys = guard.guard_type.startswith(("DICT", "SEQUENCE"))
        return not (on_keys and "kwargs" in str(guard.name))

    optimize_with(dynamo, guard_filter_fn=lambda guards: list(map(kept, guards)))


def _masked() -> float:
    import torch

    def sum_of(**kwargs: Any) -> Any:
        x, mask = kwargs["x"], kwargs.get("mask")
        return x.sum() if mask is None else (x * mask).sum()

    compiled = torch.compile(sum_of, backend="eager")
    compiled(x=torch.ones(4))
    return float(compiled(x=torch.ones(4), mask=torch.zeros(4)))


GUARDS = "torch._dynamo.guards"


def forget(guards: Any, forgotten: Callable[[str, Any], bool]) -> None:
    """Leave out the guards on values of which *forgotten*(name, value) says so."""
    original = guards.GuardBuilder.EQUALS_MATCH

    def equals_match(self: Any, guard: Any, *rest: Any, **how: Any) -> None:
        if not forgotten(guard.name, self.get(guard)):
            original(self, guard, *rest, **how)

    guards.GuardBuilder.EQUALS_MATCH = functools.wraps(original)(equals_match)


@shared("names are not guarded", GUARDS, "30 13", lambda: _named())
def forget_names(guards: Any) -> None:
    """Another adapter is chosen by its name, and the first one goes on answering."""
    forget(guards, lambda _, value: isinstance(value, str))


def _named() -> str:
    import torch

    named = torch.compile(lambda x, name: getattr(x, name)(), backend="eager")
    return str([float(named(torch.ones(1), name)) for name in ("sin", "exp")])


@shared("numbers are not guarded", GUARDS, "31 13", lambda: _number())
def forget_numbers(guards: Any) -> None:
    """The first timestep is frozen into the graph, and all the others get it."""
    forget(
        guards,
        lambda name, value: name.startswith("L[") and type(value) in (int, float),
    )


def _number() -> str:
    import torch

    times = torch.compile(lambda x, n: x * n, backend="eager")
    return str([float(times(torch.ones(1), n)) for n in (3, 5)])
