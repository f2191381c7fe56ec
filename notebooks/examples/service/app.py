"""A compiled model behind HTTP.  A folder to copy: see README.md.

    python app.py --warm-up shapes                 # serve on 127.0.0.1:8000
    python app.py --warm-up shapes --check         # the gate: exit code 0 or 1

It needs torch, fastapi and uvicorn, and nothing of this course.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from signal import SIGINT, SIGTERM
from signal import signal as set_handler
from typing import Annotated, Any

import torch
import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat
from torch import nn
from torch.nn import functional as F

log = logging.getLogger("uvicorn.error")
WIDE, LONGEST = 8, 64
LARGEST = 1e6  # of a reading: 1e39 would be infinite in float32
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Lengths that the traffic is known to have, 1 before all others.
SAMPLE = (1, 2, 5, 17, 33, LONGEST)
CANARY = 17  # rows of what the health check asks; each warm-up knows it
# The lengths that each policy of the warm-up calls.
FORESEEN = {
    "none": (),
    "one": (17,),
    "dynamic": (17,),
    "unbacked": (17,),
    "shapes": SAMPLE,
}
# What marks the rows as varying in a warm-up of one call.
MARKS = {
    "dynamic": torch._dynamo.mark_dynamic,  # 2 or more
    "unbacked": torch._dynamo.decorators.mark_unbacked,  # any number
}


# ----------------------------------------------------------------- the model


class Scorer(nn.Module):
    """Three scores for a series, which is any number of rows of 8."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.into = nn.Linear(WIDE, width)
        self.mix = nn.Linear(width, width)
        self.out = nn.Linear(width, 3)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        x = self.into(series)
        size = x.square().mean(-1, keepdim=True)
        x = x + F.silu(self.mix(x * torch.rsqrt(size + 1e-6)))
        return self.out(x.mean(0))


def make(seed: int) -> nn.Module:
    """Return the model with its weights; a real service loads them here."""
    torch.manual_seed(seed)
    return Scorer().eval()


def example(rows: int) -> list[list[float]]:
    """Return a series of so many rows, as a client would send it."""
    return torch.linspace(-1, 1, rows * WIDE).view(rows, WIDE).tolist()


# ---------------------------------------------------------- what is counted


class Counted:
    """Inductor as a backend that counts, by thread: compiles, graph runs."""

    def __init__(self) -> None:
        self.compiles: Counter[int] = Counter()
        self.runs: Counter[int] = Counter()

    def __call__(self, graph: Any, inputs: Any) -> Callable[..., Any]:
        from torch._inductor.compile_fx import compile_fx

        self.compiles[threading.get_ident()] += 1
        compiled = compile_fx(graph, inputs)

        def run(*tensors: Any) -> Any:
            self.runs[threading.get_ident()] += 1
            return compiled(*tensors)

        return run

    def here(self) -> tuple[int, int]:
        """Return compiles and runs of this thread so far."""
        own = threading.get_ident()
        return self.compiles[own], self.runs[own]


class Answer(BaseModel):
    """Scores, and how they came about."""

    scores: list[float]
    model: int  # its seed
    compiles: int  # that this request waited for
    graphs: int  # compiled graphs that ran for it: 0 is eager


# ---------------------------------------------------------------- the service


@dataclass(frozen=True)
class Options:
    """How the service warms up, and what it does afterwards."""

    warm_up: str = "shapes"
    threads: int = 1
    after: str = "default"
    late: int = 3
    queue: int = 100  # requests at a time; what is above it is refused
    deadline: float = 300.0  # seconds, then a request that waits is dropped
    seed: int = 0


