"""A small Llama, adapters for it, and what a swap of them costs."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from course import models
from course.call_strips import Calls
from course.failures import failure
from course.values import as_near, right_answer
from course.words import silence
from helpers import device
from helpers.correctness import usual_and_exact

NAMES = tuple(f"user{n}" for n in range(12))


def adapted(settings: Sequence[Any], names: Sequence[str] = NAMES) -> Any:
    """Return a Llama of one layer with an adapter for each of the settings."""
    with silence():
        torch.manual_seed(0)
        llama = models.llama_of(num_key_value_heads=4, use_cache=False).model
        adapters = dict(zip(names, settings, strict=False))
        return models.adapted(llama.to(device()), adapters)


def weights(model: Any, name: str, called: str) -> dict[str, torch.Tensor]:
    """Return copies of an adapter's tensors, keyed as one *called* so."""
    from peft import get_peft_model_state_dict

    found = get_peft_model_state_dict(model, adapter_name=name)
    return {
        key.replace(".weight", f".{called}.weight"): value.clone()
        for key, value in found.items()
    }


class Judge:
    """Knows each adapter's answer, from eager in float32 and float64."""

    def __init__(self, model: Any, names: Sequence[str], ids: Any) -> None:
        @torch.no_grad()
        def answer(name: str) -> torch.Tensor:
            model.set_adapter(name)
            return model(input_ids=ids).last_hidden_state

        both = [usual_and_exact(answer, name) for name in names]
        self.usual, self.exact = zip(*both, strict=True)

    def right(self, found: Sequence[Any]) -> list[bool]:
        """Return for each adapter whether its answer is as near as eager's."""
        places = [n % len(self.exact) for n in range(len(found))]
        return [
            as_near(self.exact[place], self.usual[place], ours)
            for place, ours in zip(places, found, strict=True)
        ]

    def differ(self) -> bool:
        """Return whether no adapter's answer would do for another one."""
        return all(
            not as_near(exact, usual, other)
            for n, (exact, usual) in enumerate(zip(self.exact, self.usual, strict=True))
            for m, other in enumerate(self.usual)
            if n != m
        )


# ------------------------------------------------------------------ one layer


