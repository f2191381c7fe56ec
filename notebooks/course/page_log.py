"""torch's own log, as it reads on a page.

In a terminal, each line of the log begins with its level, the time, the process and
the file that wrote it, and it goes to standard error.  On a page it stands between the
other lines that a cell prints, and whatever differs from run to run is marked or cut.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from helpers.text import mark

_lines: list[str] = []
_kept = False  # whether they are all that torch logs
_words: list[str] = []  # of which a line that is printed has one

# A cell's file, the folder of an installed file, and what differs from run to run.
_CELL = re.compile(r"[^\s\"'(]*ipykernel_\d+[/\\]\d+\.py|<ipython-input-[^>]*>")
_INSTALLED = re.compile(r"[^\s\"'=]*[/\\]site-packages[/\\]")
_VARIES = re.compile(
    r"\b0x[0-9a-fA-F]{6,}\b|(?<![\w.])\d{9,}\b|\b\d+\.\d+ [mu]s\b"
    r"|(?<=\"num_threads\":)\d+|(?<=_)[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}\b"
)
# The frames of Jupyter itself, in which the cell was called.
_JUPYTER = re.compile(
    r'(?<=User code traceback:\n)(?:  File "(?!<cell>).*\n(?:    .*\n)*)+'
    r'(?=  File "<cell>)'
)


def logged() -> str:
    """Return what torch logged since ``torch._logging.set_logs`` was last called.

    Raises RuntimeError where nobody has called ``on_the_page``, as ``start`` does.
    """
    if not _kept:
        raise RuntimeError(
            "torch's log is not kept yet: run the first cell, start(...)"
        )
    return "\n".join(_lines)


def only(*words: str) -> None:
    """Print only lines of the log with one of *words*, until set_logs is called."""
    _words[:] = words


def on_the_page() -> None:
    """Let torch's log come to the page from now on, without the terminal's prefix."""
    global _kept
    from helpers._torch import needed_for  # here, for `teach` is used without torch

    with needed_for("torch's log on a page"):
        import torch._logging._internal as torch_logs

    usual = torch_logs._setup_handlers
    # From torch 2.15 on, a handler of torch's own writes to the terminal.
    to_terminal = getattr(torch_logs, "_StderrHandler", logging.StreamHandler)

    def page_handlers(create_handler: Any, log: logging.Logger) -> None:
        if create_handler is not to_terminal:  # a file that was asked for
            usual(create_handler, log)
            return
        _lines.clear()
        _words.clear()
        handler = torch_logs._track_handler(_PageHandler())
        handler.setLevel(logging.DEBUG)
        log.addHandler(handler)

    if not hasattr(usual, "instead_of"):
        page_handlers.instead_of = usual
        torch_logs._setup_handlers = page_handlers
        torch_logs._init_logs()
    _kept = True


class _PageHandler(logging.Handler):
    """Prints a record where the cell prints, with the number of the compile."""

    def emit(self, record: logging.LogRecord) -> None:
        import torch

        text = record.getMessage()
        if record.exc_info and record.levelno >= logging.ERROR:
            text += f"\n{record.exc_info[1]}"
        text = _CELL.sub("<cell>", text)
        text = _JUPYTER.sub("", text)
        text = _INSTALLED.sub("", text)
        text = _VARIES.sub(lambda match: mark(match[0]), text)
        if compile_id := torch._guards.CompileContext.current_trace_id():
            text = f"[{compile_id}] {text}"
        _lines.append(text)
        found = [line for line in text.split("\n") if any(w in line for w in _words)]
        if found or not _words:
            print("\n".join(found) or text)
