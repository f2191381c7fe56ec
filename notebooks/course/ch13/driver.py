"""torch's own recorder of CUDA graphs, on a machine without CUDA.

    Recorder()    a back end for torch.compile: recordings on the CPU, and what was done

What decides is torch's: Inductor's front says which inputs are static, and the class
``CUDAGraphTreeManager`` says of each call whether it warms up, records, replays or runs
as it is, and whose memory is free.  What it asks of the driver is answered here, since
there is none: a recording is the graph of a call and the tensors that it used, a replay
runs that graph again on the same tensors, and writes to the same places.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch._dynamo.backends import cudagraphs as dynamo_cudagraphs
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch import config as functorch_config
from torch._inductor import compile_fx, cudagraph_trees, cudagraph_utils
from torch._inductor.cudagraph_trees import CUDAGraphTreeManager
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

Model = Callable[[list[Any]], Sequence[Any]]
_OPTIONS = {"triton.cudagraphs": True, "fx_graph_cache": False}


@dataclass(frozen=True)
class Step:
    """What torch did in one call of one graph."""

    what: str
    """"warm-up", "record", "replay", or "as it is": the graph without a recording."""

    phase: str  # forward, backward or inference
    copied: tuple[tuple[int, ...], ...] = ()
    """The shapes of the inputs that were copied to where the recording reads."""

    def __str__(self) -> str:
        shapes = ", ".join(str(list(shape)) for shape in self.copied)
        return f"{self.what}, copies {shapes}" if shapes else self.what


@dataclass(eq=False)  # Dynamo compares back ends, and each is its own
class Recorder:
    """A back end for ``torch.compile``: CUDA graphs of the CPU's tensors.

    ``did`` has a step for each run of a graph, in order.
    """

    did: list[Step] = field(default_factory=list)

    def __call__(
        self, graph: torch.fx.GraphModule, inputs: Sequence[Any], **_: Any
    ) -> Callable[..., Any]:
        with functorch_config.patch(enable_autograd_cache=False):
            return compile_fx.compile_fx(
                graph, inputs, inner_compile=self._wrap, config_patches=_OPTIONS
            )

    def take(self) -> list[Step]:
        """Return what was done since the last call of this."""
        steps = self.did[:]
        self.did.clear()
        return steps

    def gave_away(self, tensor: torch.Tensor) -> bool:
        """Return whether torch gave away the memory in which *tensor* lies.

        On a device every use of it raises from then on.  Here only the tensors that
        were handed out raise, and not others that share their memory.
        """
        if isinstance(tensor, Overwritten):
            return True
        mine = tensor.untyped_storage()._cdata
        return any(freed.cdata == mine for freed in _FREED)

    def reset(self) -> None:
        """Forget all recordings; ``torch.compiler.reset`` calls this."""
        cudagraph_trees.reset_cudagraph_trees()

    def _wrap(
        self,
        graph: torch.fx.GraphModule,
        inputs: Sequence[Any],
        *,
        static_input_idxs: Sequence[int] | None = None,
        cudagraphs: Any = True,
        is_backward: bool = False,
        is_inference: bool = False,
        boxed_forward_device_index: Any = None,
        **_: Any,
    ) -> Callable[..., Any]:
        """Return one graph, as Inductor hands it to torch's recorder."""
        phase = "backward" if is_backward else "forward"
        phase = "inference" if is_inference else phase
        run = boxed_nop(graph, inputs)
        if boxed_forward_device_index is not None and phase == "forward":
            boxed_forward_device_index.set(0)
        if cudagraphs:
            run = compile_fx.cudagraphify(
                partial(_capturable, run),
                static_input_idxs=static_input_idxs or (),
                device_index=0,
                stack_traces=dynamo_cudagraphs.get_stack_traces(graph),
                is_backward=is_backward,
                is_inference=is_inference,
                placeholders=cudagraph_utils.get_placeholder_info(graph.graph),
                mutated_input_idxs=tuple(
                    dynamo_cudagraphs.find_input_mutations(graph.graph)
                ),
            )

        def watched(values: list[Any]) -> Any:
            before = len(self.did)
            with _driver(self, phase):
                result = run(values)
            if len(self.did) == before:
                self.did.append(Step("as it is", phase))
            return result

        watched._boxed_call = True
        return watched


