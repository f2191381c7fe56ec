"""Bugs of a compiler, for the lessons that plant them and for the proofs.

Each function changes the class or the table of torch that it is given, for good:
``planted_in`` takes a change out again.  torch is imported by the functions only,
because a proof plants them while torch itself is being imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any


class WhenImported(MetaPathFinder):
    """Imports one module as usual, and calls *change* with it right afterwards."""

    def __init__(self, module: str, change: Callable[[Any], None]) -> None:
        self.module, self.change = module, change

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name == self.module else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_change(module: Any) -> None:
            execute(module)
            self.change(module)

        spec.loader.exec_module = execute_and_change
        return spec


@contextmanager
def planted_in(owner: Any, bug: Callable[..., Any], *given: Any) -> Iterator[None]:
    """Call bug(owner, *given), and put *owner*, a class or a dict, back at the end."""
    is_dict = isinstance(owner, dict)
    before = dict(owner if is_dict else vars(owner))
    try:
        bug(owner, *given)
        yield
    finally:
        if is_dict:
            owner.clear()
            owner.update(before)
        else:
            _put_back(owner, before)


def _put_back(owner: type, before: dict[str, Any]) -> None:
    for name, value in dict(vars(owner)).items():
        if name not in before:  # it was inherited
            delattr(owner, name)
        elif value is not before[name]:
            setattr(owner, name, before[name])


def around(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Put the decorated function, which takes the original first, in its place."""
    original = getattr(owner, name)

    def replace(changed: Callable[..., Any]) -> None:
        @wraps(original)
        def replaced(*given: Any, **how: Any) -> Any:
            return changed(original, *given, **how)

        setattr(owner, name, replaced)

    return replace


# Dynamo.


def other_constant(output_graph: Any) -> None:
    """Change a constant, 1e-6, in each graph that an OutputGraph hands on."""

    @around(output_graph, "call_user_compiler")
    def call_user_compiler(send: Any, self: Any, module: Any, *rest: Any) -> Any:
        for node in module.graph.nodes:
            node.args = tuple(0.1 if arg == 1e-6 else arg for arg in node.args)
        module.recompile()
        return send(self, module, *rest)


def no_autocast(variable: Any) -> None:
    """Switch autocast off where the code enters it, an AutocastModeVariable."""

    @around(variable, "enter")
    def disabled(enter: Any, self: Any, tx: Any) -> Any:
        device, dtype, _, *cache = self.target_values
        self.target_values = [device, dtype, False, *cache]
        return enter(self, tx)


def unguarded(
    builder: Any, kinds: Sequence[str], forgotten: Callable[[Any, Any], bool]
) -> None:
    """Leave out guards of these kinds where forgotten(builder, guard) says so."""
    for kind in kinds:

        @around(builder, kind)
        def install(usual: Any, self: Any, guard: Any, *rest: Any, **how: Any) -> None:
            if not forgotten(self, guard):
                usual(self, guard, *rest, **how)


# AOTAutograd.


def negated(joint: Any, place: int = -1) -> Any:
    """Flip the sign of a joint graph's last gradient, or what stands in *place*."""
    import torch

    [out] = joint.graph.find_nodes(op="output")
    last = [node for node in out.args[0] if node is not None][place]
    with joint.graph.inserting_before(out):
        minus = joint.graph.call_function(torch.ops.aten.neg.default, (last,))
    minus.meta = dict(last.meta)
    out.args = ([minus if node is last else node for node in out.args[0]],)
    joint.recompile()
    return joint


def other_gelu(decompositions: Any) -> None:
    """Take gelu apart into functions that are only nearly the same."""
    import torch

    decompositions[torch.ops.aten.gelu.default] = lambda x, **_: x * (1.7 * x).sigmoid()


# Inductor.


def tanh_for_erf(lowerings: Any) -> None:
    """Compute tanh where erf was asked for."""
    import torch

    aten = torch.ops.aten
    lowerings[aten.erf.default] = lowerings[aten.tanh.default]


def cannot_lower(table: Any, name: str) -> None:
    """Make the operation of this name, such as "sin", raise."""
    import torch

    def raises(*_: Any, **__: Any) -> Any:
        raise KeyError(f"no {name} here")

    table[getattr(torch.ops.aten, name).default] = raises


def before_seeds(random_seeds: Any, line: str) -> None:
    """Write *line* into the code, before it draws the seeds of a RandomSeeds."""

    @around(random_seeds, "codegen")
    def codegen(usual: Any, self: Any, wrapper: Any) -> None:
        wrapper.writeline(line)
        usual(self, wrapper)


def on_source(async_compile: Any, change: Callable[[str], str]) -> None:
    """Change the C++ that an AsyncCompile is given, before it is built."""

    @around(async_compile, "cpp_pybinding")
    def cpp_pybinding(build: Any, self: Any, argtypes: Any, source: str) -> Any:
        return build(self, argtypes, change(source))
