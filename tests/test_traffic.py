"""The bytes of eager calls, counted by hand: nothing is compiled."""

import types
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.errors import InputError
from helpers.traffic import EagerBytes, eager_bytes

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


@pytest.mark.parametrize(
    ("fn", "shapes", "moved"),
    [
        (torch.sin, [N], 800),
        (lambda x: x + x, [N], 800),  # one tensor, read once
        (lambda x: x.sin().cos(), [N], 1600),
        (lambda x: x[10:].view(9, 10).sin(), [N], 720),
        (lambda x: x.add_(1), [N], 800),
        (lambda x: x.sum(), [N], 404),
        (lambda x: x.new_empty(5).copy_(x), [5], 40),
        (lambda x: x.expand(3, N).sin(), [(1, N)], 400 + 1200),
        (lambda x: x.expand(3, N) + 0, [N], 400 + 1200),
        (lambda x: torch.split(x.sin(), 50)[0], [N], 800),
        (lambda x: torch.sort(x), [N], 400 + 400 + 800),
        (lambda x: torch.cat([x, x]), [N], 400 + 800),
        (torch.mm, [(2, 3), (3, 5)], 4 * (6 + 15 + 10)),
        (lambda x: x.half(), [N], 600),
        (copy_by_lists, [N, N], 800),
        (lambda x, y: x[:50].copy_(y[:50]), [N, N], 400),
        # What is overwritten is not read,
        (lambda x, y: x.copy_(y), [N, N], 800),
        (lambda x: x.copy_(torch.empty(())), [N], 404),
        (lambda x: torch.add(x, 1, out=torch.empty(N)), [N], 800),
        (lambda x: x.fill_(2.0), [N], 400),
        (lambda x: x.zero_(), [N], 400),
        (lambda x: x.normal_(), [N], 400),
        (lambda x: x.uniform_(), [N], 400),
        (lambda x: x.bernoulli_(0.5), [N], 400),
        (lambda x, p: x.bernoulli_(p / 2), [N, N], 800 + 800),
        (lambda x: x.random_(), [N], 400),
        (lambda x: x.exponential_(), [N], 400),
        (fill_by_lists, [N], 400),
        # nor is what gives only its shape,
        (torch.zeros_like, [N], 400),
        (torch.ones_like, [N], 400),
        (torch.rand_like, [N], 400),
        (torch.randn_like, [N], 400),
        (lambda x: torch.full_like(x, 3.0), [N], 400),
        (lambda x: torch.randint_like(x, 3), [N], 400),
        (lambda x: x.new_zeros(N), [N], 400),
        (lambda x: x.new_full((N,), 2.0), [N], 400),
        # and a view moves nothing, nor does memory that nobody wrote.
        (lambda x: x.view(10, 10).t()[2:], [N], 0),
        (lambda x: x.t_(), [(10, 10)], 0),
        (lambda x: torch.empty(7), [N], 0),
        (lambda x: torch.empty_like(x), [N], 0),
        (lambda x: x.unsqueeze(0).expand(4, N), [N], 0),
        # What overlaps lies in memory once.
        (lambda x: x.unfold(0, 3, 1) + 0, [N], 400 + (N - 2) * 3 * 4),
        (lambda x: x.detach(), [N], 0),
    ],
)
def test_what_a_call_moves(fn, shapes, moved):
    assert eager_bytes(fn, *map(torch.ones, shapes)).bytes == moved


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
    assert moved == 8 + 8 + indices  # two numbers there and back, and where they are
    bag = torch.nn.functional.embedding_bag
    moved = dict(calls(lambda t, i: bag(i, t, i.new_zeros(1)), table, index))
    (bagged,) = (moved[name] for name in moved if name.startswith("embedding_bag"))
    assert rows + indices < bagged < 2 * rows + 4 * indices


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


def test_the_backward_starts_at_every_output_and_reaches_every_leaf():
    a, b = torch.ones(N, requires_grad=True), torch.ones(N, requires_grad=True)

    def outputs(a, b):
        return {"x": a * 2, "y": [(b * 3, torch.zeros(1), 3)]}

    found = [name for name, moved in calls(outputs, a, b) if moved == 800]
    assert found == ["mul"] * 4
    assert a.grad is None and b.grad is None


@dataclass
class Answer:
    """What people return besides tensors."""

    logits: torch.Tensor
    rows: list


