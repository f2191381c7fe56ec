"""What differs: see `helpers.differences`."""

from .helpers.differences import Difference, table

__all__ = ["Difference", "table"]
