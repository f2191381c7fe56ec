"""Run the kernels of a dump on the CPU, and compare what comes out with eager.

Triton has an interpreter, which runs a kernel program by program on the CPU.  The
switch for it is read when Triton is imported, so it runs in its own process
(`interpreter_child`).  That gets the whole module Inductor wrote for a graph, and the
inputs the program had.  Here, eager runs the graph the module was made from, on the
same inputs.  What the two give is compared; a launch agrees when all of its graph does.
"""

from __future__ import annotations

import io
import math
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice, zip_longest
from multiprocessing import Pipe
from subprocess import DEVNULL, Popen
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .. import children, correctness, session
from .._torch import needed_for
from ..errors import InputError, one_line
from ..results import TableResult
from ..tensors import clone
from ..text import Table, count, mark, progress
from . import gpus

with needed_for("checking the numbers of kernels"):
    from torch.testing._comparison import default_tolerances

SEED = 0  # of what a program draws, on both sides
SLACK = 8.0  # times the tolerance: a kernel takes sums in another order
ATTENTION = {  # operations of aten that only a GPU has
    getattr(torch.ops.aten, f"_scaled_dot_product_{kind}_attention{way}").default
    for kind in ("efficient", "flash")
    for way in ("", "_backward")
}


@dataclass(frozen=True)
class CheckedKernel:
    """One launch: whether its graph's outputs agree, and how far off they are at most.

    *error* is the largest difference from eager, over the output's size; *reason* is ''
    unless something is wrong.
    """

    name: str
    graph: int
    phase: str
    status: str  # agrees, differs or not run
    error: float = 0.0
    programs: int = 0
    blocks: str = ""  # XBLOCK 128, or XBLOCK 512 for XBLOCK 128: larger than Inductor's
    reason: str = ""


@dataclass(frozen=True, repr=False)
class Numerics(TableResult):
    """What each Triton kernel of a dump computed in the interpreter."""

    kernels: tuple[CheckedKernel, ...]

    @property
    def checked(self) -> int:
        """The number of kernels that agree with eager."""
        return sum(k.status == "agrees" for k in self.kernels)

    def table(self) -> Table:
        """Return a row for each launch; the errors depend on the machine."""
        headings = ("graph", "status", "programs", "blocks", "name", "error")
        rows = []
        for k in self.kernels:
            ran = k.status, k.programs or "", k.blocks
            error = "" if k.status == "not run" else mark(f"{k.error:.1g}")
            rows.append((f"{k.graph} {k.phase}", *ran, k.name, error))
        return Table.of(headings, rows)

    def _last(self) -> str:
        if not self.kernels:
            return "no Triton kernel to run"
        total = count(len(self.kernels), "kernel")
        verb = "agrees" if self.checked == 1 else "agree"
        reasons = [f"{k.name}: {k.reason}" for k in self.kernels if k.reason]
        summary = f"{self.checked} of {total} {verb} with eager"
        return "\n".join([summary, *dict.fromkeys(reasons)])


def check_numerics(dump: Any, limit_s: float = 120.0) -> Numerics:
    """Return how each Triton kernel of *dump* compares with eager, run on the CPU.

    Inputs are those of the call that was dumped; a backward gets what eager's forward
    saved, and normal numbers for its gradients.  An output agrees where `correctness`
    finds it right by the same graph in float64, or off by no more than 8 times the
    tolerance of ``torch.testing`` for the graph's narrowest type.  Random numbers are
    drawn by one simple rule on both sides, so Triton's generator itself isn't checked.
    A graph may take *limit_s* seconds after the interpreter has started: an endless
    loop is stopped.

    Raises InputError for a dump that was read from a file: it holds no graphs.
    """
    if dump.graphs and not dump.lowered:
        raise InputError(
            "a dump that was read from a file holds the code but not the graphs: dump "
            "again, and check that with dump_triton(f, x).check_numerics()"
        )
    launches, checked = iter(dump.launches), list[CheckedKernel]()
    saved: dict[str, Any] = {}  # what the last forward saved for its backward, by name
    with progress("graphs", len(dump.lowered)) as bar:
        for graph in dump.lowered:
            kernels = [
                CheckedKernel(launch.name, launch.graph, launch.phase, "not run")
                for launch in islice(launches, len(graph.launches))
                if launch.kind != "library"
            ]
            if kernels or graph.phase == "forward":  # whose backward needs its values
                with session.undisturbed():
                    checked += _check(graph, kernels, saved, dump.gpu, limit_s)
            bar.update()
    return Numerics(tuple(checked))


