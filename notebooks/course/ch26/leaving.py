"""Files of a model whose Python is gone, and processes that load them."""

from __future__ import annotations

import atexit
import copy
import io
import logging
import os
import pickle
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._inductor.cpp_builder import get_cpp_compiler

from course.ch26 import load_child
from course.drawing import BLUE, Cell, Look, grid
from course.values import right_answer
from course.words import unlogged, words_of
from helpers import children
from helpers.plots import Picture
from helpers.text import Table, mark, seconds, size

QUICK = {
    "aot_inductor.precompile_headers": False,
    "cpp_cache_precompile_headers": False,
    "cpp.vec_isa_ok": True,
}
"""What builds one package sooner: no long header, no test of the CPU."""
SERVE = Path(__file__).parents[2] / "examples" / "serve.cpp"


def home() -> Path:
    """Return a new folder for files, removed when this process ends."""
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    return Path(folder.name)


@contextmanager
def quietly() -> Iterator[list[str]]:
    """Keep what is said off the page; yield a list, of warnings in the end.

    C++ writes past sys.stderr, so the file itself is turned away, too.
    """
    said: list[str] = []
    caught: list[Any] = []
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with (
            unlogged(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
            warnings.catch_warnings(record=True, action="always") as caught,
        ):
            yield said
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
        said += [re.split(r"(?<!\d)[.!] ", str(w.message))[0] for w in caught]


@contextmanager
def overheard() -> Iterator[list[str]]:
    """Keep what is said off the page; yield it all in the end.

    That is: warnings, what any log would print, and what is printed.
    """
    heard: list[str] = []
    caught: list[Any] = []
    ear = logging.Handler()
    ear.emit = lambda record: heard.append(record.getMessage())
    logs = [logging.root, *map(logging.getLogger, logging.root.manager.loggerDict)]
    handlers = {log: log.handlers[:] for log in logs if log.handlers}
    printed = io.StringIO()
    try:
        for log in {logging.root, *handlers}:
            log.handlers[:] = [ear]
        with (
            redirect_stdout(printed),
            redirect_stderr(printed),
            warnings.catch_warnings(record=True, action="always") as caught,
        ):
            yield heard
    finally:
        logging.root.handlers[:] = []
        for log, before in handlers.items():
            log.handlers[:] = before
        heard += printed.getvalue().splitlines()
        heard += [str(warning.message) for warning in caught]


def error_of(function: Callable[..., Any], *inputs: Any, **options: Any) -> str:
    """Return what the error of a call says, whole; nothing where it raises none."""
    try:
        with quietly():
            function(*inputs, **options)
    except Exception as error:
        return words_of(error)
    return ""


def refusal(function: Callable[..., Any], *inputs: Any) -> str:
    """Return the error of a call: its kind and its first line, or "no error"."""
    try:
        with quietly():
            function(*inputs)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines()]
        return f"{type(error).__name__}: {next(filter(None, lines), '')}"
    return "no error"


def three_calls(model: torch.nn.Module, x: torch.Tensor, strict: bool) -> str:
    """Say whether three calls of the exported program give three numbers, or one."""
    try:
        with quietly() as said:
            program = torch.export.export(model, (x,), strict=strict).module()
    except Exception as error:
        return f"refused: {type(error).__name__}"
    numbers = {program(x).sum().item() for _ in range(3)}
    alive = "alive" if len(numbers) == 3 else "frozen"
    return f"{alive}, warnings: {len(said)}"


class Scores(torch.nn.Module):
    """A model, or what was loaded of one, without the count."""

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.run = run

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the first of what it gives."""
        return self.run(x)[0]


@dataclass
class Elsewhere:
    """What a process said that loaded a file and ran it on some inputs."""

    answers: list[tuple[torch.Tensor, ...]]
    load_s: float = float("nan")
    parts: dict[str, str] = field(default_factory=dict)
    error: str = ""
    warned: str = ""


def elsewhere(
    way: str, path: str | Path, inputs: Sequence[torch.Tensor], **env: str
) -> Elsewhere:
    """Load the file in a new process, which calls it with each of *inputs*."""
    with tempfile.TemporaryDirectory() as place:
        asked, told = Path(place) / "asked", Path(place) / "told"
        asked.write_bytes(pickle.dumps([x.numpy() for x in inputs]))
        # It reads its program: an error of torch would tell where a file lies.
        pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
        words = "-", way, str(path), str(asked), str(told)
        child = children.start(*words, env=env, cwd=place, text=True, **pipes)
        try:
            program = Path(load_child.__file__).read_text("utf-8")
            _, warned = child.communicate(program)
        finally:
            children.end(child)
        if not told.exists():  # it died
            return Elsewhere([], error=warned.strip()[-300:])
        facts = pickle.loads(told.read_bytes())
    rows = [tuple(map(torch.as_tensor, row)) for row in facts.pop("answers")]
    return Elsewhere(rows, **facts, warned=warned)


def all_elsewhere(
    files: dict[str, Path], inputs: Sequence[torch.Tensor]
) -> dict[str, Elsewhere]:
    """Return what a process for each file said, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda each: elsewhere(*each, inputs), files.items())
        return dict(zip(files, found, strict=True))


