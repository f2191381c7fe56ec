"""Compiled values are right when float64 finds them as near as eager's."""

import pytest
import torch

from course.values import as_near, right_answer, right_values
from helpers.correctness import usual_and_exact
from helpers.errors import InputError

X = torch.linspace(-2, 3, 30).view(5, 6)
WEIGHT = torch.linspace(1, 2, 6)


def scaled(x):
    return (x * WEIGHT).tanh() / 3


class WrongSlope(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, slope):
        return slope.flip(0)


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


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: scaled(x) * (1 + 1e-5),
        lambda x: scaled(x).T,
        lambda x: scaled(x).double(),
        lambda x: scaled(WrongSlope.apply(x)),
        lambda x: scaled(x.detach()),
        lambda x: (scaled(x), 1),
    ],
)
def test_what_is_off_in_value_form_or_gradient_is_wrong(wrong):
    assert not right_values(scaled, wrong, X)


def test_an_answer_is_judged_and_the_model_stays_as_it_was():
    model = Mean()
    found = torch.compile(model, backend="aot_eager")(X)
    model.calls.zero_()
    assert right_answer(model, found, X)
    assert right_answer(model, found, x=X)
    assert (model.calls, model.layer.weight.dtype) == (0, torch.float32)
    assert not right_answer(model, {**found, "mean": found["mean"] + 1e-4}, X)
    assert not right_answer(model, found["mean"], X)


def test_a_constant_in_a_closure_is_float64_too():
    third = torch.full((6,), 1 / 3)

    def share(x):
        return x * third

    usual, exact = usual_and_exact(share, X)
    assert (usual.dtype, exact.dtype) == (torch.float32, torch.float64)
    assert third.dtype == torch.float32
    assert right_answer(share, X * third, X)
    assert not right_answer(share, X / 3.00001, X)


def test_what_cannot_be_put_back_is_not_judged_by_float64():
    weight = torch.eye(6).to_sparse_csr()
    with pytest.raises(InputError, match="cannot be put back"):
        usual_and_exact(lambda x: weight @ x, X.T)
    assert right_answer(lambda x: weight @ x, X.T, X.T)
    assert not right_answer(lambda x: weight @ x, X.T * 1.001, X.T)


def test_what_is_no_number_must_be_the_same():
    exact = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    nan, inf = float("nan"), float("inf")
    usual = torch.tensor([1.0, nan, inf])
    assert as_near(exact, usual, torch.tensor([1.0, nan, inf]))
    for ours in ([1.0, nan, -inf], [1.0, 2.0, inf], [nan, nan, inf], [1.1, nan, inf]):
        assert not as_near(exact, usual, torch.tensor(ours))
    assert as_near(exact[:0], usual[:0], usual[:0])
    assert as_near(None, 3, 3) and not as_near(None, 3, 4)
