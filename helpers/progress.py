"""Progress of long work, where somebody is watching."""

from __future__ import annotations

import html
import os
import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Any


class Progress:
    """A bar that vanishes when the work ends; silent under ``COURSE_QUIET=1``.

    In a notebook it is plain HTML that is updated in place: a widget would come
    back broken when the saved notebook is opened without its kernel.
    """

    def __init__(self, what: str, total: float, unit: str = "") -> None:
        self._what, self._total, self._unit = what, total, unit
        self._shown: Any = None
        self._last = 0.0
        if os.environ.get("COURSE_QUIET") == "1" or total <= 0:
            return
        if "ipykernel" in sys.modules:
            from IPython.display import HTML, display

            self._shown = display(HTML(self._bar(0)), display_id=True)
        elif sys.stderr.isatty():
            with suppress(ImportError):  # without it there is no bar, and no harm
                from tqdm import tqdm

                self._shown = tqdm(desc=what, total=total, unit=unit, leave=False)

    def _bar(self, done: float) -> str:
        said = f"{self._what}: {done:.3g} of {self._total:.3g} {self._unit}"
        bar = f'<progress value="{done}" max="{self._total}"></progress>'
        return f"{bar} {html.escape(said.strip())}"

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if hasattr(self._shown, "close"):
            self._shown.close()
        elif self._shown is not None:
            self._update("")

    def at(self, done: float, what: str = "") -> None:
        """Say that *done* of the total is done, and perhaps what comes next."""
        self._what, done = what or self._what, min(done, self._total)
        if hasattr(self._shown, "close"):
            self._shown.set_description_str(self._what, refresh=False)
            self._shown.update(done - self._shown.n)
        elif self._shown is not None and time.monotonic() - self._last > 0.2:
            self._last = time.monotonic()
            self._update(self._bar(done))

    def _update(self, text: str) -> None:
        from IPython.display import HTML

        self._shown.update(HTML(text))
