"""Checks and hints of notebook 11."""

import torch

from course.exercises import difference, exercise, near
from helpers import kernels
from helpers.text import count

# --- 11.1 ----------------------------------------------------------------------


@exercise(
    "11.1",
    hints=(
        "A chain has two. What is returned on the way has to be written, too; and "
        "what must be known of the whole array is read twice.",
        "3: return h and something made of h, or subtract a mean of all. 6: a sort or "
        "a running sum in the middle is a library call between two kernels.",
        "4: a running sum of a CPU is a library call; put one at an end of the chain, "
        "not in the middle. Ask ask(trips(4), torch.randn(256, 256)).trips.",
    ),
    passed="Counted by the machine, and placed by you.",
)
def by_trips(trips):
    torch.manual_seed(0)
    x = torch.randn(256, 256)
    for wanted in (2, 3, 4, 6):
        function = trips(wanted)
        result = function(x.clone())
        if wanted >= 4 and not (torch.is_tensor(result) and result.shape == x.shape):
            return f"trips({wanted}) returns more, or less, than one tensor like x"
        if torch.is_tensor(result) and torch.equal(result, x):
            return f"trips({wanted}) computes nothing: it returns the numbers of x"
        compiled = kernels(function, x)
        if compiled.breaks:
            return f"trips({wanted}) has {count(compiled.breaks, 'graph break')}"
        moved = compiled.bytes / x.nbytes
        if abs(moved - wanted) > 0.1:
            return f"trips({wanted}): the machine counts {moved:.3g} trips"
    return None


# --- 11.2 ----------------------------------------------------------------------


def _scores(x, gain):
    h = torch.relu(x) * gain
    return (h - h.amax(-1, keepdim=True)).exp()


@exercise(
    "11.2",
    hints=(
        "ask(scores, x, gain).launches for an x of 512 by 512: two of them are "
        "library calls, about which the log says nothing.",
        "A product with a diagonal matrix is an operation on single elements. And "
        "who needs only the largest number does not have to sort.",
        "torch.relu(x) * gain, and h.amax(-1, keepdim=True).",
    ),
    passed="Same numbers, one kernel, and nothing goes to memory in between.",
)
def one_kernel(lean):
    torch.manual_seed(0)
    cases = [
        (torch.randn(rows, columns), torch.rand(columns) - 0.2)
        for rows, columns in ((7, 300), (512, 256))
    ]
    if fault := difference(lean, _scores, cases):
        return f"these are not the numbers of scores: {fault}"
    x, gain = cases[-1]
    compiled = kernels(lean, x, gain)
    if compiled.breaks or not compiled.kernels:
        return "not all of it is compiled: no kernel, or a graph break"
    if compiled.library:
        lines = [line for kernel in compiled.library for line in kernel.lines]
        return f"a library is still called, by {'; '.join(dict.fromkeys(lines))}"
    limit = 2 * x.nbytes + gain.nbytes + 8 * len(x)
    if compiled.bytes > limit:
        return f"it still moves {compiled.bytes} bytes, and {limit} are enough"
    return None


# --- 11.3 ----------------------------------------------------------------------


@exercise(
    "11.3",
    hints=(
        "graphs(momentum_step, p, grad, m) names the line. What does Python need "
        "there that only the tensor knows?",
        "The branch saves work that costs nothing in a fused kernel. What does clamp "
        "do to a gradient that is small already?",
        "Without any if: grad = grad.clamp(-1, 1), and the other lines as they are.",
    ),
    passed="One kernel, three reads and two writes: the branch cost more than it "
    "saved.",
)
def in_one_piece(whole_step):
    torch.manual_seed(0)
    p, m, grad = (torch.randn(3, 256, 256) * 2).unbind()
    wanted_m = m * 0.9 + grad.clamp(-1, 1)
    wanted_p = p - 0.1 * wanted_m
    own_p, own_grad, own_m = p.clone(), grad.clone(), m.clone()
    returned = whole_step(own_p, own_grad, own_m)
    for name, own, wanted in (
        ("grad", own_grad, grad),
        ("m", own_m, wanted_m),
        ("p", own_p, wanted_p),
    ):
        if not near(own, wanted):
            return f"{name} is not what momentum_step leaves"
    if not isinstance(returned, tuple) or [*map(id, returned)] != [
        id(own_p),
        id(own_m),
    ]:
        return "momentum_step returns p and m themselves, as a pair"
    compiled, enough = kernels(whole_step, p, grad, m), 5 * p.nbytes
    if compiled.breaks:
        return f"{count(compiled.breaks, 'graph break')} left: does Python still ask?"
    if compiled.bytes > enough:
        return f"it moves {compiled.bytes} bytes, and {enough} are enough"
    return None