def _check(
    graph: Any,
    kernels: list[CheckedKernel],
    saved: dict[str, Any],
    gpu: str,
    limit_s: float,
) -> list[CheckedKernel]:
    """Return *kernels* with what running their *graph* on both sides showed."""

    def not_run(reason: str) -> list[CheckedKernel]:
        return [replace(kernel, reason=reason) for kernel in kernels]

    if graph.phase != "backward":
        saved.clear()
    try:
        inputs = _inputs(graph, saved)
    except TypeError:  # a symbol in it has no number
        return not_run("the size of a gradient depends on data")
    answer = INTERPRETER.ask(graph.source, inputs, limit_s, gpu, graph.constants)
    launches, reason = answer["launches"], answer["error"]
    if not reason and len(launches) != len(kernels):
        reason = f"a branch or loop: {len(launches)} launches of {len(kernels)} kernels"
    for place, launch in enumerate(launches[: len(kernels)]):
        kernels[place] = replace(kernels[place], **launch)
    try:
        eager = Eager(graph).values(inputs)
    except Exception as problem:  # an operation of the program's, whichever it is
        return not_run(reason or f"eager cannot run: {one_line(problem)}")
    if graph.phase == "forward":
        [output] = graph.aten.graph.find_nodes(op="output")
        saved.update(zip(map(str, output.args[0]), eager.values(), strict=False))
    if reason or not kernels:
        return not_run(reason)
    try:
        exact = Eager(graph, wide=True).values(inputs)
    except Exception:  # an operation that float64 does not have
        exact = eager
    computed = _named(graph, answer["outputs"], answer["inputs"])
    verdict = _verdict(graph, eager, computed, exact)
    return [replace(kernel, **verdict) for kernel in kernels]


def _named(graph: Any, outputs: Sequence[Any], inputs: Sequence[Any]) -> dict[str, Any]:
    """Return the values that are compared, by name."""
    named = {f"output {i}": value for i, value in enumerate(outputs)}
    if graph.phase != "backward":  # which may write to what was saved for it
        named |= {f"input {i} after the call": x for i, x in enumerate(inputs)}
    return named


def _verdict(graph: Any, eager: Any, computed: Any, exact: Any) -> dict[str, Any]:
    """Return the fields of the kernels of *graph*, whose values are given by name."""
    values = [node.meta.get("val") for node in graph.aten.graph.nodes]
    known = [value for value in values if isinstance(value, torch.Tensor)]
    tolerance, _ = default_tolerances(*known)  # that of the narrowest type
    found = {
        name: _difference(value, computed[name], exact[name], tolerance)
        for name, value in eager.items()
    }
    wrong = [name for name, (_, agrees) in found.items() if not agrees]
    return {
        "status": "differs" if wrong else "agrees",
        "error": max(error for error, _ in found.values()),
        "reason": f"wrong: {', '.join(wrong)}" if wrong else "",
    }


def _difference(
    eager: Any, kernel: Any, exact: Any, tolerance: float
) -> tuple[float, bool]:
    """Return the largest difference, over the size, and whether it's rounding.

    *exact* is eager in float64.  The size is the root mean square of what is finite:
    after a subtraction, little but rounding is left of an element.
    """
    if not isinstance(eager, torch.Tensor):
        return 0.0, eager == kernel
    if not isinstance(kernel, torch.Tensor) or _kind(eager) != _kind(kernel):
        return math.inf, False
    off = correctness.size_of(eager, kernel)[1]
    if not off:
        return 0.0, True
    finite = torch.where(eager.isfinite(), eager, torch.zeros_like(eager))
    size = max(correctness.size_of(finite)[0], sys.float_info.min)
    fine = correctness.right(eager, kernel, exact, SLACK * tolerance)
    return off / size, fine


# --- the eager side ------------------------------------------------------------------