@pytest.mark.parametrize(
    "answer",
    [
        lambda y: Answer(y, []),
        lambda y: types.SimpleNamespace(y=y),
        lambda y: torch.distributions.Normal(y, torch.ones(())),
    ],
    ids=["dataclass", "object", "distribution"],
)
def test_the_backward_finds_the_tensors_in_any_answer(answer):
    x = torch.ones(N, requires_grad=True)
    found = [name for name, moved in calls(lambda x: answer(x.sin()), x)]
    assert found[0] == "sin" and {"cos", "mul"} <= {*found[1:]}


def test_what_returns_no_tensor_is_counted_as_well():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss.item()

    assert "addmm" in [name for name, _ in calls(step, torch.ones(2, 4))]
    assert calls(lambda x: x.add_(1) and None, torch.ones(1)) != ()
    with pytest.raises(InputError, match="no output requires gradients"):
        eager_bytes(step, torch.ones(2, 4), backward=True)


def test_the_answer_as_text():
    found = EagerBytes((("sin", 800), ("cos", 1600)))
    words = [line.split() for line in str(found).splitlines()]
    assert words[0] == ["op", "bytes"]
    assert words[2:4] == [["sin", "800", "B"], ["cos", "1.562", "KiB"]]
    assert str(found).endswith("\n2 calls, 2.344 KiB") and found.bytes == 2400
    assert str(EagerBytes(())) == "0 calls, 0 B"
    assert found._repr_html_().startswith("<pre") and "1.562 KiB" in found._repr_html_()


ROWS, COLUMNS = 1000, 8
ROW = COLUMNS * 4


def few_rows():
    """Return a table, the numbers of two of its rows, and what is written there."""
    return torch.ones(ROWS, COLUMNS), torch.tensor([3, 5]), torch.ones(2, COLUMNS)


def set_rows(table, index, rows):
    table[index] = rows
    return table


INDEXED = {  # what is called in place: rows of 8 numbers read, and written
    "index_put": (set_rows, 1, 1),
    "accumulate": (lambda t, i, r: t.index_put_((i,), r, accumulate=True), 2, 1),
    "index_copy": (lambda t, i, r: t.index_copy_(0, i, r), 1, 1),
    "index_add": (lambda t, i, r: t.index_add_(0, i, r), 2, 1),
    "index_fill": (lambda t, i, r: t.index_fill_(0, i, 1.0), 0, 1),
}


@pytest.mark.parametrize("name", INDEXED)
def test_a_write_to_a_few_rows_moves_these_rows(name):
    fn, read, written = INDEXED[name]
    table, index, rows = few_rows()
    ((_, moved),) = calls(fn, table, index, rows)
    assert moved == 2 * 8 + 2 * ROW * (read + written)  # and the indices
    mask = torch.zeros(ROWS, dtype=torch.bool)
    mask[[3, 5]] = True
    if fn is set_rows:
        ((_, moved),) = calls(fn, table, mask, rows)
        assert moved == ROWS + 2 * ROW * 2
        row = torch.ones(COLUMNS)  # spread over both
        ((_, moved),) = calls(fn, table, index, row)
        assert moved == 2 * 8 + ROW + 2 * ROW


@pytest.mark.parametrize(
    ("fn", "reads"),
    [
        (lambda t, i, v: t.scatter_(0, i, v), 1),
        (lambda t, i, v: t.scatter_(0, i, 3.0), 0),
        (lambda t, i, v: t.scatter_add_(0, i, v), 2),
        (lambda t, i, v: t.scatter_reduce_(0, i, v, "amax"), 2),
        (lambda t, i, v: t.put_(i, v), 1),
    ],
    ids=["scatter", "value", "scatter_add", "scatter_reduce", "put"],
)
def test_a_scatter_in_place_moves_a_number_for_each_index(fn, reads):
    index, values = torch.zeros(1, COLUMNS, dtype=torch.int64), torch.ones(1, COLUMNS)
    ((_, moved),) = calls(fn, torch.ones(ROWS, COLUMNS), index, values)
    assert moved == COLUMNS * 8 + ROW * (reads + 1)


def test_out_of_place_the_whole_table_is_read_and_written():
    table, index, rows = few_rows()
    for fn in (
        lambda t, i, r: t.index_add(0, i, r),
        lambda t, i, r: t.index_copy(0, i, r),
        lambda t, i, r: t.index_put((i,), r),
    ):
        moved = eager_bytes(fn, table, index, rows).bytes
        assert moved == 2 * ROWS * ROW + 2 * 8 + 2 * ROW


def test_the_function_and_its_inputs_are_as_they_were():
    layer = torch.nn.BatchNorm1d(4)
    x = torch.ones(2, 4)
    eager_bytes(lambda x: x.add_(1), x)
    eager_bytes(layer, x)
    assert x.eq(1).all() and int(layer.num_batches_tracked) == 0
