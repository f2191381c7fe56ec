"""pytest in this process, so that it tests the compiler that is planted in it."""

from __future__ import annotations

import contextlib
import io
import os
from unittest import mock


def pytest_on(words: str) -> str:
    """Return what ``pytest -q`` says, given *words*, run in this process.

    So it tests the compiler of this process, with what is planted in it.
    """
    import pytest

    options = "-q --tb=no --no-header --color=no --capture=no -W ignore"
    options += " -o console_output_style=classic -p no:cacheprovider"
    # CI, a narrow terminal and options of the reader's change its summary.
    # The settings of this course are not those of the file.
    changes = ("CI", "BUILD_NUMBER", "PYTEST_ADDOPTS")
    here = {k: v for k, v in os.environ.items() if k not in changes}
    with (
        mock.patch.dict(os.environ, {**here, "COLUMNS": "130"}, clear=True),
        contextlib.redirect_stdout(io.StringIO()) as said,
    ):
        pytest.main(
            [*words.split(), *options.split(), "-c", os.devnull, "--rootdir", "."]
        )
    return said.getvalue()
