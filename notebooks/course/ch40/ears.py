"""An encoder that hears sound in pieces: Mimi of transformers, small."""

from __future__ import annotations

import torch
from torch import nn

from course.models import same_weights


def ear() -> nn.Module:
    """Return a small Mimi encoder with random weights: a latent for 8 samples."""
    from transformers import MimiConfig, MimiModel

    sizes = {"hidden_size": 32, "num_filters": 4, "upsampling_ratios": [2, 2]}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    codes = {"codebook_size": 16, "codebook_dim": 8, "num_quantizers": 2}
    config = MimiConfig(
        **sizes,
        **heads,
        **codes,
        num_hidden_layers=1,
        intermediate_size=64,
        vector_quantization_hidden_dimension=8,
        upsample_groups=32,
        sliding_window=8,
        sampling_rate=24_000,
        frame_rate=3_000,
    )
    with same_weights():
        model = MimiModel(config).eval().requires_grad_(False)
    return model.encoder


def sound(samples: int) -> torch.Tensor:
    """Return one channel of noise."""
    return torch.randn(1, 1, samples)
