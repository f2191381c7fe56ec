"""The process in which generated kernels run: Triton's interpreter, on CPU tensors.

It is given modules that Inductor wrote for a GPU, with their inputs.  A module calls
libraries itself, and launches a kernel through `Launcher`, which picks the blocks and
the grid as Inductor's own launcher does, and hands the call to the interpreter.  What
this process replaces in torch and Triton ends with it; each replacement says why.
"""

from __future__ import annotations

import functools
import linecache
import math
import re
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.language import core  # noqa: F401 - the interpreter looks for it here
from triton.runtime import interpreter

from .._torch import needed_for
from . import fake_gpu, gpus
from .interpreter import ATTENTION, RANDOM, SEED, attention, pack, unpack

with needed_for("running Triton code without a GPU"):
    from torch._inductor import async_compile
    from torch._inductor.runtime import triton_helpers, triton_heuristics

ATEN = torch.library.Library("aten", "IMPL")  # it acts as long as it is held
MOST_PROGRAMS = 256  # in a launch: they run one by one, so fewer and larger are faster
BUILDER = interpreter.InterpreterBuilder
ALLOWED: list[tuple[int, int]] = []  # the memory of a launch's tensors: starts and ends
LAUNCHES: list[dict[str, Any]] = []  # of the module that runs


def main() -> None:
    """Run one module after the other, until the parent closes its end of the pipe."""
    pipe = Connection(int(sys.argv[1]))
    replace_parts()
    with torch.no_grad(), np.errstate(all="ignore"):
        with fake_gpu.gpu(gpus.find("h100")):
            pass  # this imports what Inductor's modules will
        while True:
            try:
                request = unpack(pipe.recv_bytes())
            except EOFError:
                return
            signal.setitimer(signal.ITIMER_REAL, request["limit_s"])  # then it ends
            with fake_gpu.gpu(gpus.Gpu(**request["gpu"])):
                answer = run_module(request)
            signal.setitimer(signal.ITIMER_REAL, 0)
            pipe.send_bytes(pack(answer))


# --- one module, and its launches ----------------------------------------------------


def run_module(request: dict[str, Any]) -> dict[str, Any]:
    """Return outputs, inputs as the call left them, launches, and any error."""
    inputs, outputs, error = list(request["inputs"]), [], ""
    LAUNCHES.clear()
    try:
        call = _load(request["source"], request["constants"])
        torch.manual_seed(SEED)
        outputs = list(call(list(inputs)))
    except Exception as problem:  # of the kernel: whatever it is, it is reported
        error = _in_kernel(problem)
    answer = {"outputs": outputs, "inputs": inputs}
    return {**answer, "launches": LAUNCHES, "error": error}


def _load(source: str, constants: dict[str, Any]) -> Callable[..., Any]:
    """Return a module's function ``call``, with every device the CPU."""
    source = re.sub(r"^from torch.* as get_raw_stream$", "", source, flags=re.M)
    source = re.sub(r"(['\"])cuda(:\d+)?\1", "'cpu'", source)
    names = {"__name__": "generated", "get_raw_stream": int}
    exec(compile(source, "<generated module>", "exec"), names)
    names |= {"empty_strided_cuda": _empty, **constants}
    names |= dict.fromkeys(("assert_size_stride", "assert_tensor_metadata"), _lay_out)
    names["assert_size_stride_grouped"] = lambda *each: [*map(_lay_out, *each[:3])]
    return names["call"]


class Compiler:
    """Stands for Inductor's ``AsyncCompile``: a module's kernels become `Launcher`s."""

    def triton(self, name: str, text: str, **_: Any) -> Launcher:
        """Return the kernel *name*, defined by *text*."""
        # The interpreter reads a kernel's text through its file, and there is none.
        text = text.replace("device='cuda'", "device='cpu'")
        file = f"<kernel {name}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        names = {"__name__": file, "__file__": file}
        exec(compile(text, file, "exec"), names)
        return Launcher(names[name])

    def wait(self, _: Any) -> None:
        """Do nothing: no kernel is being compiled in the background."""


