"""An encoder that hears sound in pieces: Mimi of transformers, small."""

from __future__ import annotations

from torch import nn

from course.models import SMALL, same_weights


def ear() -> nn.Module:
    """Return a small Mimi encoder with random weights: a latent for 8 samples."""
    from transformers import MimiConfig, MimiModel

    config = MimiConfig(
        **SMALL,
        num_key_value_heads=4,
        num_filters=4,
        upsampling_ratios=[2, 2],
        upsample_groups=32,
        sliding_window=8,
        frame_rate=3_000,
        codebook_size=16,
        codebook_dim=8,
        num_quantizers=2,
        vector_quantization_hidden_dimension=8,
    )
    with same_weights():
        model = MimiModel(config).eval().requires_grad_(False)
    return model.encoder
