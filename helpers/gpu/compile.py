"""A generated Triton kernel, compiled down to a GPU's machine code without that GPU.

*source* is the module that Inductor writes for one kernel: imports, and a decorated
function.  Choosing and compiling are Inductor's own code; only the GPU is a fake.
"""

from __future__ import annotations

import contextlib
import functools
import io
import linecache
import os
import re
import subprocess
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from .._torch import needed_for
from ..errors import InputError, Unavailable
from ..results import Result, available_cores
from ..text import count, size
from . import fake_gpu
from .gpus import Gpu, Occupancy, find, occupancy
from .tidy import tidy

with needed_for("Triton code for a GPU that is not here"):
    from torch._inductor import config as inductor_config
    from torch._inductor.runtime import hints as inductor_hints
    from torch._inductor.runtime import triton_heuristics

FILE = "<generated kernel>"  # what Triton takes for a kernel's file


@dataclass(frozen=True)
class Config:
    """One way to launch a kernel: sizes by name, such as XBLOCK, and warps a block."""

    blocks: dict[str, int]
    num_warps: int
    num_stages: int

    def __str__(self) -> str:
        sizes = [f"{name} {value}" for name, value in self.blocks.items()]
        stages = [f"{self.num_stages} stages"] if self.num_stages > 1 else []
        return ", ".join([*sizes, count(self.num_warps, "warp"), *stages])

    def __repr__(self) -> str:
        return f"<{self}>"  # in a tuple, commas alone would not part them


@dataclass(frozen=True, repr=False)
class MachineCode(Result):
    """A kernel compiled for one GPU: the code of each stage, and what it needs."""

    kernel: str
    gpu: str  # a name in helpers.gpu.gpus
    config: Config
    threads: int  # per block
    registers: int  # of 32 bits, per thread
    spills: int  # of those, how many go to memory instead
    shared: int  # bytes per block
    occupancy: Occupancy
    ttir: str  # Triton's intermediate code
    ttgir: str  # the same with a layout over the GPU's threads
    llir: str  # LLVM's
    ptx: str  # NVIDIA's assembly for a virtual GPU
    cubin: str  # the same for the real one, in base64

    @functools.cached_property
    def sass(self) -> str:
        """What the GPU executes, in its assembly.

        Disassembled when asked for: that takes longer than a compile from the cache.
        Unavailable for what Triton's own tools no longer read, such as sm_70.
        """
        try:
            text = read_by("cuobjdump", b64decode(self.cubin), "--dump-sass")
        except subprocess.CalledProcessError as error:
            raise Unavailable(f"{find(self.gpu)}: {error.output.strip()}") from error
        lines = re.findall(r"^\s*/\*(\w+)\*/\s+(.*?;)", text, re.M)
        return "".join(f"{address}  {line}\n" for address, line in lines)

    def __str__(self) -> str:
        return (
            f"{self.kernel} on {find(self.gpu)}: {self.config}\n"
            f"{count(self.registers, 'register')} a thread, {self.spills} spilled, "
            f"{size(self.shared)} of shared memory a block\n{self.occupancy}"
        )


class Generated(Result):
    """A result with the module that Inductor wrote for a kernel, in *generated*."""

    @functools.cached_property
    def source(self) -> str:
        """The kernel alone, tidied for reading; of a template, with nothing fused."""
        return tidy(self.generated) if self.generated else ""

    def on(self, gpu: str | None = None) -> MachineCode:
        """Return its machine code for a GPU, also for another than its own.

        It is that of the first of its configurations.  Raises InputError for an unknown
        GPU, for a call into a library, or where Triton cannot compile it.
        """
        if not self.generated:
            raise InputError(f"nothing was generated for {self.name}")
        return compile_kernel(self.generated, find(gpu or self.gpu))


@functools.lru_cache(256)
def compile_kernel(source: str, gpu: Gpu, lines: bool = False) -> MachineCode:
    """Compile a kernel, in its first configuration, for *gpu*.

    It may be another GPU than it was generated for.  With *lines*, the code of each
    stage keeps its marks that lead to the lines of *source*.  Raises Unavailable
    without Triton, InputError when the kernel cannot be compiled for this GPU.
    """
    with loaded(source, gpu) as tuner:
        try:
            binary, log = _compiled(tuner, lines=lines)
            usage = read_by("cuobjdump", binary.asm["cubin"], "--dump-resource-usage")
            found = {name: int(n) for name, n in re.findall(r"(\w+):(\d+)", usage)}
            spills = (found["STACK"] + found["LOCAL"]) // 4
            if spills and not log:  # it came from the cache, without the log
                log = _compiled(tuner, again=True)[1]
        except Exception as error:  # Triton's, LLVM's and ptxas' have no common kind
            texts = [line.strip() for line in str(error).splitlines() if line.strip()]
            wrong = [line for line in texts if "error" in line.lower()]
            reason = (wrong or texts or [type(error).__name__])[-1]
            raise InputError(f"no machine code for {gpu}: {reason}") from error
        # cuobjdump counts arrays in local memory as spills, too; ptxas' log does not.
        if spilled := re.search(r"(\d+) bytes spill stores", log):
            spills = int(spilled[1]) // 4
        shared, threads = binary.metadata.shared, binary.metadata.num_warps * gpu.warp
        stages = ("ttir", "ttgir", "llir", "ptx")
        return MachineCode(
            kernel=tuner.fn.__name__,
            gpu=gpu.name,
            config=configs(tuner, tuner.configs[:1])[0],
            threads=threads,
            registers=found["REG"],
            spills=spills,
            shared=shared,
            occupancy=occupancy(gpu, threads, found["REG"], shared),
            **{s: binary.asm[s] if lines else _plain(binary.asm[s]) for s in stages},
            cubin=b64encode(binary.asm["cubin"]).decode(),
        )


