"""What Inductor does between a graph and its code: its own logs, shortened."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config
from torch._inductor.async_compile import AsyncCompile

from course.page_log import logged
from helpers.text import Table


@contextlib.contextmanager
def past_the_caches(**settings: Any) -> Iterator[None]:
    """Compile anew in the block: take no graph from a cache, and leave none.

    *settings* are Inductor's.  What is compiled is forgotten at the end.
    """
    torch.compiler.reset()
    try:
        with (
            inductor_config.patch(fx_graph_cache=False, **settings),
            functorch_config.patch(enable_autograd_cache=False),
        ):
            yield
    finally:
        torch.compiler.reset()


class _Written(BaseException):
    """The code is there, and that ends a compile: torch catches an Exception."""


def log_of(artifacts: str, fn: Callable[..., Any], *inputs: Any) -> str:
    """Return what ``TORCH_LOGS=artifacts`` says while *fn* is compiled.

    C++ is written and not built, so nothing runs.  Raises RuntimeError before
    ``start``, which keeps torch's log.
    """
    logged()
    torch._logging.set_logs(**dict.fromkeys(artifacts.split(","), True))
    no_build = mock.patch.object(AsyncCompile, "cpp_pybinding", side_effect=_Written)
    quiet = contextlib.redirect_stdout(io.StringIO())
    try:
        with past_the_caches(), quiet, contextlib.suppress(_Written), no_build:
            torch.compile(fn)(*inputs)
        return re.sub(r"^\[[\d/]+\] ", "", logged(), flags=re.MULTILINE)
    finally:
        torch._logging.set_logs()


def node(name: str, log: str) -> str:
    """Return what a log of the IR says of one node."""
    parts = re.split(r"\n\n+", log)
    return next(p for p in parts if re.search(rf"^{name}: ", p, re.M)).strip()


# What a loop body does, without loads, stores and the arithmetic of indices.
_COMPUTED = re.compile(r" = ops\.(?!load|store|constant|index_expr)(\w+)\(")


def loops(log: str) -> Table:
    """Return what each node of the IR reads, writes and computes.

    Raises ValueError for a log that says of no node.
    """
    rows = []
    for part in re.split(r"\n(?=\w+: \w*Node)", log):
        head = re.match(r"(?:.*\n)?(op\w+): (\w+)", part)
        if not head:
            continue
        reads, writes = (
            re.findall(r"Dep\((?:name=)?'(\w+)'", _field(part, which))
            for which in (r"(?:un)?met_dependencies", "writes")
        )
        computes = _COMPUTED.findall(part)
        library = re.findall(r"node\.kernel = (\S+)", part)
        what = ", ".join(computes) or " ".join(library)
        rows.append((head[1], " ".join(reads), " ".join(writes), what))
    if not rows:
        raise ValueError("no node in this log: it is of log_of('ir_pre_fusion', ...)?")
    return Table.of(["node", "reads", "writes", "computes"], rows)


def _field(part: str, name: str) -> str:
    """Return the text of a field of the first node in *part*."""
    found = re.findall(rf"^op\w+\.{name} =(.*?\])$", part, re.M | re.S)
    return " ".join(found)


def decisions(log: str) -> list[str]:
    """Return the lines in which the scheduler says what it fuses, and not.

    Raises ValueError for a log of something else.
    """
    if "attempting fusion" not in log:
        raise ValueError("this log is not of log_of('fusion', ...)")
    kept = r"^(?:fusing|cannot fuse|completed fusion).*"
    return list(dict.fromkeys(re.findall(kept, log, re.MULTILINE)))
