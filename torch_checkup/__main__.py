"""torch-checkup: what torch.compile does to your model, and what to try.

    torch-checkup model.py:make --to report.html

More has a command each:

    torch-checkup cold-start model.py:make    what a first call costs
    torch-checkup explain log.txt             what messages mean
    torch-checkup explain capture             what a part means, and what to do
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

from .helpers import text
from .helpers.errors import Unavailable
from .helpers.results import versions

Options = argparse.Namespace
TARGET = "what returns (model, inputs): module:function, or path/to/file.py:function"
_DOES = {  # each command besides the check-up itself
    "cold-start": "what a first call costs, phase by phase, and what a cache saves",
    "explain": "what messages of torch.compile, or parts of a check-up, mean",
    "schema": "the JSON schema of a report that --to writes",
}
_STATUSES = {  # of each command, what its exit status means
    "": "0 nothing is wrong, and all rules hold; 1 an answer is wrong or stale, a rule "
    "does not hold, or something became worse; 2 it could not be judged",
    "cold-start": "0 done; 1 a start failed; 2 it could not be done",
    "explain": "0 explained; 1 nothing in it is known; 2 it cannot be read",
    "schema": "0 printed; 1 never; 2 it cannot be done",
}


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit status: 0 pass, 1 fail, 2 it cannot be done."""
    words = sys.argv[1:] if arguments is None else arguments
    name = words[0] if words and words[0] in _COMMANDS else ""
    build, run = _COMMANDS[name]
    program = f"torch-checkup {name}".strip()
    parser = argparse.ArgumentParser(
        prog=program,
        description=_DOES[name] if name else f"{__doc__}\n{_parts()}",
        epilog=textwrap.fill(f"exit status: {_STATUSES[name]}", 79),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # a new option must not change an old script
    )
    parser.add_argument("--version", action="version", version=versions())
    build(parser.add_argument)
    chosen = parser.parse_args(words[bool(name) :])
    try:
        status = run(chosen)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # as of `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, Unavailable, OSError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2


def _parts() -> str:
    """Return a line for each part, and the facts that rules may name."""
    from .report import NAMES, QUESTIONS

    width = max(map(len, QUESTIONS))
    asked = {name: one.asks for name, one in QUESTIONS.items()}
    asked["gpu"] += " Only with --gpu."
    lines = [f"    {name:{width}}  {line}" for name, line in asked.items()]
    facts = textwrap.fill(f"Facts for --require: {', '.join(NAMES)}.", 79)
    return "\n".join(["Its parts:", "", *lines, "", facts])


def _checkup_options(option: Callable) -> None:
    calls = "; also (model, inputs, loss), and a list of the inputs of several calls"
    option("target", metavar="TARGET", help=TARGET + calls)
    option("--only", default="", metavar="PARTS", help="with commas in between")
    option("--train", action="store_true", help="with a backward")
    option("--gpu", default="", help="h100, a100, t4, ...: for the part gpu")
    of_budget = "of timing, for each part that times (5)"
    option("--budget", type=float, default=5.0, metavar="SECONDS", help=of_budget)
    limit = "of each part, and of the search for a wrong answer (300)"
    option("--timeout", type=float, default=300.0, metavar="SECONDS", help=limit)
    most = "of the process and all it starts (three quarters of what is free)"
    option("--memory", type=float, metavar="GIB", help=most)
    to = "write the report there: .html, .json or .txt; may be given again"
    option("--to", action="append", default=[], metavar="FILE", help=to)
    repro = "write a program there that shows what is wrong, a test, and an issue"
    option("--repro", metavar="FOLDER", help=repro)
    rules = 'what must hold, such as "breaks=0,matches"'
    option("--require", default="", metavar="RULES", help=rules)
    earlier = "an earlier report (--to): it may not become worse"
    option("--against", metavar="FILE", help=earlier)


def _cold_start_options(option: Callable) -> None:
    option("target", metavar="TARGET", help=TARGET)
    option("--repeat", type=int, default=1, metavar="N", help="starts of each way (1)")
    option("--train", action="store_true", help="with a backward")
    limit = "of each step of a start (600)"
    option("--timeout", type=float, default=600.0, metavar="SECONDS", help=limit)
    option("--to", metavar="FILE", help="write the result there, as JSON")


def _explain_options(option: Callable) -> None:
    words = "a file, the message itself, or a part; else, or with -, standard input"
    option("log", nargs="?", metavar="FILE", help=words)


def _cold_start(chosen: Options) -> int:
    from .start import cold_start

    options = {"repeat": chosen.repeat, "timeout": chosen.timeout}
    found = cold_start(chosen.target, train=chosen.train, **options)
    print(found)
    if chosen.to:
        print(f"written to {found.save(chosen.to)}")
    if found.interrupted:
        return 2
    return 1 if any(way.problem for way in found.ways) else 0


def _checkup(chosen: Options) -> int:
    from . import report

    for path in chosen.to:  # before the minutes that it takes
        report.check_report(path)
    report.rules_of(chosen.require)
    before = None
    if chosen.against:
        before = report.Checkup.from_json(Path(chosen.against).read_text("utf-8"))
    found = report.checkup(
        chosen.target,
        only=[part.strip() for part in chosen.only.split(",") if part.strip()],
        train=chosen.train,
        gpu=chosen.gpu,
        budget=chosen.budget,
        timeout=chosen.timeout,
        memory=int(chosen.memory * 2**30) if chosen.memory else None,
        repro=chosen.repro,
    )
    print(found)
    text.tell("torch-checkup explain PART says what a part means, and what to do")
    for path in chosen.to:
        print(f"written to {report.write_report(found, path)}")
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
    from .report import QUESTIONS, about

    if chosen.log in QUESTIONS:
        print(about(chosen.log))
        return 0
    if chosen.log in (None, "", "-"):  # a dash is what many commands call it
        log = sys.stdin.buffer.read().decode(errors="replace")
    elif os.path.exists(chosen.log) or _PATH.fullmatch(chosen.log):  # also if not there
        log = Path(chosen.log).read_bytes().decode(errors="replace")
    else:
        log = chosen.log
    explanation = explain_error(log)
    print(explanation)
    return 0 if explanation.meanings else 1


def _schema(_: Options) -> int:
    import msgspec

    from .helpers.results import FORMAT
    from .report import Checkup

    [inner], kinds = msgspec.json.schema_components(
        [Checkup], ref_template="#/$defs/{name}"
    )
    fields = {"format": {"const": FORMAT}, "kind": {"const": "Checkup"}}
    fields["result"] = inner
    whole = {"type": "object", "properties": fields, "required": [*fields]}
    print(json.dumps(whole | {"$defs": kinds}, indent=1))
    return 0


_PATH = re.compile(r"\S*/\S*|\S+\.(txt|log|out|err)")
_COMMANDS = {
    "": (_checkup_options, _checkup),
    "cold-start": (_cold_start_options, _cold_start),
    "explain": (_explain_options, _explain),
    "schema": (lambda option: None, _schema),
}

if __name__ == "__main__":
    sys.exit(main())
