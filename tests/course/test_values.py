"""Compiled values are right when float64 finds them as near as eager's."""

import torch

from course.values import right_answer, right_values

X = torch.linspace(-2, 3, 30).view(5, 6)
WEIGHT = torch.linspace(1, 2, 6)


def scaled(x):
    return (x * WEIGHT).tanh() / 3


class Mean(torch.nn.Module):
    """Keeps how often it was called."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(6, 6)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return {"mean": self.layer(x).mean(1), "calls": self.calls.clone()}


def test_what_is_rounded_otherwise_is_right():
    assert right_values(scaled, torch.compile(scaled, backend="aot_eager"), X)
    assert right_values(scaled, lambda x: (WEIGHT * x).tanh() * (1 / 3), X)
    assert WEIGHT.dtype == torch.float32


def test_an_answer_is_judged_and_the_model_stays_as_it_was():
    model = Mean()
    found = torch.compile(model, backend="aot_eager")(X)
    model.calls.zero_()
    assert right_answer(model, found, X)
    assert right_answer(model, found, x=X)
    assert (model.calls, model.layer.weight.dtype) == (0, torch.float32)
    assert not right_answer(model, {**found, "mean": found["mean"] + 1e-4}, X)
    assert not right_answer(model, found["mean"], X)
