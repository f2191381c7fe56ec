"""Models of real libraries are dumped as their users call them, and stay the same."""

from __future__ import annotations

import pytest
import torch

from course.models import Model
from helpers import dump_triton
from helpers.tensors import clone, tensors

pytest.importorskip("triton")


def test_a_model_is_dumped_agrees_and_stays_as_it_was(
    model: Model, training: bool
) -> None:
    given, state = clone(model.call), clone(model.module.state_dict())
    model.module.train(training)  # with dropout
    try:
        dump = dump_triton(model.module, kwargs=model.call, training=training)
        numerics = dump.check_numerics()
    finally:
        model.module.eval()
    phases = {graph.phase for graph in dump.graphs}
    assert ("backward" in phases) == training and ("forward" in phases) == training
    assert dump.kernels and all(k.kind != "other" for k in dump.launches)
    names = " ".join(launch.name for launch in dump.launches)
    assert "cpp" not in names and "for_cpu" not in names
    now = model.module.state_dict()
    assert all(torch.equal(now[name], value) for name, value in state.items())
    assert all(p.grad is None for p in model.module.parameters())
    for before, after in zip(tensors(given), tensors(model.call), strict=True):
        assert torch.equal(before, after)  # also the keys and values of a cache
    if model.name != "detector":  # whose second graph depends on data
        assert 0 < numerics.checked == len(numerics.kernels), numerics
    if training and model.name == "bert":
        drawn = [k for k in dump.kernels if "tl.rand" in k.source]
        assert drawn and any("dropout" in k.ops for k in dump.kernels)
