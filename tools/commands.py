"""The form that the commands of the course share: help, version and exit status."""

from __future__ import annotations

import argparse

from helpers.results import versions


def command(
    name: str, doc: str, fails: str = "it failed", done: str = "done"
) -> argparse.ArgumentParser:
    """Return the parser of ``python -m name``, whose module has the docstring *doc*.

    *done* and *fails* say what an exit status of 0 and of 1 means; of 2, every command
    says the same.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m {name}",
        description=doc.strip(),
        epilog=f"exit status: 0 {done}, 1 {fails}, 2 it cannot be done",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # lest a new option changes what an old script says
    )
    parser.add_argument("--version", action="version", version=versions())
    return parser
