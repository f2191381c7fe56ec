"""Checks and hints of notebook 23."""

import contextlib
import re

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from course.exercises import exercise, near
from course.failures import failure


def _numbers(rows, columns, times=5):
    return torch.linspace(-3, 4, rows * columns).sin().view(rows, columns) * times


def _logsumexp(x):
    return x.logsumexp(-1)


def _twice(operator):
    """Return what keeps both of two results, if this is the operator."""
    if operator is not _logsumexp:
        named = re.search(r"\bmine(::|\.)row_logsumexp\b", str(operator))
        assert named, f"it is {operator}, and mine::row_logsumexp was asked for"
        with FakeTensorMode():
            told = str(failure(operator, torch.empty(2, 3)))
        assert "no fake impl" not in told, told.split(". ")[0]
    # Stacked at the end, so that the gradients don't lie in a row.
    return lambda x: torch.stack([operator(x), operator(2 * x)], -1)


@exercise(
    "23.1",
    hints=(
        "Three parts, as for softcap on the page: custom_op, register_fake, and "
        "register_autograd with a keep and a backward.",
        "The result has one number for each row, so the fake is not empty_like(x). "
        "The gradient that comes in has that shape, too: it needs a last dimension "
        "before it can be multiplied by exp(x - result).",
        "logsumexp_op = torch.library.custom_op('mine::row_logsumexp', row_logsumexp, "
        "mutates_args=()). Fake: x.new_empty(x.shape[:-1]). keep: "
        "ctx.save_for_backward(*inputs, output). backward: x, y = ctx.saved_tensors; "
        "return gradient[..., None] * (x - y[..., None]).exp().",
    ),
    passed="NumPy in the middle of a graph, and it trains.",
    like=_logsumexp,
    inputs=[
        *[(_numbers(n, 3),) for n in (4, 7, 200, 1)],  # one row costs a compile, too
        (_numbers(9, 3, times=1000),),
        (_numbers(12, 9).t(),),  # new strides and columns cost a compile
    ],
    made=_twice,
    gradient=True,
    compiles=4,
)
def operator(answer):
    for x in (_numbers(4, 6), _numbers(7, 3) ** 15, _numbers(5, 5).t()):
        for sample in (x, x.clone().requires_grad_()):
            try:
                torch.library.opcheck(answer, (sample,))
            except Exception as error:
                told = " ".join(str(error).split())[:300]
                return f"torch.library.opcheck finds: {told}"
    elsewhere = torch.empty(4, 6, device="meta")
    if answer(elsewhere).device != elsewhere.device:
        return "its fake forgets the device: for a tensor on another, it says CPU"
    for what in ("input", "result"):
        base = _numbers(4, 6).requires_grad_()
        x = 1 * base
        written = {"input": x, "result": answer(x)}
        total = written["result"].sum()
        with contextlib.suppress(RuntimeError):
            written[what].mul_(2)  # which autograd sees, where it knows what was saved
            if not near(torch.autograd.grad(total, base)[0], base.softmax(-1)):
                told = f"a write into its {what} changes the gradient"
                return f"{told}: save_for_backward"
    return None
