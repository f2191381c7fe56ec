"""What Dynamo captured: the graphs of a call, and their operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from course.backend import CountingBackend

Graph = torch.fx.GraphModule


def captured(fn: Callable[..., Any], *inputs: Any) -> list[Graph]:
    """Return the graphs that Dynamo makes of a call; they run as they are."""
    backend = CountingBackend()
    torch.compile(fn, backend=backend)(*inputs)
    return backend.captured


def operations(graph: Graph) -> list[torch.fx.Node]:
    """Return the nodes of a graph that compute something."""
    return [node for node in graph.graph.nodes if node.op.startswith("call")]
