"""Run the kernels of a dump on the CPU, and compare what comes out with eager.

Triton has an interpreter, which runs a kernel program by program on the CPU.  The
switch for it is read when Triton is imported, so it runs in a process of its own
(`interpreter_child`).  That gets the whole module Inductor wrote for a graph, and the
inputs the program had.  Here, eager runs the graph the module was made from, on the
same inputs.  What the two give is compared; a launch agrees when all of its graph does.
"""

from __future__ import annotations

import atexit
import functools
import io
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from helpers import session
from helpers.errors import InputError
from helpers.gpu import gpus
from helpers.results import Result
from helpers.tensors import clone
from helpers.text import Table, count, mark, pre, progress

SEED = 0  # of what a program draws, on both sides
SLACK = 8.0  # times the tolerance: a kernel takes sums in another order


@dataclass(frozen=True)
class CheckedKernel:
    """One launch: whether its graph's outputs agree, and how far off they are at most.

    *error* and *relative* are the largest difference from eager of what it wrote
    (else of all outputs), as it is and over the output's size; *reason* is '' unless
    something is wrong.
    """

    name: str
    graph: int
    phase: str
    status: str  # agrees, differs or not run
    error: float = 0.0
    relative: float = 0.0
    programs: int = 0
    blocks: str = ""  # such as XBLOCK 128
    instead: str = ""  # Inductor's blocks, where larger ones were used
    reason: str = ""

    def row(self) -> tuple[str, ...]:
        """Return the cells of a table row; the errors depend on the machine."""
        blocks = f"{self.blocks} for {self.instead}" if self.instead else self.blocks
        error = mark(f"{self.relative:.1g}") if self.status != "not run" else ""
        programs, phase = str(self.programs or ""), f"{self.graph} {self.phase}"
        return (phase, self.status, programs, blocks, self.name, error)


@dataclass(frozen=True, repr=False)
class Numerics(Result):
    """What each Triton kernel of a dump computed in the interpreter."""

    kernels: tuple[CheckedKernel, ...]

    @property
    def checked(self) -> int:
        """The number of kernels that agree with eager."""
        return sum(k.status == "agrees" for k in self.kernels)

    @property
    def share(self) -> float:
        """The fraction of kernels that agree with eager; 1 when there is none."""
        return self.checked / len(self.kernels) if self.kernels else 1.0

    @property
    def ok(self) -> bool:
        """Whether no kernel differs from eager."""
        return all(k.status != "differs" for k in self.kernels)

    def table(self) -> Table:
        """Return a row for each launch."""
        headings = ("graph", "status", "programs", "blocks", "name", "error")
        return Table.of(headings, [k.row() for k in self.kernels])

    def _last(self) -> str:
        if not self.kernels:
            return "no Triton kernel to run"
        total = count(len(self.kernels), "kernel")
        verb = "agrees" if self.checked == 1 else "agree"
        reasons = [f"{k.name}: {k.reason}" for k in self.kernels if k.reason]
        return "\n".join(
            [f"{self.checked} of {total} {verb} with eager", *dict.fromkeys(reasons)]
        )

    def __str__(self) -> str:
        return f"{self.table()}\n{self._last()}" if self.kernels else self._last()

    def _repr_html_(self) -> str:
        table = self.table()._repr_html_() if self.kernels else ""
        return table + pre(self._last())


def check_numerics(dump: Any, limit_s: float = 120.0) -> Numerics:
    """Return how each Triton kernel of *dump* compares with eager, run on the CPU.

    Inputs are those of the call that was dumped; a backward gets what eager's forward
    saved, and normal numbers for its gradients.  An output agrees within 8 times this:
    the relative tolerance of ``torch.testing`` for the graph's narrowest type, of the
    element or the output's root mean square, whichever is larger; plus how far eager
    itself is from the same graph in float64.  A graph may take *limit_s* seconds, the
    start of the interpreter not counted: a loop without end is stopped then.

    Raises InputError for a dump that was read from a file: it holds no graphs.
    """
    captured = getattr(dump, "_captured", None)
    if captured is None:
        raise InputError(
            "a dump that was read from a file holds the code but not the graphs: dump "
            "again, and check that with dump_triton(f, x).check_numerics()"
        )
    # What really ran here names its configurations itself: the GPU is not asked.
    gpu = "h100" if dump.gpu == "this" else gpus.find(dump.gpu).name
    launches, checked = list(dump.launches), list[CheckedKernel]()
    saved: dict[int, dict[str, Any]] = {}  # by graph, what its forward saved
    with progress("graphs", len(captured)) as bar:
        for graph in captured:
            of_graph = [launches.pop(0) for _ in graph.launches]
            kernels = [
                CheckedKernel(launch.name, launch.graph, launch.phase, "not run")
                for launch in of_graph
                if launch.kind != "library"
            ]
            if kernels or graph.phase == "forward":  # whose backward needs its values
                with session.undisturbed():
                    checked += _check(graph, kernels, saved, gpu, limit_s)
            bar.update()
    return Numerics(tuple(checked))


