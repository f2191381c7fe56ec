"""Every test runs far from the reader's own progress, and from the test before."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def course_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for progress that is this test's own; also for the kernels it starts."""
    home = tmp_path / "course-home"
    monkeypatch.setenv("COURSE_HOME", str(home))
    monkeypatch.setenv("COURSE_QUIET", "1")
    return home


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    """What a test compiled must not count towards the next one's recompiles."""
    yield
    if "torch._dynamo" in sys.modules:
        sys.modules["torch"].compiler.reset()


@pytest.fixture
def learner(monkeypatch: pytest.MonkeyPatch) -> None:
    """The course as a learner meets it: a false claim explains, and goes on."""
    monkeypatch.setenv("COURSE_STRICT", "0")


@pytest.fixture
def strictly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The course as CI runs it: a false claim raises."""
    monkeypatch.setenv("COURSE_STRICT", "1")


def pytest_report_header() -> str:
    return f"course: COURSE_STRICT={os.environ.get('COURSE_STRICT', 'unset')}"
