"""Published properties of GPUs, and how many warps a kernel keeps resident on one."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from types import SimpleNamespace

from ..errors import InputError

KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Gpu:
    """What a compiler asks about a GPU; sizes in bytes."""

    name: str
    title: str  # as the driver reports it
    capability: tuple[int, int]
    multiprocessors: int
    memory: int  # as the driver reports it: a little under the published size
    l2: int  # as the driver reports it
    threads: int  # resident per multiprocessor
    blocks: int  # resident per multiprocessor
    shared: int  # per multiprocessor
    shared_optin: int  # per block, when asked for
    registers: int = 64 * KIB  # of 32 bits, per multiprocessor
    warp: int = 32

    @property
    def properties(self) -> SimpleNamespace:
        """What ``torch.cuda.get_device_properties`` returns, as far as it is used."""
        return SimpleNamespace(
            name=self.title,
            major=self.capability[0],
            minor=self.capability[1],
            total_memory=self.memory,
            multi_processor_count=self.multiprocessors,
            warp_size=self.warp,
            regs_per_multiprocessor=self.registers,
            max_threads_per_multi_processor=self.threads,
            max_threads_per_block=1024,
            shared_memory_per_block_optin=self.shared_optin,
            L2_cache_size=self.l2,
            gcnArchName="",
        )

    @property
    def target(self) -> int:
        """What Triton calls its capability: 90 for (9, 0)."""
        return 10 * self.capability[0] + self.capability[1]

    def __str__(self) -> str:
        return f"{self.title} (sm_{self.target})"


_TABLES = tomllib.loads((files(__package__) / "gpus.toml").read_text("utf-8"))
_CAPABILITIES = {(row[0], row[1]): row[2:] for row in _TABLES["capabilities"]}


def _gpu(name: str, title: str, capability: tuple[int, int], *sizes: int) -> Gpu:
    """Return a GPU with so many multiprocessors, and bytes of memory and L2."""
    threads, blocks, shared, optin = _CAPABILITIES[capability]
    own = threads, blocks, shared * KIB, optin * KIB
    return Gpu(name, title, capability, *sizes, *own)


@dataclass(frozen=True)
class Peaks:
    """What a GPU can do at most: operations a second by dtype, bytes a second."""

    gpu: str
    rates: dict[str, float]
    bandwidth: float
    source: str

    def rate(self, dtype: str, tf32: bool = False) -> float:
        """Return the operations a second in *dtype*; InputError where none is known.

        With *tf32*, float32 may round to it, where the chip has it.
        """
        key = "float8" if dtype.startswith("float8") else dtype
        key = "float16" if key == "bfloat16" else key  # at the same rate
        if key == "float32" and tf32 and "tf32" in self.rates:
            key = "tf32"
        if key not in self.rates:
            known = ", ".join(self.rates)
            raise InputError(f"no peak of {self.gpu} in {dtype}: there are {known}")
        return self.rates[key]


GPUS, PEAKS = dict[str, Gpu](), dict[str, Peaks]()
for _name, _row in _TABLES["gpus"].items():
    _sizes = _row["multiprocessors"], _row["memory"] * MIB, _row["l2"] * MIB
    GPUS[_name] = _gpu(_name, _row["title"], tuple(_row["capability"]), *_sizes)
    _rates = {dtype: rate * 1e12 for dtype, rate in _row["peaks"].items()}
    PEAKS[_name] = Peaks(_name, _rates, _row["bandwidth"] * 1e9, _row["source"])


def peaks(gpu: Gpu) -> Peaks:
    """Return the published peaks of *gpu*; InputError where there are none."""
    if gpu.name not in PEAKS:
        known = ", ".join(PEAKS)
        raise InputError(f"no peak of {gpu.name} is known here: there are {known}")
    return PEAKS[gpu.name]


_WORDS = re.compile(r"nvidia|geforce|tesla|sxm\d?|\d\dgb|hbm\d?e?|[^a-z\d]")


def find(name: str) -> Gpu:
    """Return the GPU called *name*: "rtx4090", "RTX 4090" or "NVIDIA H100".

    Raises InputError, with the names there are.
    """
    key = _WORDS.sub("", str(name).lower())
    if key not in GPUS:
        raise InputError(f"no GPU called {name!r}: there are {', '.join(GPUS)}")
    return GPUS[key]


def here() -> Gpu:
    """Return the GPU of this machine, and let ``find`` know it by its name.

    Raises InputError where PyTorch has none, or one too old to be in the table.
    """
    import torch

    if not torch.cuda.is_available():
        raise InputError(f"PyTorch has no GPU here: name one of {', '.join(GPUS)}")
    title, capability = torch.cuda.get_device_name(), torch.cuda.get_device_capability()
    key = _WORDS.sub("", title.lower())
    if key not in GPUS and capability not in _CAPABILITIES:
        raise InputError(f"{title} is not known here: name one of {', '.join(GPUS)}")
    if key not in GPUS:
        has = torch.cuda.get_device_properties()
        sizes = has.multi_processor_count, has.total_memory, has.L2_cache_size
        GPUS[key] = _gpu(key, title, capability, *sizes)
    return GPUS[key]


@dataclass(frozen=True)
class Occupancy:
    """How much of a kernel one multiprocessor holds at a time, at most.

    Left out are a grid too small to fill the GPU, blocks that end at different times,
    kernels that run side by side, and registers moved between warps.
    """

    blocks: int  # per multiprocessor; 0 when not even one fits
    warps: int  # per multiprocessor
    fraction: float  # of the warps that the multiprocessor can hold
    limit: str  # "registers", "shared memory", "warps" or "blocks"
    formula: str

    def __repr__(self) -> str:
        return (
            f"{self.fraction:.0%} occupancy: {self.warps} warps in {self.blocks} "
            f"blocks per multiprocessor, limited by {self.limit}\n{self.formula}"
        )


_SCHEDULERS = 4  # per multiprocessor, each with a quarter of the registers


def occupancy(gpu: Gpu, threads: int, registers: int, shared: int) -> Occupancy:
    """Return how many blocks and warps of a kernel fit on one multiprocessor.

    *threads* per block, *registers* of 32 bits per thread, *shared* bytes per block.
    Method: NVIDIA's occupancy calculator (cuda_occupancy.h, which CUDA and Triton
    ship): registers are given to whole warps, 8 per thread at a time, by each of four
    schedulers; shared memory in units, after 1 KiB that CUDA keeps for itself from
    capability 8.0 on.
    """
    most = gpu.threads // gpu.warp
    warps = -(-threads // gpu.warp)
    fits = {"warps": most // warps, "blocks": gpu.blocks}
    formula = [f"warps: {most} // {warps} = {fits['warps']} blocks"]
    formula += [f"blocks: {gpu.blocks} at most"]
    if registers:
        own, per_warp = gpu.registers // _SCHEDULERS, -(-registers // 8) * 8 * gpu.warp
        possible = registers <= 256  # of one thread
        fits["registers"] = possible * (own // per_warp) * _SCHEDULERS // warps
        formula += [
            f"registers: {own} // {per_warp} = {own // per_warp} warps for each of "
            f"{_SCHEDULERS} schedulers, so {fits['registers']} blocks"
        ]
    unit, reserved = (128, KIB) if gpu.capability >= (8, 0) else (256, 0)
    if per_block := -(-(shared + reserved) // unit) * unit:
        possible = shared <= gpu.shared_optin
        fits["shared memory"] = possible * (gpu.shared // per_block)
        blocks = fits["shared memory"]
        formula += [f"shared memory: {gpu.shared} // {per_block} = {blocks} blocks"]
    limit = min(fits, key=fits.get)
    blocks, share = fits[limit], fits[limit] * warps / most
    return Occupancy(blocks, blocks * warps, share, limit, "\n".join(formula))
