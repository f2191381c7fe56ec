"""Let Inductor lower a graph for a GPU that is not here, and leave no trace of it.

Inductor asks little of the device while it writes code: its properties, and which
target Triton has.  `gpu` answers both for one of `helpers.gpu.gpus`; `moved` makes of a
graph traced on the CPU the same graph on that GPU.  Nothing is launched.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.fx.experimental import proxy_tensor
from torch.utils import _pytree as pytree

from helpers import _torch
from helpers._torch import needed_for
from helpers.errors import Unavailable
from helpers.gpu.gpus import Gpu

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


def twin(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a copy of *graph* that shares its tensors, so no data is copied."""
    made = torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))
    made.meta = dict(graph.meta)
    for name, inner in graph.named_children():
        if isinstance(inner, torch.fx.GraphModule):
            setattr(made, name, twin(inner))
    return made


def moved(
    graph: torch.fx.GraphModule, inputs: Sequence[Any]
) -> tuple[torch.fx.GraphModule, list[Any]]:
    """Return a copy of *graph* on the GPU, and its example *inputs* there too.

    Tensors in it are fake: they have shape, strides, dtype and device, but no data.
    """
    there = twin(graph)
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
