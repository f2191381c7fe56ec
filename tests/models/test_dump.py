"""Models of real libraries are dumped as their users call them, and stay the same."""

from __future__ import annotations

import pytest
import torch

from course.models import Model, build
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


@pytest.mark.weekly
def test_a_model_in_half_precision() -> None:
    model = build("bert")
    dump = dump_triton(model.module.bfloat16(), kwargs=model.call)
    assert dump.kernels and any("*bf16" in k.generated for k in dump.kernels)


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


@pytest.mark.weekly
@pytest.mark.parametrize("name", ["GPT-2", "Llama"])
def test_each_kernel_of_a_decoder_agrees_in_training(name: str) -> None:
    module = decoder(name).train()

    def loss(tokens: torch.Tensor) -> torch.Tensor:
        return module(input_ids=tokens, labels=tokens, use_cache=False).loss

    tokens = torch.randint(0, 200, (2, 16))
    numerics = dump_triton(loss, tokens, training=True).check_numerics()
    assert 0 < numerics.checked == len(numerics.kernels), numerics


@pytest.mark.weekly
def test_a_static_cache_stays_as_it_was() -> None:
    transformers = pytest.importorskip("transformers")
    module = decoder("Llama").eval()
    cache = transformers.StaticCache(config=module.config, max_cache_len=16)
    with torch.no_grad():
        module(input_ids=torch.tensor([[1, 2, 3]]), past_key_values=cache)
    before = [x.clone() for x in tensors(cache)]

    def step(token: torch.Tensor) -> torch.Tensor:
        return module(input_ids=token, past_key_values=cache).logits

    numerics = dump_triton(step, torch.tensor([[4]])).check_numerics()
    assert 0 < numerics.checked == len(numerics.kernels), numerics
    assert all(map(torch.equal, before, tensors(cache)))
