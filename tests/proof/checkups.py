"""Check up models of real libraries: are good answers called wrong?

    python -m tests.proof checkups         # all of them, and their training
    python -m tests.proof checkups bert    # one of them

Only the parts that compile or count are asked.
"""

from __future__ import annotations

import time

from course.models import MAKERS
from tests import records
from tests.models.targets import HEALTHY
from tests.refresh import ROOT
from tools.commands import command
from torch_checkup.report import checkup

QUICK = ("matches", "capture", "recompiles", "silent")
TARGETS = ROOT / "tests" / "models" / "targets.py"
NAMES = (*(name + way for name in MAKERS for way in ("", "_training")), *HEALTHY)


def main(arguments: list[str]) -> int:
    """Check what was asked and record; return 1 where a part is bad or failed."""
    parser = command("tests.proof checkups", __doc__, "a part is bad or failed")
    parser.add_argument("model", nargs="*", default=NAMES)
    asked = parser.parse_args(arguments)
    bad = 0
    for name in asked.model:
        begin = time.monotonic()
        train = name.endswith("_training")
        target = f"{TARGETS}:{name}"
        found = checkup(target, only=QUICK, train=train, search=False, timeout=900)
        if found.interrupted:
            raise KeyboardInterrupt
        wrong = [part.says for part in found.parts if part.verdict in ("bad", "failed")]
        row = {
            "model": name,
            "verdicts": ", ".join(f"{p.name} {p.verdict}" for p in found.parts),
            "graphs": found.counts.get("graphs"),
            "breaks": found.counts.get("breaks"),
            "took": f"{time.monotonic() - begin:.0f} s",
            "what is wrong": "; ".join(wrong) or "nothing",
        }
        print(*row.values(), sep=" | ", flush=True)
        bad += bool(wrong)
        records.put("proofs/checkups", "model", row, NAMES)
    return int(bad > 0)
