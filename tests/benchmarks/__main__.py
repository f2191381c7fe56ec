"""`python -m tests.benchmarks NAME`: measure, print a table, keep it in data/."""

import os
import sys
from importlib import import_module

from tools.commands import command

NAMES = ("aa", "checkup", "dumps", "picture", "ratio", "starts", "report")


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark that the command line names."""
    os.environ.setdefault("HELPERS_QUIET", "1")
    parser = command("tests.benchmarks", __doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--runs", type=int, default=100, help="of compare()")
    parser.add_argument("--real", action="store_true", help="dumps: against this GPU")
    given = parser.parse_args(arguments)
    settings = {"aa": (given.runs,), "ratio": (given.runs,), "dumps": (given.real,)}
    room = "proof" if given.name == "report" else "benchmarks"
    benchmark = import_module(f"tests.{room}.{given.name}")
    benchmark.main(*settings.get(given.name, ()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
