"""What torch.compile does, and what it buys: timed, counted, drawn and dumped.

    from helpers import compare

``import helpers`` imports nothing heavy: each name below is fetched from its
module when it is first used.  No module has the name of a function, or the
import of the one would hide the other.
"""

import logging
from typing import TYPE_CHECKING

from .lazy import names

# What a CUDA build logs where it finds nvcc and no GPU: all works on the CPU.
logging.getLogger("torch.utils.cpp_extension").addFilter(
    lambda record: not record.msg.startswith("No CUDA runtime is found")
)

if TYPE_CHECKING:  # the public names
    from .benchmark import compare
    from .capture import graphs, recompiles
    from .codegen import kernels, output_code
    from .gpu.dump import dump_triton
    from .gpu.forecasts import forecast, forecast_over
    from .health import doctor
    from .sweeps import sweep
    from .text import Table, mark
    from .timing import copy_bandwidth, device, keep_memory
    from .traffic import eager_bytes

__getattr__, __dir__, __all__ = names(__name__)
