"""What torch.compile does to your model, and what to try.

    from torch_checkup import checkup

``import torch_checkup`` imports nothing heavy: each name below is fetched from its
module when it is first used.
"""

from typing import TYPE_CHECKING

from .helpers.lazy import names

if TYPE_CHECKING:  # the same names, for editors and type checkers
    from .composing import composes
    from .explain import explain_error
    from .report import checkup, load
    from .start import cold_start

__getattr__, __dir__, __all__ = names(
    __name__,
    {
        "composing": "composes",
        "explain": "explain_error",
        "report": "checkup load",
        "start": "cold_start",
    },
)
