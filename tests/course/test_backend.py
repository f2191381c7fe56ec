"""The backend that counts says which graph ran, and leaves errors to the caller."""

import pytest
import torch

from course.backend import CountingBackend

X = torch.ones(3)


def checked(x):
    y = x.exp()
    assert (y < 9).all(), "too large"
    return y + 1


def test_each_run_is_the_number_of_its_graph():
    torch.compiler.reset()
    backend = CountingBackend()
    compiled = torch.compile(lambda x: x + 1, backend=backend, dynamic=False)
    assert [backend.served(compiled, x) for x in (X, X[:2], X)] == [0, 1, 0]
    assert backend.ran == [0, 1, 0] and len(backend.captured) == 2
    assert backend.served(lambda: X) == "eager"


def test_an_error_in_a_graph_is_raised_and_not_printed_as_well(capfd):
    torch.compiler.reset()
    compiled = torch.compile(checked, backend=CountingBackend())
    compiled(X)
    with pytest.raises(RuntimeError, match="too large"):
        compiled(9 * X)
    assert capfd.readouterr().err == ""
