"""What torch.compile does to your model, and what it buys: one name to take home.

    from torch_checkup import checkup, compare, dump_triton

``import torch_checkup`` imports nothing heavy: each name below is fetched from its
module when it is first used.
"""

from pathlib import Path
from typing import TYPE_CHECKING

_HERE = Path(__file__).resolve().parent
if not (_HERE / "helpers").exists():  # in a checkout, they lie beside it
    __path__.append(str(_HERE.parent))

from .helpers.lazy import names  # noqa: E402

if TYPE_CHECKING:  # the public names
    from .composing import composes
    from .explain import explain_error
    from .helpers.benchmark import compare
    from .helpers.capture import graphs, recompiles
    from .helpers.codegen import kernels, output_code
    from .helpers.gpu.dump import dump_triton
    from .helpers.gpu.forecasts import forecast, forecast_over
    from .helpers.health import doctor
    from .helpers.sweeps import sweep
    from .helpers.traffic import eager_bytes
    from .report import checkup, load
    from .start import cold_start

__getattr__, __dir__, __all__ = names(__name__)
