"""``doctor``: what this machine has, what each lack costs, and the fix.

Below it: what to do about an error that ends a cell, told in one line.
"""

from __future__ import annotations

import dis
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from helpers import results, text
from helpers.errors import Unavailable
from helpers.results import Result
from helpers.text import Table, mark

DOCTOR = "run `python -m helpers doctor` in a terminal; it has the fix"
_NEEDED = 2 << 30  # bytes of memory and of disk
_CGROUP = Path("/sys/fs/cgroup")  # the limits of a container


@dataclass(frozen=True)
class Row:
    """One part of the machine; *status* is ``ok``, ``note`` or ``missing``.

    *advice* says what a lack costs and what to do about it.
    """

    name: str
    found: str
    status: str = "ok"
    advice: str = ""


@dataclass(frozen=True, repr=False)
class Diagnosis(Result):
    """What ``doctor`` found: the same rows on every machine."""

    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        """Return whether nothing that the course needs is missing."""
        return self.verdict == "yes"

    @property
    def verdict(self) -> str:
        """Return ``yes``, or ``no`` and what is missing."""
        missing = [row.name for row in self.rows if row.status == "missing"]
        return f"no, for want of: {', '.join(missing)}" if missing else "yes"

    def table(self) -> Table:
        """Return the rows as a table, with marks around what may differ."""
        cells = [(row.status, row.found, row.advice or "-") for row in self.rows]
        rows = [(r.name, *map(mark, c)) for r, c in zip(self.rows, cells, strict=True)]
        return Table.of(["part", "status", "found", "what to do"], rows)

    def __str__(self) -> str:
        return f"{self.table()}\nready for the course: {mark(self.verdict)}"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_() + text.pre(str(self).splitlines()[-1])


def doctor(compile: bool = True) -> Diagnosis:
    """Return what this machine has, part by part; never raises.

    With *compile*, a small function is compiled, run and differentiated on each
    device.  That pays for what is built once per machine, so no lesson has to.
    """
    checks = {
        "Python": lambda: (platform.python_version(),),
        "torch": _torch,
        "triton": _triton,
        "C++ compiler": _compiler,
        "GPU": _gpu,
        "threads": _threads,
        "cache folder": _cache,
        "memory": _memory,
        "first compile": _first_compile if compile else lambda: ("not tried", "note"),
    }
    return Diagnosis(tuple(_row(name, check) for name, check in checks.items()))


_FATAL = {
    "torch": "Nothing runs. make clean setup",
    "first compile": "Nothing compiles. See the rows above",
}


