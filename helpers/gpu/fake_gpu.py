"""Let Inductor lower a graph for a GPU that is not here, and leave no trace of it.

Inductor asks little of the device while it writes code: its properties, and which
target Triton has.  `gpu` answers both for one of `helpers.gpu.gpus`; `to_fake_cuda`
makes of a graph traced on the CPU the same graph on that GPU.  Nothing is launched.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial, wraps
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.fx.experimental import proxy_tensor
from torch.nn import functional
from torch.utils import _pytree as pytree

from helpers import _torch
from helpers._torch import needed_for
from helpers.codegen import Kernel, lowered
from helpers.errors import InputError, Unavailable
from helpers.gpu.gpus import Gpu
from helpers.session import modules_of
from helpers.tensors import clone

with needed_for("Triton code for a GPU that is not here"):
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor import scheduler as inductor_scheduler
    from torch._inductor.fx_passes import joint_graph
    from torch._inductor.runtime import triton_helpers
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils import _triton as triton_support


ONE_AT_A_TIME = threading.RLock()  # what is patched belongs to the whole process
DEVICE, CPU = torch.device("cuda", 0), torch.device("cpu")


class Missing(Unavailable):
    """Triton is not here, or is not the one that this torch works with."""


def require_triton() -> None:
    """Raise Missing, with what to do, unless torch and triton are a pair."""
    wanted, installed, match = _torch.triton_pair()
    if not installed:
        raise Missing(
            "Triton is not installed, so no Triton code can be written. It has "
            "packages for Linux only; elsewhere output_code(f, x) shows the C++ "
            f"code. On Linux: pip install 'triton=={wanted}.*'"
        )
    if not match:
        raise Missing(
            f"this torch works with triton {wanted}, and triton {installed} is "
            f"installed. Mend it with: pip install 'triton=={wanted}.*'"
        )


def own_kernels() -> contextlib.AbstractContextManager[Any]:
    """Return a context in which Dynamo takes the reader's Triton kernels into a graph.

    On a machine without a GPU it would call them, which fails.
    """
    support = triton_support
    return mock.patch.object(support, "has_triton", return_value=True)


@contextlib.contextmanager
def gpu(chosen: Gpu) -> Iterator[None]:
    """Make Inductor and Triton take *chosen* for the GPU of this machine.

    Put back also after an exception.  A GPU that is really here is not touched.
    """
    require_triton()
    with ONE_AT_A_TIME, contextlib.ExitStack() as stack:
        for owner, name, value in _answers(chosen):
            stack.enter_context(mock.patch.object(owner, name, value))
        stack.enter_context(_device_guard())
        stack.enter_context(_target(chosen))
        stack.enter_context(_forgotten())
        yield


def _answers(chosen: Gpu) -> Iterator[tuple[Any, str, Any]]:
    """Yield what asks about the device: an owner, a name in it, and the answer."""

    def always(value: Any) -> Callable[..., Any]:
        return lambda *_, **__: value

    properties, major = chosen.properties, chosen.capability[0]
    answers = {
        "get_device_properties": properties,
        "get_device_capability": chosen.capability,
        "get_device_name": chosen.title,
        "current_device": 0,
        "device_count": 1,
        "is_bf16_supported": major >= 8,
    }
    # Saved around what is random and runs again in the backward; 16 bytes on a GPU.
    yield torch.cuda, "get_rng_state", lambda *_: torch.empty(16, dtype=torch.uint8)
    yield torch.cuda, "set_rng_state", always(None)
    interface = CudaInterface
    hip = chosen.language == "hip"
    capability = chosen.arch if hip else 10 * major + chosen.capability[1]
    extra = {"is_available": True, "get_compute_capability": capability}
    for name, value in answers.items():
        yield torch.cuda, name, always(value)
    for owner in (interface, interface.Worker):
        for name, value in {**answers, **extra}.items():
            if hasattr(owner, name):
                yield owner, name, staticmethod(always(value))
    yield triton_helpers, "set_driver_to_gpu", always(None)
    if hip:
        yield torch.version, "hip", torch.version.hip or "7.0"
    schedule = inductor_scheduler
    if hasattr(schedule, "has_triton"):
        yield schedule, "has_triton", always(True)


class _Driver:
    """What Triton asks of a driver when nothing is launched."""

    def __init__(self, chosen: Gpu) -> None:
        from triton.backends.compiler import GPUTarget

        hip = chosen.language == "hip"
        capability = 10 * chosen.capability[0] + chosen.capability[1]
        arch = chosen.arch if hip else capability
        self.target = GPUTarget(chosen.language, arch, chosen.warp)

    def get_current_target(self) -> Any:
        return self.target

    def get_active_torch_device(self) -> torch.device:
        return DEVICE

    def get_current_device(self) -> int:
        return 0


@contextlib.contextmanager
def _target(chosen: Gpu) -> Iterator[None]:
    from triton.runtime import driver

    # The active driver is made when first asked for, which fails without a GPU: so
    # it is kept as it is, and not as the public reset_active() would have it.
    with mock.patch.object(driver, "_active", _Driver(chosen)):
        yield


@contextlib.contextmanager
def _device_guard() -> Iterator[None]:
    """Give a build without CUDA a guard for CUDA devices: one that does nothing.

    Tensors that are only pretended to be on a GPU still ask for one when they are
    indexed.  c10 keeps the guards in a table by device type; the CPU build's guard
    of the device ``meta``, which has no memory either, stands in for it.
    """
    table = _guards()
    if table is None or table[_CUDA]:
        yield
        return
    table[_CUDA] = table[_META]
    try:
        yield
    finally:
        table[_CUDA] = None


# c10::DeviceType, which is part of torch's stable interface.
_CUDA, _META = 1, 14
_TABLE = "_ZN3c104impl26device_guard_impl_registryE"


def _guards() -> Any:
    library = Path(torch.__file__).parent / "lib" / "libc10.so"
    try:
        found = (ctypes.c_void_p * (_META + 1)).in_dll(ctypes.CDLL(library), _TABLE)
    except (OSError, ValueError):  # another build: indexing may then fail, and say so
        return None
    return found


@contextlib.contextmanager
def _forgotten() -> Iterator[None]:
    """Empty, before and after, what torch remembers about the device."""

    def forget() -> None:
        for cached in _device_memories():
            cached.cache_clear()

    forget()
    try:
        yield
    finally:
        forget()


def copy_graph(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a copy of *graph* that shares its tensors, so no data is copied."""
    made = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    made.meta = dict(graph.meta)
    for name, inner in graph.named_children():
        if isinstance(inner, torch.fx.GraphModule):
            setattr(made, name, copy_graph(inner))
    return made


