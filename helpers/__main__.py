"""The helper that is of use in a terminal.

python -m helpers doctor                  what this machine has and lacks
"""

from __future__ import annotations

import argparse
import sys

from .health import WAITING, doctor
from .results import versions
from .text import Table, tell


def main(arguments: list[str] | None = None) -> int:
    """Print what doctor() found; return 0, or 1 where something is missing."""
    parser = argparse.ArgumentParser(
        prog="python -m helpers",
        description=__doc__,
        epilog="exit status: 0 done, 1 something is missing, 2 it cannot be done",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=versions())
    parser.add_argument("command", choices=["doctor"])
    parser.parse_args(arguments)
    if not sys.stderr.isatty():  # where a bar says it
        tell(f"doctor: {WAITING}")
    diagnosis = doctor()
    rows = [(row.name, row.status, row.found) for row in diagnosis.rows]
    print(Table.of(["part", "status", "found"], rows))
    for row in diagnosis.rows:
        if row.advice:
            print(f"{row.name}: {row.advice}.")
    print(f"ready to compile: {diagnosis.verdict}")
    return 0 if diagnosis.ok else 1


if __name__ == "__main__":
    sys.exit(main())
