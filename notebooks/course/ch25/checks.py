"""Checks and hints of notebook 25."""

import contextlib
import os
import tempfile
from unittest import mock

import torch
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache
from torch.compiler._cache import CacheArtifactManager

from course.backend import CountingBackend
from course.exercises import exercise, near
from course.failures import failure
from course.left_set import put_back
from helpers.capture import Watch

# --- 25.1 ----------------------------------------------------------------------

SIZES = 6, 3, 9, 2


def _make(rows):
    return torch.linspace(-1, 2, rows * 8).view(rows, 8)


class _OfMeans(torch.nn.Module):
    """A layer after a mean over the rows: its backward needs no size, and is lazy."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x.mean(0))


def _state(model):
    """Return the gradients and weights of a model as lists, and its modes."""
    weights = [*model.parameters()]
    return {
        "gradients": [w.grad if w.grad is None else w.grad.tolist() for w in weights],
        "weights": [w.tolist() for w in weights],
        "modes": [module.training for module in model.modules()],
    }


def _left(compiled, state):
    """Return what a warm-up left behind in the model."""
    now = _state(compiled)
    return [f"other {name} in the model" for name in state if now[name] != state[name]]


@exercise(
    "25.1",
    hints=(
        "Two kinds of calls come: under no_grad, which isn't inference_mode, and with "
        "a backward. Which compiles does each need?",
        "Mark the rows as dynamic, so that one version serves every size. Call it once "
        "under no_grad, and once with gradients and a backward. .backward() adds to "
        "the model's gradients; torch.autograd.grad doesn't.",
        "x = make(sizes[0]); torch._dynamo.mark_dynamic(x, 0); with torch.no_grad(): "
        "compiled(x). Then the same with a new x and gradients: torch.autograd.grad("
        "compiled(x).sum(), list(compiled.parameters())).",
    ),
    passed="All compiles before the traffic, none in it, and gradients as before.",
)
@torch.enable_grad()
def warm_and_no_warmer(warm):
    torch.compiler.reset()
    backend = CountingBackend("aot_eager")
    compiled = torch.compile(_OfMeans(), backend=backend)
    compiled.layer.eval()  # one part of a model that is in training mode
    compiled.layer.weight.grad = torch.rand(8, 8)
    state = _state(compiled)
    with Watch() as spent, put_back() as left:
        warm(compiled, _make, list(SIZES))
    if left := left + _left(compiled, state):
        return f"it leaves {left[0]}, and the next training step would suffer"
    for rows in SIZES:
        with Watch() as served, torch.no_grad():
            ran = backend.served(compiled, _make(rows))
        with Watch() as trained:
            learned = backend.served(compiled, x := _make(rows))
            compiled(x).sum().backward()
        if served.compiles or trained.compiles or "eager" in (ran, learned):
            where = "under no_grad" if served.compiles else "in a training step"
            what = "runs eagerly" if "eager" in (ran, learned) else f"compiles {where}"
            # Of the newest version alone; a version of the other mode says only that.
            whys = *served.reasons, *trained.reasons
            why = "; ".join(one for one in whys if "grad_mode" not in one)
            what += f", because {why}" if why else ""
            return f"after it, a call with {rows} rows still {what}"
    if spent.compiles > 3:
        return (
            f"for the sizes {list(SIZES)} it compiled {spent.compiles} times, and 3 "
            "are enough: a version without gradients, one with them, and its backward"
        )
    return None


# --- 25.2 ----------------------------------------------------------------------


@contextlib.contextmanager
def _new_machine():
    """Forget what was compiled, with empty caches, as a process elsewhere."""
    with fresh_cache():
        torch.compiler.reset()
        counters.clear()
        CacheArtifactManager.clear()
        yield


class _Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(23)
        self.layer = torch.nn.Linear(12, 3).requires_grad_(False)

    def forward(self, x):
        return self.layer(x)  # a product of a library: no C++ is built


@exercise(
    "25.2",
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
        files = {
            dtype: f"{home}/{dtype}.warm" for dtype in (torch.float32, torch.float64)
        }
        for dtype, path in files.items():
            with _new_machine():
                ship(_Model().to(dtype), x.to(dtype), path)
        if len(os.listdir(home)) > len(files):
            return "ship leaves more than one file"
        for dtype, path in files.items():
            if told := _started(start_warm, _Model().to(dtype), x.to(dtype), path):
                return told
    return None


def _started(start_warm, model, x, path):
    with _new_machine():
        try:
            warm = start_warm(model, path)
        except ValueError as error:
            return f"torch doesn't take the file that ship left ({error!r:.60})"
        counters.clear()
        result = warm(x)
        asked = counters["aot_autograd"] + counters["inductor"]
    hits = [asked[f"{name}_cache_hit"] for name in ("autograd", "fxgraph")]
    if hits != [1, 1]:
        return f"the first call after start_warm found {sum(hits)} of the 2 caches"
    if not near(result, _Model().to(x.dtype)(x), 1e-4):
        return "after start_warm, the model gives other answers"
    # As with a damaged file: load_cache_artifacts returns None.
    refused = mock.patch.object(CacheArtifactManager, "deserialize", return_value=None)
    with _new_machine(), refused:
        told = failure(start_warm, model, path)
    if not isinstance(told, ValueError):
        does = f"raises {told!r:.60}" if told else "starts cold in silence"
        return f"torch doesn't take the file, and start_warm {does}"
    return None
