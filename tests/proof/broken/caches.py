"""Faults of the caches on disk: what is found there, and what is put there."""

from __future__ import annotations

from typing import Any

from tests.proof.broken import around, fault


@fault("cache key forgets constants", "torch._inductor.codecache", "23", cache="empty")
def no_constants_in_key(codecache: Any) -> None:
    """A constant is edited, and the code of before is served from the cache."""
    import re

    @around(codecache.FxGraphCachePickler, "dumps")
    def dumps(original, self, obj):
        return re.sub(rb"\b\d+\.\d+\b", b"0.0", original(self, obj))


@fault("artifacts load nothing", "torch.compiler._cache", "23", cache="empty")
def no_population(cache: Any) -> None:
    """Artifacts are loaded without an error, and every start is as cold as ever."""

    def populate_caches(artifacts: Any) -> Any:
        info = cache.CacheInfo()
        for kind in artifacts.values():
            for artifact in kind:
                info.add(artifact)
        return info

    cache.CacheArtifactManager.populate_caches = staticmethod(populate_caches)
