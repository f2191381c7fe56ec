"""Small programs that hold a compiler to its promises, and who runs them.

Most are operators with torch's own sample inputs; the rest are what one
operator alone does not show: NaN, odd sizes, a gradient through a view,
programs of bugs that torch once had, and state that changes between calls.

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

from course.values import as_near
from helpers.session import fresh_code
from helpers.text import progress

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
    for sample in op.sample_inputs("cpu", torch.float32):
        given = (sample.input, sample.args, sample.kwargs)
        tensors = [x for x in pytree.tree_leaves(given) if _is_tensor(x)]
        if any(x.numel() > 4 for x in tensors):
            break
    leaves, shape = pytree.tree_flatten(given)
    call = op.get_op()

    def function(*tensors: torch.Tensor) -> Any:
        left = iter(tensors)
        filled = [next(left) if _is_tensor(x) else x for x in leaves]
        first, rest, named = pytree.tree_unflatten(filled, shape)
        return call(first, *rest, **named)

    return Program(op.name, function, tuple(x.detach() for x in tensors))


def _is_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor)


def block(x: Any, gain: Any, weight: Any) -> torch.Tensor:
    """The course's own example: a norm, a matrix product, gelu, a residual."""
    size = x.square().mean(-1, keepdim=True)
    h = x * torch.rsqrt(size + 1e-6) * gain
    return x + F.gelu(h @ weight)


def example() -> Program:
    """Return ``block``, with inputs as in all lessons."""
    weight = _numbers(256, 256) / 16
    return Program("block", block, (_numbers(64, 256), _numbers(256), weight))


# What one operator with a friendly sample does not show.


def _numbers(*size: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(size) + sum(size))
    return torch.randn(*size, generator=generator)


def _with_nan(*size: int) -> torch.Tensor:
    x = _numbers(*size)
    x.view(-1)[:: x.numel() - 1] = torch.nan  # the first and the last
    return x


def corners() -> list[Program]:
    """Return programs with NaN, sizes that fill no vector, and views."""
    many, nan = _numbers(1003), _with_nan(37)
    index = torch.tensor([1, 1, 4, 1])  # one row is used three times
    return [
        Program("maximum of NaN", torch.maximum, (nan, _numbers(37, 1)[:, 0])),
        Program("amax of NaN", torch.amax, (nan,)),
        Program("relu of NaN", torch.relu, (nan,)),
        Program("clamp of NaN", lambda x: x.clamp(min=-0.5), (nan,)),
        Program("1003 numbers", lambda x: x.sin() * x, (many,)),
        Program("sum of 1003", lambda x: (x * x).sum(), (many,)),
        Program("17 x 33, by column", lambda x: x.sum(0), (_numbers(17, 33),)),
        Program("slice", lambda x: x[2:7, ::2].exp(), (_numbers(9, 7),)),
        Program("embedding", F.embedding, (index, _numbers(6, 5))),
        Program(
            "a gain used twice", _two_norms, (_numbers(6, 40), _numbers(40))
        ),
        Program("strides", lambda x: x.t() + 1, (_numbers(19, 23),)),
        Program(
            "bfloat16 sum", lambda x: x.bfloat16().sum(-1), (_numbers(5, 65),)
        ),
        Program(
            "integers", lambda i: (i * 7) // 3 % 5, (torch.arange(-9, 9),)
        ),
    ]


