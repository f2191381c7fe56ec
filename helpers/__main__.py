"""``python -m helpers doctor``: the helpers that are of use outside a notebook.

``python -m helpers dump module:function`` writes the Triton code of a function, and
``python -m helpers cold-start module:function`` says what its first call costs;
``python -m helpers explain < log.txt`` says what its messages mean.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from helpers.errors import InputError, Unavailable
from helpers.text import Table


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit status: 0 pass, 1 fail, 2 it cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m helpers", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", required=True)
    command = commands.add_parser("doctor", help="say what this machine has and lacks")
    command.set_defaults(run=_doctor)
    command.add_argument(
        "--no-compile", action="store_true", help="leave the first compile out"
    )
    command = commands.add_parser("dump", help="write the Triton code of a function")
    command.set_defaults(run=_dump)
    command.add_argument(
        "target",
        metavar="module:function",
        help="what to compile; module:inputs() returns its inputs, a tuple of tensors",
    )
    command.add_argument("--gpu", default="h100", help="h100, a100, t4, ...; or this")
    command.add_argument("--training", action="store_true", help="with the backward")
    command.add_argument("--mode", help="as for torch.compile")
    command.add_argument(
        "--inputs", default="inputs", help="name of the inputs function"
    )
    command.add_argument("--to", metavar="FOLDER", help="write everything there")
    command = commands.add_parser("cold-start", help="say what a first call costs")
    command.set_defaults(run=_cold_start)
    command.add_argument(
        "target",
        metavar="module:function",
        help="what returns (model, inputs); a file works too: path/model.py:make",
    )
    command.add_argument("--repeat", type=int, default=1, help="starts of each way")
    command.add_argument("--training", action="store_true", help="with the backward")
    command.add_argument("--timeout", type=float, default=600.0, help="of each start")
    command.add_argument("--to", metavar="FILE", help="write the result there, as JSON")
    command = commands.add_parser("checkup", help="look at a model of yours")
    command.set_defaults(run=_checkup)
    command.add_argument(
        "target",
        metavar="module:make",
        help="what returns (model, inputs), or (model, inputs, loss); inputs may be a "
        "list of those of several calls; a file works too: path/model.py:make",
    )
    command.add_argument("--only", default="", help="parts, with commas in between")
    command.add_argument("--train", action="store_true", help="with a backward")
    command.add_argument("--gpu", default="", help="h100, a100, t4, ...")
    command.add_argument("--budget", type=float, default=5.0, help="seconds of timing")
    command.add_argument("--timeout", type=float, default=300.0, help="of each part")
    command.add_argument("--memory", type=float, help="limit of the process, in GiB")
    command.add_argument(
        "--to", action="append", default=[], metavar="FILE", help=".html, .json or .txt"
    )
    command.add_argument("--require", default="", help='such as "breaks=0,matches"')
    command.add_argument("--against", metavar="JSON", help="an earlier one: not worse")
    command = commands.add_parser("explain", help="say what a message means")
    command.set_defaults(run=_explain)
    command.add_argument("log", nargs="?", metavar="FILE", help="else standard input")
    chosen = parser.parse_args(arguments)
    sys.path.insert(0, "")  # as python -m does, and torch-checkup does not
    try:
        return chosen.run(chosen)
    except (ValueError, Unavailable, OSError) as error:
        print(f"{chosen.command}: {error}", file=sys.stderr)
        return 2


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
    options = {"gpu": chosen.gpu, "training": chosen.training, "mode": chosen.mode}
    try:
        module = import_module(name)
        fn, inputs = getattr(module, function), getattr(module, chosen.inputs)()
    except (ImportError, AttributeError) as error:
        raise InputError(str(error)) from error
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