def _check(
    graph: Any,
    kernels: list[CheckedKernel],
    saved: dict[int, dict[str, Any]],
    gpu: str,
    limit_s: float,
) -> list[CheckedKernel]:
    """Return *kernels* with what running their *graph* on both sides showed."""
    known = saved.pop(graph.index, {}) if graph.phase == "backward" else {}
    inputs = _inputs(graph, known)
    request = {"source": graph.source, "inputs": inputs}
    request |= {"gpu": gpu, "chosen": graph.chosen, "constants": graph.constants}
    answer = interpreter().ask(request, limit_s)
    launches, error = answer["launches"], answer["error"]
    kernels = [
        replace(k, programs=x["programs"], blocks=x["blocks"], instead=x["instead"])
        for k, x in zip(kernels, launches, strict=False)
    ] + kernels[len(launches) :]
    user_kernels = [x["user"] for x in launches if x.get("user")]
    try:
        eager = Eager(graph, user_kernels).values(inputs)
    except Exception as problem:  # an operation of the program's, whichever it is
        line = (str(problem).strip().splitlines() or [""])[0]
        why = error or f"eager cannot run: {type(problem).__name__}: {line}"
        return [replace(k, reason=why) for k in kernels]
    outputs = _output_nodes(graph)
    if graph.phase == "forward":
        names = [getattr(node, "name", "") for node in outputs]
        saved[graph.index] = dict(zip(names, eager.values(), strict=False))
    if error:
        return _stopped(kernels, len(launches), error)
    if len(answer["outputs"]) != len(outputs) or len(launches) != len(kernels):
        why = "the module gave another number of outputs or launches"
        return [replace(k, status="differs", reason=why) for k in kernels]
    try:
        exact = Eager(graph, user_kernels, wide=True).values(inputs)
    except Exception:  # an operation that float64 does not have
        exact = eager
    given = [tensor for before, _ in user_kernels for tensor in before]
    got = _named(graph, answer["outputs"], answer["inputs"], given)
    tolerance = _tolerance(graph)
    differences = {x: _difference(eager[x], got[x], exact[x], tolerance) for x in eager}
    pairs = zip(kernels, launches, strict=True)
    return [_verdict(kernel, launch, differences) for kernel, launch in pairs]


def _stopped(
    kernels: list[CheckedKernel], started: int, error: str
) -> list[CheckedKernel]:
    """Return *kernels*, the last of those *started* being the one that failed."""
    failed = max(started - 1, 0)
    return [
        replace(k, reason=error if i == failed else f"{kernels[failed].name} failed")
        for i, k in enumerate(kernels)
    ]


def _named(
    graph: Any, outputs: Sequence[Any], inputs: Sequence[Any], given: Sequence[Any]
) -> dict[str, Any]:
    """Return what is compared, by name, in the order in which the child counts."""
    named = {f"output {i}": value for i, value in enumerate(outputs)}
    if graph.phase != "backward":  # which may write to what was saved for it
        named |= {f"input {i} after the call": x for i, x in enumerate(inputs)}
    return named | {f"tensor {i} for your kernel": x for i, x in enumerate(given)}


# --- comparing ---------------------------------------------------------------------

_TOLERANCES = {  # relative, as in torch.testing.assert_close
    torch.bfloat16: 1.6e-2,
    torch.float16: 1e-3,
    torch.float32: 1.3e-6,
    torch.float64: 1e-7,
}


def _tolerance(graph: Any) -> float:
    """Return the tolerance of the narrowest type that *graph* computes in."""
    values = [node.meta.get("val") for node in graph.aten.graph.nodes]
    dtypes = {v.dtype for v in values if isinstance(v, torch.Tensor)}
    return max((_TOLERANCES.get(dtype, 0.0) for dtype in dtypes), default=0.0)


