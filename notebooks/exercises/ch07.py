"""Checks and hints of notebook 07."""

import random

import torch

from helpers import eager_bytes, kernels
from helpers.exercises import exercise
from helpers.exercises import same
from helpers.text import count

# --- 07.1 ----------------------------------------------------------------------

_P, _L = "pointwise", "library"
# A name, the steps and what is returned; x, y, w are 64 by 64, b is a row.
_PROGRAMS = (
    (
        "a chain",
        (("h", _P, ("x",)), ("k", _P, ("h",)), ("r", _P, ("k",))),
        ("r",),
    ),
    (
        "a product in the middle",
        (("h", _P, ("x",)), ("p", _L, ("h", "w")), ("r", _P, ("p", "x"))),
        ("r",),
    ),
    (
        "an intermediate result that is returned",
        (("h", _P, ("x", "b")), ("r", _P, ("h", "y"))),
        ("h", "r"),
    ),
    (
        "a tensor that is used twice",
        (("h", _P, ("x", "x")), ("k", _P, ("h", "x")), ("r", _P, ("k", "h"))),
        ("r",),
    ),
    (
        "two products in a row",
        (
            ("h", _P, ("x",)),
            ("k", _P, ("h", "b")),
            ("p", _L, ("k", "w")),
            ("q", _L, ("p", "y")),
        ),
        ("p", "q"),
    ),
)


def _drawn():
    """Return a program that was drawn by lot: steps, results and sizes."""
    names, steps = ["x", "y", "w"], []
    for made in "abcdefg":
        kind = random.choice((_P, _P, _L))
        steps.append((made, kind, tuple(random.sample(names, 2))))
        names.append(made)
    taken = {name for step in steps for name in step[2]}
    results = [step[0] for step in steps if step[0] not in taken]
    sizes = {name: random.randint(1, 99) for name in names}
    return tuple(steps), (*results, "c")[: len(results) + ("c" in taken)], sizes


def _by_the_rules(steps, sizes, results):
    """Return what the two rules say: (eager, compiled)."""
    groups, moved = {}, set()
    for i, (made, kind, _) in enumerate(steps):
        fused = i > 0 and kind == steps[i - 1][1] == _P
        groups[made] = groups[steps[i - 1][0]] if fused else i
    for made, _, taken in steps:
        for name in taken:
            if groups.get(name) != groups[made]:
                moved |= {(name, groups[made]), (name, groups.get(name))}
    moved |= {(name, groups[name]) for name in results}
    compiled = sum(sizes[name] for name, group in moved if group is not None)
    eager = sum(sizes[name] for made, _, taken in steps for name in {made, *taken})
    return eager, compiled


def _program(steps, results):
    """Return the program itself, to be counted."""

    def run(tensors):
        made = dict(tensors)
        for name, kind, taken in steps:
            given = [made[each] for each in taken]
            if kind == _L:
                made[name] = given[0] @ given[1]
            elif len(given) == 2:  # not a sum, which a product would take along
                made[name] = torch.maximum(*given)
            else:
                made[name] = torch.relu(*given)
        return tuple(made[name] for name in results)

    return run


@exercise(
    "07.1",
    hints=(
        "Eager first: for each step, the bytes of what it takes and of what it makes, "
        "each name once, as in {made, *taken}.",
        "Compiled: collect pointwise steps until a library step or the end. Such a "
        "run reads what it takes and did not make itself. What does it write?",
        "Of what a run made it writes only what is in results or is taken by a step "
        "outside the run. Make a list of runs first, a library step being a run of "
        "its own; then every run is counted by the same two sets.",
    ),
    passed="Your two rules count what the machine counts, for programs you did not "
    "see.",
)
def count_first(predict_bytes):
    torch.manual_seed(0)
    tensors = {name: torch.randn(64, 64) for name in "xyw"}
    tensors["b"] = torch.randn(64)
    each = tensors["x"].nbytes
    sizes = dict.fromkeys("xywhkpqr", each) | {"b": tensors["b"].nbytes}
    for name, steps, results in _PROGRAMS:
        program = _program(steps, results)
        right = (
            eager_bytes(program, tensors).bytes,
            kernels(program, tensors).bytes,
        )
        answer = predict_bytes(steps, dict(sizes), results)
        if fault := _count_fault(name, answer, right):
            return f"{fault}; an array here has {each}"
    for _ in range(20):
        steps, results, sizes = _drawn()
        answer = predict_bytes(steps, dict(sizes), results)
        name = f"a program drawn by lot, {steps}, of which {results} are returned"
        right = _by_the_rules(steps, sizes, results)
        if fault := _count_fault(name, answer, right):
            return f"{fault}; the sizes are {sizes}"
    return None


