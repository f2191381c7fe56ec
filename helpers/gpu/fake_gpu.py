"""Let Inductor lower graphs for a GPU that is not here, and leave no trace of it.

Dynamo and AOTAutograd work as they always do on the CPU, so graph breaks and backward
graphs are the program's own.  Then: what depends on the device while a graph is traced
is decided as on the GPU; the traced graph's tensors are fake, so a copy of it can say
that they are on the GPU; and while Inductor lowers that copy, what it asks about the
device is answered for it.  Nothing is launched.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import ctypes
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial, wraps
from itertools import takewhile
from pkgutil import resolve_name
from typing import Any
from unittest import mock

import torch
from torch.fx.experimental import proxy_tensor
from torch.nn import functional
from torch.utils import _pytree as pytree
from torch.utils import _triton

from .. import _torch
from .._torch import needed_for
from ..codegen import Kernel, lowered
from ..errors import InputError, Unavailable
from ..tensors import clone
from ..text import progress
from . import origins
from .gpus import Gpu
from .origins import Origins

with needed_for("Triton code for a GPU that is not here"):
    from torch._dynamo.device_interface import CudaInterface
    from torch._functorch import config as functorch_config
    from torch._inductor import compile_fx, list_mode_options, output_code
    from torch._inductor import scheduler as inductor_scheduler
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.fx_passes import fuse_attention, joint_graph
    from torch._inductor.graph import GraphLowering
    from torch._inductor.kernel import mm_grouped
    from torch._inductor.runtime import triton_helpers
    from torch._inductor.runtime.coordinate_descent_tuner import CoordescTuner
    from torch._subclasses.fake_tensor import FakeTensor

ONE_AT_A_TIME = threading.RLock()  # what is patched belongs to the whole process
CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")


# --- what Inductor and Triton ask about the device ------------------------------------


def require_triton() -> None:
    """Raise Unavailable, with what to do, unless torch and triton are a pair."""
    wanted, installed, match = _torch.triton_pair()
    if not match:
        raise Unavailable(
            f"this torch writes Triton code with triton {wanted}, and here is "
            f"{installed or 'none'}: pip install 'triton=={wanted}.*'. It exists for "
            "Linux only; elsewhere output_code(f, x) shows the C++ code"
        )


@contextlib.contextmanager
def gpu(chosen: Gpu) -> Iterator[None]:
    """Make Inductor and Triton take *chosen* for the GPU of this machine.

    Put back also after an exception.  A GPU that is really here is not touched.
    """
    require_triton()
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    target = GPUTarget("cuda", chosen.target, chosen.warp)
    # All that is asked when nothing is launched.
    memory = {"max_shared_mem": chosen.shared_optin}
    utils = types.SimpleNamespace(get_device_properties=lambda _: memory)
    fake_driver = types.SimpleNamespace(get_current_target=lambda: target, utils=utils)
    with ONE_AT_A_TIME, contextlib.ExitStack() as stack:
        for owner, name, value in _answers(chosen):
            stack.enter_context(mock.patch.object(owner, name, value))
        # Private: to ask for the active driver, so as to put it back, would make a real
        # one, which fails without a GPU.
        stack.enter_context(mock.patch.object(driver, "_active", fake_driver))
        stack.enter_context(_device_guard())
        _forget_device()
        stack.callback(_forget_device)
        _remember_tma()
        yield


def _answers(chosen: Gpu) -> Iterator[tuple[Any, str, Any]]:
    """Yield what asks about the device: an owner, a name in it, and the answer."""

    def always(value: Any) -> Callable[..., Any]:
        return lambda *_, **__: value

    # Whether CUDA is there stays as it is: where PYTORCH_NVML_BASED_CUDA_CHECK is set,
    # as by Lightning, torch would conclude it from the count of devices.
    yield torch.cuda, "is_available", always(torch.cuda.is_available())
    answers = {
        "get_device_properties": chosen.properties,  # its name and capability, too
        "current_device": 0,
        "device_count": 1,
        "is_bf16_supported": chosen.capability >= (8, 0),
    }
    for name, value in answers.items():
        yield torch.cuda, name, always(value)
    # Saved around what is random and runs again in the backward; 16 bytes on a GPU.
    yield torch.cuda, "get_rng_state", lambda *_: torch.empty(16, dtype=torch.uint8)
    yield torch.cuda, "set_rng_state", always(None)
    answers["is_available"] = True
    for owner in (CudaInterface, CudaInterface.Worker):
        for name, value in answers.items():
            if hasattr(owner, name):
                yield owner, name, staticmethod(always(value))
    yield triton_helpers, "set_driver_to_gpu", always(None)
    for owner in (inductor_scheduler, mm_grouped):  # each has its own name of it
        yield owner, "has_triton", always(True)
    ask = mm_grouped.can_use_triton_kernel  # it asks whether CUDA is there at all
    available = mock.patch.object(torch.cuda, "is_available", always(True))
    yield mm_grouped, ask.__name__, available(ask)


# c10::DeviceType, which is part of torch's stable interface.
_CUDA_TYPE, _META_TYPE = 1, 14
_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"


@contextlib.contextmanager
def _device_guard() -> Iterator[None]:
    """Give a build without CUDA a guard for CUDA devices: one that does nothing.

    Fake tensors that say they are on a GPU still ask for one when they are indexed.
    c10 keeps the guards in a table by device type; the CPU build's guard of the device
    ``meta``, which has no memory either, stands in for it.
    """
    try:
        library = ctypes.CDLL("libc10.so")  # by its name: torch has loaded it
        table = (ctypes.c_void_p * (_META_TYPE + 1)).in_dll(library, _GUARDS)
    except (OSError, ValueError):  # another build: indexing may then fail, and say so
        table = None
    if table is None or table[_CUDA_TYPE]:
        yield
        return
    table[_CUDA_TYPE] = table[_META_TYPE]
    try:
        yield
    finally:
        table[_CUDA_TYPE] = None


# What remembers something about the device, for torch to forget when that changes.
_MEMORIES = (
    "torch.utils._triton",
    "torch._inductor.utils",
    "torch._inductor.codegen.cuda.cuda_env",
    "torch._inductor.codecache:CacheBase",
    "torch._inductor.kernel.mm:_is_sm7x_or_older_gpu",
    "torch._inductor.runtime.hints:DeviceProperties",
)


def _forget_device() -> None:
    for place in _MEMORIES:
        owner = resolve_name(place)
        for cached in (owner, *(getattr(owner, name) for name in vars(owner))):
            if hasattr(cached, "cache_clear"):
                cached.cache_clear()


def _remember_tma() -> None:
    """Let torch find out whether the GPU copies tiles by itself (TMA), and remember."""
    # It also asks whether CUDA is there at all, which must stay untrue elsewhere.
    with mock.patch.object(torch.cuda, "is_available", return_value=True):
        for name, found_out in vars(_triton).items():
            if "_tma" in name and hasattr(found_out, "cache_clear"):
                found_out()


# --- a graph of the CPU becomes one of the GPU ----------------------------------------


def copy_graph(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a copy of *graph* that shares its tensors, so no data is copied."""
    result = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    result.meta = dict(graph.meta)
    for name, inner in graph.named_children():
        if isinstance(inner, torch.fx.GraphModule):
            setattr(result, name, copy_graph(inner))
    return result