class Vector(torch.nn.Module):
    """A linear layer whose answer is multiplied by a vector, as IA3 does."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.base = torch.nn.Linear(width, width)
        self.vector = torch.nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) * self.vector


def sees_a_copy(layer: torch.nn.Module, name: str) -> bool:
    """Return whether compiled code answers with numbers that are copied into it."""
    torch.compiler.reset()
    run, x = torch.compile(layer), torch.randn(4, 64, device=device())
    run(x)
    weight = layer.get_parameter(name)
    weight.copy_(torch.linspace(-1, 1, weight.numel()).view_as(weight))
    return right_answer(layer, run(x), x)


class AdaptedLinear(torch.nn.Module):
    """A linear layer with one adapter."""

    def __init__(self, width: int = 64, rank: int = 4) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.base = torch.nn.Linear(width, width)
        self.a = torch.nn.Parameter(torch.randn(rank, width))
        self.b = torch.nn.Parameter(torch.randn(width, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + x @ self.a.T @ self.b.T


@torch.no_grad()
def overwrite(layer: AdaptedLinear) -> None:
    """Copy another adapter into the tensors of *layer*."""
    layer.a.copy_(torch.ones_like(layer.a))
    layer.b.copy_(torch.linspace(-1, 1, layer.b.numel()).view_as(layer.b))


@torch.no_grad()
def whose(answer: torch.Tensor, x: torch.Tensor) -> str:
    """Return whose answer this is: "new", "old" or "neither"."""
    layer = AdaptedLinear().to(device())
    if right_answer(layer, answer, x):
        return "old"
    overwrite(layer)
    return "new" if right_answer(layer, answer, x) else "neither"


def stack(adapters: int, rank: int, width: int = 64) -> tuple[Any, ...]:
    """Return a linear layer, and the A and B of so many adapters, stacked."""
    torch.manual_seed(0)
    a = torch.randn(adapters, rank, width) / width**0.5
    return torch.nn.Linear(width, width), a, torch.randn(adapters, width, rank)


def in_turn(
    layer: Any, together: torch.Tensor, x: torch.Tensor, which: torch.Tensor
) -> bool:
    """Return whether each row of *together* is what its adapter gives."""

    def alone(rows: torch.Tensor) -> torch.Tensor:
        given = zip(rows, which.tolist(), strict=True)
        return torch.stack(
            [layer.base(row) + row @ layer.a[n].T @ layer.b[n].T for row, n in given]
        )

    return right_answer(alone, together, x)


@torch.no_grad()
def longer(layer: Any, x: torch.Tensor, which: torch.Tensor) -> list[int]:
    """Return the new graphs of a call, of two longer stacks, and of a place filled."""
    layer = copy.deepcopy(layer)
    calls = Calls(layer)
    calls(x, which)
    for _ in range(2):
        layer.a, layer.b = (torch.cat([t, t[:1]]) for t in (layer.a, layer.b))
        calls(x, which)
    layer.a[-1].copy_(layer.a[1])
    layer.b[-1].copy_(layer.b[1])
    calls(x, which)
    return calls.made


def written(layer: Any, which: torch.Tensor) -> dict[str, int]:
    """Return the bytes that a swap writes in each way into *layer*, an ``Indexed``.

    *which* holds the index that each row of a batch chooses.
    """
    return {
        "copied": layer.a[0].nbytes + layer.b[0].nbytes,
        "merged": layer.base.weight.nbytes,
        "by index": which[0].nbytes,
    }


# ------------------------------------------------------------- the whole model


@torch.no_grad()
def hot_swaps(
    *settings: tuple[int, int],
    room: int | None = None,
    dtype: torch.dtype = torch.float32,
    **options: Any,
) -> list[int]:
    """Return the new graphs of each hot swap, to adapters of (rank, alpha).

    *room* is the rank that the tensors are prepared for, before a cast to *dtype*.
    """
    from peft.utils.hotswap import prepare_model_for_compiled_hotswap

    every = [models.adapter(rank, alpha) for rank, alpha in settings]
    many, one = adapted(every), adapted(every[:1], ["now"])
    if room:
        prepare_model_for_compiled_hotswap(one, target_rank=room)
    calls, ids = Calls(one.to(dtype), **options), torch.arange(4, device=device())
    for _ in _swapped(one, many, every):
        calls(input_ids=ids[None])
    return calls.made


def _swapped(one: Any, many: Any, settings: Sequence[Any]) -> Iterator[None]:
    """Swap each adapter of *many* into *one*, and yield after each."""
    from peft.utils.hotswap import hotswap_adapter_from_state_dict

    for name, setting in zip(NAMES, settings, strict=False):
        given = weights(many, name, "now")
        hotswap_adapter_from_state_dict(one, given, "now", setting)
        yield


@torch.no_grad()
def merged_under_one_name(ids: torch.Tensor) -> tuple[list[int], bool]:
    """Return the new graphs of three hot swaps, each merged, and are all right?"""
    every = [models.adapter(rank) for rank in (4, 8, 2)]
    many, one = adapted(every), adapted(every[:1], ["now"])
    calls, found = Calls(one.base_model.model), []
    judge = Judge(many, NAMES[:3], ids)
    for _ in _swapped(one, many, every):
        one.merge_adapter()
        found.append(calls(input_ids=ids).last_hidden_state)
        one.unmerge_adapter()
    return calls.made, all(judge.right(found))


@torch.no_grad()
def vectors_copied(many: Any, settings: Any, ids: Any) -> tuple[list[int], list[Any]]:
    """Return the new graphs, and the answers, of IA3 adapters that are copied in."""
    one, found = adapted([settings], ["now"]), []
    calls, theirs = Calls(one), dict(many.named_parameters())
    for name in NAMES:
        for key, place in one.named_parameters():
            if "ia3_" in key:
                place.copy_(theirs[key.replace(".now", f".{name}")])
        found.append(calls(input_ids=ids).last_hidden_state)
    return calls.made, found


@torch.no_grad()
def chosen(model: Any, *choices: Any) -> list[int]:
    """Return the new graphs of calls with several adapters at once, or with none."""
    calls, ids = Calls(model), torch.arange(4, device=device())[None]
    for names in choices:
        if names:
            model.base_model.set_adapter(list(names))
        with nullcontext() if names else model.disable_adapter():
            calls(input_ids=ids)
    return calls.made


def shapes(model: Any) -> set[int]:
    """Return the ranks of the adapters' tensors in *model*."""
    found = model.named_parameters()
    return {weight.shape[0] for name, weight in found if "lora_A" in name}


def a_larger_one_is_exchanged() -> bool:
    """Return whether a hot swap changes a larger adapter that is given."""
    from peft.utils.hotswap import hotswap_adapter_from_state_dict

    small, large = models.adapter(4), models.adapter(8)
    model = adapted([small], ["now"])
    given = weights(adapted([large], ["other"]), "other", "now")
    kept = {key: value.clone() for key, value in given.items()}
    hotswap_adapter_from_state_dict(model, given, "now", large)
    return all(given[key].shape != value.shape for key, value in kept.items())


def another_layer_is_refused() -> bool:
    """Return whether a hot swap refuses an adapter for one layer more."""
    from peft.utils.hotswap import hotswap_adapter_from_state_dict

    first, more = models.adapter(), models.adapter()
    more.target_modules |= {"k_proj"}
    model = adapted([first], ["now"])
    given = weights(adapted([more], ["other"]), "other", "now")
    error = failure(hotswap_adapter_from_state_dict, model, given, "now", more)
    return "unexpected keys found" in str(error)


def base_weights(model: Any) -> list[torch.Tensor]:
    """Return copies of the weights that have an adapter beside them."""
    return [value.detach().clone() for value in _bases(model)]


def _bases(model: Any) -> list[torch.Tensor]:
    found = model.named_parameters()
    return [weight for name, weight in found if "base_layer" in name]


def changed(model: Any, before: Sequence[torch.Tensor]) -> int:
    """Return how many numbers of the base are not what they were."""
    pairs = zip(_bases(model), before, strict=True)
    return sum(int((now != then).sum()) for now, then in pairs)
