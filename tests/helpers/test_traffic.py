"""The bytes of eager calls, counted by hand: nothing is compiled."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.errors import InputError
from helpers.traffic import eager_bytes

N = 100  # float32: 400 bytes


def calls(fn, *inputs, **options):
    return eager_bytes(fn, *inputs, **options).calls


@given(st.integers(1, 50), st.integers(1, 50))
def test_each_tensor_is_read_once_and_each_result_written_once(rows, columns):
    x, y = torch.ones(rows, columns), torch.ones(columns)
    moved = 4 * (2 * rows * columns + columns)
    assert calls(torch.add, x, y) == (("add", moved),)


def fill_by_lists(x):
    torch._foreach_zero_([x[:40], x[40:]])
    return x


def copy_by_lists(x, y):
    torch._foreach_copy_([x[:40], x[40:]], [y[:40], y[40:]])
    return x


holds_a_sparse_table = torch.nn.ReLU()
holds_a_sparse_table.register_buffer("table", torch.eye(4).to_sparse())


@pytest.mark.parametrize(
    ("fn", "shapes", "moved"),
    [
        (torch.sin, [N], 800),
        (lambda x: x + x, [N], 800),  # one tensor, read once
        (lambda x: x[10:].view(9, 10).sin(), [N], 720),
        (lambda x: x.add_(1), [N], 800),
        (lambda x: x.sum(), [N], 404),
        (lambda x: x.expand(3, N) + 0, [N], 400 + 1200),
        (lambda x: torch.split(x.sin(), 50)[0], [N], 800),
        (lambda x: torch.cat([x, x]), [N], 400 + 800),
        (torch.mm, [(2, 3), (3, 5)], 4 * (6 + 15 + 10)),
        (lambda x: x.half(), [N], 600),
        (copy_by_lists, [N, N], 800),
        # What is overwritten is not read,
        (lambda x, y: x.copy_(y), [N, N], 800),
        (lambda x: x.copy_(torch.empty(())), [N], 404),
        (lambda x: torch.add(x, 1, out=torch.empty(N)), [N], 800),
        (lambda x: x.fill_(2.0), [N], 400),
        (lambda x: x.normal_(), [N], 400),
        (lambda x: x.bernoulli_(0.5), [N], 400),
        (lambda x, p: x.bernoulli_(p / 2), [N, N], 800 + 800),
        (fill_by_lists, [N], 400),
        # nor is what gives only its shape,
        (torch.zeros_like, [N], 400),
        (lambda x: x.new_full((N,), 2.0), [N], 400),
        # and a view moves nothing, nor does memory that nobody wrote.
        (lambda x: x.view(10, 10).t()[2:], [N], 0),
        (lambda x: x.t_(), [(10, 10)], 0),
        (lambda x: torch.empty(7), [N], 0),
        # What overlaps lies in memory once.
        (lambda x: x.unfold(0, 3, 1) + 0, [N], 400 + (N - 2) * 3 * 4),
        (lambda x: x[:0].sin(), [N], 0),
        (holds_a_sparse_table, [N], 800),  # which no call reads
    ],
)
def test_what_a_call_moves(fn, shapes, moved):
    assert eager_bytes(fn, *map(torch.ones, shapes)).bytes == moved


@pytest.mark.parametrize(
    ("fn", "x", "message"),
    [
        (lambda x: x @ x, torch.eye(4).to_sparse(), "sparse and nested tensors"),
        (
            lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
            torch.ones(4),
            "nobody can count what cond does inside",
        ),
    ],
    ids=["sparse", "cond"],
)
def test_what_cannot_be_counted_is_said(fn, x, message):
    with pytest.raises(InputError, match=message):
        eager_bytes(fn, x)


def test_the_backward_counts_where_an_output_needs_it():
    x = torch.ones(N, requires_grad=True)
    both = [name for name, _ in calls(lambda x: x.sin(), x)]
    assert both[0] == "sin" and len(both) > 1 and "ones_like" not in both
    assert [name for name, _ in calls(lambda x: x.sin(), x, backward=False)] == ["sin"]
    assert [n for n, _ in calls(lambda x: x.sin(), x.detach())] == ["sin"]
    with pytest.raises(InputError, match="no output requires gradients"):
        eager_bytes(torch.sin, x.detach(), backward=True)
    assert x.grad is None


TABLE, VALUES = torch.ones(1000, 8), torch.ones(2, 8)
ROWS = torch.tensor([3, 5])  # the numbers of two rows
MASK = torch.zeros(1000, dtype=torch.bool).index_fill(0, ROWS, True)
PLACES = torch.zeros(2, 8, dtype=torch.int64)  # a number for each value


def set_rows(table, index, rows):
    table[index] = rows
    return table


@pytest.mark.parametrize(
    ("fn", "index", "times"),  # how often the values, or their places, are moved
    [
        (set_rows, ROWS, 2),
        (set_rows, MASK, 2),
        (lambda t, i, v: set_rows(t, i, v[0]), ROWS, 1.5),  # one row, spread over both
        (lambda t, i, v: t.index_put_((i,), v, accumulate=True), ROWS, 3),
        (lambda t, i, v: t.index_copy_(0, i, v), ROWS, 2),
        (lambda t, i, v: t.index_add_(0, i, v), ROWS, 3),
        (lambda t, i, v: t.index_fill_(0, i, 1.0), ROWS, 1),
        (lambda t, i, v: t.scatter_(0, i, v), PLACES, 2),
        (lambda t, i, v: t.scatter_(0, i, 3.0), PLACES, 1),
        (lambda t, i, v: t.scatter_add_(0, i, v), PLACES, 3),
        (lambda t, i, v: t.scatter_reduce_(0, i, v, "amax"), PLACES, 3),
        (lambda t, i, v: t.put_(i, v), PLACES, 2),
    ],
)
def test_a_write_in_place_moves_what_an_index_names(fn, index, times):
    ((_, moved),) = calls(fn, TABLE, index, VALUES)
    assert moved == index.nbytes + times * VALUES.nbytes
