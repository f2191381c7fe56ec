"""Makers for ``checkup``: ``tests/models/targets.py:bert``, and ``bert_training``."""

from __future__ import annotations

import inspect
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "notebooks"))

from course.ch28.models import MAKERS, build


def _made(name: str, training: bool) -> tuple[Any, list[Any]]:
    model = build(name)
    names = inspect.signature(model.module.forward)
    calls = [names.bind(*inputs, **kwargs).arguments for inputs, kwargs in model.calls]
    for call in calls:  # what **kwargs of a signature takes is named as all else
        call |= call.pop("kwargs", {})
    return model.module.train(training), calls


for _name in MAKERS:
    globals()[_name] = partial(_made, _name, False)
    globals()[f"{_name}_training"] = partial(_made, _name, True)
