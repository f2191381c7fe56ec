"""torch's own recorder of CUDA graphs, on a machine without CUDA.

`Recorder` is a backend for ``torch.compile``.  What decides is torch's: Inductor says
which inputs are static, and the class ``CUDAGraphTreeManager`` says whether a call
warms up, records, replays or runs as it is, and whose memory is free.  The driver is
imitated: a recording is the graph of a call and the tensors that it used, and a replay
runs that graph again on the same tensors, and writes to the same places.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch._dynamo.backends import cudagraphs as dynamo_cudagraphs
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch import config as functorch_config
from torch._inductor import compile_fx, config, cudagraph_trees, cudagraph_utils
from torch._inductor.cudagraph_trees import CUDAGraphTreeManager
from torch.utils import _pytree as pytree

_OPTIONS = {"triton.cudagraphs": True, "fx_graph_cache": False}


class Recorder:
    """A backend for ``torch.compile``: CUDA graphs of the CPU's tensors.

    ``did`` has a line for each run of a graph: "warm-up", "record", "replay" or "as it
    is", and the shapes of the inputs that were copied to where a recording reads.
    """

    def __init__(self) -> None:
        self.did: list[str] = []

    def __call__(self, graph: Any, inputs: Sequence[Any], **_: Any) -> Any:
        with functorch_config.patch(enable_autograd_cache=False):
            return compile_fx.compile_fx(
                graph, inputs, inner_compile=self._wrap, config_patches=_OPTIONS
            )

    def reset(self) -> None:
        """Forget all recordings; ``torch.compiler.reset`` calls this."""
        cudagraph_trees.reset_cudagraph_trees()

    def _wrap(self, graph: Any, inputs: Sequence[Any], **how: Any) -> Any:
        """Return one graph, as Inductor hands it to torch's recorder."""
        run = boxed_nop(graph, inputs)
        kind = {k: how.get(k, False) for k in ("is_backward", "is_inference")}
        place = how.get("boxed_forward_device_index")
        if place is not None and not any(kind.values()):
            place.set(0)
        if how.get("cudagraphs", True):
            if getattr(config.triton, "cudagraph_trees_generation_cloning", None):
                output = graph.graph.output_node().meta
                visible = output.get("user_visible_output_idxs", ())
                kind["user_visible_output_idxs"] = tuple(visible)
            mutated = dynamo_cudagraphs.find_input_mutations(graph.graph)
            run = compile_fx.cudagraphify(
                partial(_capturable, run),
                static_input_idxs=how.get("static_input_idxs") or (),
                device_index=0,
                stack_traces=dynamo_cudagraphs.get_stack_traces(graph),
                placeholders=cudagraph_utils.get_placeholder_info(graph.graph),
                mutated_input_idxs=tuple(mutated),
                **kind,
            )

        def watched(values: list[Any]) -> Any:
            before = len(self.did)
            with _driver(self.did):
                result = run(values)
            if len(self.did) == before:
                self.did.append("as it is")
            return result

        watched._boxed_call = True
        return watched


# --- a driver for a device that isn't there -------------------------------------------


class Graph:
    """The part of ``torch.cuda.CUDAGraph``: how a call is run again."""

    again: Callable[[], None] = staticmethod(lambda: None)

    def replay(self) -> None:
        """Run what was captured again, on the same tensors."""
        self.again()

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


def _overwrite(tensor: torch.Tensor, message: str) -> None:
    tensor.__class__ = Overwritten
    tensor.message = message


_POOL: dict[int, torch.Tensor] = {}  # by address: the memory of all recordings
_capturing: list[Graph] = []


def _capturable(model: Callable[..., Any], inputs: list[Any]) -> Sequence[Any]:
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
    theirs = {_address(x) for x in kept if _is_tensor(x)}
    moved: dict[int, torch.UntypedStorage] = {}
    own = [_is_tensor(x) and _address(x) not in theirs for x in results]
    pairs = zip(results, own, strict=True)
    placed = [_placed(x, moved) if is_own else _held(x) for x, is_own in pairs]
    places = [_held(x) for x in placed]

    def again() -> None:
        for place, new in zip(places, model(list(kept)), strict=True):
            if _is_tensor(place) and place.data_ptr() != new.data_ptr():
                place.copy_(new)

    _capturing[-1].again = again
    return placed


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _address(value: torch.Tensor) -> int:
    return value.untyped_storage().data_ptr()


def _held(value: Any) -> Any:
    """Return *value* for a replay; memory of the pool has no owner but the pool."""
    if not _is_tensor(value):
        return value
    if _address(value) not in _POOL:
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


def _yes(*_: Any) -> bool:
    return True


def _no_context(*_: Any, **__: Any) -> contextlib.nullcontext[None]:
    return contextlib.nullcontext()


_CUDA = {"synchronize": _nothing, "device": _no_context, "graph": _capture}
_CUDA |= {"CUDAGraph": Graph, "graph_pool_handle": lambda: (0, 0)}
_CUDA |= dict.fromkeys(("Stream", "current_stream"), mock.Mock())
_TREES = {"_use_cuda_memory_pool_manager": _no_context, "static_input": _input_in_pool}
_TREES |= {"disable_conv_cache_emptying": _no_context}
_TREES |= {"clear_cublas_manager": _no_context}
_TREES |= {"_update_current_stream_external_object": _no_context}
_C = {
    "_cuda_getCheckpointState": lambda *_: object(),
    "_cuda_setCheckpointPoolState": _nothing,
    "_cuda_cudaCachingAllocator_raw_delete": _nothing,
    "_cuda_checkPoolLiveAllocations": _yes,
    "_free_And_Remove_DeleterFn": _nothing,
    "_has_Standard_Deleter": _yes,
    "_tensors_data_ptrs_at_indices_equal": _same_places,
    "_construct_CUDA_Tensor_From_Storage_And_Metadata": _tensor,
}
# What lets torch itself raise is in builds for CUDA only.
if not hasattr(torch._C, "_set_storage_access_error_msg"):
    _C["_set_storage_access_error_msg"] = _overwrite
    _C["_set_storage_data_ptr_access_error_msg"] = _nothing
_LOCK = threading.RLock()  # what is patched belongs to the whole process


@contextlib.contextmanager
def _driver(did: list[str]) -> Iterator[None]:
    """Answer what torch's recorder asks of the driver, and note what it does."""
    manager = CUDAGraphTreeManager
    run_eager, record = manager.run_eager, manager.record_function
    execute = manager.execute_node

    def warms_up(self: Any, *given: Any) -> Any:
        did.append("warm-up")
        return run_eager(self, *given)

    def records(self: Any, *given: Any) -> Any:
        result = record(self, *given)
        did.append(f"record{_copied(self.current_node)}")
        return result

    def replays(self: Any, node: Any, inputs: Any) -> Any:
        did.append(f"replay{_copied(node)}")
        return execute(self, node, inputs)

    watched = {"run_eager": warms_up, "record_function": records}
    watched["execute_node"] = replays
    patched = {torch.cuda: _CUDA, cudagraph_trees: _TREES, torch._C: _C}
    patched |= {torch.Tensor: {"is_cuda": True}, manager: watched}
    with _LOCK, contextlib.ExitStack() as stack:
        for owner, names in patched.items():
            for name, value in names.items():
                patch = mock.patch.object(owner, name, value, create=True)
                stack.enter_context(patch)
        yield


def _copied(node: Any) -> str:
    inputs = [node.reconstructed_inputs[n] for n in node.non_static_input_idx]
    shapes = [str([*x.shape]) for x in inputs if _is_tensor(x)]
    return f", copies {', '.join(shapes)}" if shapes else ""
