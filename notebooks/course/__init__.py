"""What belongs to the pages: the teaching loop, and a folder for each lesson.

    from course import check, claim, hint, predict, reveal, score, start

A lesson's folder, such as ``ch07``, has what that lesson shows, and its ``checks``.
"""

from typing import TYPE_CHECKING

from helpers.lazy import names

if TYPE_CHECKING:  # the public names
    from .exercises import check, hint
    from .recordings import recorded
    from .scores import score
    from .teach import claim, predict, reveal, start

__getattr__, __dir__, __all__ = names(__name__)
