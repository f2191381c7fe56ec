"""Faults of modes and options, of caches, and of the compiler for C++."""

from __future__ import annotations

from itertools import chain
from typing import Any

from course.bugs import around
from tests.proof.broken import START, fault, setting, shared, variable

BIN = START.parent / "bin"


@fault("options ignored", "torch", "12 07 11")
def no_options(torch: Any) -> None:
    """options={...} is checked, accepted, and has no effect."""

    @around(torch._TorchCompileInductorWrapper, "__init__")
    def __init__(original, self, mode, options, *rest, **how):
        original(self, mode, options, *rest, **how)
        if options:
            self.config = {}


@shared("marks of a step ignored", "torch._inductor.cudagraph_trees", "13")
def no_marks(trees: Any) -> None:
    """Where a step begins is said, and each call begins one all the same."""
    trees.mark_step_begin = lambda: None


@shared("writes are recorded", "torch._inductor.cudagraph_trees", "13")
def no_mutation(trees: Any) -> None:
    """A cache that is handed in is written to where it was when it was recorded."""
    trees.check_for_mutation = lambda *_: None


@shared("pending backwards forgotten", "torch._inductor.cudagraph_trees", "13")
def no_pending(trees: Any) -> None:
    """What a backward still needs is overwritten by the next forward."""
    forgotten = property(lambda self: False, lambda self, value: None)
    trees.CUDAGraphTreeManager.running_forwards_with_pending_backwards = forgotten


@fault("cache key without settings", "torch._inductor.codecache", "25 19 12")
def short_key(codecache: Any) -> None:
    """A setting is changed, and the code of before the change is what runs."""

    @around(codecache.FxGraphHashDetails, "__init__")
    def __init__(original, self, *args, **how):
        original(self, *args, **how)
        self.inductor_config = b""


setting(
    "the tuned choice is forgotten",
    "torch._inductor.config",
    {"autotune_local_cache": False},
    "shipping 25",
    "Every process times all candidates again, whatever the cache folder holds.",
)


variable(
    "C++ compiler that hangs",
    {"CXX": str(BIN / "hanging-cxx")},
    "00",
    "The first call never returns.",
    patience=60.0,
)


@fault("artifacts load nothing", "torch.compiler._cache", "25")
def no_population(cache: Any) -> None:
    """Artifacts are loaded without an error, and every start is as cold as ever."""

    def populate_caches(artifacts: Any) -> Any:
        info = cache.CacheInfo()
        for artifact in chain.from_iterable(artifacts.values()):
            info.add(artifact)
        return info

    cache.CacheArtifactManager.populate_caches = staticmethod(populate_caches)