def to_fake_cuda(
    graph: torch.fx.GraphModule, inputs: Sequence[Any]
) -> tuple[torch.fx.GraphModule, list[Any]]:
    """Return a copy of *graph* on the GPU, and its example *inputs* there too.

    Tensors in it are fake: they have shape, strides, dtype and device, but no data.
    """
    moved = copy_graph(graph)
    for part in moved.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in list(part.graph.nodes):
                _move(part.graph, node)
            part.recompile()
    return moved, [_where_it_begins(value, _on_cuda(value)) for value in inputs]


def _move(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    for name in {"val", "eager_input_vals"} & node.meta.keys():
        node.meta[name] = pytree.tree_map(_on_cuda, node.meta[name])
    node.args, node.kwargs = pytree.tree_map(_on_cuda, (node.args, node.kwargs))
    if node.target is torch.ops.aten.lift_fresh_copy.default:
        # A constant that was made on the CPU: behind it stands a real tensor, whose
        # values Inductor reads, and which cannot say that it is elsewhere.
        with graph.inserting_after(node):
            on_cuda = graph.call_function(torch.ops.prims.device_put.default)
        node.replace_all_uses_with(on_cuda)
        on_cuda.args, on_cuda.meta = (node, CUDA), dict(node.meta)


def _on_cuda(value: Any) -> Any:
    if isinstance(value, torch.device):
        return CUDA if value.type == "cpu" else value
    if isinstance(value, FakeTensor) and value.device.type == "cpu":
        with value.fake_mode:
            return torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=CUDA
            )
    return value


