"""`python -m tests.benchmarks NAME`: measure, print a table, keep it in data/."""

import os
import sys
from importlib import import_module

from tests.proof import report
from tools.commands import command

NAMES = ("aa", "checkup", "dumps", "picture", "ratio", "starts")


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark that the command line names."""
    os.environ.setdefault("HELPERS_QUIET", "1")
    parser = command("tests.benchmarks", __doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--runs", type=int, default=100, help="of compare()")
    parser.add_argument("--real", action="store_true", help="dumps: against this GPU")
    given = parser.parse_args(arguments)
    settings = {"aa": (given.runs,), "ratio": (given.runs,), "dumps": (given.real,)}
    benchmark = import_module(f"tests.benchmarks.{given.name}")
    benchmark.main(*settings.get(given.name, ()))
    report.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
