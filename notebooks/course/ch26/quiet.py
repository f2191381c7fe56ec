"""Packages of AOTInductor on a page: built sooner, and without what C++ prints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

# Headers that are compiled first pay for several packages, not for one.
QUICK = {
    "aot_inductor.precompile_headers": False,
    "cpp_cache_precompile_headers": False,
}


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Turn the error stream away: C++ writes past sys.stderr."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
