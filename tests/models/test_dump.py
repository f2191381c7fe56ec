"""Models of real libraries are dumped as their users call them, and stay the same."""

from __future__ import annotations

import pytest
import torch

from helpers import dump_triton
from helpers.tensors import clone, tensors
from tests.models import zoo

pytest.importorskip("triton")


def test_a_model_is_dumped_and_stays_as_it_was(
    model: zoo.Model, training: bool
) -> None:
    args, kwargs = model.call
    given, state = clone((args, kwargs)), clone(model.module.state_dict())
    model.module.train(training)
    try:
        dump = dump_triton(model.module, *args, kwargs=kwargs, training=training)
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
    for before, after in zip(tensors(given), tensors((args, kwargs)), strict=True):
        assert torch.equal(before, after)  # also the keys and values of a cache
    if training and model.name == "bert":
        drawn = [k for k in dump.kernels if "tl.rand" in k.source]
        assert drawn and any("dropout" in k.ops for k in dump.kernels)


def test_a_model_in_half_precision() -> None:
    model = zoo.build("bert")
    dump = dump_triton(model.module.bfloat16(), kwargs=model.call[1])
    assert dump.kernels and any("*bf16" in k.generated for k in dump.kernels)