def to_fake_cuda(
    graph: torch.fx.GraphModule, inputs: Sequence[Any]
) -> tuple[torch.fx.GraphModule, list[Any]]:
    """Return a copy of *graph* on the GPU, and its example *inputs* there too.

    Tensors in it are fake: they have shape, strides, dtype and device, but no data.
    """
    there = copy_graph(graph)
    for module in there.modules():
        if isinstance(module, torch.fx.GraphModule):
            _move(module)
    return there, [_elsewhere(value) for value in inputs]


def _move(graph: torch.fx.GraphModule) -> None:
    trees = pytree
    for node in list(graph.graph.nodes):
        for name in {"val", "eager_input_vals"} & node.meta.keys():
            node.meta[name] = trees.tree_map(_elsewhere, node.meta[name])
        node.args = trees.tree_map(_elsewhere, node.args)
        node.kwargs = trees.tree_map(_elsewhere, node.kwargs)
    graph.recompile()


@contextlib.contextmanager
def placed(tree: Any) -> Iterator[Callable[[Any], Any]]:
    """Let the fake tensors in *tree* say, in the block, that they are on the GPU.

    Yields a function that takes a result back to the CPU, and with it the nodes that
    were traced meanwhile, where the tensors came from there.
    """
    tracing = proxy_tensor.get_proxy_mode()
    nodes = tracing.tracer.graph.nodes if tracing else ()
    last, here = next(iter(reversed(nodes)), None), _place(tree, DEVICE)

    def back(made: Any) -> Any:
        if here:
            _place(made, CPU)
            _say(takewhile(lambda node: node is not last, reversed(nodes)), CPU)
        return made

    try:
        yield back
    finally:
        _place(here, CPU)