def _where_it_begins(value: Any, moved: Any) -> Any:
    """Return the fake *moved*, which begins in its storage where *value* does.

    torch promises Triton no multiple of 16 bytes for an input that begins elsewhere.
    """
    if not isinstance(value, FakeTensor) or moved is value:
        return moved
    begin = value.storage_offset()
    if not isinstance(begin, int) or begin == 0:  # a symbol stays as it was
        return moved
    with moved.fake_mode:
        whole = torch.empty(
            begin + moved.untyped_storage().nbytes() // moved.itemsize,
            dtype=moved.dtype,
            device=CUDA,
        )
        return whole.as_strided(moved.shape, moved.stride(), begin)


def _say_device(tree: Any, device: torch.device) -> list[FakeTensor]:
    """Let the fake tensors in *tree* say that they are on *device*; return those."""
    fakes = [x for x in pytree.tree_leaves(tree) if isinstance(x, FakeTensor)]
    changed = [x for x in fakes if x.device not in (device, torch.device("meta"))]
    for fake in changed:
        fake.fake_device = device
    return changed


def _say_device_of_nodes(nodes: Iterable[torch.fx.Node], device: torch.device) -> None:
    """Let the values of *nodes* say the same; what they make, they make on the CPU."""
    for node in nodes:
        _say_device(node.meta.get("val"), device)
        node.args, node.kwargs = pytree.tree_map(
            lambda arg: CPU if arg == CUDA else arg, (node.args, node.kwargs)
        )


# --- what a device decides while a graph is traced, decided for a GPU -----------------


