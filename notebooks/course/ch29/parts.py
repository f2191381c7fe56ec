"""Small models, and trainers that say nothing, as their libraries make them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from course.models import same_weights
from course.words import silence

EVERY = {  # a Trainer that keeps to itself: no reports, no bars, no checkpoints
    "per_device_train_batch_size": 8,
    "per_device_eval_batch_size": 8,
    "report_to": [],
    "use_cpu": True,
    "disable_tqdm": True,
    "save_strategy": "no",
    "logging_strategy": "no",
}
LIT = {  # the same of Lightning
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


def settings(**asked: Any) -> Any:
    """Return TrainingArguments with the flags *asked* for, and a folder to forget."""
    from transformers import TrainingArguments
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # of saving
    folder = tempfile.mkdtemp(prefix="course-")
    return TrainingArguments(output_dir=folder, **{**EVERY, **asked})


def classifier() -> nn.Module:
    """Return a BERT of two layers that says of a text which of two kinds it is."""
    with same_weights():
        from transformers import BertConfig, BertForSequenceClassification

        sizes = {"hidden_size": 32, "intermediate_size": 64, "vocab_size": 100}
        config = BertConfig(num_hidden_layers=2, num_attention_heads=2, **sizes)
        return BertForSequenceClassification(config)


def texts(count: int = 24, tokens: int = 16) -> list[dict[str, Any]]:
    """Return texts of equal length, each with a label: three batches of eight."""
    drawn = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 100, (count, tokens), generator=drawn)
    return [{"input_ids": row, "labels": n % 2} for n, row in enumerate(ids)]


class Block(nn.Module):
    """One of the equal blocks of a model."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x).relu()


class Net(nn.Module):
    """Four equal blocks, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def pairs(count: int = 32) -> torch.utils.data.DataLoader:
    """Return batches of eight pairs of an input and what should come out."""
    drawn = torch.Generator().manual_seed(0)
    x, y = (torch.randn(count, width, generator=drawn) for width in (8, 1))
    dataset = torch.utils.data.TensorDataset(x, y)
    return torch.utils.data.DataLoader(dataset, batch_size=8)


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
