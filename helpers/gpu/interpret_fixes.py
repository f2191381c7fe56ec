"""What Triton's interpreter lacks or does slowly, for kernels that Inductor wrote.

`improve` replaces it in this process, for good: only a child process may call it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.language import core  # noqa: F401 - the interpreter looks for it here
from triton.runtime import interpreter

from helpers._torch import needed_for

with needed_for("Triton code for a GPU that is not here"):
    from torch._inductor.runtime import triton_helpers


class Bounds:
    """The memory that a launch may touch."""

    def allow(self, tensors: list[torch.Tensor]) -> None:
        """Allow the storage of *tensors*, and nothing else."""
        storages = {
            s.data_ptr(): s.nbytes() for s in (x.untyped_storage() for x in tensors)
        }
        self.starts = np.array(sorted(storages), dtype=np.uint64)
        sizes = np.array([storages[int(s)] for s in self.starts], dtype=np.uint64)
        self.ends = self.starts + sizes

    def check(self, pointers: Any, mask: Any, what: str) -> None:
        """Raise IndexError where an element that is not masked lies outside."""
        used = np.broadcast_to(pointers.data, mask.data.shape)[mask.data.astype(bool)]
        if not used.size:
            return
        element = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        at = np.searchsorted(self.starts, used, side="right") - 1
        inside = (at >= 0) & (used + np.uint64(element) <= self.ends[np.maximum(at, 0)])
        if not inside.all():
            raise IndexError(f"{what} outside its buffers")


BOUNDS = Bounds()
_NARROW = {
    tl.bfloat16: torch.bfloat16,
    tl.float8e4nv: torch.float8_e4m3fn,
    tl.float8e5: torch.float8_e5m2,
}
_WIDE = {
    torch.float16: tl.float16,
    torch.float32: tl.float32,
    torch.float64: tl.float64,
    torch.bool: tl.int1,
    torch.int32: tl.int32,
    torch.int64: tl.int64,
}


def improve() -> None:
    """Complete Triton's interpreter, in this process."""
    builder = interpreter.InterpreterBuilder
    _check_bounds(builder)
    _round_properly(builder)
    interpreter.ReduceOps.generic_reduce = _reduce
    interpreter.ScanOps.generic_scan = _scan
    library = triton_helpers.libdevice
    for name in [n for n, f in vars(library).items() if callable(f) and n[0] != "_"]:
        setattr(library, name, _library_function(name))
    # It works out whether integers overflow, and then asserts it in debug mode only.
    interpreter.interpreter_builder.options = dataclasses.replace(
        interpreter.interpreter_builder.options, sanitize_overflow=False
    )
    _patch_once()