def compile_ahead(sources: Iterable[str], gpu: Gpu) -> Iterator[int]:
    """Compile kernels side by side, each in its first configuration.

    Yields how many are done.  `compile_kernel` finds them in Triton's cache; one that
    cannot be compiled waits for it, to say why.
    """
    with _believing(gpu), _asking(), ThreadPoolExecutor(available_cores()) as pool:
        tuners = map(_tuner, sources)
        jobs = [pool.submit(t._precompile_config, t.configs[0]) for t in tuners]
        for number, job in enumerate(as_completed(jobs), 1):
            job.exception()
            yield number


@contextlib.contextmanager
def loaded(source: str, gpu: Gpu) -> Iterator[Any]:
    """Yield the autotuner that Inductor makes of *source* on *gpu*; launch nothing.

    Raises Unavailable without Triton, InputError when *source* is not one kernel.
    """
    with _believing(gpu):
        yield _tuner(source)


@contextlib.contextmanager
def _believing(gpu: Gpu) -> Iterator[None]:
    """Let kernels that are loaded and compiled in the block be for *gpu*."""
    with (
        fake_gpu.gpu(gpu),
        mock.patch.dict(os.environ),  # the autotuner sets TRITON_CACHE_DIR
        inductor_config.patch(use_static_triton_launcher=False),
    ):
        # The kernel's text holds the GPU it was written for: *gpu* in its place.
        own = inductor_hints.DeviceProperties.create(fake_gpu.CUDA)
        with mock.patch.object(inductor_hints, "DeviceProperties", return_value=own):
            yield


def _tuner(source: str) -> Any:
    # Triton reads a kernel's text through its file, and there is none.
    linecache.cache[FILE] = (len(source), None, source.splitlines(True), FILE)
    space = {"__name__": FILE, "__file__": FILE}
    try:
        exec(compile(source, FILE, "exec"), space)
    except (SyntaxError, NameError, ImportError) as error:
        raise InputError(f"not a kernel that Inductor wrote: {error}") from error
    finally:
        linecache.cache.pop(FILE, None)
    kind = triton_heuristics.CachingAutotuner
    tuners = [value for value in space.values() if isinstance(value, kind)]
    if len(tuners) != 1:
        message = f"one generated kernel is wanted, and this holds {len(tuners)}"
        raise InputError(message)
    return tuners[0]


def _compiled(tuner: Any, again: bool = False, lines: bool = False) -> tuple[Any, str]:
    """Return Triton's compiled kernel, and the output of ptxas."""
    with _asking(again, lines) as log:
        return tuner._precompile_config(tuner.configs[0]).kernel, log.getvalue()


@contextlib.contextmanager
def _asking(again: bool = False, lines: bool = False) -> Iterator[io.StringIO]:
    """Set Triton's compiler up, and yield what ptxas says."""
    from triton import knobs
    from triton.backends.nvidia.compiler import CUDABackend

    make_ptx = CUDABackend.make_ptx

    def marked(self: Any, *args: Any) -> str:
        # LLVM counts the lines of inline assembly on from that of the statement.
        inline = r"(?s)// begin inline asm.*?// end inline asm"
        return re.sub(
            inline,
            lambda found: re.sub(r"(?m)^\s*\.loc\s.*\n", "", found[0]),
            make_ptx(self, *args),
        )

    with (
        knobs.compilation.scope(),
        knobs.nvidia.scope(),
        mock.patch.object(triton_heuristics.log, "disabled", True),
        mock.patch.object(CUDABackend, "make_ptx", marked if lines else make_ptx),
    ):
        knobs.compilation.disable_line_info = not lines
        knobs.compilation.always_compile = again or lines
        knobs.nvidia.dump_ptxas_log = True
        with contextlib.redirect_stdout(io.StringIO()) as log:
            yield log


def configs(tuner: Any, chosen: Sequence[Any]) -> tuple[Config, ...]:
    """Return the configurations that a *tuner* has *chosen*, with its fixed sizes."""
    meta = tuner.inductor_meta
    fixed = dict(meta.get("combo_grid_meta", {}).get("default_config") or {})
    named = meta.get("config_args", {})  # of a template
    fixed |= {name: n for name, n in named.items() if name.startswith("BLOCK_")}
    return tuple(
        Config(fixed | config.kwargs, config.num_warps, config.num_stages)
        for config in chosen
    )


def _plain(text: str) -> str:
    """Return code without the lines that only lead a debugger to the source."""
    text = re.sub(r" loc\((#?\w+|\".*\")\)", "", text)
    return re.sub(r"^#loc.*\n", "", text, flags=re.M)


def read_by(tool: str, cubin: bytes, *options: str) -> str:
    """Return what ``cuobjdump`` or ``nvdisasm`` says of machine code."""
    from triton import knobs

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.cubin")
        file.write_bytes(cubin)
        command = [getattr(knobs.nvidia, tool).path, *options, str(file)]
        return subprocess.check_output(command, text=True, stderr=subprocess.STDOUT)
