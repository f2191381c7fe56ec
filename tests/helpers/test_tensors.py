"""The tensors in anything: found, and copied as they are."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from helpers.capture import recompiles
from helpers.errors import InputError
from helpers.session import restored
from helpers.tensors import clone, tensors


@dataclass
class Pair:
    first: torch.Tensor
    rest: list


def test_tensors_are_found_in_anything_once_each_and_in_order():
    a, b, c, d = (torch.full((2,), float(n)) for n in range(4))
    layer = torch.nn.BatchNorm1d(2)
    value = {"x": (a, [b, a]), "y": Pair(c, ["text", 3, None, deque([d])])}
    assert [id(t) for t in tensors(value)] == [id(t) for t in (a, b, c, d)]
    assert [id(t) for t in tensors([layer, a])] == [
        *map(id, layer.parameters()),
        *map(id, layer.buffers()),
        id(a),
    ]
    circle = SimpleNamespace(x=a)
    circle.me = circle
    assert [*tensors(circle)] == [a]
    normal = torch.distributions.Normal(a, torch.ones(2))
    assert any(t is a for t in tensors(normal))
    assert [*tensors("text")] == [*tensors(torch.nn.Linear)] == []


def test_a_tensor_is_copied_once_and_modules_are_shared():
    x, layer = torch.ones(2), torch.nn.Linear(2, 2)
    value = {"a": [x, x, "text"], "b": Pair(x, [layer])}
    new = clone(value)
    assert new["a"][0] is new["a"][1] is new["b"].first is not x
    assert new["b"].rest[0] is layer and new["b"] is not value["b"]
    assert new["a"][2] == "text"


@pytest.mark.parametrize(
    "x",
    [
        torch.arange(24.0)[::2],
        torch.arange(24.0).reshape(4, 6)[:, 1:3],
        torch.arange(3.0).expand(4, 3),
        torch.arange(6).reshape(2, 3).to_sparse(),
        torch.ones(3).as_subclass(type("Own", (torch.Tensor,), {})),
        torch.tensor([1 + 2j]).conj(),
        torch.ones(2, device="meta"),
        torch.empty(0),
        torch.arange(12.0).reshape(3, 4).t().requires_grad_(),
        torch.ones(2, requires_grad=True) * 2,
    ],
    ids=lambda x: f"{tuple(x.shape)} {x.layout} {x.device}",
)
def test_a_clone_lies_in_memory_as_the_original(x):
    (new,) = clone((x,))
    assert new is not x and type(new) is type(x) and new.is_leaf
    assert new.requires_grad == x.requires_grad
    assert (new.shape, new.device) == (x.shape, x.device)
    if x.layout is torch.strided:
        assert new.stride() == x.stride()
    if not x.is_meta:
        assert torch.equal(new.to_dense(), x.to_dense())


def test_clones_share_the_memory_that_the_originals_share():
    x = torch.zeros(10)
    first, a, b = clone((x[2:3], x[:8], x[2:].requires_grad_()))
    with torch.no_grad():
        b[0] = 7
    assert first == a[2] == 7 and not x.any()


class Noted(torch.Tensor):
    """A tensor with what its author notes on it."""


def test_a_clone_is_of_inference_mode_and_has_notes_as_the_original():
    with torch.inference_mode():
        made = torch.ones(2)
    noted = torch.ones(2).as_subclass(Noted)
    noted.note = ["a"]
    x, y, z = clone([made, noted, torch.ones(2)])
    assert x.is_inference() and not z.is_inference() and x is not made
    assert type(y) is Noted and y.note == ["a"] and y.note is not noted.note
    with restored(x), torch.inference_mode():
        x.add_(1)
    assert x.tolist() == [1, 1]


class Scaled(torch.Tensor):
    """Lesson 17's: whatever is done with it, the result is a plain tensor."""

    @staticmethod
    def __new__(cls, raw, scale):
        return torch.Tensor._make_wrapper_subclass(cls, raw.shape)

    def __init__(self, raw, scale):
        self.raw, self.scale = raw, scale

    def __tensor_flatten__(self):
        return ["raw"], self.scale

    @staticmethod
    def __tensor_unflatten__(inner, rest, size, stride):
        return Scaled(inner["raw"], rest)

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        plain = [a.raw * a.scale if isinstance(a, cls) else a for a in args]
        return op(*plain, **(kwargs or {}))


def test_a_clone_of_a_tensor_with_tensors_inside_is_of_its_class():
    x = Scaled(torch.ones(3), 2.0)
    (new,) = clone([x])
    assert type(new) is Scaled and new.scale == 2 and new.raw is not x.raw
    calls = [(Scaled(torch.ones(3), scale),) for scale in (1.0, 2.0, 3.0)]
    assert recompiles(torch.sin, calls).total == 3
    del Scaled.__tensor_unflatten__
    with pytest.raises(InputError, match=r"^Scaled\.detach\(\) is a plain tensor"):
        clone(x)


def test_a_clone_has_the_gradient_of_a_leaf_and_stays_a_parameter():
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.full((2,), 3.0)
    (new,) = clone([weight])
    assert isinstance(new, torch.nn.Parameter) and new.is_leaf and new.requires_grad
    assert new.grad is not weight.grad and new.grad.tolist() == [3, 3]
    new.data.add_(1)
    assert weight.tolist() == [1, 1]
    assert not clone(torch.nn.Parameter(torch.arange(2), False)).requires_grad
    bias = torch.nn.Parameter(torch.zeros(2))
    bias.grad = weight.grad  # as views of one buffer are
    one, other = clone([weight, bias])
    assert one.grad.data_ptr() == other.grad.data_ptr() != weight.grad.data_ptr()


def test_a_small_view_of_a_large_tensor_is_copied_alone():
    rows = torch.arange(1 << 25)[:100].view(10, 10)[:, :4]  # of 256 MiB
    new = clone(rows)
    assert new.stride() == rows.stride() and torch.equal(new, rows)
    assert new.untyped_storage().nbytes() == 8 * 94  # from the first to the last
    half = clone(torch.empty(20 << 20)[: 10 << 20])  # of 80 MiB: no batch of a data set
    assert half.untyped_storage().nbytes() == 80 << 20
