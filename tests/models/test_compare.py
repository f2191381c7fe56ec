"""compare() of models of real libraries: keywords, caches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from course.models import Model
from torch.utils._pytree import tree_map_only

from tests.test_correctness import asked

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_model_agrees_with_itself_and_a_wrong_one_does_not(model: Model) -> None:
    def off_by_a_fiftieth(*inputs: Any, **kwargs: Any) -> Any:
        return tree_map_only(
            torch.Tensor,
            lambda t: t * 1.02 if t.is_floating_point() else t,
            model.module(*inputs, **kwargs),
        )

    compiled = torch.compile(model.module, backend="aot_eager")
    inputs, kwargs = model.call
    with torch.no_grad():
        found = asked(model.module, compiled, *inputs, kwargs=kwargs)
        assert found.matches is True, found.notes
        assert not any("random" in note for note in found.notes)
        wrong = asked(model.module, off_by_a_fiftieth, *inputs, kwargs=kwargs)
        assert wrong.matches is False, wrong.notes


def test_the_cache_of_the_reader_is_left_as_it_was(model: Model) -> None:
    if model.name != "llama":
        pytest.skip("it has no cache")
    cache = model.call[1]["past_key_values"]
    token = {"input_ids": torch.tensor([[3]])}

    def closure(input_ids: torch.Tensor) -> torch.Tensor:
        return model.module(input_ids, past_key_values=cache).logits

    with torch.no_grad():
        model.module(**model.call[1])  # so that there is something in it
        before = [layer.keys.clone() for layer in cache.layers]
        for eager, call in (
            (model.module, {**token, "past_key_values": cache}),
            (closure, token),
        ):
            found = asked(eager, torch.compile(eager, backend="eager"), kwargs=call)
            assert found.matches is True, found.notes
    assert all(map(torch.equal, before, [layer.keys for layer in cache.layers]))
