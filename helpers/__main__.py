"""The helpers that are of use in a terminal.

python -m helpers doctor                  what this machine has and lacks
python -m helpers dump module:function    the Triton code of a function
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from .errors import InputError, Unavailable
from .results import versions
from .text import Table, tell

Command = Callable[[argparse.Namespace], int]
TARGET = (
    "module:function or path/to/file.py:function; inputs() beside it returns its "
    "inputs, a tuple of tensors"
)
STATUSES = "exit status: 0 done, 1 something is missing, 2 it cannot be done"


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit status: 0 pass, 1 fail, 2 it cannot be done."""
    chosen = _parser().parse_args(arguments)
    try:
        return chosen.run(chosen)
    except (ValueError, Unavailable, OSError) as error:
        print(f"{chosen.command}: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m helpers",
        description=__doc__,
        epilog=STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=versions())
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)

    def command(name: str, run: Command, says: str, target: str = "") -> Callable:
        """Add a command; return what adds an option to it."""
        added = commands.add_parser(
            name, help=says, description=says, epilog=STATUSES, allow_abbrev=False
        )
        added.set_defaults(run=run)
        if target:
            added.add_argument("target", metavar="TARGET", help=target)
        return added.add_argument

    option = command("doctor", _doctor, "say what this machine has and lacks")
    option("--no-compile", action="store_true", help="leave the first compile out")

    option = command("dump", _dump, "write the Triton code of a function", TARGET)
    option("--gpu", default="h100", help="h100, a100, t4, ...; or this")
    option("--train", "--training", action="store_true", help="with the backward")
    option("--mode", help="as for torch.compile")
    option("--template", help="a candidate of max-autotune: its number, or its sizes")
    option("--inputs", default="inputs", help="the name of the inputs function")
    option("--to", metavar="FOLDER", help="write everything there")

    return parser


def _doctor(chosen: argparse.Namespace) -> int:
    from .health import WAITING, doctor

    if not chosen.no_compile:
        _begin(f"doctor: {WAITING}")
    diagnosis = doctor(compile=not chosen.no_compile)
    rows = [(row.name, row.status, row.found) for row in diagnosis.rows]
    print(Table.of(["part", "status", "found"], rows))
    for row in diagnosis.rows:
        if row.advice:
            print(f"{row.name}: {row.advice}.")
    print(f"ready to compile: {diagnosis.verdict}")
    return 0 if diagnosis.ok else 1


def _dump(chosen: argparse.Namespace) -> int:
    from .gpu.dump import dump_triton

    name, _, function = chosen.target.partition(":")
    if not function:
        raise InputError(f"{name!r} names no function. Give {TARGET}")
    try:
        module = _module(name)
        fn, inputs = getattr(module, function), getattr(module, chosen.inputs)()
    except (ImportError, AttributeError, FileNotFoundError) as error:
        raise InputError(f"{error}. Give {TARGET}") from error
    options = {"gpu": chosen.gpu, "training": chosen.train, "mode": chosen.mode}
    template = chosen.template
    options["template"] = int(template) if (template or "").isdigit() else template
    _begin(f"dump: {function} is compiled for {chosen.gpu}")
    dump = dump_triton(fn, *inputs, to=chosen.to, **options)
    print(dump)
    if dump.noted:
        print(dump.candidates)
    if chosen.to:
        print(f"written to {chosen.to}")
    return 0


def _begin(line: str) -> None:
    """Say what takes long, where no bar does."""
    if not sys.stderr.isatty():
        tell(line)


def _module(name: str) -> ModuleType:
    """Return the module of this name, or of a file."""
    if not name.endswith(".py"):
        return import_module(name)
    spec = spec_from_file_location(Path(name).stem, name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
