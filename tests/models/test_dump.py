"""Models of real libraries are dumped as their users call them, and stay the same."""

from __future__ import annotations

import pytest
import torch

from helpers import dump_triton
from helpers.tensors import clone, tensors
from tests.models import zoo

pytest.importorskip("triton")


@pytest.mark.parametrize("training", [False, True])
def test_a_model_is_dumped_and_stays_as_it_was(
    model: zoo.Model, training: bool
) -> None:
    args, kwargs = model.call
    model.module.train(training)
    state = {n: t.clone() for n, t in model.module.state_dict().items()}
    given = clone((args, kwargs))
    try:
        dump = dump_triton(model.module, *args, kwargs=kwargs, training=training)
    finally:
        model.module.eval()
    phases = {graph.phase for graph in dump.graphs}
    assert ("backward" in phases) == training and ("forward" in phases) == training
    assert dump.kernels and all(k.kind != "other" for k in dump.launches)
    assert not any(k.name.startswith("cpp") for k in dump.launches)
    assert not any("for_cpu" in k.name for k in dump.launches)
    now = model.module.state_dict()
    assert all(torch.equal(now[name], value) for name, value in state.items())
    assert all(p.grad is None for p in model.module.parameters())
    for before, after in zip(tensors(given), tensors((args, kwargs)), strict=True):
        assert torch.equal(before, after)  # also the keys and values of a cache


def test_in_half_precision(model: zoo.Model) -> None:
    if model.name not in zoo_of_text:
        pytest.skip("one kind of model is enough")
    args, kwargs = model.call
    module = zoo.build(model.name).module.bfloat16()
    kwargs = {n: v for n, v in kwargs.items() if n != "past_key_values"}
    dump = dump_triton(module, *args, kwargs=kwargs)
    assert dump.kernels and any("*bf16" in k.generated for k in dump.kernels)


zoo_of_text = ("bert", "llama")


def test_dropout_in_training_draws_in_a_kernel() -> None:
    module = zoo.build("bert").module.train()
    dump = dump_triton(module, kwargs=zoo.build("bert").call[1], training=True)
    drawn = [k for k in dump.kernels if "tl.rand(" in k.source or "rand4x" in k.source]
    assert drawn and any("dropout" in k.ops for k in dump.kernels)