def _row(name: str, check: Callable[[], tuple[str, ...]]) -> Row:
    """Return the row of *check*, which gives what is found, a status and advice.

    That a check fails is a finding, not an error.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Row(name, *check())
    except Exception as error:  # torch may be broken in any way
        message = " ".join(str(error).split()[:25])  # a cause may be on line two
        found = f"fails with {type(error).__name__}: {message}"
        if name in _FATAL:
            return Row(name, found, "missing", _FATAL[name])
        return Row(name, found, "note", "This could not be looked at")


def _torch() -> tuple[str, ...]:
    import torch

    version = torch.__version__
    release = tuple(int(part) for part in version.split(".")[:2])
    if not (2, 11) <= release <= (2, 15):
        status = "missing" if release < (2, 11) else "note"
        return version, status, "The course is checked on 2.11 to 2.15. make setup"
    import helpers

    try:  # their modules need private names of torch, and say what is lost
        for name in helpers.__all__:
            getattr(helpers, name)
    except Unavailable as error:
        return version, "note", str(error)
    return (version,)


def _triton() -> tuple[str, ...]:
    import torch

    from helpers import _torch

    wanted, installed, matches = _torch.triton_pair()
    if matches:
        return (f"{installed}, the pair of torch {torch.__version__}",)
    found = f"{installed or 'none'}; torch {torch.__version__} wants {wanted or '?'}"
    status, advice = "note", "Triton kernels are not shown"
    if torch.cuda.is_available():
        status = "note" if installed else "missing"
        advice = "Nothing compiles for the GPU"
    if sys.platform.startswith("linux"):
        advice += f". pip install 'triton=={wanted}.*'"
    return found, status, advice


def _compiler() -> tuple[str, ...]:
    from helpers import _torch

    advice = f"torch.compile cannot build kernels for the CPU. {_install()}"
    name, _ = _torch.cpp_compiler()
    if name is None:
        return "none that runs", "missing", advice
    if os.name == "nt":
        return (Path(name).name,)
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return f"{Path(name).name}, but no Python.h", "missing", advice
    version = subprocess.check_output([name, "--version"], text=True, timeout=60)
    return (version.splitlines()[0],)


def _install() -> str:
    """Return how a C++ compiler gets onto this machine."""
    if os.environ.get("CXX"):
        return "Unset CXX, or set it to a compiler that runs"
    if os.environ.get("CONDA_PREFIX") == sys.prefix:
        return "conda install -c conda-forge cxx-compiler"
    if sys.platform == "darwin":
        return "xcode-select --install"
    if sys.platform == "win32":
        return (
            "winget install Microsoft.VisualStudio.2022.BuildTools, then its C++ "
            "workload; start Jupyter from the Native Tools prompt"
        )
    return "apt install g++ python3-dev, or what your system calls them"


def _gpu() -> tuple[str, ...]:
    import torch

    lesson, driver = "Every lesson runs on the CPU", results.nvidia_driver()
    if torch.cuda.is_available():
        gpu = torch.cuda.get_device_properties(0)
        memory = text.size(gpu.total_memory)
        return (f"{gpu.name}, {memory}, driver {driver or 'not known'}",)
    if driver is None:
        return "no NVIDIA GPU", "note", lesson
    if torch.version.cuda is None:
        found = f"driver {driver}, but a torch built without CUDA"
        return found, "note", f"{lesson}. make setup TORCH=default"
    reason = "no device is visible: see CUDA_VISIBLE_DEVICES"
    try:
        torch.cuda.init()
    except Exception as error:
        reason = " ".join(str(error).split())[:160]
    found = f"driver {driver} and CUDA {torch.version.cuda} do not work: {reason}"
    fix = "Update the driver, or take an older CUDA: make setup TORCH=cu126"
    return found, "note", f"{lesson}. {fix}"


def _threads() -> tuple[str, ...]:
    import torch

    threads, cores = torch.get_num_threads(), results.available_cores()
    with suppress(OSError, ValueError):  # no such file, or the quota is "max"
        quota, period = (_CGROUP / "cpu.max").read_text().split()
        cores = min(cores, max(1, int(quota) // int(period)))
    found = f"{text.count(threads, 'thread')} on {text.count(cores, 'core')}"
    if threads <= cores:
        return (found,)
    costs = "Threads wait for one another, and timings are noise"
    return found, "note", f"{costs}. Set OMP_NUM_THREADS={cores} before Jupyter starts"


def _cache() -> tuple[str, ...]:
    from helpers import _torch

    try:
        folder = Path(_torch.inductor_cache_dir())  # made by asking for it
        results.write_atomically(folder / "doctor", "written by doctor()\n").unlink()
    except OSError as error:
        fix = "Set TORCHINDUCTOR_CACHE_DIR to a folder that you may write to"
        return str(error), "missing", f"Nothing compiles. {fix}"
    if os.name == "posix" and re.search(r"\s", str(folder)):
        costs = "torch hands the C++ compiler a name that ends there"
        fix = "Set TORCHINDUCTOR_CACHE_DIR to a folder without one"
        return "a space in its name", "missing", f"{costs}. {fix}"
    free = shutil.disk_usage(folder).free
    if free >= _NEEDED:
        return (f"{text.size(free)} free",)
    fix = "Free some, or set TORCHINDUCTOR_CACHE_DIR to a folder with more"
    return f"{text.size(free)} free", "note", f"A full disk ends a compile. {fix}"


def _memory() -> tuple[str, ...]:
    import psutil

    memory = psutil.virtual_memory()
    total, free = memory.total, memory.available
    with suppress(OSError, ValueError):  # no such file, or the limit is "max"
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        total, free = min(total, limit), min(free, limit - used)
    found = f"{text.size(free)} of {text.size(total)} free"
    if free >= _NEEDED:
        return (found,)
    costs = "A notebook may take 2 GiB, and a kernel that runs out is killed"
    return found, "note", f"{costs}. Shut down other kernels and programs"


def _first_compile() -> tuple[str, ...]:
    import torch

    from helpers import _torch

    def small(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * x.cos() + x).softmax(-1).square().sum()

    def value_and_slope(fn: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
        value = fn(x)
        [slope] = torch.autograd.grad(value, x)
        return torch.cat([value.detach().view(1), slope.flatten()])  # (1 + 64 * 64,)

    devices, took = ["cpu"] + ["cuda"] * torch.cuda.is_available(), []
    waiting = "the first compile takes up to a minute, once per machine"
    with text.progress(waiting, len(devices)) as bar:
        for device in devices:
            x = torch.rand(64, 64, device=device, requires_grad=True)
            start, compiled = time.perf_counter(), torch.compile(small)
            result = value_and_slope(compiled, x)
            took.append(f"{device} {text.seconds(time.perf_counter() - start)}")
            wanted = value_and_slope(small, x)
            if not torch.allclose(result, wanted, rtol=1e-3, atol=1e-6):
                error = (result - wanted).abs().max().item()
                return (
                    f"{device}: the compiled function is off by {error:.1g} from eager",
                    "missing",
                    "The compiler computes wrong numbers here, so no result can be "
                    f"trusted. Delete the folder {_torch.inductor_cache_dir()}, whose "
                    "files may be damaged. If it stays, take another C++ compiler (set "
                    "CXX), driver or torch (make clean setup)",
                )
            bar.update()
    if not _torch.captured(compiled):
        fix = "Unset TORCH_COMPILE_DISABLE and TORCHDYNAMO_DISABLE, restart the kernel"
        return "it is switched off", "missing", f"Nothing compiles. {fix}"
    return (", ".join(took),)


# What to do about an error that ends a cell: one line below the traceback.
#
# Errors that this machine causes and cells that ran out of order are told apart from
# mistakes in a program, which the traceback itself explains best.

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
        r"^Unavailable: ",
        f"the message names what is missing, and how it is installed; or {DOCTOR}",
    ),
    (
        r"^MemoryError|OutOfMemoryError|can't allocate memory|Cannot allocate memory",
        "memory ran out: close other notebooks and programs, restart the kernel, and "
        "run from the top",
    ),
    (
        r"No space left on device|Disk quota exceeded|^PermissionError"
        r"|Read-only file system",
        "a folder is full, or may not be written to: free some disk, or set "
        "TORCHINDUCTOR_CACHE_DIR and TMPDIR to other folders before Jupyter starts",
    ),
    (
        r"^(?:UnpicklingError|EOFError|BadZipFile|JSONDecodeError)|file too short"
        r"|invalid ELF header|undefined symbol|Failed to import \S+\.py\b",
        "a file in the compile cache may be damaged: delete the folder {cache}, "
        "restart the kernel",
    ),
)


@dataclass(frozen=True)
class FailedCell:
    """A cell that ended in an error, and the names that are missing because of it."""

    number: int
    first_line: str
    defines: set[str]
    missing: set[str]


_failed: list[FailedCell] = []  # of this kernel, and not mended since


def what_to_do(error: BaseException) -> str | None:
    """Return what helps against *error* or one of its causes, in one sentence.

    None for an error that neither the machine nor the order of cells explains.
    """
    for cause in causes(error):
        if isinstance(cause, NameError) and "is not defined" in str(cause):
            return _missing_name(cause.name)
        for pattern, advice in _ADVICE:
            if re.search(pattern, f"{type(cause).__name__}: {cause}"):
                if "{cache}" not in advice:
                    return advice
                from helpers import _torch

                return advice.format(cache=_torch.inductor_cache_dir())
    if any(type(cause).__module__.split(".")[0] == "torch" for cause in causes(error)):
        return (
            "if you changed a cell, undo that first; then restart the kernel and run "
            f"from the top. If it comes again, {DOCTOR}"
        )
    return None


def _missing_name(name: str | None) -> str:
    if cell := _cell_to_mend(name):
        return (
            f"cell [{cell.number}], `{cell.first_line}`, failed before it could define "
            f"{name!r}: mend that cell first, then run it and the cells below it"
        )
    return (
        f"where a cell above defines {name!r}, it has not run: choose Run > Run All "
        "Above Selected Cell, then this cell again"
    )


def _cell_to_mend(name: str | None) -> FailedCell | None:
    return next((cell for cell in _failed if name in cell.missing), None)


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what it came from, the innermost last."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        error = error.__cause__ or error.__context__


def explain_errors() -> None:
    """Let the notebook's kernel say what to do below an error; nothing elsewhere."""
    try:
        from IPython import get_ipython
    except ImportError:
        return
    if shell := get_ipython():
        shell.set_custom_exc((Exception,), _show)
        shell.events.register("post_run_cell", _note_failure)


