"""``python -m tools.record_gpu``: measure on this GPU, and keep it in one file."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from pathlib import Path

import torch

from course.recordings import FAILED, FOLDER
from helpers.text import Table
from tools.record_gpu.cases import Case, Setting
from tools.record_gpu.recorder import EXPERIMENTS, GpuLost, cases, record


def main(arguments: list[str] | None = None) -> int:
    """Record, print what was found, and return the exit status."""
    asked = _parser().parse_args(arguments)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    setting = Setting("cuda" if gpu else "cpu", asked.quick)
    try:
        chosen = cases(setting, asked.only)
        if asked.list:
            print(overview(chosen))
            return 0
        path = Path(asked.to) if asked.to else _usual_file(gpu, asked.quick)
        # A time limit from outside ends as Ctrl-C does.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        recording = record(path, setting, chosen, asked.budget)
    except KeyboardInterrupt:
        print("interrupted: every finished case is kept, run it again to go on")
        return 130
    except (ValueError, OSError, GpuLost) as error:
        print(f"record_gpu: {error}", file=sys.stderr)
        return 1
    print(recording)
    failed = sum(finding.status == FAILED for finding in recording.findings)
    print(f"{len(recording.findings)} cases in {path.name}, {failed} failed")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tools.record_gpu", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="EXPERIMENT")
    parser.add_argument("--budget", type=float, default=20, metavar="MINUTES")
    parser.add_argument("--quick", action="store_true", help="toy sizes, with --to")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--to", metavar="FILE", help="where, if not data/recorded/")
    return parser


def _usual_file(gpu: str | None, quick: bool) -> Path:
    """Return the file of this GPU; ValueError where only a file of one's own goes."""
    if gpu is None:
        raise ValueError(
            "there is no NVIDIA GPU here. `--quick --to FILE` runs all that needs "
            "none, in toy sizes"
        )
    if quick:
        raise ValueError("--quick is no recording for readers: name a file with --to")
    return FOLDER / f"{re.sub('[^a-z0-9]+', '-', gpu.lower()).strip('-')}.json"


def overview(chosen: list[Case]) -> Table:
    """Return the experiments, with how many cases and about how long they take."""
    rows = []
    for name in EXPERIMENTS:
        own = [case for case in chosen if case.experiment == name]
        if own:
            minutes = sum(case.seconds for case in own) / 60
            rows.append((name, len(own), f"{minutes:.1f}", sum(c.gpu for c in own)))
    total = sum(case.seconds for case in chosen) / 60
    title = f"about {total:.0f} minutes on an H200"
    return Table.of(("experiment", "cases", "minutes", "need a GPU"), rows, title)


if __name__ == "__main__":
    sys.exit(main())