def _count_fault(name, answer, right):
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        return f"{answer!r} is not a pair: return (eager, compiled)"
    for side, said, counted in zip(("eager", "compiled"), answer, right, strict=True):
        if not same(said, counted):
            return f"{name}: {side} moves {counted} bytes, and you say {said}"
    return None


# --- 07.2 ----------------------------------------------------------------------


def _scores(x, gain):
    h = torch.relu(x) * gain
    return (h - h.amax(-1, keepdim=True)).exp()


@exercise(
    "07.2",
    hints=(
        "print(kernels(scores, x, gain)) for an x of 512 by 512: two calls of a "
        "library. Their .lines say where they come from.",
        "A product with a diagonal matrix is an operation on single elements. And "
        "who needs only the largest number does not have to sort.",
        "torch.relu(x) * gain, and h.amax(-1, keepdim=True).",
    ),
    passed="Same numbers, one kernel, and nothing goes to memory in between.",
)
def on_a_diet(lean):
    if fault := _scores_fault(lean, ""):
        return fault
    x, gain = torch.randn(512, 256), torch.rand(256)
    found = kernels(lean, x, gain)
    if found.library:
        lines = [line for kernel in found.library for line in kernel.lines]
        return f"a library is still called, by {'; '.join(dict.fromkeys(lines))}"
    if found.breaks:
        return "there is a graph break now: graphs(lean, x, gain) says where"
    limit = 2 * x.nbytes + gain.nbytes + 8 * len(x)
    if found.bytes > limit:
        return f"it still moves {found.bytes} bytes, and {limit} are enough"
    return _scores_fault(torch.compile(lean, backend="eager"), "compiled, ")


def _scores_fault(f, how):
    torch.manual_seed(0)
    for rows, columns in ((64, 64), (100, 40), (7, 300)):
        x, gain = torch.randn(rows, columns), torch.rand(columns) - 0.2
        result, wanted = f(x.clone(), gain), _scores(x, gain)
        what = f"{how}for x of {rows} by {columns}"
        if type(result) is not torch.Tensor or result.shape != wanted.shape:
            return f"{what} the result has another shape"
        if not torch.allclose(result, wanted, atol=1e-5):
            return f"{what} the numbers are not those of scores"
    return None


# --- 07.3 ----------------------------------------------------------------------


def _step(p, grad, m):
    m = m * 0.9 + grad.clamp(-1, 1)
    return p - 0.1 * m, m


@exercise(
    "07.3",
    hints=(
        "graphs(momentum_step, p, grad, m) names the line. What does Python need "
        "there that only the tensor knows?",
        "The branch saves work that costs nothing in a fused kernel. What does clamp "
        "do to a gradient that is small already?",
        "Without any if: grad = grad.clamp(-1, 1), and the other lines as they are.",
    ),
    passed="One kernel, three reads and two writes: the branch was dearer than what "
    "it saved.",
)
def in_one_piece(mended_step):
    if fault := _step_fault(mended_step, ""):
        return fault
    torch.manual_seed(0)
    inputs = tuple(torch.randn(256, 256) for _ in range(3))
    found, enough = kernels(mended_step, *inputs), 5 * inputs[0].nbytes
    if found.breaks:
        return f"{count(found.breaks, 'graph break')} left: does Python still ask?"
    if found.library:
        return f"{found.library[0].name} is launched, which Inductor did not write"
    if found.bytes > enough:
        return f"it moves {found.bytes} bytes, and {enough} are enough"
    return _step_fault(torch.compile(mended_step, backend="eager"), "compiled, ")


def _step_fault(step, how):
    torch.manual_seed(0)
    for name, scale in (("small", 0.1), ("large", 10.0)):
        p, m = torch.randn(32, 48), torch.randn(32, 48)
        grad = torch.randn(32, 48).clamp(-3, 3) * scale
        given, (new_p, new_m) = grad.clone(), _step(p, grad, m)
        step(p, grad, m)
        what = f"{how}{name} gradients"
        if not torch.equal(grad, given):
            return f"{what}: it changed grad itself"
        for which, got, wanted in (("m", m, new_m), ("p", p, new_p)):
            if not torch.allclose(got, wanted, atol=1e-6):
                return f"{what}: {which} is not what momentum_step leaves in it"
    return None
