"""Ten models of lesson 28: what changes from call to call, in counts.

Each row has a model's calls as people write them, and after a change.  Both are
counted from an empty compiler, with the guards of Dynamo (backend "eager"); the
changed calls once more with those of AOTAutograd and Inductor.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.compile_fx import compile_fx

from course.ch28.fixed_detector import FixedDetector
from course.models import Call, build
from course.words import unlogged
from helpers import session
from helpers.capture import Watch
from helpers.tensors import tensors
from helpers.text import Table

Compile = Callable[..., Any]
Counts = tuple[int, ...]
Thunk = Callable[[], Any]


class Row(NamedTuple):
    """A model: what changes, and the compiles of each call.

    *given* are those of the calls as people write them, *mended* of those after
    the change, and *lowered* of these with Inductor's guards, too.
    """

    model: str
    changes: str
    mend: str
    given: Counts
    mended: Counts
    lowered: Counts


ROWS: dict[str, tuple[str, str, Callable[[Compile, bool], list[Thunk]]]] = {}


def row(name: str, changes: str, mend: str) -> Callable[[Any], Any]:
    """Enter a function that returns the calls, as given or mended."""

    def enter(calls: Any) -> Any:
        ROWS[name] = changes, mend, calls
        return calls

    return enter


def lowering(graph: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
    """A backend: Inductor's lowering and its guards, and no kernel is built.

    What runs in the end is the graph as it was captured, on the CPU.
    """

    def not_built(*_: Any, **__: Any) -> Callable[..., Any]:
        return lambda *_: None

    with (
        mock.patch.object(AsyncCompile, "cpp_pybinding", not_built),
        inductor_config.patch(fx_graph_cache=False),
        functorch_config.patch(enable_autograd_cache=False),
    ):
        compile_fx(graph, inputs)
    return graph.forward


def counts(call: Callable[..., Any], inputs: Iterable[tuple[Any, ...]]) -> Counts:
    """Return the compiles of each call, of whatever it compiles, from nothing."""
    torch.compiler.reset()
    found = []
    with session.undisturbed():
        for each_input in inputs:
            with Watch() as watch:
                call(*each_input)
            found.append(watch.compiles)
    torch.compiler.reset()
    return tuple(found)


SHOWN = {  # on the page, with their code: what changes, and the change
    "BERT": ("rows, length, mask left out", "one form"),
    "ViT": ("a last batch, a lone image", "batches padded to 8"),
    "GraphSAGE": ("nodes and edges", "both marked dynamic"),
    "PPO": ("the length of an episode", "loss apart, steps marked"),
}


def rows(*sides: dict[str, Counts]) -> list[Row]:
    """Return the row of each model; *sides* are the counts of those in SHOWN.

    They are before the change, after it, and after it with Inductor's guards.
    """
    found = [
        Row(name, *words, *(side[name] for side in sides))
        for name, words in SHOWN.items()
    ]
    for name, (changes, mend, calls) in ROWS.items():
        counted = []
        for backend, mended in (("eager", False), ("eager", True), (lowering, True)):
            torch.manual_seed(0)
            thunks = calls(partial(torch.compile, backend=backend), mended)
            with unlogged():
                counted.append(counts(lambda thunk: thunk(), [(t,) for t in thunks]))
        found.append(Row(name, changes, mend, *counted))
    return found


def dynamic(given: Any, *dimensions: int) -> Any:
    """Return what is *given*, each tensor in it marked: these dimensions change."""
    for x in tensors(given):
        for dimension in dimensions:
            torch._dynamo.mark_dynamic(x, dimension)
    return given


def each(function: Any, calls: Iterable[Call]) -> list[Thunk]:
    """Return a thunk for each call."""
    run = torch.no_grad()(function)
    return [partial(run, **call) for call in calls]


# --------------------------------------------------------------- ten models


@row("Llama", "prompt length, then 1 token", "prompts padded to one length")
def llama(compile: Compile, mended: bool) -> list[Thunk]:
    module = build("llama").module
    compiled, calls = compile(module), []
    from transformers import StaticCache

    for length in (5, 7, 11):
        length, pad = (12, 12 - length) if mended else (length, 0)
        cache = StaticCache(config=module.config, max_cache_len=16)
        for new in (length, 1):
            seen = torch.ones(1, 16, dtype=torch.int64)
            seen[:, :pad] = 0
            more = {"attention_mask": seen} if mended else {}
            ids = torch.randint(1, 99, (1, new))
            calls.append({"input_ids": ids, "past_key_values": cache, **more})
    return each(compiled, calls)


@row("Conformer, training", "noise, drawn in NumPy", "the three switches")
def conformer(compile: Compile, mended: bool) -> list[Thunk]:
    module = build("conformer").module.train()
    x, mask = torch.randn(2, 800), {}
    if mended:
        module.freeze_feature_encoder()
        module.config.layerdrop = 0.0
        mask = {"mask_time_indices": torch.rand(2, 38) < 0.1}
    compiled = compile(module)
    return [lambda: compiled(x, **mask)] * 3


@row("ResNet", "height and width", "both marked dynamic")
def resnet(compile: Compile, mended: bool) -> list[Thunk]:
    sizes = (32, 32), (32, 48), (48, 32), (40, 56)
    calls = [{"pixel_values": torch.randn(2, 3, *size)} for size in sizes]
    if mended:
        calls = [dynamic(call, 2, 3) for call in calls]
    return each(compile(build("resnet").module), calls)


@row("UNet", "the time, a Python number", "the time as a tensor")
def unet(compile: Compile, mended: bool) -> list[Thunk]:
    model, times = build("unet"), (999, 749, 499)
    if mended:
        times = map(torch.tensor, times)
    return each(compile(model.module), [model.call | {"timestep": t} for t in times])


@row("LoRA", "the adapter, by name", "weights copied into one")
def lora(compile: Compile, mended: bool) -> list[Thunk]:
    model = build("lora")
    module, names = model.module, ("user0", "user1", "user1", "user0")
    kept = {
        name: [p for at, p in module.named_parameters() if f".{name}." in at]
        for name in names
    }
    active, kept = kept["user0"], copy.deepcopy(kept)
    compiled = compile(module)

    @torch.no_grad()
    def with_adapter(name: str) -> Any:
        if mended:
            for own, new in zip(active, kept[name], strict=True):
                own.copy_(new)
        else:
            module.set_adapter(name)
        return compiled(**model.call)

    return [partial(with_adapter, name) for name in names]


@row("detector", "size, number of boxes", "fixed boxes, size marked")
def detector(compile: Compile, mended: bool) -> list[Thunk]:
    model = build("detector")
    if not mended:
        return each(compile(model.module), model.calls)
    calls = [dynamic(call, 2, 3) for call in model.calls]
    return each(compile(FixedDetector(model.module)), calls)


def table(found: Sequence[Row]) -> Table:
    """Return a line for each model: changes, the repair, compiles."""

    def words(counts: Counts) -> str:
        return " ".join(map(str, counts))

    head = "model", "what changes", "compiles", "the change", "compiles then"
    lines = [
        (
            *(r.model, r.changes, words(r.given)),
            *(r.mend, words(r.mended), words(r.lowered)),
        )
        for r in found
    ]
    return Table.of((*head, "with Inductor"), lines)
