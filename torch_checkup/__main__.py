"""``torch-checkup``: what torch.compile does to a model of yours, and what to try.

    torch-checkup model.py:make

The exit status is 1 where an answer is wrong or stale, a rule does not hold or
something became worse, 2 where it could not be judged, and else 0.

Two more questions have a command each: ``torch-checkup cold-start model.py:make`` says
what a first call costs, and ``torch-checkup explain log.txt`` what messages mean.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from .helpers.errors import Unavailable

Options = argparse.Namespace
TARGET = "what returns (model, inputs): module:function, or path/to/file.py:function"


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit status: 0 pass, 1 fail, 2 it cannot be done."""
    words = sys.argv[1:] if arguments is None else arguments
    name = words[0] if words and words[0] in _COMMANDS else ""
    build, run = _COMMANDS[name]
    program = f"torch-checkup {name}".strip()
    about = __doc__ if not name else None
    parser = argparse.ArgumentParser(
        prog=program,
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    build(parser.add_argument)
    chosen = parser.parse_args(words[bool(name) :])
    try:
        status = run(chosen)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # as of `| head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, Unavailable, OSError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2


def _checkup_options(option: Callable) -> None:
    calls = "; also (model, inputs, loss), and a list of the inputs of several calls"
    option("target", metavar="module:function", help=TARGET + calls)
    option("--only", default="", help="parts, with commas in between")
    option("--train", action="store_true", help="with a backward")
    option("--gpu", default="", help="h100, a100, t4, ...")
    option("--budget", type=float, default=5.0, help="seconds of timing")
    option("--timeout", type=float, default=300.0, help="of each part")
    option("--memory", type=float, help="limit of the process, in GiB")
    to = "write the report there: .html, .json or .txt"
    option("--to", action="append", default=[], metavar="FILE", help=to)
    repro = "write a program there that shows what is wrong"
    option("--repro", metavar="FOLDER", help=repro)
    option("--emit-test", metavar="FILE", help="the same as a test of pytest")
    option("--issue", metavar="FILE", help="the draft of an issue, in Markdown")
    option("--require", default="", help='such as "breaks=0,matches"')
    option("--against", metavar="JSON", help="an earlier one: not worse")


def _cold_start_options(option: Callable) -> None:
    option("target", metavar="module:function", help=TARGET)
    option("--repeat", type=int, default=1, help="starts of each way")
    option("--train", action="store_true", help="with a backward")
    option("--timeout", type=float, default=600.0, help="of each start")
    option("--to", metavar="FILE", help="write the result there, as JSON")


def _explain_options(option: Callable) -> None:
    words = "a file, or the message itself; else standard input"
    option("log", nargs="?", metavar="FILE", help=words)


def _cold_start(chosen: Options) -> int:
    from .starts import cold_start

    options = {"repeat": chosen.repeat, "timeout": chosen.timeout}
    found = cold_start(chosen.target, train=chosen.train, **options)
    print(found)
    if chosen.to:
        print(f"written to {found.save(chosen.to)}")
    if found.interrupted:
        return 2
    return 1 if any(way.problem for way in found.ways) else 0


def _checkup(chosen: Options) -> int:
    from . import checkups

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
        repro=chosen.repro,
        emit_test=chosen.emit_test,
        issue=chosen.issue,
    )
    print(found)
    for path in chosen.to:
        print(f"written to {checkups.write_report(found, path)}")
    unmet = [f"required: {line}" for line in found.unmet(chosen.require)]
    unmet += [f"worse: {line}" for line in found.worse_than(before)] if before else []
    if unmet:
        print(*unmet, sep="\n")
    if found.wrong:
        return 1
    if found.interrupted or any(part.verdict == "failed" for part in found.parts):
        return 2
    return 1 if unmet else 0


def _explain(chosen: Options) -> int:
    from .explain import explain_error

    if not chosen.log:
        log = sys.stdin.buffer.read().decode(errors="replace")
    elif _is_path(chosen.log):
        log = Path(chosen.log).read_bytes().decode(errors="replace")
    else:
        log = chosen.log
    explanation = explain_error(log)
    print(explanation)
    return 0 if explanation.meanings else 1


def _is_path(words: str) -> bool:
    """Return whether *words* name a file, also one that is not there."""
    try:
        there = Path(words).exists()
    except (OSError, ValueError):  # too long for a name
        return False
    return there or bool(re.fullmatch(r"\S+\.(txt|log|out|err)", words))


_COMMANDS = {
    "": (_checkup_options, _checkup),
    "cold-start": (_cold_start_options, _cold_start),
    "explain": (_explain_options, _explain),
}

if __name__ == "__main__":
    sys.exit(main())