def _show(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType,
    tb_offset: int | None = None,
) -> None:
    """Show the traceback as ever, with the advice as a note of the error."""
    note = f"What to do: {what_to_do(error)}."
    if what_to_do(error) and note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


def _note_failure(result: Any) -> None:
    """Remember a cell that failed, until a cell that defines the same names runs.

    What fails for want of a name that an earlier cell owes is that cell's failure:
    then the names of this cell are missing because of it, too.
    """
    source = result.info.raw_cell or ""
    names = _defined_names(source)
    _failed[:] = [cell for cell in _failed if not cell.defines <= names]
    if result.success or not names:
        return
    error = result.error_in_exec
    if isinstance(error, NameError) and (cell := _cell_to_mend(error.name)):
        cell.missing.update(names)
    else:
        first_line = source.strip().splitlines()[0]
        number = result.execution_count or 0
        _failed.append(FailedCell(number, first_line, names, set(names)))


def _defined_names(source: str) -> set[str]:
    """Return the names that a cell assigns, defines or imports."""
    try:
        steps = dis.get_instructions(compile(source, "<cell>", "exec"))
    except SyntaxError:  # or a line for IPython: then any word may be one
        return set(re.findall(r"[^\W\d]\w*", source))
    return {step.argval for step in steps if step.opname == "STORE_NAME"}
