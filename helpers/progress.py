"""Progress of long work, where somebody is watching."""

from __future__ import annotations

import os
from types import TracebackType


class Progress:
    """A bar that vanishes when done; silent under ``COURSE_QUIET=1``."""

    def __init__(self, what: str, total: float, unit: str = "") -> None:
        self._bar = None
        if os.environ.get("COURSE_QUIET") != "1" and total > 0:
            from tqdm.auto import tqdm

            form = "{desc}: {percentage:3.0f}% |{bar}| {n:.3g} of {total:.3g} {unit}"
            self._bar = tqdm(
                desc=what,
                total=total,
                unit=unit,
                leave=False,
                bar_format=form,
                mininterval=0.2,
            )

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def at(self, done: float, note: str = "") -> None:
        """Say that *done* of the total is done, and perhaps what comes next."""
        if self._bar is None:
            return
        if note:
            self._bar.set_description(note, refresh=False)
        self._bar.update(min(done, self._bar.total) - self._bar.n)