class Launcher:
    """What a generated module calls to launch a kernel."""

    def __init__(self, tuner: Any) -> None:
        self.tuner = tuner  # its configurations, and what Inductor noted of it
        self.config = tuner.configs[0]  # numbers are the same in each

    def run(self, *args: Any, **_: Any) -> None:
        """Launch the kernel: once for each program of its grid."""
        arguments, of_grid = self._bind(args)

        def grid(blocks: dict[str, int]) -> tuple[int, ...]:
            meta = {**triton_heuristics.config_to_dict(self.config), **blocks}
            rule = triton_heuristics.GridExpr.from_meta(self.tuner.inductor_meta, meta)
            sizes = rule.eval_slow({**blocks, **arguments, **of_grid})
            return tuple(map(int, sizes))

        blocks = self._larger(grid)
        used, usual = _text(blocks), _text(self.config.kwargs)
        LAUNCHES.append(
            {
                "programs": math.prod(grid(blocks)),
                "blocks": used if used == usual else f"{used} for {usual}",
            }
        )
        tensors = [x for x in arguments.values() if isinstance(x, torch.Tensor)]
        storages = [tensor.untyped_storage() for tensor in tensors]
        ALLOWED[:] = {(s.data_ptr(), s.data_ptr() + s.nbytes()) for s in storages}
        self.tuner.fn[grid(blocks)](**{**arguments, **blocks})

    def _bind(self, args: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments by name: the kernel's, and those of the grid alone."""
        parameters = self.tuner.fn.arg_names
        of_grid = self.tuner.inductor_meta.get("extra_launcher_args", ())
        count = len(args) - len(of_grid)
        constants = self.tuner.triton_meta.get("constants", {})
        constants = {name: x for name, x in constants.items() if name in parameters}
        given = [name for name in parameters if name not in self.config.kwargs]
        if count < len(given):  # a call may leave the constants out
            given = [name for name in given if name not in constants]
        arguments = {**constants, **dict(zip(given, args[:count], strict=True))}
        return arguments, dict(zip(of_grid, args[count:], strict=True))

    def _larger(self, grid: Callable[..., tuple[int, ...]]) -> dict[str, int]:
        """Return Inductor's blocks, or larger ones where those take too many programs.

        A block is doubled in the direction that saves more programs, until they are
        few enough.  A kernel's result does not depend on it.
        """
        blocks = self.config.kwargs
        if not re.match(r"Grid\dD", self.tuner.inductor_meta["grid_type"]):
            return blocks
        names = [name for name in ("XBLOCK", "YBLOCK", "ZBLOCK") if name in blocks]
        while math.prod(grid(blocks)) > MOST_PROGRAMS:
            larger = [{**blocks, name: 2 * blocks[name]} for name in names]
            blocks = min(larger, key=lambda blocks: math.prod(grid(blocks)))
        return blocks


def _text(blocks: dict[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in blocks.items() if "BLOCK" in name)


def _lay_out(value: torch.Tensor | None, size: Any, stride: Any, *_: Any) -> None:
    """Give *value* the strides that it has on a GPU, where those differ."""
    if value is None:
        return
    pairs = zip(value.stride(), stride, size, strict=True)
    if value.numel() and any(a != b for a, b, n in pairs if n > 1):
        value.set_(value.new_empty_strided(size, stride).copy_(value))


def _empty(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return new memory; NaN shows where a kernel reads what none has written."""
    empty = torch.empty_strided(size, stride, dtype=dtype)
    return empty.fill_(math.nan if dtype.is_floating_point else 0)


def _in_kernel(error: BaseException) -> str:
    """Return *error*, and below it the lines of the kernel that led there.

    The interpreter wraps what a kernel raises, once for each function of Triton's
    that it was called from, and the other frames are its own.
    """
    lines: list[str] = []
    cause: BaseException | None = error
    while cause:
        error = cause
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename.startswith("<kernel"):
                lines.append(f"  in {frame.name}: {frame.line}")
        wrapper = isinstance(error, interpreter.InterpreterError)
        cause = error.__cause__ if wrapper else None
    return "\n".join([f"{type(error).__name__}: {error}", *lines])


# --- what is replaced, in torch and in Triton's interpreter --------------------------


def replace_parts() -> None:
    """Put this module's functions in place of torch's and Triton's, for good."""
    async_compile.AsyncCompile = Compiler
    # Modules enter a guard for the GPU they were written for.
    torch.cuda._DeviceGuard = torch.cuda.device = lambda _: torch.no_grad()
    torch.cuda.set_device = torch.cuda.synchronize = lambda *_: None
    # Attention kernels exist on a GPU only.
    for operation in ATTENTION:
        ATEN.impl(operation, functools.partial(attention, operation), "AutogradCPU")

    # Memory outside a kernel's tensors is read and written without a word.
    _check_memory("create_masked_load", 0, 1, "loads")
    _check_memory("create_masked_store", 0, 2, "stores")
    _check_memory("create_atomic_rmw", 1, 3, "stores")
    # bfloat16 and float8 are cut off, not rounded, and integers cast to them wrongly.
    BUILDER.cast_impl = _cast
    BUILDER.create_fp_to_fp = lambda self, source, dtype, _: _cast(self, source, dtype)
    BUILDER.create_dot = _dot
    # Arithmetic takes the bits of bfloat16 and float8 for whole numbers.
    for method in (BUILDER.unary_op, BUILDER.binary_op):
        computed = functools.partialmethod(_computed, method)
        setattr(BUILDER, method.__name__, computed)
    BUILDER.get_bf16 = lambda self, x: _cast(self, self.get_fp32(x), tl.bfloat16)
    # This goes element by element: 120 s for a looped softmax that takes 2 s by blocks.
    interpreter.ReduceOps.generic_reduce = _reduce
    # CUDA's library of functions is there for a GPU only.
    library = triton_helpers.libdevice
    for name in [n for n, f in vars(library).items() if callable(f) and n[0] != "_"]:
        setattr(library, name, functools.partial(_call_library, name))
    # Both sides draw numbers alike; Inductor's "4x" draws four at a time.
    for owner, names in (
        (tl, ("rand", "randn")),
        (triton_helpers, ("rand4x", "randn4x", "randint64")),
    ):
        for name in names:
            drawn = functools.partial(_call_library, name.removesuffix("4x"))
            setattr(owner, name, drawn)


def _handle(data: np.ndarray, dtype: Any) -> Any:
    return interpreter.TensorHandle(np.ascontiguousarray(data), dtype)


def _check_memory(method: str, pointers: int, mask: int, access: str) -> None:
    """Make *method* raise IndexError where an element lies outside the tensors.

    Its arguments of number *pointers* and *mask* say which elements it touches.
    """
    original = getattr(BUILDER, method)

    def checked(self: Any, *args: Any) -> Any:
        # The C++ behind it takes all arrays for contiguous; a broadcast is not.
        args = [
            _handle(x.data, x.dtype) if isinstance(x, interpreter.TensorHandle) else x
            for x in args
        ]
        width = max(1, args[pointers].get_element_ty().primitive_bitwidth // 8)
        addresses, used = np.broadcast_arrays(args[pointers].data, args[mask].data)
        outside = addresses[used.astype(bool)]
        for start, end in ALLOWED:
            outside = outside[(outside < start) | (outside + np.uint64(width) > end)]
        if outside.size:
            raise IndexError(f"{access} outside its buffers")
        return original(self, *args)

    setattr(BUILDER, method, checked)


_NARROW = {  # what numpy lacks: torch's type, and the bits as the interpreter has them
    tl.bfloat16: (torch.bfloat16, torch.uint16),
    tl.float8e4nv: (torch.float8_e4m3fn, torch.uint8),
    tl.float8e5: (torch.float8_e5m2, torch.uint8),
}
_cast_wide, _dot_wide = BUILDER.cast_impl, BUILDER.create_dot


def _widened(handle: Any) -> Any:
    """Return *handle*, as float32 if numpy lacks its type."""
    if handle.dtype.scalar not in _NARROW:
        return handle
    dtype, _ = _NARROW[handle.dtype.scalar]
    bits = torch.from_numpy(np.ascontiguousarray(handle.data))
    return _handle(bits.view(dtype).float().numpy(), tl.float32)


def _cast(self: Any, source: Any, dtype: Any) -> Any:
    source = _widened(source)
    if dtype.scalar not in _NARROW:
        return _cast_wide(self, source, dtype)
    narrow, bits = _NARROW[dtype.scalar]
    data = torch.from_numpy(np.ascontiguousarray(source.data)).to(narrow)
    return _handle(data.view(bits).numpy(), dtype.scalar)


def _computed(self: Any, original: Callable[..., Any], *args: Any) -> Any:
    """Return the result of *original* in float32 where numpy lacks the type."""
    *values, operation = args
    result, dtype = original(self, *map(_widened, values), operation), values[0].dtype
    narrow = dtype.scalar in _NARROW and result.data.dtype != bool  # a comparison
    return _cast(self, result, dtype) if narrow else result


def _dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
    return _dot_wide(self, _widened(a), _widened(b), *rest)


def _combine(self: Any, left: Any, right: Any, like: Any) -> list[np.ndarray]:
    """Return the kernel's own function of two lists of arrays, one for each value."""
    blocks = [
        self.to_tensor(array, tensor.dtype)
        for arrays in (left, right)
        for array, tensor in zip(arrays, like, strict=True)
    ]
    result = self.combine_fn.fn(*blocks)
    result = result if isinstance(result, tuple) else (result,)
    return [
        np.broadcast_to(x.handle.data, a.shape).astype(a.dtype)
        for x, a in zip(result, left, strict=True)
    ]


def _reduce(self: Any, inputs: Any) -> list[Any]:
    """Combine neighbour with neighbour, all pairs at once, until one is left."""
    inputs, axis = self.unravel(inputs, self.axis)
    arrays = [np.moveaxis(x.handle.data, axis, -1) for x in inputs]
    while arrays[0].shape[-1] > 1:  # a power of two
        left, right = ([a[..., i::2] for a in arrays] for i in (0, 1))
        arrays = _combine(self, left, right, inputs)
    if self.keep_dims:
        arrays = [np.moveaxis(a, -1, axis) for a in arrays]
    else:
        arrays = [a[..., 0] for a in arrays]
    return [self.to_tensor(a, x.dtype) for a, x in zip(arrays, inputs, strict=True)]


_FUNCTIONS: dict[str, Callable[..., Any]] = {  # where torch has another name, or none
    "fabs": torch.abs,
    "nearbyint": torch.round,
    "llrint": lambda x: torch.round(x).to(torch.int64),
    "fast_tanhf": torch.tanh,
    "fma": lambda x, y, z: x * y + z,
    "mul_rn": torch.mul,
    "ilogb": lambda x: torch.frexp(x)[1] - 1,
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    **RANDOM,
}


def _call_library(function: str, *args: Any, **_: Any) -> Any:
    """Return torch's result for a *function* of CUDA's library, or a drawn number."""
    known = _FUNCTIONS.get(function) or getattr(torch, function, None)
    known = known or getattr(torch.special, function, None)
    known = known or getattr(torch.special, f"bessel_{function}", None)  # j0 and so on
    if known is None:
        raise NotImplementedError(f"libdevice.{function} has no counterpart here")
    values = [
        torch.from_numpy(np.ascontiguousarray(a.handle.data))
        if isinstance(a, tl.tensor)
        else torch.tensor(getattr(a, "value", a))
        for a in args
    ]
    result = known(*values)
    name = str(result.dtype).removeprefix("torch.")
    dtype = tl.int1 if name == "bool" else getattr(tl, name)
    block = any(isinstance(a, tl.tensor) and a.type.is_block() for a in args)
    shaped = tl.block_type(dtype, list(result.shape)) if block else dtype
    return tl.tensor(_handle(result.numpy(), dtype), shaped)


if __name__ == "__main__":
    main()
