"""The kernels of models that people use compute what eager does, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from helpers import dump_triton
from helpers.tensors import tensors
from tests.models.zoo import Model


def check(fn: Callable[..., Any], *inputs: Any, training: bool = False) -> None:
    """Fail unless *fn* has kernels, and each agrees with eager."""
    numerics = dump_triton(fn, *inputs, training=training).check_numerics()
    assert 0 < numerics.checked == len(numerics.kernels), numerics


def first(output: Any) -> torch.Tensor:
    """Return what a model computes: hidden states, logits or an image."""
    return next(x for x in tensors(output) if x.is_floating_point())


def called(model: Model) -> Callable[..., Any]:
    """Return *model* with the keyword arguments of its smallest call."""
    _, keywords = model.call
    return lambda *inputs: first(model.module(*inputs, **keywords))


def test_each_kernel_agrees(model: Model, training: bool) -> None:
    if model.name == "detector" or (training and model.name == "llama"):
        pytest.skip("its second graph depends on data, or its cache is not trained")
    model.module.train(training)  # with dropout
    check(called(model), *model.call[0], training=training)


def decoder(name: str) -> torch.nn.Module:
    """Return a decoder of two layers, that of GPT-2 or Llama."""
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 200, "hidden_size": 32, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "bos_token_id": 1, "eos_token_id": 2}
    torch.manual_seed(0)
    if name == "GPT-2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))
    sizes |= {"num_key_value_heads": 2, "intermediate_size": 64}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))


@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
def test_each_kernel_of_a_decoder_agrees_in_training(name: str) -> None:
    module = decoder(name).train()

    def loss(tokens: torch.Tensor) -> torch.Tensor:
        return module(input_ids=tokens, labels=tokens, use_cache=False).loss

    check(loss, torch.randint(0, 200, (2, 16)), training=True)


def test_a_static_cache_stays_as_it_was() -> None:
    transformers = pytest.importorskip("transformers")
    module = decoder("Llama").eval()
    cache = transformers.StaticCache(config=module.config, max_cache_len=16)
    with torch.no_grad():
        module(input_ids=torch.tensor([[1, 2, 3]]), past_key_values=cache)
    before = [x.clone() for x in tensors(cache)]

    def step(token: torch.Tensor) -> torch.Tensor:
        return module(input_ids=token, past_key_values=cache).logits

    check(step, torch.tensor([[4]]))
    assert all(map(torch.equal, before, tensors(cache)))
