"""Faults of the caches on disk: what is found there, and what is put there."""

from __future__ import annotations

from typing import Any

from tests.proof.broken import around, fault
from tests.proof.broken.probes import inputs


@fault(
    "cache key forgets constants",
    "torch._inductor.codecache",
    "23",
    lambda: _edited(),
    cache="empty",
)
def no_constants_in_key(codecache: Any) -> None:
    """A constant is edited, and the code of before is served from the cache."""
    import re

    @around(codecache.FxGraphCachePickler, "dumps")
    def dumps(original, self, obj):
        return re.sub(rb"\b\d+\.\d+\b", b"0.0", original(self, obj))


def _edited() -> bool:
    """Return whether an edited constant has its own values."""
    import torch
    from torch._inductor.utils import fresh_cache

    x = inputs()[0]
    with fresh_cache():
        torch.compile(lambda x: x.sin() * 2.0)(x)
        torch.compiler.reset()
        found = torch.compile(lambda x: x.sin() * 3.0)(x)
    return torch.allclose(found, x.sin() * 3.0)


@fault(
    "artifacts load nothing",
    "torch.compiler._cache",
    "23",
    lambda: _loaded(),
    cache="empty",
)
def no_population(cache: Any) -> None:
    """Artifacts are loaded without an error, and every start is as cold as ever."""

    def populate_caches(artifacts: Any) -> Any:
        info = cache.CacheInfo()
        for kind in artifacts.values():
            for artifact in kind:
                info.add(artifact)
        return info

    cache.CacheArtifactManager.populate_caches = staticmethod(populate_caches)


def _loaded() -> bool:
    """Return whether a graph is found that came as artifacts."""
    import torch
    from torch._dynamo.utils import counters
    from torch._inductor.utils import fresh_cache

    def compiled() -> Any:
        torch.compiler.reset()
        return torch.compile(lambda x: x.sin() * 2.0)(inputs()[0])

    with fresh_cache():
        compiled()
        data, _ = torch.compiler.save_cache_artifacts()
    with fresh_cache():
        torch.compiler.load_cache_artifacts(data)
        counters.clear()
        compiled()
    return bool(counters["aot_autograd"]["autograd_cache_hit"])
