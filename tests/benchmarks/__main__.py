"""`python -m tests.benchmarks NAME`: measure, print a table, keep it in data/."""

import argparse
import os

from tests.benchmarks import (
    aa,
    bandwidth,
    dumps,
    kernel,
    lessons,
    lines,
    picture,
    ratio,
    report,
    startup,
)


def main() -> None:
    """Run the benchmark that the command line names."""
    os.environ.setdefault("COURSE_QUIET", "1")
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("name", choices=[*report.NAMES, "report"])
    parser.add_argument("--runs", type=int, default=100, help="of compare()")
    parser.add_argument("--others", type=int, default=20, help="runs of other tools")
    parser.add_argument("--real", action="store_true", help="dumps: against this GPU")
    parser.add_argument("--notebook", action="append", help="lessons: only this, as 06")
    given = parser.parse_args()
    match given.name:
        case "aa":
            aa.main(given.runs, given.others)
        case "ratio":
            ratio.main(given.runs)
        case "bandwidth":
            bandwidth.main(min(given.runs, 5))
        case "dumps":
            dumps.main(given.real)
        case "kernel":
            kernel.main()
        case "startup":
            startup.main(min(given.runs, 11))
        case "lessons":
            lessons.main(given.notebook or ())
        case "lines":
            lines.main()
        case "picture":
            picture.main()
        case "report":
            report.main()


if __name__ == "__main__":
    main()
