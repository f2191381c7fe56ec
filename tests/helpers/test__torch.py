"""The private names of torch: what is asked of them, and what is said without one."""

import pytest
import torch

from helpers import _torch
from helpers._torch import needed_for
from helpers.errors import Unavailable


@pytest.mark.parametrize("error", [ImportError, AttributeError])
def test_a_version_without_the_name_says_what_is_lost(error):
    with pytest.raises(Unavailable) as raised, needed_for("the kernels"):
        raise error("no name 'x'")
    assert "(no name 'x'). Without it, this code loses: the kern" in str(raised.value)
    with pytest.raises(KeyError), needed_for("the kernels"):
        raise KeyError("another")


def resumed(x):
    torch._dynamo.graph_break()
    return x.sin()


class Inside(torch.nn.Module):
    def forward(self, x):
        return x.sin()


@pytest.mark.parametrize(
    ("fn", "graphs"),
    [
        (lambda x: x.sin(), True),
        (resumed, True),  # the graph is in what goes on after the break
        (lambda x: x, False),
        (torch.sin, True),  # it has no code of Python
        (Inside(), True),
        (torch.nn.Sequential(Inside()), True),
    ],
    ids=["function", "after a break", "nothing", "builtin", "module", "module inside"],
)
def test_what_has_graphs_was_compiled_and_called(fn, graphs):
    x = torch.ones(2)
    compiled = torch.compile(fn, backend="eager")
    assert not _torch.has_graphs(compiled)
    compiled(x)
    assert _torch.has_graphs(compiled) is graphs
    assert not _torch.has_graphs(fn)  # which is not compiled
    torch.compiler.reset()
    assert not _torch.has_graphs(compiled)
