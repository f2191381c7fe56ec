"""int8 weights by torchao, imported once and without its noise.

torchao 0.18 says on import that two of its libraries for GPUs could not be
loaded, and warns of an old way to register a constant.  None of it matters on
this page, so it is kept off it.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from course.words import silence

with silence():
    from torchao.quantization import (
        Int8DynamicActivationInt8WeightConfig,
        Int8WeightOnlyConfig,
        quantize_,
    )

# Said at each compile of a quantised model: it is about the cache.
warnings.filterwarnings("ignore", message=".*_stable_hash_for_caching")

__all__ = [
    "Int8DynamicActivationInt8WeightConfig",
    "Int8WeightOnlyConfig",
    "quantize_",
    "quantized",
    "settings_changed",
    "weight_bytes",
]


def quantized(model: torch.nn.Module, config: Any) -> torch.nn.Module:
    """Return a copy of *model* with its weights in int8."""
    ours = copy.deepcopy(model)
    quantize_(ours, config)
    return ours


def settings_changed(config: Any) -> set[str]:
    """Return which of Inductor's settings quantize_ changes; undo it."""
    settings = torch._inductor.config
    before = settings.get_config_copy()
    quantized(torch.nn.Linear(32, 32), config)
    after = settings.get_config_copy()
    changed = {name for name in before if after[name] != before[name]}
    for name in changed:
        setattr(settings, name, before[name])
    return changed


def weight_bytes(model: torch.nn.Module) -> int:
    """Return the bytes of a model's parameters, as they are kept."""
    return sum(_bytes(parameter) for parameter in model.parameters())


def _bytes(tensor: torch.Tensor) -> int:
    if not is_traceable_wrapper_subclass(tensor):
        return tensor.numel() * tensor.element_size()
    names, _ = tensor.__tensor_flatten__()
    return sum(_bytes(getattr(tensor, name)) for name in names)
