"""What to do about an error that ends a cell: one line below the traceback.

It is said where this machine or the order of cells caused the error.  A mistake in a
program explains itself.
"""

from __future__ import annotations

import builtins
import dis
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from helpers import text
from helpers.health import DOCTOR

# The type and text of an error, and what helps; the first row that fits decides.
_ADVICE = (
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
        f"Triton is missing, and this cell needs it (it exists for Linux only): "
        f"{DOCTOR}",
    ),
    (
        r"torch\.compile stance is 'fail_on_recompile'",
        "this call would compile, where a stance forbids it: a cell above that failed "
        "may have left it uncompiled; mend that cell first",
    ),
    (
        r"^Unavailable: ",
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


def what_to_do(error: BaseException) -> str | None:
    """Return what helps against *error* or one of its causes, in one sentence.

    None for an error that neither the machine nor the order of cells explains.
    """
    chain = list(causes(error))
    for cause in chain:
        if isinstance(cause, NameError) and "is not defined" in str(cause):
            return _missing_name(cause.name)
        for pattern, advice in _ADVICE:
            if re.search(pattern, f"{type(cause).__name__}: {cause}"):
                if "{cache}" not in advice:  # torch may be broken
                    return advice
                from helpers import _torch

                return advice.format(cache=_torch.inductor_cache_dir())
    if any(type(cause).__module__.split(".")[0] == "torch" for cause in chain):
        return (
            "if you changed a cell, undo that first; then restart the kernel and run "
            f"from the top. If it comes again, {DOCTOR}"
        )
    return None


def _missing_name(name: str) -> str:
    shell = text.kernel_shell()
    if shell and not _made_by_cells(shell):
        return (
            "this kernel knows nothing of the cells above: it was restarted, or is "
            "new. Choose Run > Run All Above Selected Cell, then this cell again"
        )
    cells = shell.user_ns["In"][:-1] if shell else []  # the last one runs now
    if cell := _cell_to_mend(name, cells):
        number, source = cell
        return (
            f"cell [{number}], `{source.strip().splitlines()[0]}`, failed before it "
            f"could define {name!r}: mend that cell first, then run it and the cells "
            "below it"
        )
    return (
        f"where a cell above defines {name!r}, it has not run: choose Run > Run All "
        "Above Selected Cell, then this cell again"
    )


def _made_by_cells(shell: Any) -> set[str]:
    """Return the names that cells made; the kernel's own, and ``_i1``, are none."""
    made = shell.user_ns.keys() - shell.user_ns_hidden.keys()
    return {name for name in made if not name.startswith("_")}


def _cell_to_mend(name: str, cells: list[str]) -> tuple[int, str] | None:
    """Return the last cell that was to define *name*, and its number.

    Where that cell itself lacks a name, it is the cell that owes it; None where no cell
    was run that does.
    """
    for number, source in reversed([*enumerate(cells)]):
        defined, read = _names(source)
        if name in defined:
            here = vars(sys.modules["__main__"]).keys() | vars(builtins).keys()
            lacking = read - defined - here
            owed = (_cell_to_mend(lacks, cells[:number]) for lacks in lacking)
            return next(filter(None, owed), None) if lacking else (number, source)
    return None


def _names(source: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell assigns, defines or imports, and those it reads."""
    try:
        steps = [*dis.get_instructions(compile(source, "<cell>", "exec"))]
    except SyntaxError:  # any word may be one
        return set(re.findall(r"[^\W\d]\w*", source)), set()
    defined, read = (
        {step.argval for step in steps if step.opname == kind}
        for kind in ("STORE_NAME", "LOAD_NAME")
    )
    return defined, read


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what it came from: innermost last.

    That is what a traceback shows, and the error that one of torch's carries: it is
    raised ``from None``, because its message repeats the other's.
    """
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        carried = current.__cause__ or getattr(current, "inner_exception", None)
        hidden = current.__suppress_context__  # raise ... from None
        current = carried or (None if hidden else current.__context__)


def explain_errors(said: Callable[[BaseException], Any] = lambda _: None) -> None:
    """Let the notebook's kernel say what to do below an error; nothing elsewhere.

    An error of which *said* is true is told by others.
    """
    if shell := text.kernel_shell():

        def show(shell: Any, kind: Any, error: BaseException, *rest: Any, **how: Any):
            if not said(error):
                _show(shell, kind, error, *rest, **how)

        shell.set_custom_exc((Exception,), show)


def _show(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType,
    tb_offset: int | None = None,
) -> None:
    """Show the traceback as ever, with the advice as a note of the error."""
    advice = what_to_do(error)
    # A page would break it inside a word.
    note = textwrap.fill(f"What to do: {advice}.", 100, break_on_hyphens=False)
    if advice and note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