# --- a driver for a device that is not there ------------------------------------------


class Graph:
    """What stands for ``torch.cuda.CUDAGraph``: how a call is run again."""

    def replay(self) -> None:
        """Run what was captured again, on the same tensors."""
        self.again()

    def again(self) -> None:
        """Nothing has been captured yet."""

    def register_generator_state(self, _: object) -> None:
        """Random numbers are drawn anew in each replay, as they are on a device."""


class Overwritten(torch.Tensor):
    """A tensor whose memory was given away: to use it raises torch's message."""

    message: str

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        used = pytree.tree_leaves((args, kwargs))
        raise RuntimeError(next(x.message for x in used if isinstance(x, Overwritten)))


_FREED: list[StorageWeakRef] = []  # what torch gave away; it is kept from no one


def _free(storage: int) -> None:
    _FREED.append(StorageWeakRef(torch.UntypedStorage._new_with_weak_ptr(storage)))


def _overwrite(tensor: torch.Tensor, message: str) -> None:
    tensor.__class__ = Overwritten
    tensor.message = message


_POOL: dict[int, torch.Tensor] = {}  # by address: the memory of all recordings
_capturing: list[Graph] = []


def _capturable(model: Model, inputs: list[Any]) -> Sequence[Any]:
    """Run *model*; while a recording is made, note how to run it again."""
    if not _capturing:
        return model(inputs)
    kept = [_held(x) for x in inputs]
    inputs.clear()
    before = [x.clone() if _is_tensor(x) else x for x in kept]
    results = list(model(list(kept)))
    for x, old in zip(kept, before, strict=True):  # a capture changes nothing
        if _is_tensor(x):
            x.copy_(old)
    theirs = {x.untyped_storage().data_ptr() for x in kept if _is_tensor(x)}
    moved: dict[int, torch.UntypedStorage] = {}
    placed = [_held(x) if _lies_in(x, theirs) else _placed(x, moved) for x in results]
    places = [_held(x) for x in placed]

    def again() -> None:
        for place, new in zip(places, model(list(kept)), strict=True):
            if _is_tensor(place) and place.data_ptr() != new.data_ptr():
                place.copy_(new)

    _capturing[-1].again = again
    return placed


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _lies_in(value: Any, addresses: set[int]) -> bool:
    return not _is_tensor(value) or value.untyped_storage().data_ptr() in addresses


def _held(value: Any) -> Any:
    """Return *value* for a replay; memory of the pool has no owner but the pool."""
    if not _is_tensor(value):
        return value
    if value.untyped_storage().data_ptr() not in _POOL:
        return value.detach()
    data = _described(value)
    return _tensor(data, _storage(data["data_ptr"], data["nbytes"]))


