"""Makers for ``checkup``: ``tests/models/targets.py:bert``, and ``bert_training``.

Beside the models of the course there are some that are called without training.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from course.models import MAKERS, SMALL, Detector, build, same_weights

Made = tuple[nn.Module, list[Any]]


def _made(name: str, training: bool) -> Made:
    _, module, calls = build(name)
    if training and isinstance(module, Detector):  # boxes are chosen without gradients
        module = nn.Sequential(module.backbone, module.head)
        calls = [tuple(call.values()) for call in calls]
    return module.train(training), calls


for _name in MAKERS:
    globals()[_name] = partial(_made, _name, False)
    globals()[f"{_name}_training"] = partial(_made, _name, True)


def _of_config(kind: str, *calls: dict[str, tuple[int, ...]], **sizes: Any) -> Made:
    """Return a model of these sizes, and calls of random numbers, each of a size."""
    from transformers import AutoConfig, AutoModel

    module = AutoModel.from_config(AutoConfig.for_model(kind, **sizes))

    def drawn(name: str, size: tuple[int, ...]) -> torch.Tensor:
        return torch.randint(3, 99, size) if "ids" in name else torch.randn(size)

    return module, [{n: drawn(n, size) for n, size in call.items()} for call in calls]


def _of_text(kind: str) -> Made:
    """Return a small model of this architecture, and two batches of text."""
    sizes = {**SMALL, "vocab_size": 100, "num_key_value_heads": 2}
    return _of_config(kind, *({"input_ids": s} for s in ((2, 8), (3, 12))), **sizes)


def _of_torch(make: Callable[[], nn.Module], inputs: int = 1) -> Made:
    """Return a module of torch's own, and two calls of sequences."""
    sizes = (2, 8, 32), (3, 12, 32)
    return make(), [tuple(torch.randn(n) for _ in range(inputs)) for n in sizes]


def _healthy(make: Callable[[], Made]) -> Made:
    with same_weights():
        module, calls = make()
    return module.eval(), calls


_TEXT = (
    *("albert", "distilbert", "electra", "gemma", "gpt2", "gpt_neox", "mamba"),
    *("mixtral", "opt", "qwen2", "roberta"),
)
_LAYER = partial(nn.TransformerEncoderLayer, 32, 4, 64, batch_first=True)
_TORCH = {
    "attention": (partial(nn.MultiheadAttention, 32, 4, batch_first=True), 3),
    "encoder": (lambda: nn.TransformerEncoder(_LAYER(), 2), 1),
    "gru": (partial(nn.GRU, 32, 16, batch_first=True), 1),
    "lstm": (partial(nn.LSTM, 32, 16, batch_first=True, bidirectional=True), 1),
    "seq2seq": (partial(nn.Transformer, 32, 4, 1, 1, 64, batch_first=True), 2),
}


_SOUND = [{"input_values": (2, length)} for length in (400, 560)]
_PICTURES = [{"pixel_values": (rows, 3, 32, 32)} for rows in (2, 3)]
_OTHERS = {
    "wav2vec2": partial(
        *(_of_config, "wav2vec2", *_SOUND),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        conv_dim=(16, 16),
        conv_stride=(5, 2),
        conv_kernel=(10, 3),
        num_conv_pos_embedding_groups=4,
    ),
    "swin": partial(
        *(_of_config, "swin", *_PICTURES),
        image_size=32,
        embed_dim=16,
        depths=[1, 1],
        num_heads=[2, 4],
        window_size=4,
    ),
    "segformer": partial(
        *(_of_config, "segformer", *_PICTURES),
        hidden_sizes=[8, 16, 16, 16],
        depths=[1, 1, 1, 1],
        decoder_hidden_size=16,
    ),
}
HEALTHY = {kind: partial(_of_text, kind) for kind in _TEXT}
HEALTHY |= {name: partial(_of_torch, *how) for name, how in _TORCH.items()} | _OTHERS
globals().update({name: partial(_healthy, make) for name, make in HEALTHY.items()})
