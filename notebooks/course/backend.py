"""A backend for torch.compile that counts: what was captured, and what ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class CountingBackend:
    """A backend for torch.compile that notes what is captured, and what runs.

    *inner* is the backend that makes what runs, or its name.  ``captured`` has the
    graphs, and ``ran`` for each run the number of its graph, its place in there: one
    that is compiled once more has a second number.
    """

    def __init__(self, inner: str | Callable[..., Any] = "eager") -> None:
        self.inner = inner
        self.captured: list[Any] = []
        self.ran: list[int] = []

    def __call__(self, graph: Any, inputs: list[Any]) -> Callable[..., Any]:
        """Return what runs in place of *graph*: the same, and noted each time."""
        import torch  # here, for `teach` is used without torch
        from torch.fx._lazy_graph_module import _LazyGraphModule

        number = len(self.captured)
        self.captured.append(graph)
        # Calling the module would print an error, and so would a lazy forward.
        _LazyGraphModule.force_recompile(graph)
        compiled = graph.forward
        if self.inner != "eager":
            compiled = torch._dynamo.lookup_backend(self.inner)(graph, inputs)

        def run(*tensors: Any) -> Any:
            self.ran.append(number)
            return compiled(*tensors)

        return run

    def __deepcopy__(self, memo: dict[int, Any]) -> CountingBackend:
        """Return itself: a copied model has the same backend, and finds its code."""
        return self

    def served(self, call: Callable[..., Any], *inputs: Any) -> int | str:
        """Call it; return the number of the graph that ran first, or "eager"."""
        before = len(self.ran)
        call(*inputs)
        return self.ran[before] if len(self.ran) > before else "eager"
