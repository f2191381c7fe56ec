"""What a trainer saves."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from course.words import silence


def first_name(trainer: Any) -> str:
    """Return the name of the first tensor that *trainer* saves.

    It may be transformers' Trainer or Lightning's; the files are thrown away.
    """
    with tempfile.TemporaryDirectory() as folder, silence():
        if hasattr(trainer, "save_model"):
            from safetensors import safe_open

            trainer.save_model(folder)
            with safe_open(Path(folder) / "model.safetensors", "pt") as saved:
                return next(iter(saved.keys()))
        path = Path(folder) / "lit.ckpt"
        trainer.save_checkpoint(path)
        return next(iter(torch.load(path, weights_only=True)["state_dict"]))
