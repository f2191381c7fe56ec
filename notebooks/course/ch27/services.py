"""A real service for a while: started, asked over HTTP, and stopped.

    warm, cold = started("--warm-up shapes", "--warm-up none")
    replies = warm.load(traffic(40))
    stopped(warm, cold)

All start and stop at the same time.  A service ends with the kernel, at the
latest: it watches its input, which ends when we do.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import httpx
import torch
from examples.service.app import (
    Options,
    Scorer,
    Service,
    create_app,
    example,
    make,
    problems,
)
from examples.service.load import Reply, Series, load, percentile
from fastapi.testclient import TestClient
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import nn

from course.first_call import compiles
from course.values import as_near
from course.words import unlogged
from helpers import children
from helpers.plots import CEILING, COLOURS, Picture, styled
from helpers.text import Table, mark, seconds

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "service"
FIXED = ("app.py", "--port", "0", "--with-stdin")
BAND = {"color": CEILING, "alpha": 0.15}  # the time in which a request compiles
LIMIT = 300  # seconds until a service must be there, or an answer
# Kernels may come from the usual cache.  Graphs may not: each one compiles.
OWN = {
    "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
    "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
}


class Running:
    """A service in a process of its own."""

    def __init__(self, flags: str = "", **settings: str) -> None:
        self.flags, self.url = flags, ""
        self.process = children.start(
            *(*FIXED, *shlex.split(flags)),
            env={**OWN, "PYTHONWARNINGS": "ignore", **settings},
            cwd=FOLDER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def wait(self) -> Running:
        """Return when the service answers, which is when it is warm."""
        assert self.process.stdout
        self.url = self.process.stdout.readline().strip()
        until = time.monotonic() + LIMIT
        while self.url and time.monotonic() < until:
            with suppress(httpx.TransportError):
                httpx.get(f"{self.url}/docs", timeout=LIMIT, trust_env=False)
                return self
            time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"app.py {self.flags} did not start")

    def send(self, path: str, json: Any = None, timeout: Any = LIMIT) -> Any:
        """Return the answer to a GET, or where there is *json*, to a POST."""
        way = "GET" if json is None else "POST"
        return httpx.request(
            way, self.url + path, json=json, timeout=timeout, trust_env=False
        )

    def health(self) -> dict[str, Any]:
        return self.send("/health").json()

    def after(self, answers: int) -> None:
        """Wait until the load has got so many answers."""
        wanted = self.health()["answered"] + answers
        until = time.monotonic() + LIMIT
        while time.monotonic() < until and self.health()["answered"] < wanted:
            time.sleep(0.01)

    def load(self, series: Sequence[Series], clients: int = 8) -> list[Reply]:
        return load(self.url, series, clients, LIMIT)

    def stop(self) -> int:
        """End it as an operator does, and return its exit code."""
        return children.end(self.process, patience=15)


def started(*flags: str, **settings: str) -> list[Running]:
    """Start a service for each *flags*, all at the same time."""
    every = [Running(each, **settings) for each in flags]
    try:
        return [one.wait() for one in every]
    except BaseException:  # Ctrl-C, too: none may stay
        stopped(*every)
        raise


def stopped(*services: Running) -> list[int]:
    """Stop them all at the same time, and return their exit codes."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(Running.stop, services))


# ----------------------------------------------------------- what was answered


def wrong(replies: Sequence[Reply]) -> int:
    """Count the answers that are further from float64 than eager may be.

    A request that got no answer is wrong.
    """
    served = defaultdict(list)
    for reply in replies:
        if reply.status == 200:
            served[reply.body["model"]].append(reply)
    lost = len(replies) - sum(map(len, served.values()))
    return lost + sum(_wrong(make(seed), own) for seed, own in served.items())


@torch.no_grad()
def _wrong(model: nn.Module, replies: Sequence[Reply]) -> int:
    """Count the wrong answers of one model.

    Each is judged among eager's of all requests: at one alone, eager may be
    exact by chance.
    """
    asked = [torch.tensor(reply.series) for reply in replies]
    wide = deepcopy(model).double()
    usual = torch.stack([model(x) for x in asked])
    exact = torch.stack([wide(x.double()) for x in asked])
    bad = 0
    for place, reply in enumerate(replies):
        ours = usual.clone()
        ours[place] = torch.tensor(reply.body["scores"])
        bad += not as_near(exact, usual, ours)
    return bad


# -------------------------------------------------- clients that cause trouble

# What is sent, as text: JSON has no NaN, but many a client writes it.
_ROW = [0.5] * 8
POISON = {
    "NaN": json.dumps({"series": [[float("nan"), *_ROW[1:]]]}),
    "1e39": json.dumps({"series": [[1e39, *_ROW[1:]]]}),
    "words": json.dumps({"series": [["0.5"] * 8]}),
    "seven readings": json.dumps({"series": [_ROW[1:]]}),
    "no rows": json.dumps({"series": []}),
    "65 rows": json.dumps({"series": [_ROW] * 65}),
    "half a request": '{"series": [[0.5, ',
}


