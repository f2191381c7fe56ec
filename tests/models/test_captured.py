"""What graphs, recompiles, kernels, eager_bytes and compare say of real models."""

from __future__ import annotations

import pytest
import torch

from course.models import Model
from helpers import eager_bytes, graphs, kernels, recompiles
from helpers.capture import Graphs
from helpers.session import restored
from helpers.tensors import clone, tensors

pytestmark = pytest.mark.usefixtures("one_thread")

# The second size makes a dimension dynamic, and the third needs nothing new.
WHOLE = (1, 1, 0)


@pytest.fixture(scope="module")
def found(model: Model) -> Graphs:
    """The graphs of the smallest call."""
    return graphs(model.module, **model.call)


def test_graphs(model: Model, found: Graphs) -> None:
    if model.name != "detector":
        assert (found.count, found.breaks) == (1, ())
        return
    places = {stop.source for stop in found.breaks}
    assert "chosen.append(int(best))" in places
    assert "boxes, scores = places[sure, :4], scores[sure]" in places
    for stop in found.breaks:
        assert (stop.file, stop.function) == ("models.py", "best")
        assert "in forward: return [self.best" in stop.way[0]


def test_recompiles(model: Model) -> None:
    costs = recompiles(model.module, model.calls)
    assert not costs.limit_hit
    if model.name == "detector":
        assert costs.counts[0] > 1
    else:
        assert costs.counts == WHOLE
        assert "compiled for" in costs.calls[1].reasons[0]


@pytest.mark.weekly
def test_bytes(model: Model, training: bool) -> None:
    if training and model.name == "detector":
        pytest.skip("it is not trained through its boxes")
    call = clone(model.call)
    before = [p.detach().clone() for p in model.module.parameters()]
    torch.manual_seed(1)  # with some, the Conformer leaves its only layer out
    state = torch.get_rng_state()
    model.module.train(training)  # dropout draws, and batch norm keeps its means
    try:
        compiled = kernels(model.module, kwargs=call, backward=training)
        eager = eager_bytes(model.module, kwargs=call, backward=training)
    finally:
        model.module.eval()
    stops = model.name == "detector" or (training and model.name == "conformer")
    assert bool(compiled.breaks) == stops
    assert 0 < len(compiled.kernels) <= len(eager.calls)
    # Fusion saves what activations move.  Beside so small ones, the copies of weights
    # into blocks that Inductor makes for mkldnn weigh much.
    assert 0.3 < compiled.bytes / eager.bytes < 2
    phases = {kernel.phase for kernel in compiled.kernels}
    assert ("backward" in phases) == training
    assert all(map(torch.equal, model.module.parameters(), before))
    assert all(p.grad is None for p in model.module.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_call_can_be_repeated_from_the_same_state(model: Model) -> None:
    call = clone(model.call)
    again, results = restored(model.module, call), []
    for _ in range(8):  # a cache of 16 places would be full after the third
        with again, torch.no_grad():
            results.append(model.module(**call))
    first, *others = [clone(result) for result in results]
    for other in others:
        torch.testing.assert_close([*tensors(other)], [*tensors(first)], rtol=0, atol=0)
