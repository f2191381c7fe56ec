"""``doctor``: what this machine has, what each lack costs, and the fix."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

from . import results, text
from .errors import Unavailable
from .results import TableResult
from .text import Table, mark

DOCTOR = f"run `python -m {__package__} doctor` in a terminal; it has the fix"
_NEEDED = 2 << 30  # bytes of memory, and of disk
_CGROUP = Path("/sys/fs/cgroup")

_INSTALL = (
    "Debian, Ubuntu: apt install g++ python3-dev; Fedora: dnf install gcc-c++ "
    "python3-devel; macOS: xcode-select --install; conda: conda install -c "
    "conda-forge cxx-compiler; Windows: the C++ workload of Visual Studio's Build "
    "Tools, and its Native Tools prompt. Or set CXX to one that runs"
)


@dataclass(frozen=True)
class Finding:
    """One part of the machine; *status* is ``ok``, ``note`` or ``missing``."""

    name: str
    found: str
    status: str = "ok"
    advice: str = ""  # what the lack costs, and what to do about it


@dataclass(frozen=True, repr=False)
class Diagnosis(TableResult):
    """What ``doctor`` found: the same rows on every machine."""

    rows: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Return whether nothing that is needed is missing."""
        return all(row.status != "missing" for row in self.rows)

    @property
    def verdict(self) -> str:
        """Return ``yes``, or ``no`` and what is missing."""
        lacks = [row.name for row in self.rows if row.status == "missing"]
        return f"no, missing: {', '.join(lacks)}" if lacks else "yes"

    def table(self) -> Table:
        """Return the rows as a table, with marks around what may differ."""
        cells = [(row.status, row.found, row.advice or "-") for row in self.rows]
        rows = [(r.name, *map(mark, c)) for r, c in zip(self.rows, cells, strict=True)]
        return Table.of(["part", "status", "found", "what to do"], rows)

    def _last(self) -> str:
        return f"ready to compile: {mark(self.verdict)}"


def _one_line(value: Any) -> str:
    return " ".join(str(value).split())


def doctor(compile: bool = True) -> Diagnosis:
    """Return the state of this machine, part by part; never raises.

    With *compile*, a small function is compiled, run and differentiated on each
    device.  That pays for what is built once per machine, so no later call has to.
    """
    last = _first_compile if compile else lambda: ("not tried", "note")
    checks = (*_CHECKS, ("first compile", last))
    return Diagnosis(tuple(_look(name, check) for name, check in checks))


