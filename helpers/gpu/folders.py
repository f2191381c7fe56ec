"""A dump as a folder of files that a person can browse."""

from __future__ import annotations

import shutil
from os import PathLike
from pathlib import Path
from typing import Any

from helpers.results import write_atomically
from helpers.text import plain, progress

# The file of each stage, in the order of the lowering.
FILES = {
    "source": "source.py",
    "generated": "generated.py",
    "ttir": "kernel.ttir",
    "ttgir": "kernel.ttgir",
    "llir": "kernel.ll",
    "ptx": "kernel.ptx",
    "sass": "kernel.sass",
}


def write_dump(dump: Any, folder: str | PathLike[str]) -> Path:
    """Write *dump* to *folder* and return it.

    ``README.md`` says what is there; ``graph-0-forward.py`` and so on are the whole
    modules; ``kernels/`` holds a folder for each kernel, a file for each stage;
    ``dump.json`` is read back by ``load``.  Each file is written whole or not at all,
    and README.md last, so a folder without one was not finished.
    """
    root = Path(folder)
    if (root / "dump.json").exists():  # an older dump, which must not mix with this
        for old in (root / "README.md", *root.glob("graph-*-*.py")):
            old.unlink(missing_ok=True)
        shutil.rmtree(root / "kernels", ignore_errors=True)
    for graph in dump.graphs:
        name = f"graph-{graph.index}-{graph.phase}.py"
        write_atomically(root / name, graph.source)
    dump.save(root / "dump.json")
    lines = ["# What the GPU would run", "", "```", plain(dump), "```", ""]
    kernels = {kernel.name: kernel for kernel in dump.kernels}
    with progress("machine code", len(kernels)) as bar:
        for name, kernel in kernels.items():
            bar.set_description_str(name)
            lines += ["", f"## [{name}](kernels/{name}/source.py)", ""]
            lines += _write_kernel(root / "kernels" / name, kernel)
            bar.update()
    write_atomically(root / "README.md", "\n".join(lines) + "\n")
    return root


def _write_kernel(folder: Path, kernel: Any) -> list[str]:
    """Write one kernel's stages; return what the README says about it."""
    for stage, name in FILES.items():
        write_atomically(folder / name, getattr(kernel, stage))
    return [
        f"- {kernel.kind}: {', '.join(kernel.ops)}",
        f"- launched as {kernel.grid} programs of {kernel.configs[kernel.chosen]}",
        f"- {kernel.registers} registers a thread, {kernel.spills} spilled, "
        f"{kernel.shared} bytes of shared memory",
        f"- {kernel.occupancy}",
        *(f"- `{line}`" for line in kernel.lines),
    ]
