"""The backend that counts says which graph ran, and leaves errors to the caller."""

import torch

from course.backend import CountingBackend
from tests.refresh import python

X = torch.ones(3)


PROGRAM = """
import torch
from course.backend import CountingBackend

def checked(x):
    y = x.exp()
    assert (y < 9).all(), "too large"
    return y + 1

compiled = torch.compile(checked, backend=CountingBackend())
compiled(torch.ones(3))
try:
    compiled(torch.full((3,), 9.0))
except RuntimeError as error:
    print("too large" in str(error))
"""


def test_each_run_is_the_number_of_its_graph():
    torch.compiler.reset()
    backend = CountingBackend()
    compiled = torch.compile(lambda x: x + 1, backend=backend, dynamic=False)
    assert [backend.served(compiled, x) for x in (X, X[:2], X)] == [0, 1, 0]
    assert backend.ran == [0, 1, 0] and len(backend.captured) == 2
    assert backend.served(lambda: X) == "eager"


def test_an_error_in_a_graph_is_raised_and_not_printed_as_well():
    done = python(PROGRAM)
    assert (done.stdout, done.stderr) == ("True\n", "")
