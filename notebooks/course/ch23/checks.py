"""Checks and hints of notebook 23."""

import re

import torch

from course.exercises import exercise


def _numbers(rows, columns, times=5):
    return torch.linspace(-3, 4, rows * columns).sin().view(rows, columns) * times


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
    like=lambda x: x.logsumexp(-1),
    inputs=[
        *[(_numbers(n, 3),) for n in (4, 7, 200, 1)],  # one row costs a compile, too
        (_numbers(9, 3, times=1000),),
        (_numbers(12, 9).t(),),  # new strides and columns cost a compile
    ],
    made=lambda operator: lambda x: operator(x) + operator(2 * x),  # both are kept
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
    if re.search(r"\bmine(::|\.)row_logsumexp\b", str(answer)):
        return None
    return f"it is {answer}, and the operator mine::row_logsumexp was asked for"