@contextlib.contextmanager
def joint(graph: torch.fx.GraphModule) -> Iterator[None]:
    """Let all of *graph* say, in the block, that it is on the GPU; then on the CPU.

    Constants are folded as on the CPU, for that makes real tensors.
    """
    owner = joint_graph
    fold = owner.constant_fold_uniform_value

    def folded(inner: torch.fx.GraphModule) -> Any:
        _say(inner.graph.nodes, CPU)
        try:
            return fold(inner)
        finally:
            _say(inner.graph.nodes, DEVICE)

    _say(graph.graph.nodes, DEVICE)
    try:
        with mock.patch.object(owner, "constant_fold_uniform_value", folded):
            yield
    finally:
        _say(graph.graph.nodes, CPU)
        graph.recompile()


def _say(nodes: Iterable[Any], device: torch.device) -> None:
    trees = pytree
    for node in nodes:
        _place(node.meta.get("val"), device)
        node.args, node.kwargs = trees.tree_map(
            lambda each: CPU if each == DEVICE else each, (node.args, node.kwargs)
        )


def _place(tree: Any, device: torch.device) -> list[Any]:
    """Let the fake tensors in *tree* say that they are on *device*; return those."""
    leaves = pytree.tree_leaves(tree)
    fakes = [leaf for leaf in leaves if isinstance(leaf, FakeTensor)]
    changed = [x for x in fakes if x.device != device and x.device.type != "meta"]
    for fake in changed:
        fake.fake_device = device
    return changed


def _elsewhere(value: Any) -> Any:
    if isinstance(value, torch.device):
        return DEVICE if value.type == "cpu" else value
    if isinstance(value, FakeTensor) and value.device.type == "cpu":
        with value.fake_mode:
            return torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=DEVICE
            )
    return value


# What torch remembers about the device, and must forget when that changes.
_DEVICE_MEMORIES = {
    "_inductor.runtime.hints:DeviceProperties": "create",
    "_inductor.codecache:CacheBase": "get_system",
    "_inductor.utils": "get_gpu_type is_big_gpu get_max_num_sms using_b200 "
    "get_backend_num_stages get_device_tflops get_gpu_dram_gbps "
    "_triton_supported_fp8_dtypes",
    "_inductor.codegen.cuda.cuda_env": "get_cuda_arch is_datacenter_blackwell_arch",
    "_inductor.kernel.mm": "_is_sm7x_or_older_gpu",
    "utils._triton": "has_triton _device_supports_tma has_triton_tma "
    "has_triton_experimental_host_tma has_triton_tensor_descriptor_host_tma "
    "has_triton_tma_device has_triton_stable_tma_api triton_backend "
    "has_datacenter_blackwell_tma_device triton_hash_with_backend",
}


def _device_memories() -> list[Any]:
    """Return the cached functions of this torch that remember something of a GPU."""
    found = []
    for place, names in _DEVICE_MEMORIES.items():
        module, _, owner = place.partition(":")
        with contextlib.suppress(ImportError, AttributeError):  # another version's
            held = import_module(f"torch.{module}")
            held = getattr(held, owner) if owner else held
            found += [getattr(held, name, None) for name in names.split()]
    return [each for each in found if hasattr(each, "cache_clear")]


with needed_for("Triton code for a GPU that is not here"):
    from torch._inductor.decomposition import select_decomp_table


ATTENTION = "scaled_dot_product_attention"
PLAIN_ATTENTION = getattr(functional, ATTENTION)


