"""Run a program on the CPU, and lower each of its graphs for a GPU on the way.

Dynamo and AOTAutograd work as they always do, so graph breaks and backward graphs
are the program's own; the copy that goes to Inductor is moved to the GPU first.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch.nn import functional
from torch.utils import _pytree as pytree

from helpers._torch import needed_for
from helpers.codegen import Kernel, lowered
from helpers.errors import InputError
from helpers.gpu import choices, pretend
from helpers.gpu.gpus import Gpu
from helpers.session import modules_of
from helpers.tensors import clone

with needed_for("Triton code for a GPU that is not here"):
    from torch._functorch import config as functorch_config
    from torch._inductor import compile_fx, list_mode_options
    from torch._inductor.fx_passes import fuse_attention
    from torch._inductor.graph import GraphLowering


@dataclass(frozen=True)
class Lowered:
    """A graph as Inductor wrote it for the GPU, and what it came from."""

    index: int  # the graph's number in the program: a graph break starts the next
    phase: str  # inference, forward or backward
    source: str  # the whole generated module
    launches: tuple[Kernel, ...]
    aten: torch.fx.GraphModule  # traced on the CPU, so it can be run there
    hints: dict[str, int]  # the sizes that the symbols in the source stand for
    inputs: list[Any] = field(default_factory=list)  # of the call on the CPU
    chosen: dict[str, int] = field(default_factory=dict)  # configurations that ran


class Capture:
    """A back end for ``torch.compile``: notes each graph, and runs it eagerly."""

    def __init__(self, gpu: Gpu, mode: str | None) -> None:
        self.gpu = gpu
        self.options = _options(mode)
        self.found: list[Lowered] = []
        self.attention: set[str] = set()
        self.graphs = 0
        self.stopped = ""  # what the program could not go past
        self.eager = ""  # why torch.compile would leave a graph to eager
        self.autocast = False

    def __call__(
        self, graph: torch.fx.GraphModule, inputs: Sequence[Any], **_: Any
    ) -> Callable[..., Any]:
        before = len(self.found)
        try:
            self._lower(graph, inputs)
        except Exception as error:  # an InductorError around it
            if "BF16 is not supported" not in str(error):
                raise
            self.eager = f"{self.gpu.title} has no bfloat16"
        mine = self.found[before:]
        self.graphs += 1

        def run(*values: Any) -> Any:
            for each in mine:
                if each.phase != "backward" and not each.inputs:
                    each.inputs.extend(clone(list(values)))
            if _has_user_kernel(graph):
                self.stopped = "your own Triton kernel"
                raise Stopped
            return graph(*values)

        return run

    def _lower(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
        twin = pretend.twin(graph)
        self.autocast |= _casts(graph)
        for module in twin.modules():
            if isinstance(module, torch.fx.GraphModule):
                self._choose_attention(module)
        settings = functorch_config
        owner = compile_fx
        passes = partial(self._joint, owner.joint_graph_passes)
        with (
            pretend.gpu(self.gpu),
            settings.patch(force_non_lazy_backward_lowering=True),
            mock.patch.object(owner, "joint_graph_passes", passes),
            mock.patch.object(functional, choices.ATTENTION, self._attention),
            mock.patch.object(fuse_attention, f"_{choices.ATTENTION}", self._attention),
        ):
            compile_fx.compile_fx(
                twin,
                inputs,
                inner_compile=self._inner,
                config_patches=self.options,
                decompositions=choices.decompositions(),
            )

    def _joint(self, passes: Any, graph: Any, *rest: Any, **more: Any) -> Any:
        with pretend.joint(graph):
            return passes(graph, *rest, **more)

    def _choose_attention(self, graph: torch.fx.GraphModule) -> None:
        for node in graph.graph.nodes:
            if node.target is choices.PLAIN_ATTENTION:
                node.target = self._attention
        graph.recompile()

    def _attention(self, query: Any, key: Any, value: Any, *rest: Any, **more: Any):
        result, name = choices.gpu_attention(self.gpu, query, key, value, *rest, **more)
        self.attention.add(name)
        return result

    def _inner(self, graph: Any, inputs: Sequence[Any], **settings: Any) -> Any:
        # Inductor takes the graph apart: what is kept for checking is a copy.
        aten = pretend.twin(graph)
        twin, there = pretend.moved(graph, inputs)
        with lowered() as launches, _unloaded() as sources:
            done = compile_fx.compile_fx_inner(twin, there, **settings)
        for source in sources:
            made, hints = tuple(launches), _hints(inputs)
            self.found.append(
                Lowered(self.graphs, _phase(settings), source, made, aten, hints)
            )
        return done


class Stopped(InputError):
    """The program cannot go on without a GPU."""


class Observed(Capture):
    """The same on a machine with a GPU: notes what really is compiled, and runs it."""

    def __init__(self, gpu: Gpu, mode: str | None) -> None:
        super().__init__(gpu, mode)
        modes = list_mode_options()
        self.options = {**(modes[mode] if mode else {}), "fx_graph_cache": False}
        self.modules: list[Any] = []

    def __call__(
        self, graph: torch.fx.GraphModule, inputs: Sequence[Any], **_: Any
    ) -> Callable[..., Any]:
        settings = functorch_config
        with settings.patch(force_non_lazy_backward_lowering=True):
            done = compile_fx.compile_fx(
                graph, inputs, inner_compile=self._inner, config_patches=self.options
            )
        self.graphs += 1
        return done

    def _inner(self, graph: Any, inputs: Sequence[Any], **settings: Any) -> Any:
        aten = pretend.twin(graph)
        with lowered() as launches, _loaded() as modules:
            done = compile_fx.compile_fx_inner(graph, inputs, **settings)
        for source, module in modules:
            made, hints = tuple(launches), _hints(inputs)
            self.found.append(
                Lowered(self.graphs, _phase(settings), source, made, aten, hints)
            )
            self.modules.append(module)
        return done

    def settle(self) -> None:
        """Note which configuration of each kernel ran, now that it has."""
        for graph, module in zip(self.found, self.modules, strict=True):
            for name, kernel in vars(module).items():
                launchers = getattr(kernel, "launchers", None)
                configs = list(getattr(kernel, "configs", None) or ())
                if launchers and launchers[0].config in configs:
                    graph.chosen[name] = configs.index(launchers[0].config)


@contextlib.contextmanager
def _unloaded() -> Iterator[list[str]]:
    """Collect the modules written in the block, which are not loaded."""
    sources: list[str] = []

    def keep(lowering: Any) -> Any:
        written, *_ = lowering.codegen()
        sources.append(getattr(written, "value", written))
        return types.SimpleNamespace(call=_never, runner=None, __file__=None)

    cls = GraphLowering
    with mock.patch.object(cls, "compile_to_module", keep):
        yield sources


@contextlib.contextmanager
def _loaded() -> Iterator[list[tuple[str, Any]]]:
    """Collect the modules that Inductor writes in the block, and their source."""
    found: list[tuple[str, Any]] = []
    cls = GraphLowering
    write, load, written = cls.codegen, cls.compile_to_module, list[str]()

    def codegen(self: Any) -> Any:
        made = write(self)
        written.append(getattr(made[0], "value", made[0]))
        return made

    def compile_to_module(self: Any) -> Any:
        module = load(self)
        found.append((written[-1], module))
        return module

    patches = {"codegen": codegen, "compile_to_module": compile_to_module}
    with mock.patch.multiple(cls, **patches):
        yield found


def _phase(settings: dict[str, Any]) -> str:
    if settings.get("is_backward"):
        return "backward"
    return "inference" if settings.get("is_inference") else "forward"


def _never(*_: Any) -> Any:
    raise AssertionError("code for a GPU that is not here was called")


def _options(mode: str | None) -> dict[str, Any]:
    """Return the settings of *mode* that can be followed without the device."""
    modes = list_mode_options()
    if mode is not None and mode not in modes:
        raise InputError(f"no mode {mode!r}: there are {', '.join(modes)}")
    options = dict(modes[mode] if mode else {})
    if options.pop("max_autotune", False):  # matrix products would be timed
        options["max_autotune_pointwise"] = True
    options["triton.cudagraphs"] = options["cpp_wrapper"] = False
    options["shape_padding"] = False  # padding would be timed
    # Written here, and never loaded: nothing of it may be found by another compile.
    return {**options, "fx_graph_cache": False, "compile_threads": 1}


def _hints(inputs: Sequence[Any]) -> dict[str, int]:
    """Return the size that each symbol had in this call."""
    sizes = [value for value in inputs if isinstance(value, torch.SymInt)]
    for value in inputs:
        if isinstance(value, torch.Tensor):
            sizes += [n for n in value.shape if isinstance(n, torch.SymInt)]
    found = {str(n.node.expr): n.node.hint for n in sizes}
    return {name: hint for name, hint in found.items() if isinstance(hint, int)}


def _casts(graph: torch.fx.GraphModule) -> bool:
    """Return whether autocast is on around or in a graph, for whichever device."""
    on = any(map(torch.is_autocast_enabled, ("cpu", "cuda")))
    return on or any("autocast" in str(node.target) for node in graph.graph.nodes)


def _has_user_kernel(graph: torch.fx.GraphModule) -> bool:
    return any("triton_kernel" in str(node.target) for node in graph.graph.nodes)


def needing_gradients(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return *fn* called with floating-point inputs that require gradients.

    They are left alone where an input or a parameter of *fn* already does.
    """

    def run(*inputs: Any) -> Any:
        leaves = pytree.tree_leaves(inputs)
        modules = modules_of(fn)
        leaves += [p for m in modules for p in m.parameters()]
        tensors = [t for t in leaves if isinstance(t, torch.Tensor)]
        if not any(t.requires_grad for t in tensors):
            for tensor in tensors:
                if tensor.is_floating_point():
                    tensor.requires_grad_()
        return fn(*inputs)

    return run
