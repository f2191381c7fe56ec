"""The bytes of eager calls, counted by hand: nothing is compiled."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.errors import InputError
from helpers.traffic import EagerBytes, _leaves, both_ways, eager_bytes

N = 100  # float32: 400 bytes


def calls(fn, *inputs, **options):
    return eager_bytes(fn, *inputs, **options).calls


@given(st.integers(1, 50), st.integers(1, 50))
def test_each_tensor_is_read_once_and_each_result_written_once(rows, columns):
    x, y = torch.ones(rows, columns), torch.ones(columns)
    moved = 4 * (2 * rows * columns + columns)
    assert calls(torch.add, x, y) == (("add", moved),)


@pytest.mark.parametrize(
    ("fn", "shapes", "found"),
    [
        (torch.sin, [(N,)], [("sin", 800)]),
        (lambda x: x + x, [(N,)], [("add", 800)]),  # one tensor, read once
        (lambda x: x.sin().cos(), [(N,)], [("sin", 800), ("cos", 800)]),
        (lambda x: x[10:].view(9, 10).sin(), [(N,)], [("sin", 720)]),
        (lambda x: x.add_(1), [(N,)], [("add", 800)]),
        (lambda x: x.fill_(0), [(N,)], [("fill", 400)]),
        (lambda x: x.sum(), [(N,)], [("sum", 404)]),
        (lambda x: x.new_empty(5).copy_(x), [(5,)], [("copy", 40)]),
        (lambda x: x.expand(3, N).sin(), [(1, N)], [("sin", 400 + 1200)]),
        (lambda x: x.expand(3, N) + 0, [(N,)], [("add", 400 + 1200)]),
        (lambda x: torch.split(x.sin(), 50)[0], [(N,)], [("sin", 800)]),
        (lambda x: torch.sort(x), [(N,)], [("sort", 400 + 400 + 800)]),
        (lambda x: torch.cat([x, x]), [(N,)], [("cat", 400 + 800)]),
        (torch.mm, [(2, 3), (3, 5)], [("mm", 4 * (6 + 15 + 10))]),
        (lambda x: x.half(), [(N,)], [("to_copy", 600)]),
    ],
)
def test_what_a_call_moves(fn, shapes, found):
    result = eager_bytes(fn, *(torch.ones(shape) for shape in shapes))
    assert [*result.calls] == found
    assert result.bytes == sum(moved for _, moved in found)


def test_a_gather_reads_the_rows_that_it_takes():
    table, index = torch.ones(1000, 8), torch.tensor([3, 5])
    rows, indices = 2 * 8 * 4, 2 * 8
    for fn in (
        lambda t, i: t[i],
        lambda t, i: torch.nn.functional.embedding(i, t),
        lambda t, i: t.index_select(0, i),
    ):
        ((_, moved),) = calls(fn, table, index)
        assert moved == rows + rows + indices
    ((_, moved),) = calls(lambda t, i: torch.take(t, i), table, index)
    assert moved == 8 + 8 + 8  # two numbers there and back; of two indices, as much


def test_a_view_or_an_empty_tensor_moves_nothing():
    x = torch.ones(N)
    for fn in (
        lambda x: x.view(10, 10).t()[2:],
        lambda x: torch.empty(7),
        lambda x: torch.empty_like(x),
        lambda x: x.unsqueeze(0).expand(4, N),
        lambda x: x.detach(),
    ):
        assert calls(fn, x) == ()


def test_the_backward_counts_where_an_output_needs_it():
    x = torch.ones(N, requires_grad=True)
    both = [name for name, _ in calls(lambda x: x.sin(), x)]
    assert both[0] == "sin" and len(both) > 1 and "ones_like" not in both
    assert [name for name, _ in calls(lambda x: x.sin(), x, backward=False)] == ["sin"]
    assert [n for n, _ in calls(lambda x: x.sin(), x.detach())] == ["sin"]
    with pytest.raises(InputError, match="no output requires gradients"):
        eager_bytes(torch.sin, x.detach(), backward=True)
    with pytest.raises(InputError, match="returns no tensor"):
        eager_bytes(lambda x: 3, x)
    assert x.grad is None


def test_the_seed_of_the_backward_is_not_the_functions_work():
    x = torch.ones(N, requires_grad=True)
    found = calls(lambda x: x * 2, x)
    assert [name for name, _ in found] == ["mul", "mul"]
    assert sum(moved for _, moved in found) == 1600


def test_both_ways_runs_the_backward_for_every_output_and_leaf(monkeypatch):
    a, b = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    asked = []

    def grad(roots, leaves, ones, allow_unused):
        asked.append((roots, leaves, ones, allow_unused))

    monkeypatch.setattr(torch.autograd, "grad", grad)

    def fn(a, b):
        return {"x": a * 2, "y": [b.sum(), torch.zeros(1), 3]}

    both_ways(fn, None)(a, b)
    ((roots, leaves, ones, unused),) = asked
    assert [tuple(t.shape) for t in roots] == [(2,), ()] and unused is True
    assert {id(t) for t in leaves} == {id(a), id(b)}
    assert [t.tolist() for t in ones] == [[1.0, 1.0], 1.0]
    both_ways(fn, False)(a, b)
    both_ways(lambda a: a.detach(), None)(a)
    assert len(asked) == 1
    both_ways(fn, True, seed=lambda t: t * 0)(a, b)
    assert asked[1][2][1].item() == 0


def test_the_leaves_of_a_graph_once_each():
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    shared = a * b
    found = _leaves([(shared + shared).sum(), (shared * a).sum()])
    assert len(found) == 2 and {id(t) for t in found} == {id(a), id(b)}
    assert _leaves([a]) == [a]  # itself a leaf


def test_the_answer_as_text():
    found = EagerBytes((("sin", 800), ("cos", 1600)))
    table = "op   bytes\n───  ────────\nsin  800 B\ncos  1.562 KiB".splitlines()
    assert str(found).splitlines()[0].split() == table[0].split()
    assert [line.split() for line in str(found).splitlines()[2:4]] == [
        line.split() for line in table[2:]
    ]
    assert str(found).endswith("\n2 calls, 2.344 KiB")
    assert repr(found) == str(found) and found.bytes == 2400
    assert str(EagerBytes(())) == "0 calls, 0 B"
    assert found._repr_html_().startswith("<pre") and "1.562 KiB" in found._repr_html_()


@pytest.mark.parametrize(
    "fill",
    [
        lambda x: x.copy_(torch.empty(())),
        lambda x: x.fill_(2.0),
        lambda x: x.zero_(),
        lambda x: x.normal_(),
        lambda x: x.uniform_(),
        lambda x: x.bernoulli_(0.5),
        lambda x: x.random_(),
        lambda x: x.exponential_(),
        lambda x: torch._foreach_zero_([x[:40], x[40:]]) or x,
    ],
)
def test_what_fills_a_tensor_does_not_read_it(fill):
    found = [moved for _, moved in calls(fill, torch.ones(N)) if moved > 8]
    assert found in ([400], [404])  # 4 are the number that is copied


def test_a_copy_of_many_reads_the_one_and_writes_the_other():
    def copy(x, y):
        torch._foreach_copy_([x[:40], x[40:]], [y[:40], y[40:]])
        return x

    assert calls(copy, torch.ones(N), torch.ones(N)) == (("foreach_copy", 800),)


def test_the_function_and_its_inputs_are_as_they_were():
    layer = torch.nn.BatchNorm1d(4)
    x = torch.ones(2, 4)
    eager_bytes(lambda x: x.add_(1), x)
    eager_bytes(layer, x)
    assert x.eq(1).all() and int(layer.num_batches_tracked) == 0
    with pytest.raises(InputError, match="cpu and meta"):
        eager_bytes(torch.add, x, torch.ones(2, 4, device="meta"))
    with pytest.raises(InputError, match="must be a function"):
        eager_bytes(x)
