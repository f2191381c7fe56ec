"""Faults of modes and options, of caches, and of the compiler for C++."""

from __future__ import annotations

from itertools import chain
from typing import Any

from course.bugs import around
from tests.proof.broken import fault, shared


@fault("options ignored", "torch", "12 07 11")
def no_options(torch: Any) -> None:
    """options={...} is checked, accepted, and has no effect."""

    @around(torch._TorchCompileInductorWrapper, "__init__")
    def __init__(original, self, mode, options, *rest, **how):
        original(self, mode, options, *rest, **how)
        if options:
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


@shared("marks of a step ignored", "torch._inductor.cudagraph_trees", "13")
def no_marks(trees: Any) -> None:
    """Where a step begins is said, and each call begins one all the same."""
    trees.mark_step_begin = lambda: None


@shared("writes are recorded", "torch._inductor.cudagraph_trees", "13")
def no_mutation(trees: Any) -> None:
    """A cache that is handed in is written to where it was when it was recorded."""
    trees.check_for_mutation = lambda *_: None


@shared("weights may move", "torch._inductor.cudagraph_trees", "13")
def no_addresses(trees: Any) -> None:
    """Weights that were loaded anew are not what a replay reads."""

    @around(trees.CUDAGraphNode, "check_invariants")
    def check_invariants(original, self, inputs):
        self.rerecord_if_static_inputs_change = False
        return original(self, inputs)

    @around(trees.CUDAGraphNode, "check_static_inputs_are_stable")
    def check_static_inputs_are_stable(original, self, inputs):
        return None


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


@fault("cache key forgets constants", "torch._inductor.codecache", "25")
def no_constants_in_key(codecache: Any) -> None:
    """A constant is edited, and the code of before is served from the cache."""
    import re

    @around(codecache.FxGraphCachePickler, "dumps")
    def dumps(original, self, obj):
        return re.sub(rb"\b\d+\.\d+\b", b"0.0", original(self, obj))


@fault("artifacts load nothing", "torch.compiler._cache", "25")
def no_population(cache: Any) -> None:
    """Artifacts are loaded without an error, and every start is as cold as ever."""

    def populate_caches(artifacts: Any) -> Any:
        info = cache.CacheInfo()
        for artifact in chain.from_iterable(artifacts.values()):
            info.add(artifact)
        return info

    cache.CacheArtifactManager.populate_caches = staticmethod(populate_caches)