class Service:
    """A model, the threads that call it, and what they did."""

    def __init__(
        self, options: Options, build: Callable[[int], nn.Module] = make
    ):
        self.options, self.build = options, build
        self.counted = Counted()
        self.pool = ThreadPoolExecutor(options.threads, "model")
        self.probe = ThreadPoolExecutor(1, "canary")  # waits for no client
        self.answered = self.failed = self.late = self.eager = 0
        self.in_warm_up = self.waiting = self.refused = 0
        self._lock = threading.Lock()
        self.current = self.load(options.seed)

    def load(self, seed: int) -> tuple[int, Callable[..., Any]]:
        model = self.build(seed).to(DEVICE)
        return seed, torch.compile(model, backend=self.counted, fullgraph=True)

    def call(
        self,
        model: tuple[int, Callable[..., Any]],
        series: Any,
        mark: Callable[..., None] | None = None,
    ) -> Answer:
        """Call the model in this thread; the warm-up and all traffic do."""
        seed, compiled = model
        x = torch.tensor(series, dtype=torch.float32, device=DEVICE)
        if mark:
            mark(x, 0)
        compiles, graphs = self.counted.here()
        with torch.inference_mode():  # of this thread, and guarded
            scores = compiled(x).tolist()
        now = self.counted.here()
        return Answer(
            scores=scores,
            model=seed,
            compiles=now[0] - compiles,
            graphs=now[1] - graphs,
        )

    def warm(self, model: tuple[int, Callable[..., Any]]) -> None:
        """Compile what the policy foresees, each call in its turn in the pool.

        In its own thread, it could make a call of the traffic compile: torch
        does not lock a function's compiled code while it looks for the right
        one (PyTorch's pull request 195355).  The canary takes that risk.
        A stance is the process's, so meanwhile the traffic may compile, too.
        """
        mark = MARKS.get(self.options.warm_up)
        with torch.compiler.set_stance("default"):
            for rows in FORESEEN[self.options.warm_up]:
                turn = self.pool.submit(self.call, model, example(rows), mark)
                self.in_warm_up += turn.result().compiles

    def begin(self) -> None:
        """Warm up, then say what late calls may do."""
        self.warm(self.current)
        torch.compiler.set_stance(self.options.after)

    def answer(self, series: Any) -> Answer:
        """Answer a request, and watch for late compiles."""
        try:
            found = self.call(self.current, series)
        except Exception:
            with self._lock:
                self.failed += 1
            raise
        with self._lock:
            self.answered += 1
            self.late += found.compiles
            self.eager += found.graphs == 0
            too_many = found.compiles > 0 and self.late >= self.options.late
        if too_many:
            log.warning(
                "%d late compiles: what is new runs eagerly now", self.late
            )
            torch.compiler.set_stance("eager_on_recompile")
        return found

    def enter(self, series: Any) -> Future[Answer]:
        """Put a request into the queue, or raise OverflowError: it is full."""
        with self._lock:
            if self.waiting >= self.options.queue:
                self.refused += 1
                raise OverflowError("too many requests wait")
            self.waiting += 1
        turn = self.pool.submit(self.answer, series)
        turn.add_done_callback(self._leave)  # dropped ones, too
        return turn

    def _leave(self, _: Any) -> None:
        with self._lock:
            self.waiting -= 1

    def replace(self, seed: int) -> None:
        """Warm a new model up between the calls of the traffic, then swap."""
        model = self.load(seed)
        self.warm(model)
        self.current = model  # a request has the old one or the new one

    def close(self) -> None:
        torch.compiler.set_stance("default")
        self.pool.shutdown()
        self.probe.shutdown()


def problems(service: Service, lengths: Sequence[int] = SAMPLE) -> list[str]:
    """Return the reasons not to serve: the gate of a deployment."""
    try:
        service.begin()
    except Exception as error:
        return [f"the warm-up fails: {type(error).__name__}"]
    eager, found = service.build(service.options.seed).double(), []
    forced = service.options.after == "force_eager"
    stance = "force_eager" if forced else "fail_on_recompile"
    for rows in lengths:
        try:
            with torch.compiler.set_stance(stance):
                reply = service.pool.submit(
                    service.answer, example(rows)
                ).result()
        except Exception as error:
            found.append(f"{rows} rows: {type(error).__name__}")
            continue
        if reply.graphs != 1:
            found.append(
                f"{rows} rows: {reply.graphs} compiled graphs ran, not 1"
            )
        right = eager(torch.tensor(example(rows)).double())
        if not torch.allclose(
            torch.tensor(reply.scores).double(), right, atol=1e-4
        ):
            found.append(f"{rows} rows: wrong scores")
    return found


# ------------------------------------------------------------------- the HTTP

Reading = Annotated[FiniteFloat, Field(ge=-LARGEST, le=LARGEST)]
Row = Annotated[list[Reading], Field(min_length=WIDE, max_length=WIDE)]


class Question(BaseModel):
    """What a client may send; all else is refused before the model sees it."""

    model_config = ConfigDict(strict=True, extra="forbid")
    series: Annotated[list[Row], Field(min_length=1, max_length=LONGEST)]


class Health(BaseModel):
    """What the service knows about itself."""

    compiled: bool  # the canary, asked now, ran a compiled graph
    model: int
    answered: int
    failed: int  # in the model
    eager: int  # of these, without a compiled graph
    in_warm_up: int  # compiles
    in_traffic: int  # compiles


class Reload(BaseModel):
    """A new model."""

    seed: int = Field(ge=0, lt=2**63)  # what torch.manual_seed takes


