"""Small programs that hold a compiler to its promises, and who runs them.

Most are operators with torch's own sample inputs; the rest are what one
operator alone does not show: NaN, odd sizes, a gradient through a view,
and programs of bugs that torch once had.

    for row in sweep(operators()):
        print(row.program, row.wrong)
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx.traceback import annotate
from torch.utils import _pytree as pytree

from course.values import as_near, forward_and_backward
from helpers.session import fresh_code
from helpers.tensors import tensors
from helpers.text import Table, progress

# One sample of each is run.  Left out is what draws random numbers, what
# returns something else than numbers, and what has no float32 form.
OPERATORS = """
abs add addcmul addmm amax argmax atan2 bmm cat clamp copysign cos cumsum
diag_embed diagonal diagonal_scatter div erf exp expand expm1 flip floor fmod
gather hypot index_add index_copy index_fill index_put index_select kron lerp
log1p logaddexp logsumexp masked_fill matmul maximum mean minimum mul narrow
neg norm permute pow prod reciprocal remainder repeat roll rsqrt scatter
scatter_add select_scatter sigmoid sinh slice_scatter softmax split sqrt stack
std sub sum take_along_dim tan tanh transpose tril trunc unbind unfold var
where xlogy nn.functional.avg_pool2d nn.functional.conv1d
nn.functional.cosine_similarity nn.functional.cross_entropy
nn.functional.elu nn.functional.gelu nn.functional.glu
nn.functional.group_norm nn.functional.hardswish
nn.functional.huber_loss nn.functional.layer_norm
nn.functional.linear nn.functional.logsigmoid nn.functional.mish
nn.functional.pad nn.functional.pixel_shuffle nn.functional.prelu
nn.functional.rms_norm nn.functional.silu nn.functional.softplus
"""


# Those whose code depends on a size, to be compiled for any size.
SIZES = """
cat cumsum expand flip gather index_select mean repeat roll softmax split std
stack tril unfold nn.functional.pad
"""


@dataclass(frozen=True)
class Program:
    """A function of tensors, and the inputs of one call."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[Any, ...]

    def __str__(self) -> str:
        return self.name


@dataclass
class Row:
    """What was found out about a program."""

    program: str
    captured: int = 0  # operations of its own in the graph
    wrong: list[str] = field(default_factory=list)  # where: "a gradient", ...


def operators(names: str = OPERATORS) -> list[Program]:
    """Return a program for each operator, with a sample that torch tests."""
    # Tests that nobody wants on the page are set up by this import.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db

    known: dict[str, Any] = {}
    for op in op_db:
        known.setdefault(op.name, op)
    torch.manual_seed(0)
    return [_program(known[name]) for name in names.split() if name in known]


def _program(op: Any) -> Program:
    call = op.get_op()
    for sample in op.sample_inputs("cpu", torch.float32):
        given = (sample.input, sample.args, sample.kwargs)
        if any(x.numel() > 4 for x in tensors(given)):
            break
    return Program(
        op.name, lambda first, rest, named: call(first, *rest, **named), given
    )


def block(x: Any, gain: Any, weight: Any) -> torch.Tensor:
    """The course's own example: a norm, a matrix product, gelu, a residual."""
    size = x.square().mean(-1, keepdim=True)
    h = x * torch.rsqrt(size + 1e-6) * gain
    return x + F.gelu(h @ weight)


def example() -> Program:
    """Return ``block``, with inputs as in all lessons."""
    weight = numbers(256, 256) / 16
    return Program("block", block, (numbers(64, 256), numbers(256), weight))


# What one operator with a friendly sample does not show.


def numbers(*size: int) -> torch.Tensor:
    """Return random numbers, the same each time for the same sizes."""
    generator = torch.Generator().manual_seed(len(size) + sum(size))
    return torch.randn(*size, generator=generator)


def _with_nan(*size: int) -> torch.Tensor:
    x = numbers(*size)
    x.view(-1)[:: x.numel() - 1] = torch.nan  # the first and the last
    return x