def _look(name: str, check: Callable[[], tuple[str, ...]]) -> Finding:
    """Return the row of *check*; its failure is a finding, not an error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Finding(name, *map(_one_line, check()))
    except Exception as error:  # torch may be broken in any way
        message = " ".join(str(error).split()[:25])  # a cause may be on line two
        found = f"fails with {type(error).__name__}: {message}"
        advice = _WITHOUT.get(name, "This could not be looked at")
        return Finding(name, found, "missing" if name in _WITHOUT else "note", advice)


_WITHOUT = {
    "torch": "Nothing runs. make clean setup",
    "first compile": "Nothing compiles. See the rows above",
}


def _python() -> tuple[str, ...]:
    found = platform.python_version()
    if (3, 11) <= sys.version_info[:2] <= (3, 14):
        return (found,)
    return found, "note", "Tested on 3.11 to 3.14. make setup PYTHON=python3.11"


def _torch_version() -> tuple[str, ...]:
    import torch

    found = torch.__version__
    release = tuple(int(part) for part in found.split(".")[:2])
    if not (2, 13) <= release <= (2, 15):
        status = "missing" if release < (2, 13) else "note"
        return found, status, "Tested on 2.13 to 2.15. make setup"
    try:  # modules need private names of torch, and say what is lost
        package = import_module(__package__)
        for module in walk_packages(package.__path__, f"{__package__}."):
            if not module.name.endswith(("__main__", "_child")):
                import_module(module.name)
    except Unavailable as error:
        return found, "note", str(error)
    return (found,)


def _triton_version() -> tuple[str, ...]:
    import torch

    from . import _torch

    wanted, installed, matches = _torch.triton_pair()
    if matches:
        return (f"{installed}, the pair of torch {torch.__version__}",)
    need = torch.cuda.is_available()
    found = f"{installed or 'none'}; torch {torch.__version__} wants {wanted or '?'}"
    advice = "Nothing compiles for the GPU" if need else "Triton kernels are not shown"
    if sys.platform.startswith("linux"):
        advice += f". pip install 'triton=={wanted}.*'"
    return found, "missing" if need and not installed else "note", advice


def _compiler() -> tuple[str, ...]:
    from . import _torch

    advice = f"torch.compile cannot build kernels for the CPU. {_INSTALL}"
    name, _ = _torch.cpp_compiler()
    if name is None:
        return "none that runs", "missing", advice
    if os.name == "nt":
        return (Path(name).name,)
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return f"{Path(name).name}, but no Python.h", "missing", advice
    version = subprocess.check_output([name, "--version"], text=True, timeout=60)
    return (version.splitlines()[0],)


def _gpu() -> tuple[str, ...]:
    import torch

    without, driver = "All works on the CPU", results.nvidia_driver()
    if torch.cuda.is_available():
        own = torch.cuda.get_device_properties(0)
        memory = text.size(own.total_memory)
        found = f"{own.name}, {memory}, driver {driver or 'not known'}"
        if (own.major, own.minor) < (7, 0):
            costs = f"Triton needs compute capability 7.0. {without}"
            return f"{found}, {own.major}.{own.minor}", "note", costs
        return (found,)
    if driver is None:
        return "no NVIDIA GPU", "note", without
    if torch.version.cuda is None:
        found = f"driver {driver}, but a torch built without CUDA"
        return found, "note", f"{without}. make setup TORCH=default"
    try:
        torch.cuda.init()
        reason = "no device is visible: see CUDA_VISIBLE_DEVICES"
    except Exception as error:
        reason = _one_line(error)[:160]
    found = f"driver {driver} and CUDA {torch.version.cuda} do not work: {reason}"
    fix = "Update the driver, or take an older CUDA: make setup TORCH=cu126"
    return found, "note", f"{without}. {fix}"


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
    fix = f"Set OMP_NUM_THREADS={cores} before Jupyter starts"
    return found, "note", f"{costs}. {fix}"


def _cache() -> tuple[str, ...]:
    from . import _torch

    try:
        folder = Path(_torch.inductor_cache_dir())
        results.write_atomically(folder / "doctor", "written by doctor()\n").unlink()
    except OSError as error:
        fix = "Set TORCHINDUCTOR_CACHE_DIR to a folder that you may write to"
        return str(error), "missing", f"Nothing compiles. {fix}"
    if os.name == "posix" and re.search(r"\s", str(folder)):
        cut = "torch hands the C++ compiler a name that ends there"
        fix = "Set TORCHINDUCTOR_CACHE_DIR to a folder without one"
        return "a space in its name", "missing", f"{cut}. {fix}"
    free = shutil.disk_usage(folder).free
    used = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    found = f"{text.size(used)} used, {text.size(free)} free"
    if free >= _NEEDED:
        return (found,)
    fix = "Free some, or set TORCHINDUCTOR_CACHE_DIR to a folder with more"
    return found, "note", f"A compile fails once the disk is full. {fix}"


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


WAITING = "the first compile takes up to a minute, once per machine"


def _first_compile() -> tuple[str, ...]:
    import torch

    from . import _torch

    def small(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * x.cos() + x).softmax(-1).square().sum()

    def value_and_slope(fn: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
        value = fn(x)
        [slope] = torch.autograd.grad(value, x)
        return torch.cat([value.detach().view(1), slope.flatten()])

    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    took = list[str]()
    with text.progress(WAITING, len(devices)) as bar:
        for device in devices:
            x = torch.rand(64, 64, device=device, requires_grad=True)
            start, compiled = time.perf_counter(), torch.compile(small)
            result = value_and_slope(compiled, x)
            took.append(f"{device} {text.seconds(time.perf_counter() - start)}")
            wanted = value_and_slope(small, x)
            if not torch.allclose(result, wanted, rtol=1e-3, atol=1e-5):
                error = (result - wanted).abs().max().item()
                other = "C++ compiler (set CXX)" if device == "cpu" else "driver"
                return (
                    f"{device}: the compiled function is off by {error:.1g} from eager",
                    "missing",
                    "The compiler computes wrong numbers, so no result can be trusted. "
                    f"Delete the folder {_torch.inductor_cache_dir()}, whose files may "
                    "be damaged, and run doctor again. If it stays, take another "
                    f"{other} or another torch (make clean setup)",
                )
            bar.update()
    if not _torch.has_graphs(compiled):
        fix = "Unset TORCH_COMPILE_DISABLE and TORCHDYNAMO_DISABLE, restart the kernel"
        return "it is switched off", "missing", f"Nothing compiles. {fix}"
    return (", ".join(took),)


_CHECKS = (
    ("Python", _python),
    ("torch", _torch_version),
    ("triton", _triton_version),
    ("C++ compiler", _compiler),
    ("GPU", _gpu),
    ("threads", _threads),
    ("cache folder", _cache),
    ("memory", _memory),
)
