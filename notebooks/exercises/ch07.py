"""Checks and hints of notebook 07."""

import torch

from helpers import eager_bytes, kernels
from helpers.exercises import difference, exercise, same
from helpers.text import count

# --- 07.1 ----------------------------------------------------------------------

PROGRAMS = (  # a name, the steps, what is returned; x, y, w are 64 by 64, b is a row
    ("a chain", "h = x; k = h; r = k", "r"),
    ("a product in the middle", "h = x; p = h @ w; r = p x", "r"),
    ("an intermediate result that is returned", "h = x b; r = h y", "h r"),
    ("a tensor that is used twice", "h = x x; k = h x; r = k h", "r"),
    ("two products in a row", "h = x; k = h b; p = k @ w; q = p @ y", "p q"),
)


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
    tensors = {name: torch.randn(64, 64) for name in "xyw"} | {"b": torch.randn(64)}
    array = tensors["x"].nbytes
    sizes = dict.fromkeys("xywhkpqr", array) | {"b": tensors["b"].nbytes}
    for name, text, results in PROGRAMS:
        steps, results = tuple(map(_step, text.split("; "))), tuple(results.split())
        program = _program(steps, results)
        counted = eager_bytes(program, tensors).bytes, kernels(program, tensors).bytes
        answer = predict_bytes(steps, dict(sizes), results)
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            return f"{answer!r} is not a pair: return (eager, compiled)"
        for side, said, right in zip(
            ("eager", "compiled"), answer, counted, strict=True
        ):
            if not same(said, right):
                return (
                    f"{name}: {side} moves {right} bytes, and you say {said}; an array "
                    f"here has {array}"
                )
    return None


def _step(text):
    """Return a step such as "p = h @ w" as the exercise writes it."""
    made, _, taken = text.partition(" = ")
    kind = "library" if "@" in taken else "pointwise"
    return made, kind, tuple(taken.replace("@", "").split())


def _program(steps, results):
    """Return the program itself, to be counted."""

    def run(tensors):
        values = dict(tensors)
        for made, kind, taken in steps:
            given = [values[name] for name in taken]
            if kind == "library":
                values[made] = given[0] @ given[1]
            elif len(given) == 2:  # not a sum, which a product would take along
                values[made] = torch.maximum(*given)
            else:
                values[made] = torch.relu(*given)
        return tuple(values[name] for name in results)

    return run


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
    torch.manual_seed(0)
    cases = [
        (torch.randn(rows, columns), torch.rand(columns) - 0.2)
        for rows, columns in ((64, 64), (7, 300), (512, 256))
    ]
    if fault := difference(lean, _scores, cases):
        return f"these are not the numbers of scores: {fault}"
    x, gain = cases[-1]
    found = kernels(lean, x, gain)
    if found.library:
        lines = [line for kernel in found.library for line in kernel.lines]
        return f"a library is still called, by {'; '.join(dict.fromkeys(lines))}"
    if found.breaks:
        return "there is a graph break now: graphs(lean, x, gain) says where"
    limit = 2 * x.nbytes + gain.nbytes + 8 * len(x)
    if found.bytes > limit:
        return f"it still moves {found.bytes} bytes, and {limit} are enough"
    return None


# --- 07.3 ----------------------------------------------------------------------


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
    torch.manual_seed(0)
    for name, scale in (("small", 0.1), ("large", 10.0)):
        p, m, grad = torch.randn(3, 32, 48).unbind()
        grad = grad.clamp(-3, 3) * scale
        wanted_m = m * 0.9 + grad.clamp(-1, 1)
        wanted_p, given = p - 0.1 * wanted_m, grad.clone()
        mended_step(p, grad, m)
        if not torch.equal(grad, given):
            return f"{name} gradients: it changed grad itself"
        for which, got, wanted in (("m", m, wanted_m), ("p", p, wanted_p)):
            if not torch.allclose(got, wanted, atol=1e-6):
                return f"{name} gradients: {which} is not what momentum_step leaves"
    inputs = tuple(torch.randn(256, 256) for _ in range(3))
    found, enough = kernels(mended_step, *inputs), 5 * inputs[0].nbytes
    if found.breaks:
        return f"{count(found.breaks, 'graph break')} left: does Python still ask?"
    if found.library:
        return f"{found.library[0].name} is launched, which Inductor did not write"
    if found.bytes > enough:
        return f"it moves {found.bytes} bytes, and {enough} are enough"
    return None
