"""Programs that are given to torch.compile, and run no graph."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from course.backend import CountingBackend
from course.shell import Folder
from helpers.text import Table, mark

Program = Callable[[torch.Tensor], Any]


def plain(x: torch.Tensor) -> torch.Tensor:
    """The control: nothing stops it."""
    return x.sin() + 1


def prints(x: torch.Tensor) -> torch.Tensor:
    """A print in a loop stops the capture, and there is no place to resume."""
    for _ in range(3):
        x = x.sin()
        print(end="")
    return x


class Noisy(torch.nn.Module):
    """A module whose forward prints in a loop, so that it stays eager."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what ``prints`` computes."""
        for _ in range(2):
            x = x.sin()
            print(end="")
        return x


hidden = torch.compiler.disable(plain)  # perhaps in somebody else's library


def calls_disabled(x: torch.Tensor) -> torch.Tensor:
    """All of the work is in a function that the compiler must not enter."""
    return hidden(x)


def to_python(x: torch.Tensor) -> float:
    """All of the work is on numbers of Python."""
    return max(x.tolist())


def runs(program: Program, x: torch.Tensor, **options: Any) -> int | str:
    """Return how many graphs run in the second call of a compiled program.

    What the first call raises is returned as "raises".
    """
    torch.compiler.reset()
    counting = CountingBackend()
    call = torch.compile(program, backend=counting, **options)
    try:
        call(x)
    except RuntimeError:
        return "raises"
    counting.ran.clear()
    call(x)
    return len(counting.ran)


def found_in(x: torch.Tensor) -> dict[str, tuple[Any, Any]]:
    """Return what runs of each program, without and with fullgraph=True."""
    programs = {
        "a function like any other": plain,
        "a print in a loop": prints,
        "all the work in a disabled function": calls_disabled,
        "all the work on x.tolist()": to_python,
    }
    found: dict[str, tuple[Any, Any]] = {
        name: (runs(program, x), runs(program, x, fullgraph=True))
        for name, program in programs.items()
    }
    found["torch.compile(..., disable=True)"] = (
        runs(plain, x, disable=True),
        runs(plain, x, disable=True, fullgraph=True),
    )
    return found


def table(found: dict[str, tuple[Any, Any]]) -> Table:
    """Return the same as a table."""
    headings = ("what is compiled", "graphs that run", "with fullgraph=True")
    return Table.of(headings, [(name, *both) for name, both in found.items()])


def first_lines(error: Exception, many: int) -> str:
    """Return the first lines of an error, marked, without torch's folder."""
    lines = str(error).split("\n")[:many]
    return "\n".join(
        mark(re.sub(r"[^\s(]*site-packages[/\\]", "", line)) for line in lines
    )


def switched_off() -> bool:
    """Return whether TORCH_COMPILE_DISABLE=1 keeps all eager."""
    program = (
        "import torch; f = lambda x: x + 1\n"
        "torch.compile(f, backend=lambda g, _: print('asked') or g)"
        "(torch.ones(2))"
    )
    with Folder({"program.py": program}) as folder:
        usual = folder.type("python program.py")
        off = folder.type("TORCH_COMPILE_DISABLE=1 python program.py")
    return (usual, off) == ("asked\n", "")
