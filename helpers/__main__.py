"""``python -m helpers doctor``: the helpers that are of use outside a notebook."""

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
    chosen = parser.parse_args(arguments)
    return chosen.run(chosen)


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