def _difference(
    eager: Any, kernel: Any, exact: Any, tolerance: float
) -> tuple[float, float, bool]:
    """Return the largest absolute and relative difference, and whether it is fine.

    Eager rounds, too, and a kernel that rounds otherwise is not wrong: so it may be
    off by *tolerance* of the size, and by as much as eager is off *exact*, which is
    the same in float64; both times `SLACK`.  The size of an element is its own, or
    the tensor's root mean square: after a subtraction, little but rounding is left.
    Whole numbers have to be equal.
    """
    far = math.inf, math.inf, False
    if not isinstance(eager, torch.Tensor) or not isinstance(kernel, torch.Tensor):
        return (0.0, 0.0, True) if eager == kernel else far
    if eager.shape != kernel.shape or eager.dtype != kernel.dtype:
        return far
    if eager.is_complex():
        eager, kernel, exact = map(torch.view_as_real, (eager, kernel, exact))
    a, b, c = eager.double(), kernel.double(), exact.double()
    equal = (a == b) | (a.isnan() & b.isnan())
    if bool(equal.all()):
        return 0.0, 0.0, True
    if not bool((a.isfinite() & b.isfinite() | equal).all()):
        return far
    finite = a.isfinite()
    a, b, c = a[finite], b[finite], c[finite]
    off, size = (a - b).abs(), a.abs().clamp(min=float(a.square().mean().sqrt()))
    unsure = float((a - c).abs().nan_to_num(0.0, 0.0).max())
    allowed = SLACK * (tolerance * size + unsure)
    fine = off <= allowed if eager.is_floating_point() else off == 0
    relative = off / size.clamp(min=torch.finfo(torch.float64).tiny)
    return float(off.max()), float(relative.max()), bool(fine.all())


def _verdict(
    kernel: CheckedKernel,
    launch: dict[str, Any],
    differences: dict[str, tuple[float, float, bool]],
) -> CheckedKernel:
    """Return *kernel* with its verdict, and what is wrong where it differs."""
    wrong = [name for name, (*_, fine) in differences.items() if not fine]
    wrote = [name for i, name in enumerate(differences) if i in launch["wrote"]]
    errors = [differences[name][:2] for name in wrote or differences] or [(0.0, 0.0)]
    error, relative = (max(column) for column in zip(*errors, strict=True))
    status, reason = "agrees", ""
    if wrong:
        own = [name for name in wrote if name in wrong]
        status, reason = "differs", f"wrong: {', '.join(own or wrong)}"
        reason += ", which it writes" if own else ""
    if launch["user"]:
        status = "not run"
        reason = "it ran, but a kernel of your own has no eager twin to agree with"
    return replace(kernel, status=status, error=error, relative=relative, reason=reason)


# --- the eager side ------------------------------------------------------------------


