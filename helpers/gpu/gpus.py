"""Published properties of GPUs, and how many warps a kernel keeps resident on one."""

from __future__ import annotations

import re
from dataclasses import dataclass
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


# "Technical specifications per compute capability" of the CUDA C++ Programming Guide,
# https://docs.nvidia.com/cuda/cuda-c-programming-guide/: resident threads and blocks
# per multiprocessor, its shared memory, and how much of that one block may ask for.
_CAPABILITIES = {
    (7, 0): (2048, 32, 96 * KIB, 96 * KIB),
    (7, 5): (1024, 16, 64 * KIB, 64 * KIB),
    (8, 0): (2048, 32, 164 * KIB, 163 * KIB),
    (8, 6): (1536, 16, 100 * KIB, 99 * KIB),
    (8, 9): (1536, 24, 100 * KIB, 99 * KIB),
    (9, 0): (2048, 32, 228 * KIB, 227 * KIB),
    (10, 0): (2048, 32, 228 * KIB, 227 * KIB),
    (12, 0): (1536, 24, 100 * KIB, 99 * KIB),
}

# Sources: NVIDIA's white papers on Turing (T4), A100, GA102 and Ada, and its pages
# https://www.nvidia.com/en-us/data-center/ a100, l4, h100, h200 and dgx-b200.
# Name, title, capability, multiprocessors, memory and L2 in MiB as torch reports them.
_NVIDIA = (
    ("v100", "Tesla V100-SXM2-16GB", (7, 0), 80, 16151, 6),
    ("t4", "Tesla T4", (7, 5), 40, 15102, 4),
    ("a100", "NVIDIA A100-SXM4-80GB", (8, 0), 108, 81154, 40),
    ("rtx3090", "NVIDIA GeForce RTX 3090", (8, 6), 82, 24259, 6),
    ("rtx4090", "NVIDIA GeForce RTX 4090", (8, 9), 128, 24563, 72),
    ("l4", "NVIDIA L4", (8, 9), 58, 22579, 48),
    ("h100", "NVIDIA H100 80GB HBM3", (9, 0), 132, 81090, 50),
    ("h200", "NVIDIA H200", (9, 0), 132, 143156, 60),
    ("b200", "NVIDIA B200", (10, 0), 148, 182642, 126),
)


def _nvidia(name: str, title: str, capability: tuple[int, int], *sizes: int) -> Gpu:
    multiprocessors, memory, l2 = sizes
    chip = (capability, multiprocessors, memory * MIB, l2 * MIB)
    return Gpu(name, title, *chip, *_CAPABILITIES[capability])


GPUS = {row[0]: _nvidia(*row) for row in _NVIDIA}

# What each could do at most, dense, by its maker: 10**12 operations a second in these
# dtypes, and 10**9 bytes a second of its memory.  float16 stands for bfloat16, too, and
# for whatever it is summed in.  b200 is glennklockwood.com/garden/processors/B200's,
# which rounds TF32, half of float16's, to 1100.
PEAK_DTYPES = ("float32", "tf32", "float16", "float8")
PEAKS = {
    "v100": (15.7, None, 125, None, 900, "NVIDIA, V100 data sheet, 2020-01"),
    "t4": (8.1, None, 65, None, 320, "NVIDIA, Turing architecture, 2018-09"),
    "a100": (19.5, 156, 312, None, 2039, "NVIDIA, A100 data sheet, 2021-06"),
    "rtx3090": (35.6, 35.6, 142, None, 936, "NVIDIA, GA102 architecture, v2, 2021"),
    "rtx4090": (82.6, 82.6, 330, 660, 1008, "NVIDIA, Ada architecture, v2.01, 2023"),
    "l4": (30.3, 60, 121, 242, 300, "NVIDIA, L4 data sheet, 2023-03"),
    "h100": (67, 494, 989, 1979, 3350, "NVIDIA, H100 data sheet, 2023"),
    "h200": (67, 494, 989, 1979, 4800, "NVIDIA, H200 data sheet, 2023-11"),
    "b200": (80, 1125, 2250, 4500, 8000, "NVIDIA, Blackwell architecture, 2024-03"),
}


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


def peaks(gpu: Gpu) -> Peaks:
    """Return the published peaks of *gpu*; InputError where there are none."""
    if gpu.name not in PEAKS:
        known = ", ".join(PEAKS)
        raise InputError(f"no peak of {gpu.name} is known here: there are {known}")
    *rates, bandwidth, source = PEAKS[gpu.name]
    named = zip(PEAK_DTYPES, rates, strict=True)
    each = {dtype: rate * 1e12 for dtype, rate in named if rate}
    return Peaks(gpu.name, each, bandwidth * 1e9, source)


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
        sizes = has.multi_processor_count, has.total_memory // MIB
        GPUS[key] = _nvidia(key, title, capability, *sizes, has.L2_cache_size // MIB)
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
