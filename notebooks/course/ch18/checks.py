"""Checks and hints of notebook 18."""

import torch
from torch.nn import functional as F

from course.ch18.ladder import BUGS
from course.exercises import exercise

# --- 18.1 ----------------------------------------------------------------------


def _program(x, y):
    return (F.gelu(x * 3 + 1e-6) - 1).relu() + y


# What is planted, and which layer is wrong.  The healthy one comes first: it fills
# the caches that hide the bugs after it.
PLANTED = {
    "none": None,
    "relu's lowering": "inductor",
    "relu's lowering raises": "inductor",
    "gelu's decomposition": "aot_eager_decomp_partition",
    "the result's sign, in the joint graph": "aot_eager",
    "a constant, behind Dynamo": "eager",
}


@exercise(
    "18.1",
    hints=(
        "Run fn, then climb: the first backend whose result is off is the answer. What "
        "might keep a backend from compiling anew?",
        "torch.compile keeps what it compiled by code object, and Inductor keeps "
        "graphs on disk: torch.compiler.reset() is for the first, uncached for the "
        "second.",
        "For each backend: torch.compiler.reset(); inside `with uncached:` and a try, "
        "got = torch.compile(fn, backend=backend)(*inputs). Return the backend if that "
        "raises, or if torch.allclose(got, wanted, rtol=1e-3, atol=1e-3) is False. "
        "After the loop, return None.",
    ),
    passed="It finds the layer of each bug, and clears the innocent.",
)
def the_ladder(first_wrong):
    torch.manual_seed(0)
    x, y = torch.randn(2, 8, 8).unbind()
    for bug, layer in PLANTED.items():
        x.requires_grad_("joint" in bug)
        with BUGS[bug]():
            backend = first_wrong(_program, x, y)
        if backend and not layer:
            return f"planted: {bug}. You say {backend}: does a call of yours raise?"
        if backend is None and "raises" in bug:
            return f"planted: {bug}, and you found nothing: what raises is wrong, too"
        if layer and backend is None:
            return (
                f"planted: {bug}, and you found nothing. Was fn compiled anew, in "
                "spite of what memory and disk still hold?"
            )
        if backend != layer:
            return (
                f"planted: {bug}. You say {backend}, and it is {layer}: the first "
                "backend that is wrong, compiled anew"
            )
    return None


# --- 18.2 ----------------------------------------------------------------------


def _chain(x):
    return ((x * 1.1) * 0.9 + x).exp() / 3


def _rounded_once(x):
    return _chain(x.float()).to(x.dtype)


def _small(x):
    return _chain(x) * 1e-9


def _root(x):
    return (x - x.min()).sqrt()


def _masked(x):
    return (x * 1.1 * 0.9).masked_fill(torch.ones_like(x).triu().bool(), -torch.inf)


def _off(x):
    return (_chain(x) - _chain(x.double())).abs().max().to(x.dtype)


def _one_is_off(times):
    """Return _chain with one number off by so many times its largest error."""

    def chain(x):
        y = _chain(x)
        y[3, 5] += times * _off(x)
        return y

    return chain


dropout = torch.nn.Dropout()
TRIALS = (  # a name, what eager does, what is compiled, the verdict
    ("the same NaN", torch.log, torch.log, "same"),
    ("bfloat16 that is rounded once", _chain, _rounded_once, "rounding"),
    ("dropout", dropout, dropout, "random"),
    ("the tanh form of gelu", F.gelu, lambda x: F.gelu(x, approximate="tanh"), "bug"),
    ("a NaN", _root, lambda x: _root(x).where(x > x.min(), torch.nan), "bug"),
    ("an infinity", _root, lambda x: _root(x).where(x > x.min(), torch.inf), "bug"),
    ("a number for an infinity", _masked, lambda x: _masked(x).nan_to_num(), "bug"),
    ("one number off by 3 times as much as any", _chain, _one_is_off(3), "rounding"),
    ("one number off by 8 times as much as any", _chain, _one_is_off(8), "bug"),
    (
        "all numbers off by less than the largest",
        _chain,
        lambda x: _chain(x) + _off(x),
        "rounding",
    ),
    ("dropout that eager has not", _chain, lambda x: _chain(dropout(x)), "bug"),
    (
        "bfloat16 with infinities of its own",
        _masked,
        lambda x: _masked(x.float()).to(x.dtype),
        "rounding",
    ),
    ("small numbers, all too large", _small, lambda x: _small(x) * 1.01, "bug"),
    ("two inputs", torch.mul, lambda x, y: x * y, "same"),
    ("two inputs, one too large", torch.mul, lambda x, y: x * 1.01 * y, "bug"),
)


@exercise(
    "18.2",
    hints=(
        "Four verdicts, in the order of the docstring. The last two ask a third "
        "function: fn itself, in float64.",
        "truth = fn(*(t.double() for t in inputs)). Then compare two distances to it, "
        "and none between the two results.",
        "exact = dict(rtol=0, atol=0, equal_nan=True) makes torch.allclose equality. "
        "off(t) is (t.double() - truth).masked_fill(torch.isclose(t.double(), truth, "
        "**exact), 0).abs().max(). Return 'rounding' if off(other) <= 5 * off(eager), "
        "else 'bug': any other NaN makes that False, which is what you want.",
    ),
    passed="It accuses a bug that tolerances let pass, and clears what is rounding.",
)
def rounding_or_a_bug(why_different):
    for name, eager, compiled, verdict in TRIALS:
        torch.manual_seed(0)
        x = torch.randn(16, 64)
        if "bfloat16" in name:
            x = x.bfloat16()
        inputs = (x, x.flip(0)) if "two inputs" in name else (x,)
        answer = why_different(eager, compiled, *inputs)
        if answer != verdict:
            return f"{name}: you say {answer!r}, and it is {verdict!r}"
    return None