def gpu_attention(
    gpu: Gpu,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[torch.Tensor, str]:
    """Return attention through a kernel that a GPU has for it, and that kernel's name.

    On the CPU it would be traced as the CPU's own.  The choice follows the rules in
    the documentation of ``torch.nn.attention.SDPBackend``; the device's own order of
    preference may differ, so every result says that this was not decided here.
    """
    aten, allowed = torch.ops.aten, torch.backends.cuda
    half, new = query.dtype in (torch.float16, torch.bfloat16), gpu.capability >= (8, 0)
    width, batched = query.shape[-1], query.dim() == 4
    flash = width == value.shape[-1] <= 256 and attn_mask is None
    if allowed.flash_sdp_enabled() and batched and half and new and flash:
        scale = width**-0.5 if scale is None else scale
        padded = [functional.pad(each, (0, -width % 8)) for each in (query, key, value)]
        made = aten._scaled_dot_product_flash_attention(
            *(padded if width % 8 else (query, key, value)),
            dropout_p,
            is_causal,
            scale=scale,
        )
        return made[0][..., :width] if width % 8 else made[0], "flash attention"
    widths = (width, value.shape[-1])
    aligned = all(each % (16 // query.element_size()) == 0 for each in widths)
    known = query.dtype in (torch.float32, torch.float16) or (half and new)
    enabled = allowed.mem_efficient_sdp_enabled() and not enable_gqa
    if enabled and batched and aligned and known:
        needed = any(each.requires_grad for each in (query, key, value))
        bias, save = None, torch.is_grad_enabled() and needed
        if attn_mask is not None:
            shape = (*query.shape[:2], query.shape[2], key.shape[2])
            bias = attn_mask
            if bias.dtype is torch.bool:
                zeros = torch.zeros_like(bias, dtype=query.dtype)
                bias = zeros.masked_fill(bias.logical_not(), float("-inf"))
            bias = bias.expand(shape)
        made = aten._scaled_dot_product_efficient_attention(
            query, key, value, bias, save, dropout_p, is_causal, scale=scale
        )
        return made[0], "memory-efficient attention"
    made = aten._scaled_dot_product_attention_math(
        query,
        key,
        value,
        attn_mask,
        dropout_p,
        is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
    )
    return made[0], "two matrix products and a softmax"


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return Inductor's table, each entry deciding as it does on a GPU.

    On a CPU small products become sums, a normalisation has other steps and narrower
    statistics, and a convolution's backward keeps the sum for its bias.
    """
    table = select_decomp_table()
    return {name: _as_on_gpu(entry) for name, entry in table.items()}


@cache
def _as_on_gpu(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(decomposition)
    def decide(*given: Any, **more: Any) -> Any:
        with placed((given, more)) as back:
            return back(decomposition(*given, **more))

    return decide


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
        twin = copy_graph(graph)
        self.autocast |= _casts(graph)
        for module in twin.modules():
            if isinstance(module, torch.fx.GraphModule):
                self._choose_attention(module)
        settings = functorch_config
        owner = compile_fx
        passes = partial(self._joint, owner.joint_graph_passes)
        with (
            gpu(self.gpu),
            settings.patch(force_non_lazy_backward_lowering=True),
            mock.patch.object(owner, "joint_graph_passes", passes),
            mock.patch.object(functional, ATTENTION, self._attention),
            mock.patch.object(fuse_attention, f"_{ATTENTION}", self._attention),
        ):
            compile_fx.compile_fx(
                twin,
                inputs,
                inner_compile=self._inner,
                config_patches=self.options,
                decompositions=decompositions(),
            )

    def _joint(self, passes: Any, graph: Any, *rest: Any, **more: Any) -> Any:
        with joint(graph):
            return passes(graph, *rest, **more)

    def _choose_attention(self, graph: torch.fx.GraphModule) -> None:
        for node in graph.graph.nodes:
            if node.target is PLAIN_ATTENTION:
                node.target = self._attention
        graph.recompile()

    def _attention(self, query: Any, key: Any, value: Any, *rest: Any, **more: Any):
        result, name = gpu_attention(self.gpu, query, key, value, *rest, **more)
        self.attention.add(name)
        return result

    def _inner(self, graph: Any, inputs: Sequence[Any], **settings: Any) -> Any:
        # Inductor takes the graph apart: what is kept for checking is a copy.
        aten = copy_graph(graph)
        twin, there = to_fake_cuda(graph, inputs)
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
        aten = copy_graph(graph)
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
