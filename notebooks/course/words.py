"""torch's own messages, without what differs from machine to machine."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import torch

_CELL = re.compile(r"[^\s\"'(]*ipykernel_\d+[/\\]\d+\.py")
_INSTALLED = re.compile(rf"{re.escape(str(Path(torch.__file__).parents[1]))}/")


def words_of(error: BaseException) -> str:
    """Return what an error says; with ``<cell>`` for a cell's file."""
    text = _CELL.sub("<cell>", str(error))
    return _INSTALLED.sub("", text).strip()


@contextmanager
def unlogged(level: int = logging.ERROR) -> Iterator[None]:
    """Keep what is logged, up to *level*, off a page that shows it itself."""
    before = logging.root.manager.disable
    logging.disable(max(before, level))
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def silence() -> Iterator[None]:
    """Keep what is printed, logged and warned in the block off the page."""
    with (
        unlogged(logging.CRITICAL),
        warnings.catch_warnings(),
        redirect_stdout(io.StringIO()),
        redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield
