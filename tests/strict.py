"""Run notebooks and compare what they print, to the letter, with what is stored.

    python tests/strict.py                      # every notebook of the course
    python tests/strict.py notebooks/01_*.ipynb -x
    python tests/strict.py --junitxml report.xml   # read it with tests.failing

This is nbval in strict mode.  Only text between marks may differ; HTML and pictures
are not compared, because each result says the same in plain text.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests import failing  # noqa: E402
from tests.refresh import course_environment  # noqa: E402

NOT_COMPARED = ("text/html", "image/svg+xml", "image/png", "image/jpeg")


class Rules:
    """Configures nbval: one place, so that no run is half strict."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.option.nbval = True
        config.option.nbval_lax = False
        config.option.nbval_current_env = True
        config.option.nbval_sanitize_with = str(ROOT / "tests" / "sanitize.cfg")
        config.option.nbval_cell_timeout = 600.0
        config.option.nbval_kernel_startup_timeout = 120.0

    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        if hasattr(collector, "skip_compare"):
            collector.skip_compare += NOT_COMPARED

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put what a failing cell said into the report of --junitxml."""
        if call.when == "call" and call.excinfo and hasattr(item, "cell"):
            item.user_properties += failing.properties(item, call.excinfo.value)
        return (yield)


def main(arguments: list[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not any(Path(a).suffix == ".ipynb" or Path(a).is_dir() for a in arguments):
        arguments.append(str(ROOT / "notebooks"))
    # Python files lie beside the notebooks: only notebooks are wanted here.
    only = ["--override-ini=python_files=", "--override-ini=testpaths="]
    with course_environment():
        return int(pytest.main([*only, *arguments], plugins=[Rules()]))


if __name__ == "__main__":
    sys.exit(main())
