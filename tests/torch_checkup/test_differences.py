"""The check-up gives the judge its model: the judge's own tests are in the helpers'."""

import pytest
import torch
from torch import nn

from tests.helpers.test_judge import (  # noqa: F401 (other tests take them from here)
    Blocks,
    Fresh,
    appended,
    either,
    on_first,
    shared_cache,
)
from torch_checkup.judge import differences
from torch_checkup.model import Model

pytestmark = pytest.mark.usefixtures("one_thread")


class Given(Model):
    """A model and its calls, given as they are."""

    def __init__(self, fn, *calls, train=False, loss=None):
        self.order, self.fn = {"timeout": 100.0, "budget": 0.1}, fn
        self.module = fn if isinstance(fn, nn.Module) else None
        self.train, self.loss = train, loss or (lambda out: out.square().sum())
        self._calls = [(inputs, {}) for inputs in calls]


def test_calls_share_what_their_owner_shares():
    p = Given(appended, *shared_cache())
    caches = [inputs[1] for inputs, _ in p.calls]
    assert caches[0] is caches[1] is caches[2] is not p._calls[0][0][1]


def test_the_function_gives_the_differences_alone():
    p = Given(Fresh(lambda x, c: x * (2 if c else 1)), (torch.rand(3),))
    [one] = differences(p, p.compiled(backend="eager"))
    assert one.where == ("output", "values")
    zeros = [((torch.zeros(3),), {})]
    assert differences(p, p.compiled(backend="eager"), calls=zeros) == ()