@cache
def _as_on_gpu(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """Let an entry of Inductor's table decide as on a GPU: a CPU has other steps."""

    @wraps(decomposition)
    def decide(*args: Any, **kwargs: Any) -> Any:
        tracing = proxy_tensor.get_proxy_mode()
        nodes = tracing.tracer.graph.nodes if tracing else ()
        last = next(iter(reversed(nodes)), None)
        moved = _say_device((args, kwargs), CUDA)
        try:
            result = decomposition(*args, **kwargs)
            if moved:  # what was made meanwhile goes back with the arguments
                _say_device(result, CPU)
                new = takewhile(lambda node: node is not last, reversed(nodes))
                _say_device_of_nodes(new, CPU)
            return result
        finally:
            _say_device(moved, CPU)

    return decide


@contextlib.contextmanager
def _nodes_on(device: torch.device, graph: torch.fx.Graph) -> Iterator[None]:
    """Let the values of *graph* say that they are on *device* inside the block."""
    _say_device_of_nodes(graph.nodes, device)
    try:
        yield
    finally:
        _say_device_of_nodes(graph.nodes, CPU if device == CUDA else CUDA)


def _joint_passes(passes: Any, graph: torch.fx.GraphModule, *rest: Any, **more: Any):
    """Run Inductor's *passes* over forward and backward while all is on the GPU."""
    fold = joint_graph.constant_fold_uniform_value

    def folded(inner: torch.fx.GraphModule) -> Any:
        with _nodes_on(CPU, inner.graph):  # for that makes real tensors
            return fold(inner)

    patched = mock.patch.object(joint_graph, fold.__name__, folded)
    with _nodes_on(CUDA, graph.graph), patched:
        result = passes(graph, *rest, **more)
    graph.recompile()
    return result


_ATTENTION = "scaled_dot_product_attention"
_CPU_ATTENTION = getattr(functional, _ATTENTION)


def gpu_attention(
    gpu: Gpu,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> tuple[torch.Tensor, str]:
    """Return attention through a kernel that a GPU has for it, and that kernel's name.

    On the CPU it would be traced as the CPU's own.  The choice follows the rules in
    the documentation of ``torch.nn.attention.SDPBackend``; the device's own order of
    preference may differ, so every result says that this was not decided here.
    """
    aten, allowed, inputs = torch.ops.aten, torch.backends.cuda, (query, key, value)
    half, new = query.dtype in (torch.float16, torch.bfloat16), gpu.capability >= (8, 0)
    width, batched = query.shape[-1], query.dim() == 4
    fits_flash = width == value.shape[-1] <= 256 and attn_mask is None
    scale = options.get("scale")
    if allowed.flash_sdp_enabled() and batched and half and new and fits_flash:
        scale = width**-0.5 if scale is None else scale
        if width % 8:
            inputs = [functional.pad(x, (0, -width % 8)) for x in inputs]
        result = aten._scaled_dot_product_flash_attention(
            *inputs, dropout_p, is_causal, scale=scale
        )[0]
        return result[..., :width] if width % 8 else result, "flash attention"
    alignment = 16 // query.element_size()
    aligned = width % alignment == value.shape[-1] % alignment == 0
    known = query.dtype in (torch.float32, torch.float16) or (half and new)
    enabled = allowed.mem_efficient_sdp_enabled() and not options.get("enable_gqa")
    if enabled and batched and aligned and known:
        bias = attn_mask
        if bias is not None:
            if bias.dtype is torch.bool:
                zeros = torch.zeros_like(bias, dtype=query.dtype)
                bias = zeros.masked_fill(bias.logical_not(), float("-inf"))
            bias = bias.expand(*query.shape[:3], key.shape[2])
        training = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)
        result = aten._scaled_dot_product_efficient_attention(
            *inputs, bias, training, dropout_p, is_causal, scale=scale
        )
        return result[0], "memory-efficient attention"
    result = aten._scaled_dot_product_attention_math(
        *inputs, attn_mask, dropout_p, is_causal, **options
    )
    return result[0], "two matrix products and a softmax"


# --- what Inductor writes -------------------------------------------------------------


@dataclass
class LoweredGraph:
    """A graph as Inductor wrote it for the GPU, and what it came from."""

    index: int  # the graph's number in the program: a graph break starts the next
    phase: str  # inference, forward or backward
    aten: torch.fx.GraphModule  # traced on the CPU, so it can be run there
    source: str = ""  # the whole generated module
    constants: dict[str, torch.Tensor] = field(default_factory=dict)  # globals of it
    launches: list[Kernel] = field(default_factory=list)
    kernels: dict[str, str] = field(default_factory=dict)  # the source of each, by name
    # Kernel and arguments of each launch, by its place; a library call has none.
    calls: dict[int, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    inputs: list[Any] = field(default_factory=list)  # of the call on the CPU
    origins: dict[str, Origins] = field(default_factory=dict)  # of each kernel


@contextlib.contextmanager
def _noted_in(graph: LoweredGraph, load: bool) -> Iterator[None]:
    """Note in *graph* what Inductor writes in the block; import it only if *load*."""
    generate_kernel_call = PythonWrapperCodegen.generate_kernel_call
    codegen, compile_to_module = GraphLowering.codegen, GraphLowering.compile_to_module

    def noted_call(self: Any, name: str, args: Any, *rest: Any, **more: Any) -> Any:
        # It is the call of the kernel that was noted last: both are written together.
        # Your own is noted by another name, and no library call comes behind it.
        if graph.launches:
            names = [launch.name for launch in graph.launches]
            place = len(names) - 1
            if name in names:
                place -= names[::-1].index(name)
            graph.calls[place] = name, tuple(map(str, args))
            # An operation may be in several launches.
            bar.update(min(len(graph.launches[place].ops), bar.total - bar.n))
        return generate_kernel_call(self, name, args, *rest, **more)

    def noted_source(self: Any) -> Any:
        source, *rest = codegen(self)
        graph.source = getattr(source, "value", source)
        graph.constants = dict(self.constants)
        for line in ast.parse(graph.source).body:
            call = getattr(line, "value", None)
            if getattr(getattr(call, "func", None), "attr", "") == "triton":
                kernel = ast.literal_eval(call.args[1]).strip() + "\n"
                graph.kernels[line.targets[0].id] = kernel
        return source, *rest

    def noted_module(self: Any) -> Any:
        if load:
            return compile_to_module(self)
        self.codegen()
        # Nothing calls it: Lowering runs the program's own graph.
        return types.SimpleNamespace(call=lambda *_: (), runner=None, __file__=None)

    operations = sum(node.op == "call_function" for node in graph.aten.graph.nodes)
    patch = mock.patch.multiple
    with (
        progress(f"graph {graph.index} {graph.phase}", operations, "operations") as bar,
        lowered() as graph.launches,
        origins.noted() as graph.origins,
        patch(PythonWrapperCodegen, generate_kernel_call=noted_call),
        patch(GraphLowering, codegen=noted_source, compile_to_module=noted_module),
    ):
        yield


# --- the back ends --------------------------------------------------------------------


# What wraps a module's calls, so that CUDA graphs are recorded of them.
_RECORDS = ("cudagraph_post_compile", "cudagraph_partition_post_compile")


class Stopped(InputError):
    """The program cannot go on without a GPU."""


class Lowering:
    """A back end for ``torch.compile``: lowers each graph, and runs it eagerly."""

    def __init__(self, gpu: Gpu, mode: str | None) -> None:
        modes = list_mode_options()
        if mode is not None and mode not in modes:
            raise InputError(f"no mode {mode!r}: there are {', '.join(modes)}")
        self.gpu = gpu
        self.options = self._followed(dict(modes[mode] if mode else {}))
        self.graphs: list[LoweredGraph] = []
        self.count = 0  # of the program's graphs; each has one or two phases
        self.attention: set[str] = set()  # the kernels chosen for it
        self.autocast = False
        self.stopped = ""  # what the program could not go past

    def _followed(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the *options* of a mode as far as they need no device."""
        options["shape_padding"] = False  # padding would be timed
        options["cpp_wrapper"] = False
        # Written here, and never loaded: nothing of it may be found by another compile.
        return {**options, "fx_graph_cache": False, "compile_threads": 1}

    def __call__(
        self, graph: torch.fx.GraphModule, inputs: Sequence[Any], **_: Any
    ) -> Callable[..., Any]:
        before = len(self.graphs)
        self._compile(graph, inputs)
        lowered_now = self.graphs[before:]
        launches = [launch.name for each in lowered_now for launch in each.launches]
        self.count += 1

        @_torch.without_modes()  # they are of what is outside
        def run(*values: Any) -> Any:
            for each in lowered_now:
                if each.phase != "backward" and not each.inputs:
                    each.inputs = clone(list(values))
            try:
                return graph(*values)
            except Exception as error:
                if "your Triton kernel" not in launches:
                    raise
                self.stopped = "your own Triton kernel"
                raise Stopped from error

        return run

    def _compile(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
        self.autocast |= any(map(torch.is_autocast_enabled, ("cpu", "cuda")))
        traced = copy_graph(graph)  # Inductor rewrites it, and *graph* is run
        for module in traced.modules():
            if isinstance(module, torch.fx.GraphModule):
                for node in module.graph.nodes:
                    self.autocast |= "autocast" in str(node.target)
                    if node.target is _CPU_ATTENTION:
                        node.target = self._attention
                module.recompile()
        passes = partial(_joint_passes, compile_fx.joint_graph_passes)
        table = {op: _as_on_gpu(entry) for op, entry in select_decomp_table().items()}
        first = staticmethod(lambda _, value, *__, **___: value)  # none is timed
        never = dict.fromkeys(_RECORDS, lambda *_, **__: None)  # none is run, either
        with (
            gpu(self.gpu),
            functorch_config.patch(force_non_lazy_backward_lowering=True),
            mock.patch.object(compile_fx, "joint_graph_passes", passes),
            mock.patch.object(functional, _ATTENTION, self._attention),
            mock.patch.object(fuse_attention, f"_{_ATTENTION}", self._attention),
            mock.patch.object(CoordescTuner, "autotune_single_field", first),
            mock.patch.multiple(output_code, **never),
        ):
            compile_fx.compile_fx(
                traced,
                inputs,
                inner_compile=self._lower,
                config_patches=self.options,
                decompositions=table,
            )

    def _attention(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        result, name = gpu_attention(self.gpu, *args, **kwargs)
        self.attention.add(name)
        return result

    def _lower(self, aten: Any, inputs: Sequence[Any], **settings: Any) -> Any:
        """Lower one traced graph, a forward or a backward, and note what is written."""
        noted = self._noted(aten, settings)
        # Inductor takes the copy apart; *aten* itself stays, for checking.
        graph, inputs = to_fake_cuda(aten, inputs)
        # A constant is copied to the GPU where the module is loaded: not here.
        stays = mock.patch.object(
            GraphLowering, "constant_name", lambda _, name, __: name
        )
        with stays, _noted_in(noted, load=False):
            return compile_fx.compile_fx_inner(graph, inputs, **settings)

    def _noted(self, aten: Any, settings: Any) -> LoweredGraph:
        phase = "inference" if settings.get("is_inference") else "forward"
        phase = "backward" if settings.get("is_backward") else phase
        self.graphs.append(LoweredGraph(self.count, phase, aten))
        return self.graphs[-1]


class LoweringHere(Lowering):
    """The same on a machine with a GPU: notes what really is compiled, and runs it."""

    def _followed(self, options: dict[str, Any]) -> dict[str, Any]:
        return {**options, "fx_graph_cache": False}

    def __call__(
        self, graph: torch.fx.GraphModule, inputs: Sequence[Any], **_: Any
    ) -> Callable[..., Any]:
        with functorch_config.patch(force_non_lazy_backward_lowering=True):
            compiled = compile_fx.compile_fx(
                graph, inputs, inner_compile=self._lower, config_patches=self.options
            )
        self.count += 1
        return compiled

    def _lower(self, aten: Any, inputs: Sequence[Any], **settings: Any) -> Any:
        noted = self._noted(copy_graph(aten), settings)
        with _noted_in(noted, load=True):
            return compile_fx.compile_fx_inner(aten, inputs, **settings)
