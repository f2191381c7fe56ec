"""Makers for ``checkup``: ``tests/models/targets.py:bert``, and ``bert_training``."""

from __future__ import annotations

from functools import partial
from typing import Any

from course.models import MAKERS, build


def _made(name: str, training: bool) -> tuple[Any, list[Any]]:
    _, module, calls = build(name)
    return module.train(training), calls


for _name in MAKERS:
    globals()[_name] = partial(_made, _name, False)
    globals()[f"{_name}_training"] = partial(_made, _name, True)
