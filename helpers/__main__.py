"""``python -m helpers doctor``: the helpers that are of use outside a notebook.

``python -m helpers dump module:function`` writes the Triton code of a function, and
``python -m helpers cold-start module:function`` says what its first call costs;
``python -m helpers explain < log.txt`` says what its messages mean.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from helpers.errors import InputError, Unavailable
from helpers.text import Table

Command = Callable[[argparse.Namespace], int]


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit status: 0 pass, 1 fail, 2 it cannot be done."""
    chosen = _parser().parse_args(arguments)
    sys.path.insert(0, "")  # as python -m does, and torch-checkup does not
    try:
        return chosen.run(chosen)
    except (ValueError, Unavailable, OSError) as error:
        print(f"{chosen.command}: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m helpers", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)

    def command(name: str, run: Command, says: str, target: str = "") -> Callable:
        """Add a command; return what adds an option to it."""
        added = commands.add_parser(name, help=says)
        added.set_defaults(run=run)
        if target:
            added.add_argument("target", metavar="module:function", help=target)
        return added.add_argument

    option = command("doctor", _doctor, "say what this machine has and lacks")
    option("--no-compile", action="store_true", help="leave the first compile out")

    what = "what to compile; module:inputs() returns its inputs, a tuple of tensors"
    option = command("dump", _dump, "write the Triton code of a function", what)
    option("--gpu", default="h100", help="h100, a100, t4, ...; or this")
    option("--training", action="store_true", help="with the backward")
    option("--mode", help="as for torch.compile")
    option("--inputs", default="inputs", help="the name of the inputs function")
    option("--to", metavar="FOLDER", help="write everything there")

    what = "what returns (model, inputs); a file works too: path/model.py:make"
    option = command("cold-start", _cold_start, "say what a first call costs", what)
    option("--repeat", type=int, default=1, help="starts of each way")
    option("--training", action="store_true", help="with the backward")
    option("--timeout", type=float, default=600.0, help="of each start")
    option("--to", metavar="FILE", help="write the result there, as JSON")

    what += "; also (model, inputs, loss), and a list of the inputs of several calls"
    option = command("checkup", _checkup, "look at a model of yours", what)
    option("--only", default="", help="parts, with commas in between")
    option("--train", action="store_true", help="with a backward")
    option("--gpu", default="", help="h100, a100, t4, ...")
    option("--budget", type=float, default=5.0, help="seconds of timing")
    option("--timeout", type=float, default=300.0, help="of each part")
    option("--memory", type=float, help="limit of the process, in GiB")
    to = "write the report there: .html, .json or .txt"
    option("--to", action="append", default=[], metavar="FILE", help=to)
    option("--require", default="", help='such as "breaks=0,matches"')
    option("--against", metavar="JSON", help="an earlier one: not worse")

    option = command("explain", _explain, "say what a message means")
    option("log", nargs="?", metavar="FILE", help="else standard input")
    return parser


def _doctor(chosen: argparse.Namespace) -> int:
    from helpers.health import doctor

    diagnosis = doctor(compile=not chosen.no_compile)
    rows = [(row.name, row.status, row.found) for row in diagnosis.rows]
    print(Table.of(["part", "status", "found"], rows))
    for row in diagnosis.rows:
        if row.advice:
            print(f"{row.name}: {row.advice}.")
    print(f"ready for the course: {diagnosis.verdict}")
    return 0 if diagnosis.ok else 1


def _dump(chosen: argparse.Namespace) -> int:
    from helpers.gpu.dump import dump_triton

    name, _, function = chosen.target.partition(":")
    try:
        module = import_module(name)
        fn, inputs = getattr(module, function), getattr(module, chosen.inputs)()
    except (ImportError, AttributeError) as error:
        raise InputError(str(error)) from error
    options = {"gpu": chosen.gpu, "training": chosen.training, "mode": chosen.mode}
    print(dump_triton(fn, *inputs, to=chosen.to, **options))
    if chosen.to:
        print(f"written to {chosen.to}")
    return 0


def _cold_start(chosen: argparse.Namespace) -> int:
    from helpers.own_model.starts import cold_start

    options = {"repeat": chosen.repeat, "timeout": chosen.timeout}
    found = cold_start(chosen.target, train=chosen.training, **options)
    print(found)
    if chosen.to:
        print(f"written to {found.save(chosen.to)}")
    if found.interrupted:
        return 2
    return 1 if any(way.problem for way in found.ways) else 0


def checkup() -> int:
    """Run ``torch-checkup``: the command of that name that pip installs."""
    return main(["checkup", *sys.argv[1:]])


def _checkup(chosen: argparse.Namespace) -> int:
    from helpers.own_model import checkups

    for path in chosen.to:  # before the minutes that it takes
        checkups.check_report(path)
    checkups.rules_of(chosen.require)
    before = None
    if chosen.against:
        before = checkups.Checkup.from_json(Path(chosen.against).read_text("utf-8"))
    found = checkups.checkup(
        chosen.target,
        only=[part.strip() for part in chosen.only.split(",") if part.strip()],
        train=chosen.train,
        gpu=chosen.gpu,
        budget=chosen.budget,
        timeout=chosen.timeout,
        memory=int(chosen.memory * 2**30) if chosen.memory else None,
    )
    print(found)
    for path in chosen.to:
        print(f"written to {checkups.write_report(found, path)}")
    unmet = [f"required: {line}" for line in found.unmet(chosen.require)]
    unmet += [f"worse: {line}" for line in found.worse_than(before)] if before else []
    if unmet:
        print(*unmet, sep="\n")
    if found.interrupted or any(part.verdict == "failed" for part in found.parts):
        return 2
    return 1 if unmet else 0


def _explain(chosen: argparse.Namespace) -> int:
    from helpers.own_model.explain import explain_error

    log = Path(chosen.log).read_bytes() if chosen.log else sys.stdin.buffer.read()
    explanation = explain_error(log.decode(errors="replace"))
    print(explanation)
    return 0 if explanation.meanings else 1


if __name__ == "__main__":
    sys.exit(main())
