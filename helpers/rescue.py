"""What to do about an error that ends a cell: one line below the traceback.

Errors that this machine causes (no compiler, no memory, a full disk, a damaged
cache) and cells that ran out of order are told apart from mistakes in a program,
which the traceback itself explains best.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import TracebackType
from typing import Any

DOCTOR = "run `python -m helpers doctor` in a terminal; it has the fix"
_SAY = "What to do: "

# The type and text of an error, and what helps; the first row that fits decides.
_KNOWN = (
    (
        r"^NameError: name '(?P<name>\w+)' is not defined",
        "where a cell above defines '{name}', it has not run: choose Run > Run All "
        "Above Selected Cell, then this cell again",
    ),
    (
        r"^(?:Unsupported|UserError|TorchRuntimeError|ConstraintViolationError): ",
        "look for your own line in the message; `graphs(f, x)` lists every line that "
        "breaks a graph, and what usually helps",
    ),
    (
        r"^InvalidCxxCompiler|No working C\+\+ compiler|^CppCompileError"
        r"|^CppWrapperCompileError|Python\.h: No such file|CalledProcessError.*\+\+",
        "the C++ compiler is missing or broken, or cannot take a folder with a space "
        "in its name (then set TORCHINDUCTOR_CACHE_DIR to a plain one before Jupyter "
        f"starts): {DOCTOR}",
    ),
    (
        r"^TritonMissing|working triton installation|No module named 'triton",
        "Triton is missing, and this cell needs it (it exists for Linux only): "
        f"{DOCTOR}",
    ),
    (
        r"^(?:Missing|Unavailable): ",
        f"the message names what is missing, and how it is installed; or {DOCTOR}",
    ),
    (
        r"^MemoryError|OutOfMemoryError|can't allocate memory|Cannot allocate memory",
        "memory ran out: close other notebooks and programs, restart the kernel, and "
        "run from the top",
    ),
    (
        r"No space left on device|Disk quota exceeded",
        "the disk is full: free some of it, or set TORCHINDUCTOR_CACHE_DIR to a "
        "folder with more before Jupyter starts",
    ),
    (
        r"^PermissionError|Read-only file system",
        "this folder may not be written to: set TORCHINDUCTOR_CACHE_DIR and TMPDIR to "
        "folders of your own before Jupyter starts",
    ),
    (
        r"^(?:UnpicklingError|EOFError|BadZipFile|JSONDecodeError)|file too short"
        r"|invalid ELF header|undefined symbol|Failed to import \S+\.py\b",
        "a file in the compile cache may be damaged: delete the folder {cache}, "
        "restart the kernel",
    ),
)
_TORCH = (
    "if you changed a cell, undo that first; then restart the kernel and run from the "
    f"top. If it comes again, {DOCTOR}"
)


def what_to_do(error: BaseException) -> str | None:
    """Return what helps against *error* or one of its causes, in one sentence.

    None for an error that neither the machine nor the order of cells explains.
    """
    chain = list(_causes(error))
    for each in chain:
        text = f"{type(each).__name__}: {each}"
        for pattern, advice in _KNOWN:
            if found := re.search(pattern, text):
                cache = _cache_folder() if "{cache}" in advice else ""
                return advice.format(cache=cache, **found.groupdict())
    inside = any(type(each).__module__.split(".")[0] == "torch" for each in chain)
    return _TORCH if inside else None


def _cache_folder() -> str:
    from helpers import compat  # which imports torch

    return compat.inductor_cache_dir()


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what it came from, the innermost last."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def attach() -> None:
    """Let the notebook's kernel say what to do below an error; nothing elsewhere."""
    try:
        from IPython import get_ipython
    except ImportError:
        return
    shell = get_ipython()
    if shell is not None:
        shell.set_custom_exc((Exception,), _show)


def _show(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType,
    tb_offset: int | None = None,
) -> None:
    """Show the traceback as ever, with the advice as a note of the error."""
    advice = what_to_do(error)
    if advice and _SAY + advice not in getattr(error, "__notes__", ()):
        error.add_note(_SAY + advice)
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