def _check_bounds(builder: Any) -> None:
    load, store = builder.create_masked_load, builder.create_masked_store

    def create_masked_load(self: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
        BOUNDS.check(pointers, mask, "loads")
        return load(self, pointers, mask, *rest)

    def create_masked_store(
        self: Any, pointers: Any, value: Any, mask: Any, *rest: Any
    ):
        BOUNDS.check(pointers, mask, "stores")
        return store(self, pointers, value, mask, *rest)

    builder.create_masked_load = create_masked_load
    builder.create_masked_store = create_masked_store


def _round_properly(builder: Any) -> None:
    """Convert narrow types as a GPU does: the interpreter cuts bits off."""
    cast, dot = builder.cast_impl, builder.create_dot

    def widen(handle: Any) -> torch.Tensor:
        data = torch.from_numpy(np.ascontiguousarray(handle.data))
        kind = _NARROW.get(handle.dtype.scalar)
        return data.view(kind).float() if kind else data

    def cast_impl(self: Any, source: Any, kind: Any) -> Any:
        narrow = _NARROW.get(kind.scalar)
        if narrow:
            bits = widen(source).to(narrow).view(_BITS[narrow.itemsize]).numpy()
            return interpreter.TensorHandle(bits, kind.scalar)
        if source.dtype.scalar in _NARROW:
            source = interpreter.TensorHandle(widen(source).numpy(), tl.float32)
        return cast(self, source, kind)

    def create_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        wide = [
            interpreter.TensorHandle(widen(x).numpy(), tl.float32)
            if x.dtype.scalar in _NARROW
            else x
            for x in (a, b)
        ]
        return dot(self, *wide, *rest)

    builder.cast_impl, builder.create_dot = cast_impl, create_dot
    builder.create_fp_to_fp = lambda self, source, kind, _: cast_impl(
        self, source, kind
    )


_BITS = {1: torch.uint8, 2: torch.uint16}


def _tensors(arrays: Any, like: Any) -> tuple[Any, ...]:
    made = []
    for array, each in zip(arrays, like, strict=True):
        handle = interpreter.TensorHandle(np.ascontiguousarray(array), each.dtype)
        made.append(tl.tensor(handle, tl.block_type(each.dtype, list(array.shape))))
    return tuple(made)


def _combine(self: Any, left: Any, right: Any, like: Any) -> list[np.ndarray]:
    made = self.combine_fn.fn(*_tensors(left, like), *_tensors(right, like))
    made = made if isinstance(made, tuple) else (made,)
    return [
        np.broadcast_to(m.handle.data, a.shape).astype(a.dtype)
        for m, a in zip(made, left, strict=True)
    ]


def _reduce(self: Any, inputs: Any) -> list[Any]:
    """Reduce whole blocks, neighbour with neighbour, until one element is left."""
    arrays, axis = [x.handle.data for x in inputs], self.axis
    if axis is None:
        arrays, axis = [a.reshape(-1) for a in arrays], 0
    arrays = [np.moveaxis(a, axis, -1) for a in arrays]
    while arrays[0].shape[-1] > 1:
        left, right = ([a[..., i::2] for a in arrays] for i in (0, 1))
        arrays = _combine(self, left, right, inputs)
    if self.keep_dims and self.axis is None:
        arrays = [a.reshape((1,) * len(inputs[0].shape)) for a in arrays]
    elif self.keep_dims:
        arrays = [np.moveaxis(a, -1, axis) for a in arrays]
    else:
        arrays = [a[..., 0] for a in arrays]
    return [
        self.to_tensor(a if a.shape else a[()], x.dtype)
        for a, x in zip(arrays, inputs, strict=True)
    ]


def _scan(self: Any, inputs: Any) -> list[Any]:
    """Scan whole blocks: each element takes in what lies 1, 2, 4, ... before it."""
    arrays = [np.moveaxis(x.handle.data, self.axis, -1) for x in inputs]
    length, step = arrays[0].shape[-1], 1
    while step < length:
        before = [np.roll(a, step, -1) for a in arrays]
        made = _combine(self, before, arrays, inputs)
        late = np.arange(length) >= step
        arrays = [np.where(late, m, a) for m, a in zip(made, arrays, strict=True)]
        step *= 2
    arrays = [np.moveaxis(a, -1, self.axis) for a in arrays]
    return [self.to_tensor(a, x.dtype) for a, x in zip(arrays, inputs, strict=True)]


# CUDA's names where torch has another.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "fabs": torch.abs,
    "rint": torch.round,
    "nearbyint": torch.round,
    "round": lambda x: torch.trunc(x + torch.copysign(torch.tensor(0.5), x)),
    "llrint": lambda x: torch.round(x).to(torch.int64),
    "llround": lambda x: torch.trunc(x + torch.copysign(torch.tensor(0.5), x)).long(),
    "finitef": torch.isfinite,
    "isfinited": torch.isfinite,
    "tgamma": lambda x: torch.lgamma(x).exp(),
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "normcdf": torch.special.ndtr,
    "normcdfinv": torch.special.ndtri,
    "cbrt": lambda x: torch.copysign(x.abs().pow(1 / 3), x),
    "fma": lambda x, y, z: x * y + z,
    "div_rn": torch.div,
    "mul_rn": torch.mul,
    "add_rn": torch.add,
    "sub_rn": torch.sub,
    "sqrt_rn": torch.sqrt,
    "ilogb": lambda x: torch.frexp(x)[1] - 1,
}


def _library_function(name: str) -> Callable[..., Any]:
    """Return torch's version of a function of CUDA's library for mathematics."""
    known = _FUNCTIONS.get(name) or getattr(torch, name, None)
    known = known or getattr(torch.special, name, None)

    def call(*args: Any, **_: Any) -> Any:
        if known is None:
            raise NotImplementedError(f"libdevice.{name} has no counterpart here")
        blocks = [a for a in args if isinstance(a, tl.tensor)]
        values = [
            torch.from_numpy(np.ascontiguousarray(a.handle.data))
            if isinstance(a, tl.tensor)
            else torch.tensor(getattr(a, "value", a))
            for a in args
        ]
        made = known(*values)
        kind, data = _WIDE[made.dtype], made.numpy()
        whole = any(b.type.is_block() for b in blocks)
        type_ = tl.block_type(kind, list(data.shape)) if whole else kind
        return tl.tensor(interpreter.TensorHandle(data, kind), type_)

    return call


def _patch_once() -> None:
    """Put the interpreter's own functions in place for good, not for each call."""

    def kernel() -> None: ...

    helpers = triton_helpers
    scope = interpreter._patch_lang(kernel)
    interpreter._patch_builtin(helpers, interpreter.interpreter_builder, scope)
    nothing = interpreter._LangPatchScope()
    interpreter._patch_lang = lambda _: nothing
