"""Checks and hints of notebook 23."""

import contextlib
import random
import tempfile
from pathlib import Path

import torch
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache
from torch.compiler._cache import CacheArtifactManager

from course.exercises import exercise, near


def _another_process():
    """Let this process forget what it compiled, as a new one would begin."""
    torch.compiler.reset()
    counters.clear()
    CacheArtifactManager.clear()


def _missed():
    """Return how often a cache was asked in vain, or not asked."""
    asked = counters["aot_autograd"] + counters["inductor"]
    caches, words = ("autograd_cache", "fxgraph_cache"), ("miss", "bypass")
    return sum(asked[f"{cache}_{word}"] for cache in caches for word in words)


@contextlib.contextmanager
def _another_machine():
    """Let the caches be empty, too."""
    with fresh_cache():
        _another_process()
        yield


# --- 23.1 ----------------------------------------------------------------------


class _Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(23)
        self.layer = torch.nn.Linear(12, 3).requires_grad_(False)

    def forward(self, x):
        return self.layer(x)  # a product of a library: no C++ is built


def _damages(data):
    """Yield what befell a copy of *data*, and the copy."""
    yield "the file broke off early", data[:100]
    yield "the file broke off at its end", data[:-1]
    yield "the file has its length and other bytes", bytes(len(data))


@exercise(
    "23.1",
    hints=(
        "Nothing is recorded before something was compiled, and nothing is found "
        "that is loaded after the look-up.",
        "In ship: compile, call, then save_cache_artifacts(), which returns bytes "
        "and a summary. In start_warm: load_cache_artifacts(bytes) first, and look "
        "at what it returns.",
        "ship: torch.compile(model)(x); data, _ = "
        "torch.compiler.save_cache_artifacts(); Path(path).write_bytes(data). "
        "start_warm: if torch.compiler.load_cache_artifacts(Path(path).read_bytes()) "
        "is None: raise ValueError; return torch.compile(model).",
    ),
    passed="One file, both caches found, and no cold start in silence.",
)
def one_file(answer):
    ship, start_warm = answer
    x = torch.randn(5, 12)
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "model.warm"
        with _another_machine():
            ship(_Model(), x, str(path))
        if len(left := sorted(file.name for file in Path(home).iterdir())) > 1:
            return f"one file was asked for, and ship leaves {' and '.join(left)}"
        with _another_machine():
            result = start_warm(_Model(), str(path))(x)
            if not counters["aot_autograd"]:
                return "the first call compiled nothing: is it compiled at all?"
            if missed := _missed():
                return (
                    f"the first call after start_warm missed {missed} times: was the "
                    "file loaded before it, and did ship call with gradients on?"
                )
        if not near(result, _Model()(x), 1e-4):
            return "after start_warm, the model gives other answers"
        for what, damaged in _damages(path.read_bytes()):
            path.write_bytes(damaged)
            with _another_machine(), contextlib.suppress(ValueError):
                start_warm(_Model(), str(path))
                return f"{what}, and start_warm starts cold without a word"
    return None


# --- 23.2 ----------------------------------------------------------------------


@exercise(
    "23.2",
    hints=(
        "Which Python value does step use, and what does Dynamo do with it?",
        "A number from a closure is written into the graph, so it is a part of the "
        "key. The values of tensors are not.",
        "shift = torch.tensor(number / 1000), outside of step: then it is an input "
        "of the graph.",
    ),
    passed="One compile serves every start.",
)
def one_compile(make_step):
    x = torch.randn(6, 10)
    for start in (1, 2):
        _another_process()
        number = random.SystemRandom().uniform(1, 400)  # not in the cache yet
        result = torch.compile(make_step(number))(x)
        if not near(result, torch.nn.functional.gelu(x) + number / 1000, 1e-4):
            return f"the start with number {number:g} gives other answers"
        if not counters["aot_autograd"]:
            return "no cache was asked: is anything compiled at all?"
        if start > 1 and (missed := _missed()):
            if result.requires_grad:
                return (
                    "its result requires a gradient, and AOTAutograd's cache stores "
                    "nothing before the backward: a tensor, not a parameter, will do"
                )
            return f"start {start} missed {missed} times: it compiles anew"
    return None
