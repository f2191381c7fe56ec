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
            trainer.save_model(folder)
            return next(iter(names_in(Path(folder) / "model.safetensors")))
        path = Path(folder) / "lit.ckpt"
        trainer.save_checkpoint(path)
        return next(iter(torch.load(path, weights_only=True)["state_dict"]))


def names_in(file: str | Path) -> list[str]:
    """Return the names of the tensors in a *file* of safetensors."""
    from safetensors import safe_open

    with safe_open(file, "pt") as saved:
        return list(saved.keys())
