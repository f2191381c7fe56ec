"""What a compiler promises besides the usual numbers, where no page shows it.

`python -m tests.proof faults` breaks each of these.
"""

import pytest
import torch
from torch.nn import functional as F


def test_two_draws_are_two():
    x = torch.ones(1000)
    one, other = torch.compile(lambda x: (F.dropout(x), F.dropout(x)))(x)
    assert not torch.equal(one, other)


def test_each_threads_part_of_a_sum_counts():
    x, threads = torch.ones(1 << 20), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert torch.compile(torch.sum)(x) == x.numel()
    finally:
        torch.set_num_threads(threads)


def test_a_constant_of_float64_has_all_its_digits():
    x = torch.ones(8, dtype=torch.float64)
    assert torch.equal(torch.compile(lambda x: x * 0.1)(x), x * 0.1)


def test_an_index_that_is_too_large_raises():
    with pytest.raises(RuntimeError, match="out of bounds"):
        torch.compile(lambda x, i: x[i] + 1)(torch.ones(3), torch.tensor([9]))


def test_a_break_has_its_line():
    def broken(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y

    [reason] = torch._dynamo.explain(broken)(torch.ones(3)).break_reasons
    assert reason.user_stack[-1].line == "torch._dynamo.graph_break()"
