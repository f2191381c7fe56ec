"""A model in a file of its own: mended line by line, and looked at."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._inductor.runtime.cache_dir_utils import cache_dir

from course.drawing import Cell, Look, add_legend, grid
from course.shell import Folder
from helpers.plots import COLOURS, Picture, styled

EXAMPLES = Path(__file__).parents[2] / "examples"
Made = tuple[torch.nn.Module, list[tuple[torch.Tensor, ...]]]


class ModelFile(Folder):
    """A copy of an example in a folder for a while, and its repairs."""

    def __init__(self, name: str) -> None:
        self.name, self.found = name, (EXAMPLES / name).read_text("utf-8")
        self._mends: list[tuple[str, str, str]] = []
        super().__init__({name: self.found}, caches=True)
        self.target = f"{self.path / name}:make"
        # For cold_start: what was built before, kernels and the header that
        # they include, is not built again.
        names = "TMPDIR", "TEMP", "TMP"
        self.usual = dict.fromkeys(names, tempfile.gettempdir())
        self.usual["TORCHINDUCTOR_CACHE_DIR"] = cache_dir()

    def mend(self, ill: str, old: str, new: str) -> None:
        """Replace *old* by *new* in the file; ValueError if it lacks *old*."""
        if old not in self.text():
            raise ValueError(f"{self.name} has no {old!r}")
        self._mends.append((ill, old, new))
        (self.path / self.name).write_text(self.text(), "utf-8")

    def text(self, without: str | None = None) -> str:
        """Return the file, or what it was *without* the repairs of one ill."""
        text = self.found
        for ill, old, new in self._mends:
            text = text if ill == without else text.replace(old, new)
        return text

    def make(self, without: str | None = None) -> Made:
        """Return what its make() returns, and leave torch's settings."""
        names: dict[str, Any] = {}
        with torch._inductor.config.patch(fx_graph_cache=True):
            exec(compile(self.text(without), self.name, "exec"), names)
        return names["make"]()


def fact_by_fact(report: str) -> str:
    """Return what torch-checkup printed with its long lines broken, a fact a line."""
    return "\n".join(map(_broken, report.splitlines()))


def _broken(line: str) -> str:
    if not line.strip("─ "):  # the rule below the headings
        return line[:79]
    head = re.match(r"[✓✗!] .*? \d\d +|\w+: ", line)  # a row, or advice
    if not head:
        return line
    rest = line[head.end() :]
    facts = re.split(r"; |: (?=untried: |torch\.)|, (?=first wrong)", rest)
    indent = " " * (head.end() if line[0] in "✓✗!" else 2)
    return head[0] + f"\n{indent}".join(facts)


def named_by(file: ModelFile, ill: str | None = None) -> dict[str, bool]:
    """Return which tools of torch, and which of two tests, name what is wrong.

    All is mended but *ill*.  No kernel is built.
    """
    model, calls = file.make(ill)
    eager = [model(*calls[0]).item() for _ in range(3)]
    model, calls = file.make(ill)
    torch.compiler.reset()
    counters.clear()
    compiled = torch.compile(model, backend="eager")
    losses = [compiled(*calls[0]).item() for _ in range(3)]
    broke = bool(counters["graph_break"] or counters["unimplemented"])
    off = [abs(a - b) > 1e-4 for a, b in zip(eager, losses, strict=True)]
    for call in [*calls, *calls]:
        compiled(*call)
    with torch.compiler.set_stance("fail_on_recompile"):
        late = _raises(compiled, calls[0])
    torch.compiler.reset()
    model, calls = file.make(ill)
    whole = torch.compile(model, backend="eager", fullgraph=True)
    return {
        "fullgraph=True": _raises(whole, calls[0]),
        "graph_breaks": broke,
        "fail_on_recompile": late,
        "first loss": off[0],
        "third loss": off[2] and not off[0],
    }


def _raises(run: Callable[..., Any], call: tuple[torch.Tensor, ...]) -> bool:
    try:
        run(*call)
    except RuntimeError:  # as all errors of Dynamo are
        return True
    return False


@styled
def names_picture(
    found: Mapping[str, Mapping[str, bool]], parts: Mapping[str, str]
) -> Picture:
    """Draw which tool names which ill, and the part of a checkup that does."""
    looks = {
        "named": Look(COLOURS[1], mark="o", points=16),
        "not named": Look("#BBBBBB", mark="o", points=4),
        "by a part": Look("white", ink="black"),
    }
    cells, told = {}, []
    for ill, by in found.items():
        cells[ill] = {tool: "named" if yes else "not named" for tool, yes in by.items()}
        cells[ill]["checkup"] = Cell("by a part", parts[ill])
        names = [tool for tool, yes in by.items() if yes]
        told.append(f"{ill}: {', '.join([*names, parts[ill]])}")
    picture = grid(
        cells,
        looks,
        title="which tool names which ill",
        alt=f"Which tool, and which part of a checkup, names which ill. "
        f"{'; '.join(told)}.",
        size=(11, 0.62 * len(found) + 2),
    )
    [axes] = picture.figure.axes
    axes.set_xticklabels([name.replace("_on_", "_on_\n") for name in cells[ill]])
    marks = {kind: look for kind, look in looks.items() if look.mark}
    add_legend(picture.figure, marks, "outside lower left")
    axes.axvline(len(by) - 0.5, color="#BBBBBB")
    return picture
