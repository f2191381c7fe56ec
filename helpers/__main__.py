"""``python -m helpers doctor``: the helpers that are of use outside a notebook.

``python -m helpers dump module:function`` writes the Triton code of a function.
"""

from __future__ import annotations

import argparse
import sys

from helpers.text import Table


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit status: 0 for pass, 1 for fail."""
    parser = argparse.ArgumentParser(prog="python -m helpers", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    look = commands.add_parser("doctor", help="say what this machine has and lacks")
    look.add_argument(
        "--no-compile",
        dest="compile",
        action="store_false",
        help="leave the first compile out",
    )
    look.set_defaults(run=_doctor)
    dump = commands.add_parser("dump", help="write the Triton code of a function")
    dump.add_argument(
        "target",
        metavar="module:function",
        help="what to compile; module:inputs() returns its inputs, a tuple of tensors",
    )
    dump.add_argument("--gpu", default="h100", help="h100, a100, t4, ...; or this")
    dump.add_argument("--training", action="store_true", help="with the backward")
    dump.add_argument("--mode", help="as for torch.compile")
    dump.add_argument("--inputs", default="inputs", help="name of the inputs function")
    dump.add_argument("--to", metavar="FOLDER", help="write everything there")
    dump.set_defaults(run=_dump)
    chosen = parser.parse_args(arguments)
    return chosen.run(chosen)


def _dump(chosen: argparse.Namespace) -> int:
    from importlib import import_module

    from helpers.errors import Unavailable
    from helpers.gpu.dump import dump_triton

    sys.path.insert(0, "")  # as python -m does not
    name, _, function = chosen.target.partition(":")
    try:
        module = import_module(name)
        fn, inputs = getattr(module, function), getattr(module, chosen.inputs)()
        found = dump_triton(
            fn,
            *inputs,
            gpu=chosen.gpu,
            training=chosen.training,
            mode=chosen.mode,
            to=chosen.to,
        )
    except (ImportError, AttributeError, ValueError, Unavailable, OSError) as error:
        print(f"dump: {error}", file=sys.stderr)
        return 1
    print(found)
    if chosen.to:
        print(f"written to {chosen.to}")
    return 0


def _doctor(chosen: argparse.Namespace) -> int:
    from helpers.health import doctor

    found = doctor(compile=chosen.compile)
    rows = [(row.name, row.status, row.found) for row in found.rows]
    print(Table.of(["part", "status", "found"], rows))
    for row in found.rows:
        if row.advice:
            print(f"{row.name}: {row.advice}.")
    print(f"ready for the course: {found.verdict}")
    return 0 if found.ok else 1


if __name__ == "__main__":
    sys.exit(main())
