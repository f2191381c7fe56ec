"""Makers for ``checkup``: ``tests/models/targets.py:bert``, and ``bert_training``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "notebooks"))

from course.models import MAKERS, build


def _made(name: str, training: bool) -> tuple[Any, list[Any]]:
    model = build(name)
    names = inspect.signature(model.module.forward)
    calls = [names.bind(*inputs, **kwargs).arguments for inputs, kwargs in model.calls]
    for call in calls:  # what **kwargs of a signature takes is named as all else
        call |= call.pop("kwargs", {})
    return model.module.train(training), calls


def _maker(name: str, training: bool) -> Callable[[], tuple[Any, list[Any]]]:
    return partial(_made, name, training)


for _name in MAKERS:
    globals()[_name] = _maker(_name, False)
    globals()[f"{_name}_training"] = _maker(_name, True)
