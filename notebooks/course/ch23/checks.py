"""Checks and hints of notebook 23."""

import re

import torch

from course.backend import CountingBackend
from course.call_strips import Calls
from course.exercises import difference, exercise, fresh


def _compile(function):
    """Compile past the caches of graphs, which know an operator by its name."""
    torch.compiler.reset()
    return torch.compile(fresh(function), backend="aot_eager", fullgraph=True)


def _numbers(rows, columns, turned=False):
    x = torch.linspace(-3, 4, rows * columns).sin() * 5
    return x.reshape(columns, rows).t() if turned else x.reshape(rows, columns)


SHAPES = ((4, 6), (7, 3), (5, 5, True))


def _opcheck(operator, samples):
    for sample in samples:
        try:
            torch.library.opcheck(operator, sample)
        except Exception as error:
            return f"torch.library.opcheck finds: {' '.join(str(error).split())[:300]}"
    return None


def _other_name(operator, name):
    if re.search(rf"\bmine(::|\.){name}\b", str(operator)):
        return None
    return f"it is {operator}, and the operator mine::{name} was asked for"


# --- 23.1 ----------------------------------------------------------------------


def _slope(function):
    """Return the gradient of a weighted sum of what *function* returns."""

    def slope(x):
        x.requires_grad_()
        weights = torch.linspace(1, 2, len(x)).to(x)
        return torch.autograd.grad((function(x) * weights).sum(), x)[0]

    return slope


def _exact_slope(x):
    return _slope(lambda x: (x * 2).logsumexp(-1))(x.double()).float()


def _graphs(function, rows):
    """Return how many graphs serve these numbers of rows, compiled as dynamic."""
    backend = CountingBackend("aot_eager")
    calls = Calls(fresh(function), backend, fullgraph=True, dynamic=True)
    for count in rows:
        calls(_numbers(count, 3))
    return len(calls.graphs)


@exercise(
    "23.1",
    hints=(
        "Three parts, as for softcap on the page: custom_op, register_fake, and "
        "register_autograd with a keep and a backward.",
        "The result has one number for each row, so the fake is not empty_like(x). "
        "The gradient that comes in has that shape, too: it needs a last dimension "
        "before it can be multiplied with exp(x - result).",
        "logsumexp_op = torch.library.custom_op('mine::row_logsumexp', row_logsumexp, "
        "mutates_args=()). Fake: x.new_empty(x.shape[:-1]). keep: "
        "ctx.save_for_backward(*inputs, output). backward: x, y = ctx.saved_tensors; "
        "return gradient[..., None] * (x - y[..., None]).exp().",
    ),
    passed="NumPy in the middle of a graph, and it trains.",
)
def logsumexp_op(answer):
    inputs = [(_numbers(*shape),) for shape in SHAPES]
    if fault := difference(answer, lambda x: x.logsumexp(-1), inputs):
        return f"called by itself, {fault}"
    large = [(_numbers(4, 6) * 50,)]
    if fault := difference(answer, lambda x: x.logsumexp(-1), large):
        return f"with numbers up to 250, where exp is inf in float32, {fault}"
    if fault := _opcheck(answer, inputs):
        return fault

    def doubled(x):
        return answer(x * 2)

    with torch._functorch.config.patch(enable_autograd_cache=False):
        for how, function in (("eager", doubled), ("compiled", _compile(doubled))):
            if fault := difference(_slope(function), _exact_slope, inputs, 1e-4):
                return f"the gradient is off: {how}, {fault}"
        if fault := difference(_slope(doubled), _exact_slope, large, 1e-4):
            return f"the gradient is off with numbers up to 500: {fault}"
        if (found := _graphs(doubled, (4, 7, 9))) > 1:
            return (
                f"for 4, 7 and 9 rows, {found} graphs were compiled with dynamic=True. "
                "Does the fake make a plain number of a size, or compare it?"
            )
    if fault := _opcheck(answer, [(x.requires_grad_(),) for (x,) in inputs]):
        return fault
    return _other_name(answer, "row_logsumexp")


# --- 23.2 ----------------------------------------------------------------------


def _decay(mean, x):
    mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return x - mean


def _step(function):
    def step(mean, x):
        kept = mean * 2
        away = function(kept, x)
        return torch.cat([away, kept[None]])

    return step


def _written(name):
    """Return which arguments an operator says that it writes."""
    schema = torch._C._get_schema(name, "")
    given = schema.arguments
    return [one.name for one in given if one.alias_info and one.alias_info.is_write]


@exercise(
    "23.2",
    hints=(
        "Run opcheck on decay twice: with an x in rows, and with a transposed one.",
        "mean is written, and mutates_args does not say so. The result is always in "
        "rows, and empty_like(x) takes the strides of x.",
        'mutates_args=("mean",) in the decorator, and in the fake: return '
        "x.new_empty(x.shape).",
    ),
    passed="It says what it does, and the compiler may believe it.",
)
def mended(answer):
    if fault := _other_name(answer, "mended"):
        return fault
    samples = [(torch.ones(shape[1]), _numbers(*shape)) for shape in SHAPES]
    samples.append(tuple(one.double() for one in samples[0]))
    if fault := difference(_step(answer), _step(_decay), samples):
        return f"in eager mode, {fault}: is mean updated in place, as in decay?"
    mean, x = samples[0]
    first = answer(mean.clone(), x)
    kept = first.clone()
    answer(mean.clone(), x + 1)
    if not torch.equal(first, kept):
        return "the second call writes over what the first one returned"
    if fault := _opcheck(answer, samples):
        return fault
    if (written := _written("mine::mended")) != ["mean"]:
        return f"it says that it writes {' and '.join(written)}, and it writes mean"
    with torch._functorch.config.patch(enable_autograd_cache=False):
        if fault := difference(_compile(_step(answer)), _step(_decay), samples):
            return f"compiled, {fault}"
    return None
