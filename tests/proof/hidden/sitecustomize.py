"""Hides the packages that HIDDEN names from every Python with this on its path."""

import importlib.metadata
import os
import sys

NAMES = set(os.environ.get("HIDDEN", "").split())
distribution = importlib.metadata.Distribution.from_name


class Hidden:
    """Finds nothing, and lets nobody after it look."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in NAMES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def from_name(name):
    if name in NAMES:
        raise importlib.metadata.PackageNotFoundError(name)
    return distribution(name)


sys.meta_path.insert(0, Hidden)
importlib.metadata.Distribution.from_name = staticmethod(from_name)
