"""Checks and hints of lesson 11."""

import torch

from course.exercises import exercise

# --- 11.1 ----------------------------------------------------------------------


def _scores(x, gain):
    h = torch.relu(x) * gain
    return (h - h.amax(-1, keepdim=True)).exp()


def _tensors():
    torch.manual_seed(0)
    kinds = (9, 512, 256), (200, 7, 300)  # an exp of 200 is infinite
    tensors = [(n * torch.randn(r, c), torch.rand(c) - 0.2) for n, r, c in kinds]
    return [*tensors, (torch.rand(5, 9).double() + 1, -torch.rand(9).double())]


one_kernel = exercise(
    "11.1",
    hints=(
        "Two of the launches of scores are library calls, about which the log of "
        "fusion says nothing.",
        "A product with a diagonal matrix is an operation on single elements. And "
        "if you need only the largest number, you don't have to sort.",
        "torch.relu(x) * gain, and h.amax(-1, keepdim=True).",
    ),
    passed="Same numbers, one kernel, and nothing goes to memory in between.",
    like=_scores,
    inputs=_tensors,
    graphs=1,
    kernels=1,
    trips=2,
)

# --- 11.2 ----------------------------------------------------------------------


def _step(p, grad, m):
    m.mul_(0.9).add_(grad.clamp(-1, 1))
    p.sub_(0.1 * m)
    return p, m


def _left_by(step):
    """Return a function that returns what *step* leaves in its tensors, and returns."""

    def left(*tensors):
        with torch.no_grad():
            copies = [tensor.clone() for tensor in tensors]
            return {"after the call": copies, "returned": step(*copies)}

    return left


def _state():
    generator = torch.Generator().manual_seed(0)
    sizes = (64, 96), (5, 7), (4, 4)
    states = [tuple(2 * torch.randn(3, *size, generator=generator)) for size in sizes]
    for _, grad, _ in states:
        grad[0, :2] = torch.tensor([torch.inf, -torch.inf])
    grad.fill_(torch.nan)  # the last one's
    return states


in_one_piece = exercise(
    "11.2",
    hints=(
        "graphs(momentum_step, p, grad, m) names the line. What does Python need "
        "there that only the tensor knows?",
        "The branch saves a clamp, which costs little in a fused kernel. What does "
        "clamp do to a gradient that is small already?",
        "Without any if: grad = grad.clamp(-1, 1), and the other lines as they are.",
    ),
    passed="One kernel, with clamp in the place of the branch.",
    like=_step,
    inputs=_state,
    made=_left_by,
    graphs=1,
    kernels=1,
    trips=6,  # and one of the six is the copy of grad in _left_by
)
