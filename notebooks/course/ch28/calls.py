"""Ten models of lesson 28: what changes from call to call, in counts.

Each row has a model's calls as people write them, and after a change.
Both are counted by Dynamo alone (backend "eager"), from an empty compiler.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from matplotlib.figure import Figure
from torch.utils import _pytree as pytree

from course.ch28 import models
from course.ch28.models import Call, build
from course.values import as_near
from course.words import silence
from helpers import eager_bytes, session
from helpers.capture import Watch
from helpers.codegen import lowered
from helpers.plots import COLOURS, Picture, styled
from helpers.tensors import tensors
from helpers.text import Table, mark, size

Compile = Callable[..., Any]
Thunk = Callable[[], Any]


class Row(NamedTuple):
    """A model: what changes, the compiles of each call, and mended."""

    model: str
    changes: str
    mend: str
    given: tuple[int, ...]
    mended: tuple[int, ...]


ROWS: dict[str, tuple[str, str, Callable[[Compile, bool], list[Thunk]]]] = {}


def row(name: str, changes: str, mend: str) -> Callable[[Any], Any]:
    """Enter a function that returns the calls, as given or mended."""

    def enter(calls: Any) -> Any:
        ROWS[name] = changes, mend, calls
        return calls

    return enter


def compiles(calls: Callable[..., list[Thunk]], mended: bool) -> tuple[int, ...]:
    """Return the compiles of each call, in an empty compiler."""

    compile = partial(torch.compile, backend="eager")
    torch.compiler.reset()
    counts = []
    with session.undisturbed():
        torch.manual_seed(0)
        for call in calls(compile, mended):
            with Watch() as watch:
                call()
            counts.append(watch.compiles)
    torch.compiler.reset()
    return tuple(counts)


def rows(**shown: Row) -> list[Row]:
    """Return the row of each model, after those that the page has *shown*."""
    found = list(shown.values())
    for name, (changes, mend, calls) in ROWS.items():
        counts = compiles(calls, False), compiles(calls, True)
        found.append(Row(name, changes, mend, *counts))
    return found


def dynamic(*dimensions: int) -> Callable[[Any], Any]:
    """Return what promises that these dimensions of each tensor change."""

    def promise(given: Any) -> Any:
        for x in tensors(given):
            for dimension in dimensions:
                torch._dynamo.mark_dynamic(x, dimension)
        return given

    return promise


def each(function: Any, calls: Iterable[Call], to: Any = None) -> list[Thunk]:
    """Return a thunk for each call; its inputs go through *to*."""

    run = torch.no_grad()(function)
    made = [to(call) if to else call for call in calls]
    return [partial(run, *inputs, **keywords) for inputs, keywords in made]


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
            call = {"input_ids": ids, "past_key_values": cache}
            calls.append(((), call | more))
    return each(compiled, calls)


@row("ViT", "a last batch, a lone image", "batches padded to 8")
def vit(compile: Compile, mended: bool) -> list[Thunk]:
    sizes = (8, 8, 8, 8) if mended else (8, 8, 3, 1)
    images = [((torch.randn(n, 3, 32, 32),), {}) for n in sizes]
    return each(compile(build("vit").module), images)


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
    images = [((torch.randn(2, 3, *size),), {}) for size in sizes]
    to = dynamic(2, 3) if mended else None
    return each(compile(build("resnet").module), images, to)


@row("UNet", "the time, a Python number", "the time as a tensor")
def unet(compile: Compile, mended: bool) -> list[Thunk]:
    model = build("unet")
    (latents, _), prompt = model.call
    times = (999, 749, 499)
    calls = [((latents, torch.tensor(t) if mended else t), prompt) for t in times]
    return each(compile(model.module), calls)


@row("GraphSAGE", "nodes and edges", "both marked dynamic")
def sage(compile: Compile, mended: bool) -> list[Thunk]:
    model = build("sage")

    for (nodes, edges), _ in model.calls if mended else ():
        torch._dynamo.mark_dynamic(nodes, 0)
        torch._dynamo.mark_dynamic(edges, 1)
    return each(compile(model.module), model.calls)


@row("LoRA", "the adapter, by name", "weights copied into one")
def lora(compile: Compile, mended: bool) -> list[Thunk]:
    model = build("lora")
    module = model.module
    from peft import LoraConfig

    low = LoraConfig(r=4, target_modules=["query", "value"])
    with silence():
        module.add_adapter("a", low)
    weights = {
        name: [p for at, p in module.named_parameters() if f".{name}." in at]
        for name in ("default", "a")
    }
    kept = {name: copy.deepcopy(its) for name, its in weights.items()}
    compiled = compile(module)

    def with_adapter(name: str) -> Any:
        if mended:
            with torch.no_grad():
                for own, new in zip(weights["default"], kept[name], strict=True):
                    own.copy_(new)
        else:
            module.set_adapter(name)
        with torch.no_grad():
            return compiled(*model.call[0], **model.call[1])

    names = ("default", "a", "a", "default")
    return [partial(with_adapter, name) for name in names]


@row("detector", "size, number of boxes", "fixed boxes, size marked")
def detector(compile: Compile, mended: bool) -> list[Thunk]:
    model = build("detector")
    if not mended:
        return each(compile(model.module), model.calls)
    fixed = models.FixedDetector(model.module)
    return each(compile(fixed), model.calls, dynamic(2, 3))


@row("PPO", "the length of an episode", "loss apart, steps marked")
def ppo(compile: Compile, mended: bool) -> list[Thunk]:
    policy = build("ppo").module

    def whole(steps: int) -> torch.Tensor:
        return models.ppo_loss(policy, *models.episode(policy, steps))

    if mended:
        act = compile(lambda state: policy(state))
        loss = compile(models.ppo_loss)

        def step(steps: int) -> torch.Tensor:
            seen = models.episode(act, steps)
            return loss(policy, *dynamic(0)(seen))
    else:
        step = compile(whole)
    return [partial(step, steps) for steps in (5, 7, 6)]


def table(found: Sequence[Row]) -> Table:
    """Return a line for each model: changes, the mend, compiles."""

    def words(counts: tuple[int, ...]) -> str:
        return " ".join(map(str, counts))

    return Table.of(
        ("model", "what changes", "compiles", "the change", "compiles then"),
        [(r.model, r.changes, words(r.given), r.mend, words(r.mended)) for r in found],
    )


@styled
def strip(found: Sequence[Row]) -> Picture:
    """Return a square for each call, dark where the compiler ran."""
    figure = Figure(figsize=(10, 0.42 * len(found) + 1.2), layout="constrained")
    both = figure.subplots(1, 2, sharey=True)
    titles = ("as people call it", "after the change")
    for axes, title, at in zip(both, titles, ("given", "mended"), strict=True):
        for y, each_row in enumerate(found):
            for x, n in enumerate(getattr(each_row, at)):
                colour = COLOURS[1] if n else "#E8EEF2"
                axes.barh(y, 0.9, 0.8, left=x, color=colour)
                ink = "white" if n else "#505050"
                axes.text(x + 0.45, y, str(n), ha="center", va="center", color=ink)
        axes.set(title=title, xticks=[], xlabel="calls, in order", xlim=(-0.2, 6))
        axes.tick_params(left=False)
        axes.grid(visible=False)
        axes.spines[["left", "bottom"]].set_visible(False)
    names = [r.model for r in found]
    both[0].set_yticks(range(len(names)), names)
    both[0].invert_yaxis()
    said = [
        f"{r.model}: {', '.join(map(str, r.given))}; "
        f"after the change {', '.join(map(str, r.mended))}"
        for r in found
    ]
    return Picture(figure, f"Compiles of each call. {'. '.join(said)}.")


# ----------------------------------------------------- launches, and values

LOWERED = ("bert", "resnet", "sage", "detector", "ppo")


class Lowered(NamedTuple):
    """One call: launches, bytes, and whether float64 agrees."""

    model: str
    eager: dict[str, int]  # launches of libraries, and all others
    compiled: dict[str, int]  # launches of libraries, and of own kernels
    outside: tuple[int, int]  # bytes outside of libraries, eager and compiled
    right: bool
    own: tuple[tuple[str, ...], ...]  # what each own kernel computes


LIBRARY = ("mm", "convolution", "attention")


def from_library(name: str) -> bool:
    """Return whether it is a matrix product, convolution or attention."""
    return any(word in name.rpartition(".")[2] for word in LIBRARY)


@torch.no_grad()
def lowered_row(name: str) -> Lowered:
    """Compile one call of the model *name* with Inductor, and judge it."""
    model = build(name)
    module = model.module
    if name == "detector":
        module = models.FixedDetector(module)
    inputs, keywords = model.call
    torch.compiler.reset()
    with session.undisturbed(module), lowered() as launches:
        compiled = torch.compile(module, backend=session.inductor())
        ours = compiled(*inputs, **keywords)
    torch.compiler.reset()
    usual = module(*inputs, **keywords)
    wide = pytree.tree_map_only(
        torch.Tensor,
        lambda x: x.double() if x.is_floating_point() else x,
        model.call,
    )
    exact = copy.deepcopy(module).double()(*wide[0], **wide[1])
    sides = [list(tensors(x)) for x in (exact, usual, ours)]
    same = len({len(side) for side in sides}) == 1
    moved = eager_bytes(module, *inputs, kwargs=keywords).calls
    own = [k for k in launches if k.language != "library"]
    rest = [n for op, n in moved if not from_library(op)]
    return Lowered(
        name,
        {"library": len(moved) - len(rest), "other": len(rest)},
        {"library": len(launches) - len(own), "own": len(own)},
        (sum(rest), sum(k.bytes for k in own)),
        same and all(map(as_near, *sides)),
        tuple(k.ops for k in own),
    )


def launch_table(found: Sequence[Lowered]) -> Table:
    """Return launches and bytes of each model."""
    lines = []
    for r in found:
        counts = *r.eager.values(), *r.compiled.values()
        moved = " → ".join(map(size, r.outside))
        lines.append((r.model, *map(mark, counts), mark(moved)))
    names = "model", "eager: library", "others", "compiled: library"
    last = "own kernels", "bytes outside of libraries"
    return Table.of((*names, *last), lines)


@styled
def launch_bars(found: Sequence[Lowered]) -> Picture:
    """Return two bars for each model: its launches in eager, and compiled."""
    figure = Figure(figsize=(10, 0.75 * len(found) + 1.2), layout="constrained")
    axes = figure.subplots()
    for y, r in enumerate(found):
        for at, (library, rest) in (
            (-0.2, r.eager.values()),
            (0.2, r.compiled.values()),
        ):
            axes.barh(y + at, library, 0.34, color=COLOURS[0])
            hatch = {"hatch": "//", "edgecolor": "white"}
            axes.barh(y + at, rest, 0.34, left=library, color=COLOURS[1], **hatch)
            word = "eager" if at < 0 else "compiled"
            axes.text(library + rest + 1, y + at, word, va="center", size=12)
    axes.set_yticks(range(len(found)), [r.model for r in found])
    axes.invert_yaxis()
    axes.set(xlabel="launches in one call")
    axes.margins(x=0.12)
    axes.grid(axis="y", visible=False)
    handles = [
        axes.barh([0], [0], color=COLOURS[0]),
        axes.barh([0], [0], color=COLOURS[1], hatch="//", edgecolor="white"),
    ]
    names = ("from a library", "all others: own kernels, when compiled")
    figure.legend(handles, names, loc="outside lower left", ncols=2)
    said = [
        f"{r.model}: eager {mark(sum(r.eager.values()))}, of them "
        f"{mark(r.eager['library'])} of libraries; compiled "
        f"{mark(sum(r.compiled.values()))}, "
        f"of them {mark(r.compiled['library'])}"
        for r in found
    ]
    return Picture(figure, f"Launches in one call. {'. '.join(said)}.")