def poisoned(service: Running) -> dict[str, int]:
    """Return the status that each bad request gets."""
    as_json = {"content-type": "application/json"}
    with httpx.Client(base_url=service.url, timeout=LIMIT, trust_env=False) as client:
        return {
            name: client.post("/score", content=text, headers=as_json).status_code
            for name, text in POISON.items()
        }


def impatient(service: Running, tries: int = 10) -> tuple[int, int]:
    """Ask, give up after a moment and ask again; the last time, wait.

    Returns how often the client gave up, and the compiles that this cost.
    """
    gave_up, body = 0, {"series": example(5)}
    short = httpx.Timeout(LIMIT, read=0.05)  # it arrives, and no answer comes
    for _ in range(tries - 1):
        try:
            service.send("/score", body, short)
        except httpx.TimeoutException:
            gave_up += 1
    service.send("/score", body)
    until = time.monotonic() + LIMIT
    while (now := service.health())["answered"] + now["failed"] < tries:
        if time.monotonic() > until:
            break
        time.sleep(0.05)
    return gave_up, now["in_traffic"]


def attempts(served: Callable[..., Any], x: Any, times: int) -> list[int]:
    """Return how many compiles began in each of some calls, which may fail."""
    found = []
    for _ in range(times):
        with compiles() as seen, unlogged(), torch.no_grad(), suppress(Exception):
            served(x)
        found.append(len(seen))
    return found


# ------------------------------------------------------------- in this process


def answers(after: str, rows: Sequence[int], late: int = 3) -> list[str]:
    """Return what requests get from a service that knows only 17 rows."""
    torch.compiler.reset()
    options, found = Options("one", after=after, late=late), []
    with unlogged(), TestClient(create_app(options)) as client:
        for n in rows:
            reply = client.post("/score", json={"series": example(n)})
            body = reply.json()
            if reply.status_code != 200:
                found.append(str(reply.status_code))
            elif not body["graphs"]:
                found.append("eager")
            else:
                found.append("compiled now" if body["compiles"] else "was compiled")
    return found


class _Breaks(Scorer):
    def forward(self, series: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return super().forward(series)


def gate(warm_up: str, kind: str = "") -> list[str]:
    """Return what the gate says of a good model, or of a broken *kind*."""
    torch.compiler.reset()
    model = _Breaks if kind == "break" else Scorer

    def build(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return model().eval()

    service = Service(Options(warm_up), build)
    with unlogged():
        found = problems(service)
    service.close()
    return found


# ---------------------------------------------------------------- how it looks


def table(runs: dict[str, tuple[Running, list[Reply]]]) -> Table:
    """Return a row for each policy: compiles, who waited, and for how long."""
    rows = []
    for name, (service, replies) in runs.items():
        known = service.health()
        waited = sum(reply.compiles > 0 for reply in replies)
        took = [mark(seconds(percentile(replies, p))) for p in (50, 100)]
        counts = [known["in_warm_up"], known["in_traffic"], waited]
        rows.append([name, *counts, *took])
    heads = ["warm-up", "compiles in it", "in traffic", "requests that compiled"]
    return Table.of([*heads, "P50", "longest"], rows)


@styled
def draw(runs: dict[str, list[Reply]]) -> Picture:
    """Return each request as a dot, by when it came and what it waited."""
    figure = Figure(figsize=(11, 1.2 + 1.9 * len(runs)), layout="constrained")
    every = figure.subplots(len(runs), sharex=True, sharey=True, squeeze=False)[:, 0]
    words = []
    for axes, (name, replies) in zip(every, runs.items(), strict=True):
        late = [reply for reply in replies if reply.compiles]
        rest = [reply for reply in replies if not reply.compiles]
        for group, colour, shape, label in (
            (rest, COLOURS[0], "o", "a request"),
            (late, COLOURS[1], "D", "a request that compiled"),
        ):
            x, y = [r.at for r in group], [1000 * r.took for r in group]
            axes.scatter(x, y, 45, color=colour, marker=shape, label=label)
        for reply in late:
            axes.axvspan(reply.at, reply.at + reply.took, **BAND)
        axes.set(yscale="log", ylabel="ms")
        axes.set_title(name, loc="left")
        longest = seconds(max(reply.took for reply in replies))
        words.append(
            f"{name}: {len(replies)} requests, {len(late)} compiled, "
            f"the longest took {mark(longest)}"
        )
    every[-1].set_xlabel("when the request was sent, in seconds")
    handles, labels = every[0].get_legend_handles_labels()
    handles.append(Patch(**BAND))
    labels.append("the wait of a request that compiles")
    figure.legend(handles, labels, loc="outside upper right", ncols=3)
    return Picture(figure, f"Latency of each request. {'; '.join(words)}.")