def _two_norms(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        x = F.layer_norm(x, x.shape[-1:]) * gain
    return x


def once_wrong() -> list[Program]:
    """Return programs of bugs that users reported; the number is the issue."""
    column = torch.randint(-10, -9, (1, 2))
    return [
        Program("108963 index_add", _added_twice, (torch.ones(1),)),
        Program("138908 y[x] += y[x]", _doubled, (column, _numbers(2, 32))),
        Program(
            "180771 slice_scatter, then sum",
            lambda x, y: torch.slice_scatter(x, y, 1, 0, 6).sum(1),
            (_numbers(4, 13, 33), _numbers(4, 6, 33)),
        ),
        Program(
            "182012 diagonal_scatter, then sum",
            lambda x, y: torch.diagonal_scatter(x, y).sum(),
            (_numbers(8, 8), _numbers(8)),
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
    return _numbers(2, 6, 64), _numbers(2, 4, 64)


def _modulated(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    a, b, c, d = table.unsqueeze(2).unbind(1)
    x = F.layer_norm(x, (64,)) * (1 + a) + b
    return F.layer_norm(x, (64,)) * (1 + c) + d


# Running them.


def sweep(
    programs: Sequence[Program], together: int = 40, **options: Any
) -> list[Row]:
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
    counted: Counter[str] = Counter()
    torch.compiler.reset()
    compiled = torch.compile(
        all_of(group),
        **{
            "fullgraph": True,
            **options,
            "backend": counting(counted, options),
        },
    )
    inputs = [program.inputs for program in group]
    try:
        ours = results(compiled, inputs)
    except Exception as error:
        if len(group) > 1:  # one of them raises: which?
            return [row for one in group for row in _rows([one], options)]
        why = type(error).__name__
        return [Row(group[0].name, counted[group[0].name], [why])]
    usual = results(all_of(group), inputs)
    exact = results(all_of(group), inputs, torch.float64)
    return [
        Row(program.name, counted[program.name], list(_faults(*three)))
        for program, *three in zip(group, exact, usual, ours, strict=True)
    ]


def all_of(programs: Sequence[Program]) -> Callable[[Any], list[Any]]:
    """Return one function that runs all *programs*, each with its inputs."""
    parts = [(program.name, program.function) for program in programs]

    def run(inputs: Sequence[tuple[Any, ...]]) -> list[Any]:
        made = []
        for (name, function), given in zip(parts, inputs, strict=True):
            with annotate({"program": name}):  # its nodes carry its name
                made.append(function(*given))
        return made

    # Dynamo remembers of a function's code that it gave up: take a new one.
    return fresh_code(run)


def counting(
    counted: Counter[str], options: dict[str, Any]
) -> Callable[..., Any]:
    """Return a backend that also counts the operations of each program."""
    backend = options.get("backend", "inductor")
    if isinstance(backend, str):
        backend = torch._dynamo.lookup_backend(backend)

    def count(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        for node in graph.graph.nodes:
            if node.op.startswith("call_"):
                counted[node.meta.get("custom", {}).get("program", "")] += 1
        return backend(graph, inputs)

    return count


def results(
    run: Callable[[Any], list[Any]],
    inputs: Sequence[tuple[Any, ...]],
    dtype: torch.dtype | None = None,
) -> list[list[torch.Tensor | None]]:
    """Return for each program its outputs, and all gradients of its inputs."""

    def ready(x: Any) -> Any:
        if not _is_tensor(x) or not x.is_floating_point():
            return x
        return x.detach().clone().to(dtype or x.dtype).requires_grad_()

    inputs = pytree.tree_map(ready, inputs)
    torch.manual_seed(0)
    outputs = [_tensors(made) for made in run(inputs)]
    roots = [x for made in outputs for x in made if x.requires_grad]
    wanted = [x for x in pytree.tree_leaves(inputs) if _needs_gradient(x)]
    # Not all ones: a permuted gradient must not look right.
    starts = [torch.linspace(-1, 2, r.numel()).to(r).view_as(r) for r in roots]
    found: tuple[Any, ...] = (None,) * len(wanted)
    if roots and wanted:
        found = torch.autograd.grad(roots, wanted, starts, allow_unused=True)
    slopes = dict(zip(map(id, wanted), found, strict=True))
    return [
        [x.detach() for x in made]
        + [slopes[id(x)] for x in _tensors(given) if _needs_gradient(x)]
        for made, given in zip(outputs, inputs, strict=True)
    ]


def _tensors(nest: Any) -> list[torch.Tensor]:
    return [x for x in pytree.tree_leaves(nest) if _is_tensor(x)]


def _needs_gradient(x: Any) -> bool:
    return _is_tensor(x) and x.requires_grad


def _faults(exact: Any, usual: Any, ours: Any) -> Iterator[str]:
    """Yield what is wrong in the results of one program, in a few words."""
    if len(ours) != len(usual):
        yield "another number of results"
        return
    for number, (e, u, o) in enumerate(zip(exact, usual, ours, strict=True)):
        if (u is None) != (o is None):
            yield f"gradient {number} is missing"
        elif o is not None and not as_near(e, u, o):
            yield f"result {number}"


# Stories: what one call does not show.  Each returns whether all is right.


@dataclass(frozen=True)
class Story:
    """Several calls, and whether compiled they are right."""

    name: str
    right: Callable[[Callable[..., Any]], bool]


STORIES: list[Story] = []
GAIN = 2.0


def _story(name: str) -> Callable[[Any], Any]:
    def keep(right: Any) -> Any:
        STORIES.append(Story(name, right))
        return right

    return keep


def tell(stories: Sequence[Story], **options: Any) -> list[Row]:
    """Return a row for each story; ``captured`` counts its operations."""
    rows = []
    with progress("stories", len(stories)) as bar:
        for story in stories:
            rows.append(_told(story, options))
            bar.update(1)
    return rows


def _told(story: Story, options: dict[str, Any]) -> Row:
    counted: Counter[str] = Counter()
    backend = counting(counted, options)

    def compiled(function: Any, **more: Any) -> Any:
        how = {"fullgraph": True, **options, **more, "backend": backend}
        return torch.compile(function, **how)

    torch.compiler.reset()
    torch.manual_seed(0)
    try:
        wrong = [] if story.right(compiled) else ["another answer"]
    except Exception as error:
        wrong = [type(error).__name__]
    return Row(story.name, counted.total(), wrong)


def _agree(function: Any, compiled: Any, *calls: tuple[Any, ...]) -> bool:
    """Return whether all calls, one after another, give what eager gives."""
    return all(
        torch.allclose(compiled(*copies(given)), function(*copies(given)))
        for given in calls
    )


def copies(given: tuple[Any, ...]) -> list[Any]:
    """Return copies in which what was one tensor is still one tensor."""
    made = {id(x): x.clone() for x in given if _is_tensor(x)}
    return [made.get(id(x), x) for x in given]


@_story("a global changes")
def _global_changes(compiled: Any) -> bool:
    global GAIN
    run, x = compiled(_gained), _numbers(9)
    try:
        first = torch.equal(run(x), x * 2)
        GAIN = 3.0
        return first and torch.equal(run(x), x * 3)
    finally:
        GAIN = 2.0


def _gained(x: torch.Tensor) -> torch.Tensor:
    return x * GAIN


@_story("one tensor, given twice")
def _given_twice(compiled: Any) -> bool:
    def swapped(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        return a * b

    x, y = _numbers(9), _numbers(9, 1).view(9)
    return _agree(swapped, compiled(swapped), (x, y), (x, x), (x, y))


@_story("the other branch of cond")
def _other_branch(compiled: Any) -> bool:
    def chosen(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    x = _numbers(9).abs()
    return _agree(chosen, compiled(chosen), (x,), (-x,))


@_story("dropout draws anew")
def _draws_anew(compiled: Any) -> bool:
    run, x = compiled(F.dropout), torch.ones(999, requires_grad=True)
    first, second = run(x), run(x)
    [slope] = torch.autograd.grad(first.sum(), x)
    kept = float((first != 0).float().mean())
    repeated = torch.equal(first, second)
    return not repeated and torch.equal(slope, first) and 0.4 < kept < 0.6


@_story("autocast in the function")
def _casts(compiled: Any) -> bool:
    def cast(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return x @ w

    given = _numbers(9, 5), _numbers(5, 7)
    return compiled(cast)(*given).dtype == torch.bfloat16


@_story("another size")
def _other_size(compiled: Any) -> bool:
    def centred(x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(0)).flip(0) + x.softmax(0)

    run = compiled(centred, dynamic=True)
    return _agree(centred, run, (_numbers(7, 3),), (_numbers(13, 3),))


@_story("an attribute changes")
def _attribute(compiled: Any) -> bool:
    model = torch.nn.Dropout(0.5)
    run, x = compiled(model), torch.ones(99)
    training = (run(x) == 0).any()
    model.eval()
    return bool(training) and torch.equal(run(x), x)


@_story("a view of the input is written")
def _written(compiled: Any) -> bool:
    def rows(x: torch.Tensor) -> torch.Tensor:
        x[1:3].mul_(2)
        return x.sum(0)

    x, y = _numbers(5, 3), _numbers(5, 3)
    return torch.allclose(compiled(rows)(x), rows(y)) and torch.equal(x, y)


@_story("gradients off, then on")
def _grad_mode(compiled: Any) -> bool:
    run, x = compiled(torch.sin), _numbers(9).requires_grad_()
    with torch.no_grad():
        off = run(x)
    return not off.requires_grad and run(x).requires_grad
