"""Faults of modes and options, of caches, and of the compiler for C++."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from tests.proof.broken import START, around, fault, probes, setting, variable
from tests.proof.broken.probes import block, inputs

BIN = START.parent / "bin"


@fault(
    "options ignored",
    "torch",
    "12 07 11",
    lambda: _settings(options={"max_fusion_size": 1}),
)
def no_options(torch: Any) -> None:
    """options={...} is checked, accepted, and has no effect."""
    forget(torch, lambda mode, options: bool(options))


@fault("mode ignored", "torch", "12", lambda: _settings(mode="max-autotune"))
def no_mode(torch: Any) -> None:
    """mode="max-autotune" does what the default does."""
    forget(torch, lambda mode, options: mode not in (None, "default"))


def forget(torch: Any, when: Any) -> None:
    """Drop what the wrapper was asked to set, where when(mode, options) says so."""
    wrapper = torch._TorchCompileInductorWrapper

    @around(wrapper, "__init__")
    def __init__(original, self, mode, options, *rest, **how):
        original(self, mode, options, *rest, **how)
        if when(mode, options):
            self.config = {}


def _settings(**how: Any) -> dict[str, Any]:
    """Return what of these settings is in force while Inductor compiles."""
    import torch
    from torch._inductor import config
    from torch._inductor.graph import GraphLowering
    from torch._inductor.utils import fresh_cache

    wanted = how.get("options") or torch._inductor.list_mode_options(how["mode"])
    seen: dict[str, Any] = {}

    @around(GraphLowering, "codegen")
    def codegen(original, self):
        settings = config.get_config_copy()
        seen.update({key: settings[key.replace("-", "_")] for key in wanted})
        return original(self)

    with fresh_cache():
        torch.compile(block, **how)(*inputs())
    return seen


@fault(
    "CUDA graphs forgotten", "torch", "12", lambda: _settings(mode="reduce-overhead")
)
def no_cudagraphs(torch: Any) -> None:
    """reduce-overhead launches kernels one by one, and says nothing."""
    wrapper = torch._TorchCompileInductorWrapper

    @around(wrapper, "apply_options")
    def apply_options(original, self, options):
        original(self, options)
        if "triton.cudagraphs" in self.config:
            self.config["triton.cudagraphs"] = False


def first_calls(*modes: str) -> list[str]:
    """Return hit or miss of the graph cache, with empty caches at first."""
    import torch
    from torch._dynamo.utils import counters
    from torch._inductor.utils import fresh_cache

    found = []
    with fresh_cache():
        for mode in modes:
            torch.compiler.reset()
            counters.clear()
            torch.compile(block, mode=mode)(*inputs())
            hit = counters["inductor"]["fxgraph_cache_hit"]
            found.append("hit" if hit else "miss")
    return found


variable(
    "caches disabled",
    {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"},
    "17 12",
    lambda: first_calls("default", "default"),
    "Each start of the program pays for all of its compiles again.",
)


@fault(
    "cache key without settings",
    "torch._inductor.codecache",
    "17 12",
    lambda: first_calls("default", "max-autotune-no-cudagraphs"),
)
def short_key(codecache: Any) -> None:
    """A setting is changed, and the code of before the change is what runs."""

    @around(codecache.FxGraphHashDetails, "__init__")
    def __init__(original, self, *args, **how):
        original(self, *args, **how)
        self.inductor_config = b""


@fault("random seed ignored", "torch.random", "07 06", lambda: _seeded())
def no_seed(random: Any) -> None:
    """torch.manual_seed returns, and the next numbers are others all the same."""
    random.manual_seed = lambda seed: random.default_generator


def _seeded() -> bool:
    import torch

    seen = []
    for _ in range(2):
        torch.manual_seed(0)
        seen.append(torch.randn(4))
    return torch.equal(*seen)


setting(
    "the tuned choice is forgotten",
    "torch._inductor.config",
    {"autotune_local_cache": False},
    "22",
    lambda: _timed_again(),
    "Every process times all candidates again, whatever the cache folder holds.",
)


def _timed_again() -> int:
    import contextlib
    import io

    import torch
    from torch._dynamo.utils import counters
    from torch._inductor.utils import fresh_cache

    a, b = torch.ones(8, 64, 96), torch.ones(8, 96, 128)
    mode = {"mode": "max-autotune-no-cudagraphs"}
    with fresh_cache(), torch.no_grad(), contextlib.redirect_stderr(io.StringIO()):
        for extra in (1, 2):  # two graphs, one product
            counters.clear()
            torch.compile(lambda a, b, n=extra: torch.bmm(a, b) + n, **mode)(a, b)
    return counters["inductor"]["select_algorithm_autotune"]


def built() -> bool:
    """Return whether block can be compiled from nothing."""
    from torch._inductor.utils import fresh_cache

    with fresh_cache():
        return probes.right()


variable(
    "no C++ compiler",
    {"CXX": "no-such-compiler"},
    "00",
    built,
    "A slim container has no g++: nothing can be built.",
    cache="empty",
)
variable(
    "C++ compiler that hangs",
    {"CXX": str(BIN / "hanging-cxx")},
    "00",
    lambda: _impatient(),
    "The first call never returns.",
    cache="empty",
    patience=60.0,
)
variable(
    "slow C++ compiler",
    {"CXX": str(BIN / "slow-cxx")},
    "00",
    lambda: _slow(),
    "Each first call takes seconds longer than it should.",
    cache="empty",
    unnoticed="every count and every answer is right, and no page promises how many "
    "seconds a compile takes: the row 'first compile' shows them between marks",
)


def _impatient() -> str:
    asked = [os.environ.get("CXX", "g++"), "--version"]
    try:
        subprocess.run(asked, timeout=20, capture_output=True, check=True)
    except subprocess.TimeoutExpired:
        return "no answer"
    return "answers"


def _slow() -> str:
    import time

    from torch._inductor.cpp_builder import get_cpp_compiler

    begin, name = time.perf_counter(), Path(get_cpp_compiler()).name
    return f"{name}, {time.perf_counter() - begin:.0f} s to ask for its version"
