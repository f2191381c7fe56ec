"""Checks and hints of notebook 03."""

import contextlib
import io
import itertools
import logging
import re

import torch

from helpers import graphs, recompiles
from helpers.exercises import exercise
from helpers.exercises import foreign
from helpers.text import count

# --- 03.1 ----------------------------------------------------------------------

REASONS = {  # the kind, and what torch calls it in the reason of the recompile
    "size": "size mismatch",
    "rank": "rank mismatch",
    "dtype": "dtype mismatch",
    "stride": "stride mismatch",
    "requires_grad": "requires_grad mismatch",
}
PROPERTIES = {
    "size": lambda x: x.shape,
    "rank": lambda x: x.ndim,
    "dtype": lambda x: x.dtype,
    "stride": lambda x: x.stride(),
    "requires_grad": lambda x: x.requires_grad,
}
FOLLOWS = {"rank": ("size", "stride"), "size": ("stride",)}  # cannot stay the same


@exercise(
    "03.1",
    hints=(
        "Read the TENSOR_MATCH guard of x again: each kind is one of its parts.",
        "Ask recompiles(torch.sin, [(x,), (yours,)]).calls[1].guards what failed. "
        "One method of a tensor does for each kind. The sizes of a transposed x are "
        "equal only where x is square.",
        "x + 1, x[1:], x[0], x.double(), and x.clone().requires_grad_(). For the "
        "strides, lay x out by columns: x.t().contiguous().t().",
    ),
    passed="You can read a guard, and you know which calls are free.",
)
def fail_guard(answer):
    for rows, columns in ((4, 6), (5, 5), (16, 3)):
        x = torch.linspace(-1, 1, rows * columns).reshape(rows, columns)
        for kind in ("nothing", *REASONS):
            if fault := _guard_fault(kind, x, answer(kind, x.clone())):
                return f"for {kind!r} and an x of shape {tuple(x.shape)}: {fault}"
    return None


def _guard_fault(kind, x, made):
    if type(made) is not torch.Tensor:
        return f"it returned {type(made).__name__}, and a tensor was asked for"
    if kind == "nothing" and torch.equal(made, x):
        return "the values are those of x, and other ones were asked for"
    second = recompiles(lambda x: torch.sin(x) + 1, [(x,), (made,)]).calls[1]
    said = "; ".join(second.guards)
    if kind == "nothing":
        return f"it compiles again, because of {said}" if second.compiles else None
    if not second.compiles:
        return "nothing is compiled again: all guards still hold"
    if REASONS[kind] not in said:
        return f"another guard fails: {said}"
    for name, of in PROPERTIES.items():
        if name not in (kind, *FOLLOWS.get(kind, ())) and of(made) != of(x):
            return (
                f"more than its {kind} differs, its {name} does, too: torch names the "
                "first guard that fails, and one alone was asked for"
            )
    return None


# --- 03.2 ----------------------------------------------------------------------


def _sampled(logits, temperature, history):
    if torch.isnan(logits).any():
        raise ValueError("the model has diverged")
    if logits.std().item() > 5:
        logits = logits / 2
    probs = torch.softmax(logits / temperature, dim=-1)
    likely = probs[probs > 0.01]
    entropy = -(likely * likely.log()).sum()
    history.append(entropy.item())
    if entropy > 1:
        return probs, probs.topk(3).values.sum()
    return probs, probs.max()


def _logits():
    """Yield logits, each for another way through the function."""
    flat = torch.linspace(-1, 1, 12)
    yield "unsure", flat
    yield "rather sure", flat * 6
    yield "spread out", flat * 9
    yield "spread out, and unsure", torch.tensor([12.0] * 6 + [-12.0] * 6)
    yield "one very likely letter", torch.tensor([9.0] + [0.0] * 11)
    yield "some letters impossible", torch.tensor([2.0, 1.0, 0.5] + [-1e4] * 9)


@exercise(
    "03.2",
    hints=(
        "graphs(mended, logits, 0.7, []) lists the breaks that are left. Mend one, "
        "and look again.",
        "Each break has a row in the zoo: an error if some value is NaN, .item(), "
        "two branches on a tensor, a mask, a print. A list may hold tensors.",
        "assert (~torch.isnan(logits)).all(), and not assert not; torch.where for "
        "logits, for the terms of the entropy (0 where not likely), and for sure, "
        "whose two values you compute both; history.append(entropy); no print.",
    ),
    passed="One graph, and whoever calls it will not notice.",
)
def mended(answer):
    wrong = _results_fault(answer, "in eager")
    if wrong:
        return wrong
    settings = dict.fromkeys(
        ("capture_scalar_outputs", "capture_dynamic_output_shape_ops"), False
    )
    with torch._dynamo.config.patch(settings):  # the default ones
        return _capture_fault(answer)


def _capture_fault(answer):
    logits = dict(_logits())["unsure"]
    with contextlib.redirect_stdout(io.StringIO()):
        found = graphs(answer, logits, 0.7, [])
    if not found.count:
        return "0 graphs: nothing of it is captured, and one graph was asked for"
    if found.breaks:
        many = count(len(found.breaks), "graph break")
        return f"{count(found.count, 'graph')}, {many}. The first:\n{found.breaks[0]}"
    hidden = []

    def backend(graph, inputs):
        hidden.extend(foreign(graph))
        return graph.forward  # the module itself would print what an assert raises

    wrong = _results_fault(torch.compile(answer, backend=backend), "compiled")
    if hidden and not wrong:
        return (
            f"one graph, and the work hides in an operator that nobody sees into, "
            f"{hidden[0]}: that saves the breaks and compiles nothing"
        )
    return wrong