class Eager(torch.fx.Interpreter):
    """Runs a traced graph operation by operation, on the CPU.

    What a GPU does otherwise is done its way: random numbers are those that the
    kernels draw from the same seed, attention is that of a GPU.  A Triton kernel of
    the user's has no eager twin: *user_kernels* holds the tensors that each launch of
    one was given and left; the first are checked, the others taken over.  With *wide*
    all floating-point numbers are float64.
    """

    def __init__(
        self, graph: Any, user_kernels: Sequence[Any], wide: bool = False
    ) -> None:
        super().__init__(graph.aten)
        self.lowered, self.wide = graph, wide
        self.user_kernels, self.given = list(user_kernels), list[Any]()
        # Some kernels use all four numbers of each round of the generator.
        kernels = re.split(r"^# kernel path", graph.source, flags=re.MULTILINE)
        fourfold = [text for text in kernels if re.search(r"\.randn?4x\(", text)]
        self.fourfold = set(re.findall(r"%(inductor_random\w*)", "".join(fourfold)))

    def values(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Return what the graph gives for *inputs*, which stay as they are, by name."""
        inputs = [self._adapted(value) for value in clone(list(inputs))]
        torch.manual_seed(SEED)
        with torch.no_grad():
            outputs = self.run(*inputs)
        outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        return _named(self.lowered, outputs, inputs, self.given)

    def run_node(self, node: torch.fx.Node) -> Any:
        """Return the value of one operation."""
        self.node_name = node.name
        return super().run_node(node)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return what *target* gives on the CPU, wherever it was traced for."""
        args, kwargs = pytree.tree_map(self._adapted, (args, kwargs))
        name = str(target).split(".")[min(1, str(target).count("."))]
        if target in ATTENTION:
            return attention(target, *args, **kwargs)
        if name.startswith("triton_kernel_wrapper"):
            return self._user_kernel(**kwargs)
        if name == "inductor_seeds":
            return torch.randint(-(2**63), 2**63 - 1, [args[0]])
        if name == "inductor_random":
            size, seed, mode = args
            drawn = draw(size, int(seed), mode, self.node_name in self.fourfold)
            return self._adapted(drawn)
        if name == "inductor_randint":
            low, high, size, seed = args
            return draw_integers(size, int(seed), low, high)
        return super().call_function(target, args, kwargs)

    def _adapted(self, value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("cpu")
        if isinstance(value, torch.dtype) and self.wide and value.is_floating_point:
            return torch.float64
        if not isinstance(value, torch.Tensor):
            return value
        wide = self.wide and value.is_floating_point()
        return value.cpu().double() if wide else value.cpu()

    def _user_kernel(self, kwargs: Any, tensors_to_clone: list[str], **_: Any) -> Any:
        names = [name for name, x in kwargs.items() if isinstance(x, torch.Tensor)]
        before, after = self.user_kernels.pop(0)
        for name, given in zip(names, before, strict=True):
            # What it alone writes to may be new, and hold anything.
            read = name not in tensors_to_clone
            self.given.append(kwargs[name] if read else self._adapted(given))
        left = dict(zip(names, map(self._adapted, after), strict=True))
        return {name: left[name] for name in tensors_to_clone}


def _output_nodes(graph: Any) -> list[Any]:
    [output] = graph.aten.graph.find_nodes(op="output")
    return list(output.args[0])


def _inputs(graph: Any, saved: dict[str, Any]) -> list[Any]:
    """Return a value for each placeholder: saved, of the call, or made up.

    What was saved is known by the name that forward and backward give it.  Of the
    call, each placeholder takes the first value that fits and is left.
    """
    of_call, values = list(graph.inputs), []
    generator = torch.Generator().manual_seed(SEED)
    for node in graph.aten.graph.find_nodes(op="placeholder"):
        like = node.meta.get("val")
        options = [saved[node.name]] if node.name in saved else of_call
        at = next((i for i, value in enumerate(options) if _fits(value, like)), None)
        value = _made_up(like, generator) if at is None else options.pop(at)
        if isinstance(value, torch.Tensor):
            # Copied one by one: in memory of others a wrong access would go unnoticed.
            value = clone(value.detach().cpu())
        values.append(value)
    return values


def _hint(size: Any) -> Any:
    """Return the number that a symbolic *size* was in this call."""
    return size.node.hint if hasattr(size, "node") else size


def _fits(value: Any, like: Any) -> bool:
    if not isinstance(like, torch.Tensor) or not isinstance(value, torch.Tensor):
        return type(_hint(like)) is type(value)
    shape = tuple(map(_hint, like.shape))
    return tuple(value.shape) == shape and value.dtype is like.dtype


def _made_up(like: Any, generator: torch.Generator) -> Any:
    if not isinstance(like, torch.Tensor):
        return _hint(like)
    shape, stride = (tuple(map(_hint, sizes)) for sizes in (like.shape, like.stride()))
    made = torch.empty_strided(shape, stride, dtype=like.dtype).zero_()
    if like.dtype.is_floating_point:
        made.copy_(torch.randn(shape, generator=generator))
    return made


# --- what a GPU has, and eager on a CPU has not ---------------------------------------


def draw(size: Sequence[int], seed: int, mode: str, fourfold: bool) -> torch.Tensor:
    """Return ``tl.rand`` or ``tl.randn`` of *seed* at 0, 1, 2 and so on, as *size*.

    With *fourfold*, four neighbours share one round of the generator, unless the block
    is smaller than that.  The arithmetic is that of ``triton.language.random``.
    """
    offset = np.arange(math.prod(size), dtype=np.uint64)
    fourfold = fourfold and len(offset) > 2  # no block is larger than its numbers need
    words = philox(seed, offset // np.uint64(4) if fourfold else offset)
    signed = np.stack(words).astype(np.uint32).view(np.int32)  # (4, offsets)
    positive = np.where(signed < 0, -signed - 1, signed).astype(np.float32)
    numbers = positive * np.float32(4.6566127342e-10)  # below 1
    if mode == "randn":  # Box and Muller: two normal numbers of two uniform ones
        radius = np.sqrt(-2 * np.log(np.maximum(np.float32(1e-7), numbers[::2])))
        angle = np.float32(6.283185307179586) * numbers[1::2]
        pairs = radius * np.cos(angle), radius * np.sin(angle)  # (2, offsets) each
        numbers = np.stack([pairs[0][0], pairs[1][0], pairs[0][1], pairs[1][1]])
    word = (offset % np.uint64(4)).astype(int) if fourfold else 0 * offset.astype(int)
    drawn = numbers[word, np.arange(len(offset))]
    return torch.from_numpy(drawn.astype(np.float32)).reshape(tuple(size))


def draw_integers(size: Sequence[int], seed: int, low: int, high: int) -> torch.Tensor:
    """Return Inductor's integers from *low* to below *high*."""
    words = philox(seed, np.arange(math.prod(size), dtype=np.uint64))
    wide = words[0] | words[1] << np.uint64(32)
    drawn = (wide % np.uint64(high - low)).astype(np.int64) + low
    return torch.from_numpy(drawn).reshape(tuple(size))


def philox(seed: int, offset: np.ndarray) -> list[np.ndarray]:
    """Return four words of 32 bits for each offset.

    Source: Philox-4x32-10 of Salmon et al., "Parallel random numbers: as easy as
    1, 2, 3" (2011), keyed and counted as in ``triton.language.random``.
    """
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    first, second = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
    keys = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32 & 0xFFFFFFFF)
    count = [offset & low, *(np.zeros_like(offset) for _ in range(3))]
    for _ in range(10):
        a, b = first * count[0], second * count[2]
        count = [
            b >> half ^ count[1] ^ keys[0],
            b & low,
            a >> half ^ count[3] ^ keys[1],
            a & low,
        ]
        steps = zip(keys, (0x9E3779B9, 0xBB67AE85), strict=True)
        keys = tuple(key + np.uint64(step) & low for key, step in steps)
    return count


def attention(operation: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Return what an attention kernel of a GPU gives for CPU tensors, or its gradients.

    Computed by the definition; shapes, strides and types are those of *operation*.
    What only its own backward reads, such as sums of the rows, is zeros.
    """
    names = [argument.name for argument in operation._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    grad = given.get("grad_out", given.get("grad_out_"))
    settings = [given.get("dropout_p", 0.0), given.get("is_causal"), given.get("scale")]
    qkv = [given[name] for name in ("query", "key", "value")]
    values = _attend(*qkv, given.get("attn_bias"), grad, *settings)

    def on_meta(value: Any) -> Any:
        return value.to("meta") if isinstance(value, torch.Tensor) else value

    def filled(like: Any, value: Any) -> Any:
        if not isinstance(like, torch.Tensor):
            return like
        new = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype)
        return new.zero_() if value is None else new.copy_(value)

    outputs = operation(*pytree.tree_map(on_meta, args), **kwargs)
    values += [None] * (len(outputs) - len(values))
    return tuple(map(filled, outputs, values))


def _attend(
    q: Any,
    k: Any,
    v: Any,
    bias: Any,
    grad: Any,
    dropout: float,
    causal: Any,
    scale: Any,
) -> list[Any]:
    """Return attention; with *grad*, the gradients of q, k, v and bias.

    Queries are (batch, heads, rows, width).  Several heads may share keys and values.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    shared = q.shape[1] // k.shape[1]
    q, k, v = q.to(wide), *(x.to(wide).repeat_interleave(shared, 1) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = scale * q @ k.mT  # (batch, heads, rows, columns)
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = scores + torch.full_like(scores, -math.inf).triu(1)
    weights, kept = scores.softmax(-1), torch.ones(())
    if dropout:  # the same elements on both sides, forward and backward
        same = torch.Generator().manual_seed(SEED)
        kept = (torch.rand(weights.shape, generator=same) >= dropout) / (1 - dropout)
    if grad is None:
        return [(weights * kept) @ v]
    grad = grad.to(wide)
    of_weights = grad @ v.mT * kept
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))
    of_k, of_v = scale * of_scores.mT @ q, (weights * kept).mT @ grad
    of_k, of_v = (x.unflatten(1, (-1, shared)).sum(2) for x in (of_k, of_v))
    return [scale * of_scores @ k, of_k, of_v, None if bias is None else of_scores]


ATTENTION = {  # operations of aten that only a GPU has
    getattr(torch.ops.aten, f"_scaled_dot_product_{kind}_attention{way}").default
    for kind in ("efficient", "flash")
    for way in ("", "_backward")
}


# --- the process with the interpreter ------------------------------------------------


def run(source: str, inputs: Sequence[Any], limit_s: float = 60.0) -> list[Any]:
    """Return what the module *source*, of a dump for an H100, computes of *inputs*.

    Its Triton kernels, also a reader's own, run in the interpreter.  Memory that
    nothing wrote holds NaN.  Raises InputError when a kernel fails, with its lines and
    the error as it was raised, and when all takes longer than *limit_s* seconds.
    """
    request = {"source": source, "inputs": list(inputs)}
    request |= {"gpu": "h100", "chosen": {}, "constants": {}}
    answer = interpreter().ask(request, limit_s)
    if answer["error"]:
        raise InputError(answer["error"])
    return answer["outputs"]


@functools.cache
def interpreter() -> Interpreter:
    """Return this program's interpreter, the same each time.

    Starting takes seconds, most of them for importing torch; it ends with the program.
    """
    process = Interpreter()
    atexit.register(process.close)
    return process


def pack(value: Any) -> bytes:
    """Return *value*, made of tensors, numbers, texts, lists and dicts, as bytes."""
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def unpack(data: bytes) -> Any:
    """Return what ``pack`` was given; nothing else is ever built from *data*."""
    return torch.load(io.BytesIO(data), weights_only=True)


class Interpreter:
    """One process for all graphs, and a new one after one that was lost."""

    def __init__(self) -> None:
        self.process: Any = None
        self.one_at_a_time = threading.Lock()

    def ask(self, request: dict[str, Any], limit_s: float) -> dict[str, Any]:
        """Return what `interpreter_child.Module.run` does for *request*.

        That is the *source* of a module, its *inputs*, the *gpu* it was written for,
        the number of the configuration *chosen* for a kernel if not 0, and the
        *constants* that are globals of the module.
        A process that does not answer within *limit_s*, crashes, or is interrupted,
        is ended; then only the launches that were started and the error come back.
        """
        with self.one_at_a_time:
            try:
                self.start()
                self._wait_until_ready()
                return self._ask(request, limit_s)
            except BaseException:  # an interrupt, too: its answer would come next time
                self.close()
                raise

    def _ask(self, request: dict[str, Any], limit_s: float) -> dict[str, Any]:
        """Send *request*; the child says each launch it starts, and then the rest."""
        started: list[dict[str, Any]] = []
        end = time.monotonic() + limit_s
        try:
            self.pipe.send_bytes(pack({**request, "seed": SEED}))
            while self.pipe.poll(max(0.0, end - time.monotonic())):
                message = unpack(self.pipe.recv_bytes())
                if "error" in message:
                    return message
                started.append(message)
            error = f"stopped after {limit_s:g} s"
        except (EOFError, OSError):
            error = self._last_words()
        self.close()
        return {"launches": started, "error": error}

    def start(self) -> None:
        """Begin to start the process, if there is none; return without waiting."""
        if self.process is not None and self.process.poll() is None:
            return
        self.close()  # somebody ended it
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        environment = {
            "TRITON_INTERPRET": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        self.pipe, childs = Pipe()
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 - until close()
        self.ready = False
        module, handle = "helpers.gpu.interpreter_child", childs.fileno()
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, str(handle)],
            pass_fds=[handle],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.stderr,
            env={**os.environ, **environment},
        )
        childs.close()

    def _wait_until_ready(self) -> None:
        """Wait up to two minutes for its imports: they count for no graph."""
        if not self.ready and self.pipe.poll(120):
            self.ready = bool(self.pipe.recv_bytes())

    def _last_words(self) -> str:
        code = self.process.wait(10)
        if code < 0:
            return f"the interpreter crashed: {signal.Signals(-code).name}"
        self.stderr.seek(0)
        lines = self.stderr.read().decode(errors="replace").strip().splitlines()
        return f"the interpreter ended: {(lines or ['it said nothing'])[-1]}"

    def close(self) -> None:
        """End the process, if there is one."""
        process, self.process = self.process, None
        if process is None:
            return
        process.terminate()  # not killed: what traces it may write its notes
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.pipe.close()
        self.stderr.close()