def corners() -> list[Program]:
    """Return programs with NaN, odd sizes, views, other dtypes and repeats."""
    many, nan = numbers(1003), _with_nan(37)
    index = torch.tensor([1, 1, 4, 1])  # one row is used three times
    return [
        Program("maximum of NaN", torch.maximum, (nan, numbers(37, 1)[:, 0])),
        Program("amax of NaN", torch.amax, (nan,)),
        Program("relu of NaN", torch.relu, (nan,)),
        Program("clamp of NaN", lambda x: x.clamp(min=-0.5), (nan,)),
        Program("1003 numbers", lambda x: x.sin() * x, (many,)),
        Program("sum of 1003", lambda x: (x * x).sum(), (many,)),
        Program("17 x 33, by column", lambda x: x.sum(0), (numbers(17, 33),)),
        Program("slice", lambda x: x[2:7, ::2].exp(), (numbers(9, 7),)),
        Program("embedding", F.embedding, (index, numbers(6, 5))),
        Program("a gain used twice", _two_norms, (numbers(6, 40), numbers(40))),
        Program("strides", lambda x: x.t() + 1, (numbers(19, 23),)),
        Program("bfloat16 sum", lambda x: x.bfloat16().sum(-1), (numbers(5, 65),)),
        Program("integers", lambda i: (i * 7) // 3 % 5, (torch.arange(-9, 9),)),
        Program("int8 product", lambda i: i * i, (torch.arange(-9, 9).char(),)),
        Program("float64", lambda x: x * 0.1 + 1 / 3, (numbers(37).double(),)),
        Program("a sum by threads", lambda x: x.abs().sum(), (_whole(2**17 + 3),)),
        Program("argmax, transposed", _greatest_and_least, (numbers(5, 7),)),
        Program("a place written twice", _written_twice, _places()),
    ]


def _whole(size: int) -> torch.Tensor:
    """Return whole numbers, whose sum is exact in any order of its parts."""
    return numbers(size).mul(8).round()


def _greatest_and_least(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.t().argmax(), x.t().argmin()


def _places() -> tuple[torch.Tensor, ...]:
    return numbers(6), torch.tensor([3, 1, 3, 3, 1]), numbers(5)


def _written_twice(
    x: torch.Tensor, index: torch.Tensor, y: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return x.index_put((index,), y), x.scatter(0, index, y)  # the last one stays


def _two_norms(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        x = F.layer_norm(x, x.shape[-1:]) * gain
    return x


def once_wrong() -> list[Program]:
    """Return programs of bugs that users reported; the number is the issue."""
    column = torch.randint(-10, -9, (1, 2))
    return [
        Program("108963 index_add", _added_twice, (torch.ones(1),)),
        Program("138908 y[x] += y[x]", _doubled, (column, numbers(2, 32))),
        Program(
            "180771 slice_scatter, then sum",
            lambda x, y: torch.slice_scatter(x, y, 1, 0, 6).sum(1),
            (numbers(4, 13, 33), numbers(4, 6, 33)),
        ),
        Program(
            "182012 diagonal_scatter, then sum",
            lambda x, y: torch.diagonal_scatter(x, y).sum(),
            (numbers(8, 8), numbers(8)),
        ),
        Program(
            "143978 sin(atan(NaN))",
            lambda x: torch.sin(torch.atan(x)),
            (torch.tensor([torch.nan]),),
        ),
        Program("193061 shared scale and shift", _modulated, _modulations()),
    ]


def _added_twice(source: torch.Tensor) -> torch.Tensor:
    index = torch.tensor([0])
    return source.new_zeros(1).index_add(0, index, source, alpha=2) / 2


def _doubled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y = y.clone()
    y[x + 10] += y[x + 10]
    return y


def _modulations() -> tuple[torch.Tensor, ...]:
    return numbers(2, 6, 64), numbers(2, 4, 64)


def _modulated(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    a, b, c, d = table.unsqueeze(2).unbind(1)
    x = F.layer_norm(x, (64,)) * (1 + a) + b
    return F.layer_norm(x, (64,)) * (1 + c) + d


# Running them.


def sweep(programs: Sequence[Program], together: int = 40, **options: Any) -> list[Row]:
    """Return a row for each program: captured, and right against float64?

    *together* programs are compiled as one function, forward and backward,
    with *options* of ``torch.compile``.  ``fullgraph=True`` refuses a graph
    break, and the operations of each program are counted in the graph.
    """
    rows = []
    with (
        progress("programs", len(programs)) as bar,
        warnings.catch_warnings(),
    ):
        # Lowerings of torch call functions of torch that are deprecated.
        warnings.filterwarnings("ignore", "", FutureWarning, r"torch\.")
        for first in range(0, len(programs), together):
            group = programs[first : first + together]
            rows += _rows(group, options)
            bar.update(len(group))
    return rows


def _rows(group: Sequence[Program], options: dict[str, Any]) -> list[Row]:
    """Return the rows of programs that are compiled as one function."""
    torch.compiler.reset()
    counted: Counter[str] = Counter()
    run = all_of(group)
    inputs = [program.inputs for program in group]
    try:
        ours = results(counting(counted, run, **options), inputs)
    except Exception as error:
        if len(group) > 1:  # one of them raises: which?
            return [row for one in group for row in _rows([one], options)]
        [name] = [program.name for program in group]
        return [Row(name, counted[name], [type(error).__name__])]
    usual = results(run, inputs)
    exact = results(run, inputs, torch.float64)
    return [
        Row(program.name, counted[program.name], list(_faults(*three)))
        for program, *three in zip(group, exact, usual, ours, strict=True)
    ]


def all_of(programs: Sequence[Program]) -> Callable[..., list[Any]]:
    """Return one function that runs all *programs*, each with its inputs."""
    parts = [(program.name, program.function) for program in programs]

    def run(*inputs: tuple[Any, ...]) -> list[Any]:
        made = []
        for (name, function), given in zip(parts, inputs, strict=True):
            with annotate({"program": name}):  # its nodes carry its name
                made.append(function(*given))
        return made

    # Dynamo remembers of a function's code that it gave up: take a new one.
    return fresh_code(run)


def counting(
    counted: Counter[str],
    function: Callable[..., Any],
    backend: str = "inductor",
    **options: Any,
) -> Callable[..., Any]:
    """Compile *function* whole; count the operations of each program in it."""

    def count(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        for node in graph.graph.nodes:
            if node.op.startswith("call_"):
                counted[node.meta.get("custom", {}).get("program", "")] += 1
        return torch._dynamo.lookup_backend(backend)(graph, inputs)

    return torch.compile(function, backend=count, fullgraph=True, **options)


def results(
    run: Callable[..., list[Any]],
    inputs: Sequence[tuple[Any, ...]],
    dtype: torch.dtype | None = None,
) -> list[list[torch.Tensor | None]]:
    """Return for each program its outputs, and the gradients of its inputs."""
    both = forward_and_backward(run, inputs, dtype)
    return [pytree.tree_leaves(of_one) for of_one in zip(*both, strict=True)]


def _faults(exact: Any, usual: Any, ours: Any) -> Iterator[str]:
    """Yield what is wrong in the results of one program, in a few words."""
    if len(ours) != len(usual):
        yield "another number of results"
        return
    for number, three in enumerate(zip(exact, usual, ours, strict=True)):
        if not as_near(*three):
            yield f"result {number}"


def summary(found: dict[str, list[Row]]) -> Table:
    """Return a table: how many programs of each kind, and what was found."""
    return Table.of(
        ["programs", "how many", "captured", "wrong"],
        [
            [
                kind,
                len(rows),
                sum(row.captured > 0 for row in rows),
                sum(bool(row.wrong) for row in rows),
            ]
            for kind, rows in found.items()
        ],
    )