def _placed(value: Any, moved: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    """Return a copy of *value* in the pool; what shared memory shares it there."""
    data = _described(value)
    if data["data_ptr"] not in moved:
        owner = torch.empty(data["nbytes"] or 1, dtype=torch.uint8)
        _POOL[owner.data_ptr()] = owner
        moved[data["data_ptr"]] = _storage(owner.data_ptr(), data["nbytes"])
    return _tensor(data, moved[data["data_ptr"]]).copy_(value)


def _input_in_pool(value: torch.Tensor) -> torch.Tensor:
    like = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
    return _placed(like, {})


def _described(value: torch.Tensor) -> dict[str, Any]:
    describe = cudagraph_trees.CUDAGraphNode._tensor_metadata
    return describe(value, ignore_storage_offset=False)


def _storage(address: int, nbytes: int) -> torch.UntypedStorage:
    cpu = torch.device("cpu")
    return torch._C._construct_storage_from_data_pointer(address, cpu, nbytes)


def _tensor(data: dict[str, Any], storage: torch.UntypedStorage) -> torch.Tensor:
    empty = torch.empty(0, dtype=data["dtype"])
    return empty.set_(storage, data["storage_offset"], data["size"], data["stride"])


@contextlib.contextmanager
def _capture(graph: Graph, **_: Any) -> Iterator[None]:
    _capturing.append(graph)
    try:
        yield
    finally:
        _capturing.pop()


def _same_places(values: Sequence[Any], addresses: Sequence[Any], which: Any) -> bool:
    return all(values[n].data_ptr() == addresses[n] for n in which)


def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing: there is no device."""


def _no_context(*_: Any, **__: Any) -> contextlib.nullcontext[None]:
    return contextlib.nullcontext()


class _Stream:
    wait_stream = synchronize = _nothing


_CUDA = {
    "synchronize": _nothing,
    "Stream": _Stream,
    "current_stream": lambda *_: _Stream(),
    "CUDAGraph": Graph,
    "graph_pool_handle": lambda: (0, 0),
    "graph": _capture,
    "device": _no_context,
}
_TREES = dict.fromkeys(
    (
        "_use_cuda_memory_pool_manager",
        "disable_conv_cache_emptying",
        "clear_cublas_manager",
        "_update_current_stream_external_object",
    ),
    _no_context,
)
_TREES["static_input"] = _input_in_pool
_C = {
    "_cuda_getCheckpointState": lambda *_: object(),
    "_cuda_setCheckpointPoolState": _nothing,
    "_cuda_cudaCachingAllocator_raw_delete": _nothing,
    "_cuda_checkPoolLiveAllocations": lambda *_: True,
    "_free_And_Remove_DeleterFn": _free,
    "_set_storage_access_error_msg": _overwrite,
    "_set_storage_data_ptr_access_error_msg": _nothing,
    "_has_Standard_Deleter": lambda *_: True,
    "_tensors_data_ptrs_at_indices_equal": _same_places,
    "_construct_CUDA_Tensor_From_Storage_And_Metadata": _tensor,
}
_LOCK = threading.RLock()  # what is patched belongs to the whole process


@contextlib.contextmanager
def _driver(recorder: Recorder, phase: str) -> Iterator[None]:
    """Answer what torch's recorder asks of the driver, and note what it does."""
    run_eager, record, execute = (
        getattr(CUDAGraphTreeManager, name)
        for name in ("run_eager", "record_function", "execute_node")
    )

    def warms_up(manager: Any, inputs: Any, function: Any) -> Any:
        recorder.did.append(Step("warm-up", phase))
        return run_eager(manager, inputs, function)

    def records(manager: Any, inputs: Any, function: Any) -> Any:
        result = record(manager, inputs, function)
        recorder.did.append(Step("record", phase, _copied(manager.current_node)))
        return result

    def replays(manager: Any, node: Any, inputs: Any) -> Any:
        recorder.did.append(Step("replay", phase, _copied(node)))
        return execute(manager, node, inputs)

    watched = {"run_eager": warms_up, "record_function": records}
    watched["execute_node"] = replays
    with contextlib.ExitStack() as stack:
        stack.enter_context(_LOCK)
        for owner, names in (
            (torch.cuda, _CUDA),
            (cudagraph_trees, _TREES),
            (torch._C, _C),
            (torch.Tensor, {"is_cuda": True}),
            (CUDAGraphTreeManager, watched),
        ):
            for name, value in names.items():
                patch = mock.patch.object(owner, name, value, create=True)
                stack.enter_context(patch)
        yield


def _copied(node: Any) -> tuple[tuple[int, ...], ...]:
    inputs = [node.reconstructed_inputs[n] for n in node.non_static_input_idx]
    return tuple(tuple(x.shape) for x in inputs if _is_tensor(x))