class Eager(torch.fx.Interpreter):
    """Runs a traced graph operation by operation, on the CPU.

    Random numbers are those that the kernels draw from the same seed, attention is
    that of a GPU.  With *wide* all floating-point numbers are float64.
    """

    def __init__(self, graph: Any, wide: bool = False) -> None:
        super().__init__(graph.aten)
        self.lowered, self.wide = graph, wide

    def values(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Return the results of the graph by name; *inputs* stay as they are."""
        inputs = [self._adapted(value) for value in clone(list(inputs))]
        torch.manual_seed(SEED)
        with torch.no_grad():
            outputs = self.run(*inputs)
        return _named(self.lowered, outputs, inputs)

    def run_node(self, node: torch.fx.Node) -> Any:
        """Return the value of one operation on the CPU, wherever it was traced for."""
        if node.op != "call_function":
            return super().run_node(node)
        parts = self.fetch_args_kwargs_from_env(node)
        args, kwargs = pytree.tree_map(self._adapted, parts)
        if node.target in ATTENTION:
            return attention(node.target, *args, **kwargs)
        match str(node.target):
            case "prims.inductor_seeds.default":
                return torch.randint(-(2**63), 2**63 - 1, args[:1])
            case "prims.inductor_random.default":
                size, seed, mode = args
                drawn = RANDOM[mode](seed, torch.arange(math.prod(size)))
                return self._adapted(drawn.reshape(size))
            case "prims.inductor_randint.default":
                low, high, size, seed = args
                places = torch.arange(math.prod(size))
                return RANDOM["randint64"](seed, places, low, high).reshape(size)
            case target if "triton_kernel_wrapper" in target:
                raise NotImplementedError("your own kernel has no eager twin")
        return node.target(*args, **kwargs)

    def _adapted(self, value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("cpu")
        if isinstance(value, torch.dtype) and self.wide and value.is_floating_point:
            return torch.float64
        if not isinstance(value, torch.Tensor):
            return value
        wide = self.wide and value.is_floating_point()
        return value.cpu().double() if wide else value.cpu()


def _inputs(graph: Any, saved: dict[str, Any]) -> list[Any]:
    """Return a value for each placeholder: saved, of the call, or made up.

    What was saved is known by the name that forward and backward give it.  Of the
    call, each placeholder takes the first value that fits and is left.
    """
    of_call, values = list(graph.inputs), []
    torch.manual_seed(SEED)
    for node in graph.aten.graph.find_nodes(op="placeholder"):
        like = node.meta.get("val")
        options = [saved[node.name]] if node.name in saved else of_call
        kinds = list(map(_kind, options))
        if _kind(like) in kinds:
            value = options.pop(kinds.index(_kind(like)))
        else:
            value = _made_up(like)
        if isinstance(value, torch.Tensor):
            # Copied one by one: in memory of others a wrong access would go unnoticed.
            value = clone(value.detach().cpu())
        values.append(value)
    return values


def _numbers(sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Return *sizes* with the numbers that symbols were in this call."""
    return tuple(n.node.hint if hasattr(n, "node") else n for n in sizes)


def _kind(value: Any) -> Any:
    """Return the dtype and shape of a tensor, as numbers, or the type of a number."""
    if isinstance(value, torch.Tensor):
        return value.dtype, _numbers(value.shape)
    return type(_numbers([value])[0])


def _made_up(like: Any) -> Any:
    if not isinstance(like, torch.Tensor):
        return _numbers([like])[0]
    shape, stride = _numbers(like.shape), _numbers(like.stride())
    value = torch.empty_strided(shape, stride, dtype=like.dtype)
    if not value.is_floating_point():
        return value.zero_()
    return value.copy_(torch.randn(shape))  # float8 has no normal_()


# --- what a GPU has, and eager on a CPU has not ---------------------------------------


def uniform(seed: Any, places: torch.Tensor, *_: Any) -> torch.Tensor:
    """Return a number between 0 and 1 for each of *places*."""
    mixed = seed * 0x5851F42D4C957F2D + (places.long() + 1) * 0x14057B7EF767814F
    mixed = (mixed ^ mixed >> 29) * 0x2545F4914F6CDD1D  # it wraps around at 64 bits
    return ((mixed >> 41 & 0x7FFFFF) + 0.5) / 2**23


# What both sides draw instead of Triton's numbers, which are not what is checked: a
# kernel's seeds and places are, and what it makes of a number.
RANDOM = {
    "rand": uniform,
    "randn": lambda *drawn: torch.special.ndtri(uniform(*drawn)),
    "randint64": lambda seed, places, low, high: (
        low + (uniform(seed, places) * (high - low)).long()
    ),
}


def attention(operation: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Return the result of a GPU's attention kernel for CPU tensors, or its gradients.

    Computed by the definition; shapes, strides and types are those of *operation*.
    What only its own backward reads, such as sums of the rows, is zeros.
    """
    names = [argument.name for argument in operation._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    tensors = [given.get(name) for name in ("query", "key", "value", "attn_bias")]
    options = {"dropout_p", "is_causal", "scale"} & given.keys()
    wide = torch.promote_types(tensors[0].dtype, torch.float32)
    tensors = [x.detach().to(wide).requires_grad_() for x in tensors if x is not None]
    with torch.enable_grad(), torch.random.fork_rng([]):
        # Dropout spares the same elements on both sides, forward and backward.
        torch.manual_seed(SEED)
        values = torch.ops.aten._scaled_dot_product_attention_math(
            *tensors, enable_gqa=True, **{name: given[name] for name in options}
        )[:1]
    gradient = given.get("grad_out", given.get("grad_out_"))
    if gradient is not None:
        values = torch.autograd.grad(values, tensors, gradient.to(wide))

    on_meta = pytree.tree_map_only(torch.Tensor, lambda x: x.to("meta"), args)
    outputs = list(operation(*on_meta, **kwargs))
    for i, (like, value) in enumerate(zip_longest(outputs, values)):
        if isinstance(like, torch.Tensor):
            new = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype)
            outputs[i] = new.zero_() if value is None else new.copy_(value)
    return tuple(outputs)


# --- the process with the interpreter ------------------------------------------------


def run(source: str, inputs: Sequence[Any], limit_s: float = 60.0) -> list[Any]:
    """Return the outputs of the module *source*, of a dump for an H100, for *inputs*.

    Its Triton kernels, also the caller's own, run in the interpreter.  Memory that
    nothing wrote holds NaN.  Raises InputError when a kernel fails, with its lines and
    the error as it was raised, and when all takes longer than *limit_s* seconds.
    """
    answer = INTERPRETER.ask(source, inputs, limit_s)
    if answer["error"]:
        raise InputError(answer["error"])
    return answer["outputs"]


def pack(value: Any) -> bytes:
    """Return *value*, made of tensors, numbers, texts, lists and dicts, as bytes."""
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def unpack(data: bytes) -> Any:
    """Return the value given to ``pack``; nothing else is ever built from *data*."""
    return torch.load(io.BytesIO(data), weights_only=True)


class Interpreter:
    """One process for all graphs, and a new one after one that was lost.

    Starting takes seconds, most of them for importing torch.  Its process ends with
    the program, which closes the pipe then.
    """

    process: Popen[bytes] | None = None

    def ask(
        self,
        source: str,
        inputs: Sequence[Any],
        limit_s: float,
        gpu: str = "h100",
        constants: dict[str, torch.Tensor] | None = None,
    ) -> dict[str, Any]:
        """Return the result of `interpreter_child.run_module`.

        *gpu* is the one that it was written for; *constants* are globals of the module.
        Of one that takes longer than *limit_s*, or crashes, only the error comes back:
        the process ends itself.
        """
        request = {"source": source, "inputs": list(inputs), "limit_s": limit_s}
        # A GPU may be known to this process alone.
        request |= {"constants": constants or {}, "gpu": asdict(gpus.find(gpu))}
        if self.process is None or self.process.poll() is not None:
            self._start()
        try:
            self.pipe.send_bytes(pack(request))
            return unpack(self.pipe.recv_bytes())
        except (EOFError, ConnectionError):
            crashed = self.process.wait() != -signal.SIGALRM
            stopped = f"stopped after {limit_s:g} s"
            error = "the interpreter crashed" if crashed else stopped
            return {"launches": [], "error": error}
        except BaseException:  # an interrupt, too: its answer would come next time
            children.end(self.process)
            raise

    def _start(self) -> None:
        own = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
        self.pipe, other_end = Pipe()
        handle = other_end.fileno()
        words = "-m", f"{__package__}.interpreter_child", str(handle)
        silent = dict.fromkeys(("stdin", "stdout", "stderr"), DEVNULL)
        self.process = children.start(*words, env=own, pass_fds=[handle], **silent)
        other_end.close()


INTERPRETER = Interpreter()
