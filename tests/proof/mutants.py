"""Change the helpers one operator at a time, and see which test fails.

    python -m tests.proof mutants [MODULE ...] [--sample 40 | --all] [--seed 1]

Of each module a random sample of its mutants is drawn (what is one, says
`tests.proof.mutation`).  A mutant gets the tests that run the function it is in,
the quickest first and half a minute of them at most; it is killed when one fails,
or when they do not end.  One that cannot be imported is drawn again.  The tests
passed on the unchanged copy before, in the same way.

Who writes a test for a survivor has looked at the draw: count with another seed then.

All of it happens in copies of the course in a temporary folder.  What was found is
kept in .cache/mutants, mutant by mutant: a later run goes on from there, and tries
those again that survived other tests.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from statistics import NormalDist
from typing import Any

from helpers.results import write_atomically
from tests.proof.common import markdown, read, record
from tests.proof.mutant_pool import ROOT, Pool, pool
from tests.proof.mutant_tests import Baseline, Module, Mutant

KEPT = ROOT / ".cache" / "mutants"
WORKERS = 2

# The few quick tests of each module: tests/test_x.py is written x.
TESTS = {
    "stats": "stats",
    "clock": "clock",
    "comparison": "comparison",
    "measure": "measured",
    "agree": "agree",
    "sweeps": "sweeps",
    "bandwidth": "measured",
    "watch": "watch",
    "observe": "observe",
    "traffic": "traffic",
    "lowering": "lowering",
    "codegen": "lowering",
    "gpu.gpus": "gpus",
    "gpu.dump": "dumped dump::test_wrong_arguments dump::test_a_function_that_raises "
    "dump::test_the_same_call_gives_the_same_dump "
    "dump::test_in_inference_mode_one_may_ask_for_training",
    "gpu.dumped": "dumped",
    "gpu.machine_code": "needs",
    "gpu.tidy": "tidied",
    "gpu.capture": "capture",
    "results": "results",
}


def mutants_of(source: str) -> Any:
    """Return the mutants of a module; the tool is only needed from here on."""
    try:
        from tests.proof.mutation import Mutants
    except ImportError as error:
        sys.exit(f"{error.name} is missing: python -m pip install --group proof")
    return Mutants(source)


class Kept:
    """What is known of a module's mutants, on disk after each of them."""

    def __init__(self, module: Module, folder: Path) -> None:
        self._path = folder / f"{module.name}.json"
        self._tests = _hash("".join(module.texts))
        self.found: dict[str, dict[str, Any]] = {}
        if self._path.exists():
            before = json.loads(self._path.read_text(encoding="utf-8"))
            same = before["tests"] == self._tests
            self.found = {
                key: one
                for key, one in before["found"].items()
                if same or one["outcome"] in ("killed", "unfit")
            }

    def add(self, mutant: Mutant, one: dict[str, Any]) -> None:
        """Keep what became of a mutant."""
        self.found[_hash(mutant.text)] = one
        self._path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"tests": self._tests, "found": self.found}, indent=1)
        write_atomically(self._path, text)

    def get(self, mutant: Mutant) -> dict[str, Any] | None:
        """Return what became of a mutant, or None where that is not known."""
        return self.found.get(_hash(mutant.text))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def tried(
    module: Module, workers: Pool, kept: Kept, size: int, seed: int
) -> list[dict]:
    """Return what became of the first *size* mutants that are fit to be tried."""
    fit: list[dict[str, Any]] = []
    stream, running = mutants_of(module.source).drawn(seed), dict[Future, Any]()
    while True:
        while len(fit) + len(running) < size and len(running) < workers.size:
            mutant = next(stream, None)
            if mutant is None:
                break
            known = kept.get(mutant)
            if known is None:
                if not module.seconds:  # only where there is something left to try
                    module.look()
                job = module.job(mutant)
                running[workers.submit(**job)] = mutant, job
            elif known["outcome"] != "unfit":
                fit.append(known)
        if not running:
            return fit
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            (mutant, job), answer = running.pop(future), future.result()
            if answer["outcome"] == "misused":  # tests have lost their names: run all
                files = [test.partition("::")[0] for test in job["tests"]]
                again = {**job, "tests": list(dict.fromkeys(files))}
                if again == job:
                    raise RuntimeError(f"{module.name}: {answer}")
                running[workers.submit(**again)] = mutant, again
                continue
            one = {"outcome": answer["outcome"], "by": answer["by"]}
            one |= {"line": mutant.line, "diff": mutant.diff(module.source)}
            kept.add(mutant, one)
            if one["outcome"] != "unfit":
                fit.append(one)


def row(module: Module, fit: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """Return the row of a module: how many were drawn, and how many were noticed."""
    killed = sum(one["outcome"] != "survived" for one in fit)
    return {
        "module": module.path,
        "mutants": len(mutants_of(module.source)),
        "drawn": len(fit),
        "killed": killed,
        **share(killed, len(fit)),
        "seed": seed,
    }


def share(killed: int, drawn: int) -> dict[str, str]:
    """Return the share and its interval as they are recorded."""
    low, high = wilson(killed, drawn)
    return {
        "share": f"{killed / max(drawn, 1):.0%}",
        "95 % interval": f"{low:.0%} to {high:.0%}",
    }


def wilson(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the Wilson score interval (1927) of the share *hits* of *n*."""
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    centre = (hits + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * (hits * (n - hits) / n + z * z / 4) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)


def total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the last row: all modules together."""
    sums = {k: sum(r[k] for r in rows) for k in ("mutants", "drawn", "killed")}
    return {"module": "all", **sums, **share(sums["killed"], sums["drawn"]), "seed": ""}


def _report(module: Module, fit: list[dict[str, Any]]) -> None:
    for one in sorted(fit, key=lambda one: one["line"]):
        if one["outcome"] == "survived":
            print(f"survived: {module.path}:{one['line']}\n{one['diff']}\n")


def _keep(new: dict[str, Any], settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Record a module's row in the place of an older one; return all rows."""
    before = (read("mutants") or {"rows": []})["rows"]
    rows = {r["module"]: r for r in before if r["module"] != "all"}
    rows[new["module"]] = new
    order = [f"helpers/{name.replace('.', '/')}.py" for name in TESTS]
    kept = [rows[path] for path in order if path in rows]
    record("mutants", [*kept, total(kept)], **settings)
    return [*kept, total(kept)]


def main(arguments: list[str]) -> None:
    """Try the mutants of the named modules, or of all."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof mutants")
    parser.add_argument("module", nargs="*", help=" ".join(TESTS))
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("--all", action="store_true", help="draw every mutant")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    if unknown := set(given.module) - set(TESTS):
        parser.error(f"no tests known for {', '.join(unknown)}: add them to TESTS")
    size = 10**9 if given.all else given.sample
    settings = {"sample": "all" if given.all else given.sample, "seed": given.seed}
    alone = threading.Lock()

    def do(name: str) -> None:
        module = Module(name, workers.root, TESTS[name].split(), baseline)
        kept = Kept(module, KEPT)
        fit = tried(module, workers, kept, size, given.seed)
        with alone:
            print(f"== {name}")
            _report(module, fit)
            print(
                markdown([_keep(row(module, fit, given.seed), settings)[-1]]),
                flush=True,
            )

    with pool(WORKERS) as workers, ThreadPoolExecutor(WORKERS) as threads:
        baseline = Baseline(workers)
        for done in [threads.submit(do, name) for name in given.module or TESTS]:
            done.result()
    print(markdown(read("mutants")["rows"]))
