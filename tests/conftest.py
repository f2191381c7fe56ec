"""Every test runs far from the reader's own progress, and from the test before."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from helpers.results import version_of

# Or each process that compiles starts workers, which import torch for a few kernels.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
# Or each with an empty cache builds three programs more, to try the kinds of vectors.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")

# The same examples each time: a test that fails now and then teaches to look away.
settings.register_profile("course", derandomize=True, deadline=None)
settings.load_profile("course")


# What is started with "&" ignores Ctrl-C, and so would the processes of its tests.
signal.signal(signal.SIGINT, signal.default_int_handler)

NO_TRITON = r"Triton is not installed|No module named 'triton'"


@pytest.fixture(autouse=True)
def usual_log() -> Iterator[None]:
    """A lesson's first cell brings torch's log to the page, for its own test only.

    Its end comes after that of ``monkeypatch``: torch reads its variables once more.
    """
    yield
    torch_logs = sys.modules.get("torch._logging._internal")
    of_the_page = getattr(torch_logs, "_setup_handlers", None)
    if hasattr(of_the_page, "instead_of"):
        torch_logs._setup_handlers = of_the_page.instead_of
        torch_logs._init_logs()


@pytest.fixture(autouse=True)
def course_home(
    usual_log: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder for progress that is this test's own; also for the kernels it starts."""
    home = tmp_path / "course-home"
    monkeypatch.setenv("COURSE_HOME", str(home))
    monkeypatch.setenv("HELPERS_QUIET", "1")
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command puts "" before it
    return home


@pytest.fixture(autouse=True, scope="session")
def untimed_guards() -> None:
    """After each compile torch times its guards, and empties the CPU's caches first."""
    if "torch" in sys.modules:
        from torch._dynamo import guards

        guards.profile_guard_manager = lambda *_: 0.0


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
def one_thread() -> Iterator[None]:
    """Small sizes gain nothing from several, and lose much on a busy machine."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts processes takes longest, and comes first: no core waits for it."""
    first = "tests/field", "tests/torch_checkup"
    items.sort(key=lambda item: not item.nodeid.startswith(first))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """A test needs Triton when a helper says so, and there is none for every system."""
    try:
        return (yield)
    except Exception as problem:
        said = f"{problem}\n{getattr(problem, 'stderr', '')}"
        if version_of("triton") or not re.search(NO_TRITON, said):
            raise
        pytest.skip("there is no Triton here")


pytest_runtest_call = pytest_runtest_setup
