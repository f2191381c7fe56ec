"""Checks and hints of lesson 05."""

import contextlib

import torch

from course.exercises import exercise, near
from course.failures import failure

# --- 05.1 ----------------------------------------------------------------------


def _sampled(logits, temperature, history):
    if torch.isnan(logits).any():
        raise ValueError("the model has diverged")
    if logits.max().item() > 5:
        logits = logits / 2
    probs = torch.softmax(logits / temperature, dim=-1)
    likely = probs[probs > 0.01]
    entropy = -(likely * likely.log()).sum()
    history.append(entropy.item())
    sure = probs.topk(3).values.sum() if entropy > 1 else probs.max()
    return probs, sure, entropy


LOGITS = (  # each takes another way through the function
    torch.linspace(-1, 1, 12),
    torch.linspace(-1, 1, 12) * 9,
    torch.tensor([9.0] + [0.0] * 11),
    torch.linspace(-5, 5, 12),  # not more than 5; the entropy is between 1 and 1.1
    torch.tensor([2.0, 1.0, 0.5] + [-torch.inf] * 9),  # impossible letters
    torch.linspace(-6, 6, 12).double(),
    torch.linspace(-5.25, 5.25, 12),
)


def _on_logits(function):
    def run(logits, temperature):
        return function(logits, temperature, [])

    return run


@exercise(
    "05.1",
    hints=(
        "graphs(repaired, logits, 0.7, []) lists the breaks that are left. Remove one, "
        "and look again.",
        "Each break has a row in the reference page: an error if some value is NaN, "
        ".item(), two branches on a tensor, a mask, a print. A list may hold tensors.",
        "assert (~torch.isnan(logits)).all(), and not assert not; torch.where for "
        "logits, for the terms of the entropy (1 in the log and 0 in the sum where not "
        "likely), and for sure, whose two values you compute both; "
        "history.append(entropy.detach().clone()); no print.",
    ),
    passed="One graph, and the same results.",
    like=_sampled,
    made=_on_logits,
    inputs=[(logits, 0.7 + 0.1 * n) for n, logits in enumerate(LOGITS)],
    gradient=True,
    graphs=1,
)
def repaired(answer):
    if told := _aside(answer):
        return told
    torch.compiler.reset()  # or a full limit lets what is compiled run in eager mode
    return _aside(torch.compile(answer, backend="eager"))


def _aside(answer):
    """Say what is wrong with the history, infinity or NaN; None: nothing."""
    for logits in LOGITS:
        history, wanted = [0.5], []
        *_, entropy = answer(logits.clone().requires_grad_(), 0.7, history)
        entropy.detach().zero_()  # by a caller
        _sampled(logits, 0.7, wanted)
        if history[:1] != [0.5] or len(history) != 2:
            return "history must grow by one number, and keep those that it has"
        if getattr(history[1], "requires_grad", False):
            return (
                "history must grow by a number that requires no gradient: with one, "
                "the list keeps the graph of each step alive"
            )
        number = torch.as_tensor(history[1], dtype=torch.float32)
        if number.dim():
            return f"history grows by a tensor of shape {[*number.shape]}, no number"
        if not near(number, torch.tensor(wanted[0])):
            return (
                f"history grows by {number.tolist():.7g}, and sampled's by "
                f"{wanted[0]:.7g}, given {[round(x, 2) for x in logits.tolist()]}, "
                "looked at after the caller zeroed the entropy that it got"
            )
    odd = torch.tensor([torch.inf, -torch.inf] + [0.0] * 10)
    if error := failure(answer, odd, 1.0, []):
        return f"logits with infinities raise {error!r:.60}, and sampled lets them pass"
    for place in range(12):
        broken, history = torch.ones(12), []
        broken[place] = torch.nan
        with contextlib.suppress(Exception):
            answer(broken, 1.0, history)
            return f"logits with a NaN at [{place}] raise no error"
        if history:
            return "history grows by the entropy of a model that diverged"
    return None
