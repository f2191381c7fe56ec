"""compare() of models of real libraries: keywords, caches, training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map_only

from course.models import Call, Model, build
from helpers.benchmark import Comparison
from tests.helpers import test_correctness as correctness

pytestmark = pytest.mark.usefixtures("one_thread")


def asked(eager: Callable, compiled: Callable, call: Call) -> Comparison:
    return correctness.asked(eager, compiled, kwargs=call)


def off_by_a_fiftieth(module: torch.nn.Module) -> Callable:
    """Return the module with its floating-point outputs off by 2 %."""

    def f(*inputs: Any, **kwargs: Any) -> Any:
        return tree_map_only(
            torch.Tensor,
            lambda t: t * 1.02 if t.is_floating_point() else t,
            module(*inputs, **kwargs),
        )

    return f


def test_a_model_agrees_with_itself_and_a_wrong_one_does_not(model: Model) -> None:
    compiled = torch.compile(model.module, backend="aot_eager")
    with torch.no_grad():
        found = asked(model.module, compiled, model.call)
        assert found.matches is True, found.notes
        assert not any("random" in note for note in found.notes)
        wrong = asked(model.module, off_by_a_fiftieth(model.module), model.call)
        assert wrong.matches is False, wrong.notes


@pytest.mark.weekly
def test_the_cache_of_the_reader_is_left_as_it_was() -> None:
    llama = build("llama")
    cache = llama.call["past_key_values"]
    with torch.no_grad():
        llama.module(**llama.call)  # so that there is something in it
        before = [layer.keys.clone() for layer in cache.layers]
        step = {"input_ids": torch.tensor([[3]]), "past_key_values": cache}

        def closure(input_ids: torch.Tensor) -> torch.Tensor:
            return llama.module(input_ids, past_key_values=cache).logits

        for eager, call in (
            (llama.module, step),
            (closure, {"input_ids": torch.tensor([[3]])}),
        ):
            found = asked(eager, torch.compile(eager, backend="eager"), call)
            assert found.matches is True, found.notes
    after = [layer.keys for layer in cache.layers]
    assert all(map(torch.equal, before, after))


@pytest.mark.weekly
def test_bfloat16_rounds_in_another_way_once_it_is_compiled() -> None:
    bert = build("bert")
    module = bert.module.bfloat16()
    with torch.no_grad():
        found = asked(module, torch.compile(module), bert.call)
        assert found.max_error > 0 and found.matches is True, found.notes
        assert asked(module, off_by_a_fiftieth(module), bert.call).matches is False


@pytest.mark.weekly
def test_a_training_step_of_a_language_model() -> None:
    bert = build("bert")
    compiled = torch.compile(bert.module, backend="eager")

    def step_with(model: Callable, lr: float) -> Callable:
        optimizer = torch.optim.AdamW(bert.module.parameters(), lr)

        def step(**batch: torch.Tensor) -> torch.Tensor:
            loss = model(**batch).last_hidden_state.square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        return step

    weights = [p.detach().clone() for p in bert.module.parameters()]
    eager = step_with(bert.module, 1e-3)
    found = asked(eager, step_with(compiled, 1e-3), bert.call)
    assert found.matches is True, found.notes
    found = asked(eager, step_with(compiled, 2e-3), bert.call)
    assert found.matches is False, found.notes
    assert all(map(torch.equal, weights, bert.module.parameters()))