def _results_fault(f, how):
    for name, logits in _logits():
        for temperature in (0.7, 2.0):
            theirs, mine = [], []
            wanted = _sampled(logits.clone(), temperature, theirs)
            with contextlib.redirect_stdout(io.StringIO()):
                got = f(logits.clone(), temperature, mine)
            if fault := _fault(wanted, got, theirs, mine):
                return f"{how}, for logits that are {name}: {fault}"
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            f(torch.tensor([0.0, float("nan"), 1.0, 2.0]), 1.0, [])
    except NotImplementedError:
        raise
    except Exception:
        return None
    return f"{how}, logits with a NaN in them raise no error"


def _fault(wanted, got, theirs, mine):
    if not (isinstance(got, tuple) and len(got) == 2):
        return "it returned no pair of probs and sure"
    for name, ours, yours in zip(("probs", "sure"), wanted, got, strict=True):
        if type(yours) is not torch.Tensor or yours.shape != ours.shape:
            return f"{name} is no tensor of shape {tuple(ours.shape)}"
        if not torch.allclose(ours, yours, atol=1e-6):
            return f"{name} differs from what sampled returns"
    if len(mine) != 1:
        return f"history grew by {len(mine)}, and 1 was asked for"
    if not abs(float(mine[0]) - theirs[0]) < 1e-4:
        return "what history got differs from what sampled puts there"
    return None


# --- 03.3 ----------------------------------------------------------------------


def _longest_run(bits):
    runs = [max(sum(g) for _, g in itertools.groupby(r)) for r in bits.tolist()]
    return torch.tensor(runs, device=bits.device)


def _bits(rows, columns):
    torch.manual_seed(rows)
    return torch.randint(2, (rows, columns))


@exercise(
    "03.3",
    hints=(
        "Open zoo.py and look for custom_op: the row is 'a function that torch lacks'.",
        "custom_op reads the annotations: longest_run takes a torch.Tensor and "
        "returns one. The fake gets a tensor without values, and says shape, dtype "
        "and device of the result by making an empty one.",
        "longest_run_op = torch.library.custom_op('course::longest_run', longest_run, "
        "mutates_args=()), once longest_run has annotations. In the fake: return "
        "bits.new_empty(bits.shape[0]) with dtype=torch.int64.",
    ),
    passed="Python in the middle of a graph, and the graph stays whole.",
)
def longest_run_op(answer):
    if not callable(answer):
        return f"longest_run_op is of type {type(answer).__name__}, and no operator"

    def weighted(x):
        return answer((x > 0).long()) * x.sum(-1)

    def typed(x):  # sees what the fake said of shape and dtype
        runs = answer((x > 0).to(torch.int32))
        return x.new_zeros(runs.shape) + runs.to(x.dtype), runs.dtype.itemsize

    for bits in (_bits(5, 9), _bits(2, 30)):
        mine = answer(bits)
        if not torch.is_tensor(mine) or not torch.equal(mine, _longest_run(bits)):
            return "called by itself, it does not return what longest_run does"
    x = torch.linspace(-1, 1, 24).reshape(4, 6).sin()
    if fault := _operator_fault(answer, weighted, x):
        return fault
    return _sizes_fault(weighted) or _types_fault(answer, typed, x)


def _operator_fault(answer, weighted, x):
    logging.disable(logging.ERROR)  # torch logs what the message below says
    try:
        found = graphs(weighted, x)
    except Exception as error:
        said = str(error.__cause__ or error)
        if "fake impl" in said:
            return "the compiler does not know what comes out: register_fake is missing"
        return f"with what the fake says, it does not compile: {_core(said)}"
    finally:
        logging.disable(logging.NOTSET)
    if found.count != 1 or found.breaks:
        many = count(len(found.breaks), "graph break")
        return f"in the middle of a function: {count(found.count, 'graph')}, {many}"
    return None


def _core(said):
    """Return the part of a compiler's error that a learner can use."""
    inner = re.search(r"got \w+\((['\"])(.+?)\1\)", said)
    return (inner[2] if inner else said.strip().splitlines()[0])[:200]


def _sizes_fault(weighted):
    compiled = torch.compile(weighted, backend="aot_eager", dynamic=True)
    for rows, columns in ((4, 6), (7, 3), (3, 8)):
        x = torch.linspace(-1, 1, rows * columns).reshape(rows, columns).sin()
        wanted = _longest_run((x > 0).long()) * x.sum(-1)
        try:
            same = torch.allclose(compiled(x), wanted)
        except Exception as error:
            said = _core(str(error))
            return f"with what the fake says, it does not compile: {said}"
        if not same:
            return f"compiled, it is wrong for an x of shape {(rows, columns)}"
    return None


def _types_fault(answer, typed, x):
    try:
        same = torch.compile(typed, backend="aot_eager")(x)[1] == typed(x)[1]
        torch.library.opcheck(answer, (_bits(5, 9),))
    except Exception as error:
        said = str(error).strip().splitlines()
        return f"torch.library.opcheck finds: {' '.join(said)[:300]}"
    return None if same else "the fake says another dtype than the operator returns"
