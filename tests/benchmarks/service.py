"""A service under load: P99 without and with a warm-up, and a long run: lesson 27.

Eight clients ask for 2,000 answers while the model is replaced four times.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from helpers.stats import speedup
from tests.benchmarks.common import record, table

ROUNDS, REQUESTS, RELOADS = 6, 2000, 4
AFTER = 8  # requests after each reload, which the new model answers for certain


def ratio() -> str:
    """Return P99 with no warm-up over P99 with one, in rounds of new processes."""
    from examples.service.load import percentile, traffic

    from course.ch27.services import started

    cold, warm = [], []
    for turn in range(ROUNDS):
        for flags, seconds in (("none", cold), ("shapes", warm))[:: 1 - 2 * (turn % 2)]:
            (service,) = started(f"--warm-up {flags}")
            seconds.append(percentile(service.load(traffic(40)), 99))
            service.stop()
    middle, interval = speedup(cold, warm)
    if interval is None:
        return "cannot tell"
    return (
        f"{middle:.0f} ({interval.confidence:.0%} interval {interval.low:.0f} to "
        f"{interval.high:.0f}, {ROUNDS} rounds)"
    )


def long_run(requests: int = REQUESTS, reloads: int = RELOADS) -> dict[str, int]:
    """Return what became of so many requests while the model is replaced."""
    from examples.service.load import traffic

    from course.ch27.services import started, wrong

    (service,) = started("--warm-up shapes")
    try:
        before = service.health()["in_warm_up"]
        with ThreadPoolExecutor(1) as other:
            load = other.submit(service.load, traffic(requests - AFTER * reloads))
            later = []
            for turn in range(reloads):
                while service.health()["answered"] < requests * (turn + 1) / (
                    reloads + 1
                ):
                    assert not load.done(), load.result()
                service.send("/reload", {"seed": turn + 1}).raise_for_status()
                later += service.load(traffic(AFTER))
            replies = load.result() + later
        now = service.health()
    finally:
        ended = service.stop()
    return {
        "requests": len(replies),
        "models that answered": len({r.body.get("model") for r in replies}),
        "lost": sum(reply.status != 200 for reply in replies),
        "wrong": wrong(replies),
        "eager": now["eager"],
        "compiles in traffic": now["in_traffic"],
        "compiles of the reloads": now["in_warm_up"] - before,
        "exit code": ended,
    }


def main() -> None:
    """Run both, and keep what was found."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows = [{"what": "P99, no warm-up against each length", "found": ratio()}]
    rows += [{"what": what, "found": n} for what, n in long_run().items()]
    print(table(rows))
    record("service", rows, clients=8)
