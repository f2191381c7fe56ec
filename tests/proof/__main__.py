"""`python -m tests.proof NAME ...`: break something, and print what noticed."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from tests.proof import report
from tools.commands import command

NAMES = {
    "access": "hold pages of the site and a report against the rules of axe-core",
    "faults": "break torch.compile on purpose, and see which cell notices",
    "browser": "run all of every notebook in JupyterLab, move each widget, solve it",
    "checkups": "check up models of real libraries: are answers called wrong?",
    "mutants": "change a module in one place, again and again: does a test fail?",
    "bump": "follow torch to another version, and say what a person must read",
    "since": "run small programs on several torches: what works since when?",
    "published": "hold forecasts for GPUs against times that others measured",
    "versions": "run the notebooks on another torch, and list what differs",
    "report": "only write what was recorded into the pages, as each of these does",
}


def main(arguments: list[str] | None = None) -> int:
    """Hand the command line to the proof that it names."""
    os.environ.setdefault("HELPERS_QUIET", "1")
    names = "\n".join(f"  {name:9} {text}" for name, text in NAMES.items())
    parser = command("tests.proof", f"{__doc__}\n\n{names}", "something was found")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="its own, and --help")
    given = parser.parse_args(arguments)
    module = importlib.import_module(f"tests.proof.{given.name}")
    try:
        return int(module.main(given.rest) or 0)
    finally:  # what is kept shows at once, of a run that was stopped too
        report.main()


if __name__ == "__main__":
    sys.exit(main())
