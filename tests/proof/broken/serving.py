"""Faults of a service: what its threads share, and what its health says."""

from __future__ import annotations

from typing import Any

from tests.proof.broken import around, shared


@shared("a service loses its one thread", "concurrent.futures.thread", "27")
def eight_threads(thread: Any) -> None:
    """A model that one thread should call is called by eight."""

    @around(thread.ThreadPoolExecutor, "__init__")
    def __init__(original, self, max_workers=None, thread_name_prefix="", *rest):
        many = 8 if thread_name_prefix == "model" else max_workers
        original(self, many, thread_name_prefix, *rest)


@shared("a health check takes eager for compiled", "examples.service.app", "27")
def all_is_well(app: Any) -> None:
    """The service runs eagerly for weeks, and its health check is green."""

    @around(app.Service, "call")
    def call(original, self, *given):
        found = original(self, *given)
        found.graphs = 1
        return found
