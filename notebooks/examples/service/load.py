"""Asks the service over HTTP, from several clients at once.

    python load.py --requests 200 --clients 8      # a service is on port 8000

It ends after its requests, each of which has a time limit.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx

Series = list[list[float]]


@dataclass(frozen=True)
class Reply:
    """What became of one request; status 0 is no answer at all."""

    series: Series = field(repr=False)
    at: float  # seconds since the load began
    took: float
    status: int
    body: dict[str, Any]

    @property
    def compiles(self) -> int:
        return self.body.get("compiles", 0)


def traffic(requests: int, longest: int = 64, seed: int = 0) -> list[Series]:
    """Return series of random lengths; every tenth has a single row."""
    chance = random.Random(seed)
    rows = [
        1 if n % 10 == 9 else chance.randint(2, longest)
        for n in range(requests)
    ]
    return [
        [[chance.gauss(0, 1) for _ in range(8)] for _ in range(n)]
        for n in rows
    ]


def ask(client: httpx.Client, series: Series, began: float) -> Reply:
    """Ask once, without a second try."""
    at = time.perf_counter()
    try:
        found = client.post("/score", json={"series": series})
        status, body = found.status_code, found.json()
    except (httpx.HTTPError, ValueError) as error:
        status, body = 0, {"lost": type(error).__name__}
    return Reply(series, at - began, time.perf_counter() - at, status, body)


def load(
    url: str, series: Sequence[Series], clients: int = 8, timeout: float = 120
) -> list[Reply]:
    """Ask for all *series*, from so many clients; return the replies."""
    few = httpx.Limits(max_connections=clients)
    with (
        httpx.Client(
            base_url=url, timeout=timeout, limits=few, trust_env=False
        ) as client,
        ThreadPoolExecutor(clients) as pool,
    ):
        began = time.perf_counter()
        return list(pool.map(lambda one: ask(client, one, began), series))


def percentile(replies: Sequence[Reply], share: float) -> float:
    """Return the seconds within which *share* percent of the replies came."""
    ordered = sorted(reply.took for reply in replies)
    return ordered[max(0, -(-len(ordered) * int(share) // 100) - 1)]


def main() -> int:
    """Ask, and print what came; the exit code is 1 where one was lost."""
    parser = argparse.ArgumentParser(description="load for the service")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--clients", type=int, default=8)
    given = parser.parse_args()
    replies = load(given.url, traffic(given.requests), given.clients)
    lost = sum(reply.status != 200 for reply in replies)
    print(f"{len(replies)} requests, {lost} without an answer")
    print(f"{sum(reply.compiles for reply in replies)} compiles in traffic")
    for share in (50, 95, 99):
        print(f"P{share}: {1000 * percentile(replies, share):.1f} ms")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
