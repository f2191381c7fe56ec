"""Faults of modes and options, of caches, and of the compiler for C++."""

from __future__ import annotations

from typing import Any

from tests.proof.broken import START, around, fault, setting, variable

BIN = START.parent / "bin"


@fault("options ignored", "torch", "12 07 11")
def no_options(torch: Any) -> None:
    """options={...} is checked, accepted, and has no effect."""
    forget(torch, lambda mode, options: bool(options))


@fault("mode ignored", "torch", "12")
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


@fault("CUDA graphs forgotten", "torch", "12")
def no_cudagraphs(torch: Any) -> None:
    """reduce-overhead launches kernels one by one, and says nothing."""
    wrapper = torch._TorchCompileInductorWrapper

    @around(wrapper, "apply_options")
    def apply_options(original, self, options):
        original(self, options)
        if "triton.cudagraphs" in self.config:
            self.config["triton.cudagraphs"] = False


variable(
    "caches disabled",
    {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"},
    "17 12",
    "Each start of the program pays for all of its compiles again.",
)


@fault("cache key without settings", "torch._inductor.codecache", "17 12")
def short_key(codecache: Any) -> None:
    """A setting is changed, and the code of before the change is what runs."""

    @around(codecache.FxGraphHashDetails, "__init__")
    def __init__(original, self, *args, **how):
        original(self, *args, **how)
        self.inductor_config = b""


@fault("random seed ignored", "torch.random", "07 06")
def no_seed(random: Any) -> None:
    """torch.manual_seed returns, and the next numbers are others all the same."""
    random.manual_seed = lambda seed: random.default_generator


setting(
    "the tuned choice is forgotten",
    "torch._inductor.config",
    {"autotune_local_cache": False},
    "22",
    "Every process times all candidates again, whatever the cache folder holds.",
)


variable(
    "no C++ compiler",
    {"CXX": "no-such-compiler"},
    "00",
    "A slim container has no g++: nothing can be built.",
    cache="empty",
)
variable(
    "C++ compiler that hangs",
    {"CXX": str(BIN / "hanging-cxx")},
    "00",
    "The first call never returns.",
    cache="empty",
    patience=60.0,
)