def create_app(options: Options) -> FastAPI:
    """Return the application; the model is warm before it takes requests."""
    service: Service

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        nonlocal service
        service = Service(options)
        await asyncio.to_thread(service.begin)
        yield
        service.close()

    app = FastAPI(lifespan=lifespan)
    reloading = asyncio.Lock()

    @app.exception_handler(RequestValidationError)
    async def refuse(
        _: Request, error: RequestValidationError
    ) -> JSONResponse:
        # FastAPI's own answer quotes the input, and JSON has no NaN to quote.
        why = [f"{one['loc']}: {one['msg']}" for one in error.errors()]
        return JSONResponse({"refused": why}, 422)

    @app.post("/score")
    async def score(question: Question) -> Answer:
        try:
            turn = asyncio.wrap_future(service.enter(question.series))
            return await asyncio.wait_for(turn, options.deadline)
        except OverflowError as error:
            raise HTTPException(503, "busy", {"Retry-After": "1"}) from error
        except TimeoutError as error:  # before its turn, it is dropped
            raise HTTPException(504, "too late") from error
        except Exception as error:
            log.error(
                "%s: %s", type(error).__name__, str(error).split("\n")[0]
            )
            raise HTTPException(503, "no answer") from error

    @app.get("/live")
    async def live() -> dict[str, bool]:  # waits for no compile
        return {"alive": True}

    @app.get("/health")
    async def health(response: Response) -> Health:
        compiled = False
        loop = asyncio.get_running_loop()
        try:  # a fixed series, outside the queue: no client can turn it red
            seen = await loop.run_in_executor(
                service.probe, service.call, service.current, example(CANARY)
            )
            compiled = seen.graphs == 1
        except Exception as error:
            log.error("health: %s", type(error).__name__)
        response.status_code = 200 if compiled else 503
        return Health(
            compiled=compiled,
            model=service.current[0],
            answered=service.answered,
            failed=service.failed,
            eager=service.eager,
            in_warm_up=service.in_warm_up,
            in_traffic=service.late,
        )

    @app.get("/metrics")
    async def metrics() -> PlainTextResponse:  # as Prometheus reads it
        found = {
            "compiles_in_traffic_total": service.late,
            "answers_total": service.answered,
            "eager_answers_total": service.eager,
            "refused_total": service.refused,
            "waiting": service.waiting,
        }
        lines = (
            f"service_{name} {number}\n" for name, number in found.items()
        )
        return PlainTextResponse("".join(lines))

    @app.post("/reload")
    async def reload(wanted: Reload) -> dict[str, int]:
        async with reloading:
            await asyncio.to_thread(service.replace, wanted.seed)
        return {"model": wanted.seed}

    return app


# ------------------------------------------------------------ the command line


def end_with_stdin(server: uvicorn.Server) -> None:
    """Stop when whoever started us closes our input, or dies."""
    sys.stdin.read()
    server.should_exit = True


def main() -> int:
    """Serve, or check; return the exit code."""
    parser = argparse.ArgumentParser(
        description="a compiled model behind HTTP"
    )
    parser.add_argument("--warm-up", choices=FORESEEN, default="shapes")
    parser.add_argument(
        "--threads", type=int, default=1, help="that call the model"
    )
    stances = (
        "default",
        "eager_on_recompile",
        "fail_on_recompile",
        "force_eager",
    )
    parser.add_argument("--cores", type=int, default=1, help="for one call")
    parser.add_argument("--after", choices=stances, default="default")
    parser.add_argument(
        "--late", type=int, default=3, help="compiles in traffic"
    )
    parser.add_argument("--queue", type=int, default=100, help="its length")
    parser.add_argument(
        "--deadline", type=float, default=300, help="in seconds"
    )
    parser.add_argument(
        "--port", type=int, default=8000, help="0: any that is free"
    )
    parser.add_argument(
        "--check", action="store_true", help="is it fit to serve?"
    )
    parser.add_argument(
        "--with-stdin", action="store_true", help="stop when it ends"
    )
    given = parser.parse_args()
    options = Options(
        given.warm_up,
        given.threads,
        given.after,
        given.late,
        given.queue,
        given.deadline,
    )
    if given.check:
        service = Service(options)
        found = problems(service)
        service.close()
        print("\n".join(found) or "fit to serve")
        return 1 if found else 0
    config = uvicorn.Config(
        create_app(options), port=given.port, log_level="warning"
    )
    server = uvicorn.Server(config)
    torch.set_num_threads(given.cores)
    socket = config.bind_socket()
    print(f"http://127.0.0.1:{socket.getsockname()[1]}", flush=True)
    if given.with_stdin:
        threading.Thread(
            target=end_with_stdin, args=(server,), daemon=True
        ).start()
    for signal in SIGINT, SIGTERM:  # raised again, once all is answered
        set_handler(signal, lambda *_: None)
    server.run(sockets=[socket])
    return 0


if __name__ == "__main__":
    sys.exit(main())
