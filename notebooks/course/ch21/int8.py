"""torchao's int8 weights, imported without its noise.

torchao 0.18 says on import that two of its libraries for GPUs could not be loaded,
and warns of an old way to register a constant.
"""

from __future__ import annotations

import warnings

from course.words import silence

with silence():
    from torchao.quantization import (
        Int8DynamicActivationInt8WeightConfig,
        Int8WeightOnlyConfig,
        quantize_,
    )

# Said at each compile of a quantized model: it is about the cache.
warnings.filterwarnings("ignore", message=".*_stable_hash_for_caching")

__all__ = ["Int8DynamicActivationInt8WeightConfig", "Int8WeightOnlyConfig", "quantize_"]
