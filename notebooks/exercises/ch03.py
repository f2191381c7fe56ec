"""Checks and hints of notebook 03."""

import itertools
import logging

import torch

from helpers import graphs, recompiles
from helpers.exercises import CountingBackend, difference, exercise, opaque
from helpers.text import count

# --- 03.1 ----------------------------------------------------------------------

KINDS = ("size", "rank", "dtype", "stride", "requires_grad")


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
    for rows, columns in ((4, 6), (5, 5)):
        x = torch.linspace(-1, 1, rows * columns).reshape(rows, columns)
        for kind in ("nothing", *KINDS):
            if fault := _guard_fault(kind, x, answer(kind, x.clone())):
                return f"for {kind!r} and an x of shape {tuple(x.shape)}: {fault}"
    return None


def _guard_fault(kind, x, other):
    if type(other) is not torch.Tensor:
        return f"it returned {type(other).__name__}, and a tensor was asked for"
    if kind == "nothing" and torch.equal(other, x):
        return "the values are those of x, and other ones were asked for"
    second = recompiles(lambda x: torch.sin(x) + 1, [(x,), (other,)]).calls[1]
    failed = "; ".join(second.guards)
    if kind == "nothing":
        return f"it compiles again, because of {failed}" if second.compiles else None
    if not second.compiles:
        return "nothing is compiled again: all guards still hold"
    if f"{kind} mismatch" not in failed:
        return f"another guard fails: {failed}"
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


LOGITS = {  # each for another way through the function
    "unsure": torch.linspace(-1, 1, 12),
    "rather sure": torch.linspace(-1, 1, 12) * 6,
    "spread out": torch.linspace(-1, 1, 12) * 9,
    "spread out, and unsure": torch.tensor([12.0] * 6 + [-12.0] * 6),
    "one very likely letter": torch.tensor([9.0] + [0.0] * 11),
    "some letters impossible": torch.tensor([2.0, 1.0, 0.5] + [-1e4] * 9),
}


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
    if fault := _sampling_fault(answer, "in eager"):
        return fault
    found = graphs(answer, LOGITS["unsure"], 0.7, [])
    if not found.count:
        return "0 graphs: nothing of it is captured, and one graph was asked for"
    if found.breaks:
        many = count(len(found.breaks), "graph break")
        return f"{count(found.count, 'graph')}, {many}. The first:\n{found.breaks[0]}"
    backend = CountingBackend()
    if fault := _sampling_fault(torch.compile(answer, backend=backend), "compiled"):
        return fault
    if hidden := [name for graph in backend.captured for name in opaque(graph)]:
        return (
            f"one graph, and the work hides in an operator that nobody sees into, "
            f"{hidden[0]}: that saves the breaks and compiles nothing"
        )
    return None


def _sampling_fault(sampled, how):
    for (name, logits), temperature in itertools.product(LOGITS.items(), (0.7, 2.0)):
        wanted_history, history = [], []
        wanted = _sampled(logits, temperature, wanted_history)
        result = sampled(logits.clone(), temperature, history)
        where = f"{how}, for logits that are {name}"
        if not (isinstance(result, tuple) and len(result) == 2):
            return f"{where}: it returned no pair of probs and sure"
        for part, theirs, ours in zip(("probs", "sure"), result, wanted, strict=True):
            if not torch.is_tensor(theirs) or theirs.shape != ours.shape:
                return f"{where}: {part} is no tensor of shape {tuple(ours.shape)}"
            if not torch.allclose(theirs, ours, atol=1e-6):
                return f"{where}: {part} differs from what sampled returns"
        if len(history) != 1:
            return f"{where}: history grew by {len(history)}, and 1 was asked for"
        if not abs(float(history[0]) - wanted_history[0]) < 1e-4:
            return f"{where}: what history got differs from what sampled puts there"
    try:
        sampled(torch.tensor([0.0, float("nan"), 1.0, 2.0]), 1.0, [])
    except NotImplementedError:
        raise
    except Exception:
        return None
    return f"{how}, logits with a NaN in them raise no error"


# --- 03.3 ----------------------------------------------------------------------


def _longest_run(bits):
    runs = [max(sum(g) for _, g in itertools.groupby(r)) for r in bits.tolist()]
    return torch.tensor(runs, device=bits.device)


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
    def weighted(x):
        return answer((x > 0).long()) * x.sum(-1)

    def reference(x):
        return _longest_run((x > 0).long()) * x.sum(-1)

    def waves(rows, columns):
        x = torch.linspace(-1, 1, rows * columns).reshape(rows, columns)
        return (x * 40).sin()

    bits = [((waves(*shape) > 0).long(),) for shape in ((5, 9), (2, 30))]
    if fault := difference(answer, _longest_run, bits):
        return f"called by itself, it does not return what longest_run does: {fault}"
    logging.disable(logging.ERROR)  # torch logs what the messages below say
    try:
        found = graphs(weighted, waves(4, 6))
        if found.count != 1 or found.breaks:
            many = count(len(found.breaks), "graph break")
            return f"in the middle of a function: {count(found.count, 'graph')}, {many}"
        compiled = torch.compile(weighted, backend="aot_eager", dynamic=True)
        shapes = [(waves(*shape),) for shape in ((4, 6), (7, 3), (3, 8))]
        if fault := difference(compiled, reference, shapes):
            return f"compiled, {fault}"
    except Exception as error:
        said = str(error.__cause__ or error)
        if "fake impl" in said:
            return "the compiler does not know what comes out: register_fake is missing"
        return f"with what the fake says, it does not compile: {said.splitlines()[0]}"
    finally:
        logging.disable(logging.NOTSET)
    try:
        torch.library.opcheck(answer, bits[0])
    except Exception as error:
        return f"torch.library.opcheck finds: {' '.join(str(error).split())[:300]}"
    return None