def built(source: Path = SERVE) -> Path:
    """Return the program that the C++ compiler makes of a source."""
    torch_home = Path(torch.__file__).parent
    program = home() / source.stem
    command = [get_cpp_compiler(), "-std=c++20", source, "-o", program]
    for folder in ("include", "include/torch/csrc/api/include"):
        command.append(f"-I{torch_home / folder}")
    libraries = torch_home / "lib"
    command += [f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
    command += ["-ltorch", "-ltorch_cpu", "-lc10"]
    subprocess.run(command, check=True, capture_output=True)
    return program


def linked(program: Path) -> str:
    """Return the names of the libraries that a program loads at its start."""
    tool = ["otool", "-L"] if sys.platform == "darwin" else ["ldd"]
    done = subprocess.run([*tool, program], check=True, capture_output=True, text=True)
    names = (line.split()[0] for line in done.stdout.splitlines() if line)
    return " ".join(Path(name).name for name in names)


def answered(
    model: torch.nn.Module, inputs: Sequence[torch.Tensor]
) -> list[tuple[torch.Tensor, ...]]:
    """Return the answers of a copy of the model that begins to count at 0."""
    fresh = copy.deepcopy(model)
    fresh.seen.zero_()
    with torch.no_grad():
        return [fresh(x) for x in inputs]


def same_answers(found: Any, wanted: Any) -> tuple[bool, ...]:
    """Return for each output whether all answers agree."""
    if len(found) != len(wanted):
        return (False,) * len(wanted[0])
    return tuple(
        all(
            torch.allclose(one[n], other[n], 1e-4, 1e-5)
            for one, other in zip(found, wanted, strict=True)
        )
        for n in range(len(wanted[0]))
    )


@torch.no_grad()
def scores_right(
    run: Callable[..., Any], model: torch.nn.Module, x: torch.Tensor
) -> bool:
    """Return whether scores are as near to float64 as the model's own."""
    return right_answer(Scores(model), run(x)[0], x.float())


def keeps(
    run: Callable[..., Any],
    model: torch.nn.Module,
    quiet: torch.Tensor,
    loud: torch.Tensor,
) -> dict[str, bool]:
    """Return what a way keeps: sizes, the branch, and the count."""

    def right(*inputs: torch.Tensor) -> bool:
        return all(scores_right(run, model, x) for x in inputs)

    before, after = run(quiet)[1].item(), run(quiet[:3])[1].item()
    return {
        "any rows": right(*(quiet[:rows] for rows in (1, 3, 7))),
        "the branch": right(quiet, loud),
        "the count": after - before == 3,
    }


def ways_table(
    kept: dict[str, dict[str, bool]],
    operator: dict[str, bool],
    races: dict[str, Any],
    files: dict[str, Path],
    found: dict[str, Elsewhere],
) -> Table:
    """Return a row for each way: what it keeps, and what it costs."""
    names = next(iter(kept.values()))
    heads = ["way", *names, "operator", "against eager", "file", "load"]
    rows = []
    for way, keeps_it in kept.items():
        each = [*keeps_it.values(), operator[way]]
        words = ["keeps" if yes else "LOSES" for yes in each]
        costs = races[way].ratio(), size(files[way].stat().st_size)
        load = seconds(found[way].load_s)
        rows.append([way, *words, *map(mark, (*costs, load))])
    return Table.of(heads, rows)


def needed_picture(ways: dict[str, dict[str, str]]) -> Picture:
    """Draw, for each way, which parts worked, were there, or were not."""
    looks = {
        "works": BLUE,
        "there": Look("#BBD7EA", ink="black"),
        "not there": Look("white", ink="#666666", edge="#999999"),
    }
    words = []
    for way, found in ways.items():
        states = ", ".join(f"{part} {how}" for part, how in found.items())
        words.append(f"{way}: {states}.")
    cells = {
        way: {part: Cell(how, how) for part, how in found.items()}
        for way, found in ways.items()
    }
    alt = f"What was at work when a file answered. {' '.join(words)}"
    return grid(cells, looks, alt=alt, title="what is at work when a file answers")


def worked_here(model: torch.nn.Module, x: torch.Tensor) -> dict[str, str]:
    """Compile and call the model in this process; return what worked."""
    torch.compiler.reset()
    counters.clear()
    with torch.no_grad():
        torch.compile(model)(x)
    found = {"your source": "works", "Python": "works"}
    for name, (_, counter) in load_child.MODULES.items():
        found[name] = "works" if counters.get(counter) else "there"
    return {**found, "libtorch": "works"}


def needed(
    here: dict[str, str], found: dict[str, Elsewhere]
) -> dict[str, dict[str, str]]:
    """Return what was at work: here, in each process, and in C++."""
    given = {"your source": "not there", "Python": "works"}
    cpp = dict.fromkeys(here, "not there") | {"libtorch": "works"}
    ways = {way: given | one.parts for way, one in found.items()}
    return {"torch.compile": here, **ways, "AOTInductor, C++": cpp}
