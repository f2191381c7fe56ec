"""The backend that counts says which graph ran, and leaves errors to the caller."""

import torch

from course.backend import CountingBackend

X = torch.ones(3)


def test_each_run_is_the_number_of_its_graph():
    backend = CountingBackend()
    compiled = torch.compile(lambda x: x + 1, backend=backend, dynamic=False)
    assert [backend.served(compiled, x) for x in (X, X[:2], X)] == [0, 1, 0]
    assert backend.ran == [0, 1, 0] and len(backend.captured) == 2
    assert backend.served(lambda: X) == "eager"
    assert backend.served(lambda: (compiled(X), compiled(X[:2]))) == 0
