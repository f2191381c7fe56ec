"""Faults of Dynamo: what is captured, what is guarded, and when it compiles again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course import bugs
from course.bugs import around
from tests.proof.broken import fault, shared

OPTIMIZE = "torch._dynamo"


def optimize_with(dynamo: Any, **forced: Any) -> None:
    """Make every compile go with these arguments, whatever was asked."""

    @around(dynamo, "optimize")
    def optimize(original, *args, **how):
        return original(*args, **{**how, **forced})


def keep_guards(dynamo: Any, keep: Callable[[Any], bool]) -> None:
    """Make every compile keep the guards of which *keep* says so, and no others."""
    optimize_with(dynamo, guard_filter_fn=lambda guards: [keep(g) for g in guards])


@shared("default backend runs eagerly", "torch", "00 07 01")
def hand_back(torch: Any) -> None:
    """The graph is captured and then run as it is: no kernel is ever generated."""
    torch._TorchCompileInductorWrapper.__call__ = lambda self, graph, given, **_: graph


@fault("graph break injected", OPTIMIZE, "00 18")
def cannot_take_rsqrt(dynamo: Any) -> None:
    """An update makes a common function untraceable: the model falls into pieces."""
    import torch

    dynamo.disallow_in_graph(torch.rsqrt)


@shared("guards skipped", OPTIMIZE, "14 04 15 18")
def drop_all_guards(dynamo: Any) -> None:
    """A compiled function is used for inputs that it was not compiled for."""
    keep_guards(dynamo, lambda _: False)


@shared("module guards skipped", OPTIMIZE, "04 14")
def drop_module_guards(dynamo: Any) -> None:
    """A changed attribute of the model is not noticed: the old value is used."""
    import torch

    keep = torch.compiler.skip_guard_on_all_nn_modules_unsafe
    optimize_with(dynamo, guard_filter_fn=keep)


@shared("fullgraph ignored", OPTIMIZE, "01 05 18 16")
def not_full(dynamo: Any) -> None:
    """fullgraph=True no longer raises: graph breaks come back unnoticed."""
    optimize_with(dynamo, nopython=False)


@shared("dynamic= ignored", OPTIMIZE, "14 15 16")
def not_dynamic(dynamo: Any) -> None:
    """dynamic=True and dynamic=False do what the default does."""
    optimize_with(dynamo, dynamic=None)


@fault("constant changed on the way", "torch._dynamo.output_graph", "00 06 02 07 18")
def other_eps(output_graph: Any) -> None:
    """A constant of the model is another one in the graph: answers are a bit off."""
    bugs.other_constant(output_graph.OutputGraph)


@shared("stance ignored", "torch.compiler", "01 15 19 25 18 14 27")
def no_stance(compiler: Any) -> None:
    """A service set to fail on recompiles recompiles in the middle of the day."""
    original = compiler.set_stance
    compiler.set_stance = lambda *_, **__: original("default")


@shared("a forbidden compile happens", "torch.compiler", "25 15 19 27")
def no_ban(compiler: Any) -> None:
    """A gate with fail_on_recompile lets everything pass, and compiles."""

    @around(compiler, "set_stance")
    def set_stance(original, stance="default", *rest, **how):
        banned = stance == "fail_on_recompile"
        return original("default" if banned else stance, *rest, **how)


@shared("blocks share no version", "torch.nn.modules.module", "25")
def compile_alone(module: Any) -> None:
    """Each of many equal blocks compiles for itself: a deep model starts slowly."""

    @around(module.Module, "compile")
    def compile(original, self, *given, **how):
        original(self, *given, **{**how, "isolate_recompiles": True})


@shared("a repeated region is written out", "torch.compiler", "25")
def no_region(compiler: Any) -> None:
    """A model with a region for its layers compiles as long as one without."""
    compiler.nested_compile_region = lambda fn=None, **_: fn or (lambda each: each)


DECORATORS = "torch._dynamo.decorators"


@shared("mark_dynamic ignored", DECORATORS, "15")
def no_mark(decorators: Any) -> None:
    """A dimension that was promised to change is compiled for one size."""
    decorators.mark_dynamic = lambda *_, **__: None


@shared("in-place compile a no-op", "torch.nn.modules.module", "01")
def compile_nothing(module: Any) -> None:
    """module.compile() returns, and the module stays eager."""
    module.Module.compile = lambda self, *_, **__: None


@shared("disable ignored", "torch.compiler", "01 05 19")
def not_disabled(compiler: Any) -> None:
    """What was to stay out of the graph is traced all the same."""
    compiler.disable = lambda fn=None, *_, **__: fn or (lambda each: each)


@shared("reset forgets nothing", "torch.compiler", "19 01 04")
def no_reset(compiler: Any) -> None:
    """After reset(), the old code still answers."""
    compiler.reset = lambda: None


@shared("why it recompiled is lost", "torch._dynamo.guards", "14 15")
def no_reasons(guards: Any) -> None:
    """A recompile is counted, but nothing says which guard failed."""
    guards.get_and_maybe_log_recompilation_reasons = lambda *_, **__: []


@shared("the limit is hit in silence", "torch._dynamo.convert_frame", "14")
def silent_limit(convert_frame: Any) -> None:
    """The recompile limit is reached, and no line in the log says so."""
    convert_frame.log.warning = lambda *_, **__: None


HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")


@shared("hooks are dropped", "torch._dynamo.variables.nn_module", "20 04")
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


@fault("autocast is ignored", "torch._dynamo.variables.ctx_manager", "21 18")
def no_autocast(ctx_manager: Any) -> None:
    """Mixed precision is switched on, and compiled code goes on in float32."""
    bugs.no_autocast(ctx_manager.AutocastModeVariable)


@shared("keywords are not guarded", OPTIMIZE, "28")
def any_keywords(dynamo: Any) -> None:
    """A mask that comes in a later call is ignored: the version without it runs."""

    def kept(guard: Any) -> bool:
        on_keys = guard.guard_type.startswith(("DICT", "SEQUENCE"))
        return not (on_keys and "kwargs" in str(guard.name))

    keep_guards(dynamo, kept)


GUARDS = "torch._dynamo.guards"


def forget(guards: Any, forgotten: Callable[[str, Any], bool]) -> None:
    """Leave out the guards on values of which *forgotten*(name, value) says so."""

    def of_such_a_value(builder: Any, guard: Any) -> bool:
        return forgotten(guard.name, builder.get(guard))

    bugs.unguarded(guards.GuardBuilder, ["EQUALS_MATCH"], of_such_a_value)


@shared("names are not guarded", GUARDS, "14 28")
def forget_names(guards: Any) -> None:
    """Another adapter is chosen by its name, and the first one goes on answering."""
    forget(guards, lambda _, value: isinstance(value, str))


@shared("numbers are not guarded", GUARDS, "28 14")
def forget_numbers(guards: Any) -> None:
    """The first timestep is frozen into the graph, and all the others get it."""
    forget(guards, lambda name, v: name.startswith("L[") and type(v) in (int, float))


@shared("a count in a tensor is guarded", GUARDS, "29 28")
def guard_counts(guards: Any) -> None:
    """A net that counts its batches in a buffer compiles again for each batch."""

    @around(guards.GuardBuilder, "TENSOR_MATCH")
    def tensor_match(match, self, guard, value=None):
        match(self, guard, value)
        count = self.get(guard)
        if not count.dim() and not count.dtype.is_floating_point:
            seen = int(count)
            manager = self.get_guard_manager(guard)
            manager.add_lambda_guard(lambda now: int(now) == seen, [str(seen)], None)


@shared("training is not guarded", OPTIMIZE, "14 29")
def any_mode(dynamo: Any) -> None:
    """Validation runs the code of training: it drops units, and writes statistics."""

    modes = ".training", "['training']"
    keep_guards(dynamo, lambda guard: not guard.name.endswith(modes))


@shared("writes into lists are lost", "torch._dynamo.side_effects", "libraries 29 28")
def forget_lists(side_effects: Any) -> None:
    """A state that a model keeps in a list stays as it was before the call."""

    @around(side_effects.SideEffects, "_get_modified_vars")
    def modified(original, self):
        return [v for v in original(self) if type(v).__name__ != "ListVariable"]
