"""The kernels a program becomes, their source, and the bytes that they move.

`kernels` and `output_code` compile anew, apart from the session and past the
cache of graphs, so that the lowering really runs.  `eager_bytes` is the count to
set against `Kernels.bytes`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any

from helpers import compat, isolate
from helpers.lowering import Kernel, lowered
from helpers.results import stored
from helpers.text import Table, count, mark, plain, pre, size
from helpers.traffic import both_ways
from helpers.traffic import eager_bytes as eager_bytes  # offered from here


@stored
@dataclass(frozen=True)
class Kernels:
    """The launches of one call, in order; with breaks, of its compiled parts only."""

    kernels: tuple[Kernel, ...]
    breaks: int = 0

    @property
    def bytes(self) -> int:
        """Bytes moved by all launches: each tensor read or written once by each."""
        return sum(kernel.bytes for kernel in self.kernels)

    @property
    def generated(self) -> tuple[Kernel, ...]:
        """The kernels that Inductor wrote."""
        return tuple(k for k in self.kernels if k.language != "library")

    @property
    def library(self) -> tuple[Kernel, ...]:
        """The calls into libraries: matrix products, convolutions, attention."""
        return tuple(k for k in self.kernels if k.language == "library")

    def table(self) -> Table:
        """Return a row for each launch."""
        headings = ("phase", "ops", "loads", "stores", "reductions", "bytes", "kernel")
        return Table.of(headings, [kernel.row() for kernel in self.kernels])

    def _last(self) -> str:
        if not self.kernels:
            return "no kernels: nothing was captured, graphs(f, x) says where it stops"
        calls = count(len(self.library), "library call")
        text = f"{count(len(self.generated), 'kernel')}, {calls}, {size(self.bytes)}"
        partly = "; only partly compiled, graphs(f, x) says where it stops"
        return text + (partly if self.breaks else "")

    def __str__(self) -> str:
        return f"{self.table()}\n{self._last()}" if self.kernels else self._last()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return (self.table()._repr_html_() if self.kernels else "") + pre(self._last())


def kernels(
    fn: Callable[..., Any],
    *inputs: Any,
    backward: bool | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    dynamic: bool | None = None,
) -> Kernels:
    """Return the kernels and library calls of ``fn(*inputs)``, in launch order.

    Runs *fn* once on copies of the tensors, then its backward, through
    ``torch.autograd.grad``, if *backward* or by default if an output requires
    gradients.  *mode*, *options*, *dynamic* are as for ``torch.compile``.  Source:
    Inductor's scheduler nodes and its own count of bytes.

    Raises InputError when *fn* raises, returns no tensor or cannot be compiled,
    and ValueError for an unknown mode or option.
    """
    found, events = _compile(fn, inputs, backward, (mode, options, dynamic))
    breaks = sum(event.kind == "dynamo_graph_break_reason" for event in events)
    return Kernels(tuple(found), breaks)


def _compile(
    fn: Callable[..., Any],
    inputs: tuple[Any, ...],
    backward: bool | None,
    settings: tuple[Any, ...],
) -> tuple[list[Kernel], list[compat.Event]]:
    isolate.check_callable(fn, inputs)
    backend = isolate.inductor(*settings)
    with isolate.undisturbed(fn), compat.trace() as events, lowered() as found:
        apart = isolate.compile_apart(fn, backend=backend, dynamic=settings[2])
        isolate.call(both_ways(apart, backward), inputs, {})
    return found, events


@stored
@dataclass(frozen=True)
class Code:
    """Generated source: a (phase, text) pair for each graph."""

    sections: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """All of the source."""
        return "\n".join(text for _, text in self.sections)

    @property
    def language(self) -> str:
        """``Triton``, ``C++``, both, or ``no kernels``."""
        made = [
            n for n, tag in _LANGUAGES.items() if f"async_compile.{tag}" in self.text
        ]
        return " and ".join(made) or "no kernels"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the kernels, in the order of the source."""
        return tuple(dict.fromkeys(match[1] for match in _KERNEL.finditer(self.text)))

    def kernel(self, name: str | None = None) -> str:
        """Return the source of one kernel; *name* may be left out if there is one.

        Raises KeyError, with the names there are.
        """
        found = {match[1]: match[2].strip() for match in _KERNEL.finditer(self.text)}
        if name is None and len(found) == 1:
            return next(iter(found.values()))
        if name not in found:
            raise KeyError(
                f"no kernel {name!r}; there are: {', '.join(found) or 'none'}"
            )
        return found[name]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the source to *path*, whole or not at all."""
        from helpers.results import write_atomically

        write_atomically(path, self.text)

    def __str__(self) -> str:
        if not self.sections:
            return "no generated code: nothing was captured"
        phases = ", ".join(phase for phase, _ in self.sections)
        lines = count(len(self.text.splitlines()), "line")
        made = mark(f"{self.language}, {lines}: {', '.join(self.names)}")
        return f"Generated code ({phases}): {made}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        parts, end = [], 0
        for match in _KERNEL.finditer(self.text):
            parts.append(("python", self.text[end : match.start(2)]))
            cpp = "cpp" in match[0].split("(")[0]
            parts.append(("cpp" if cpp else "python", match[2]))
            end = match.end(2)
        parts.append(("python", self.text[end:]))
        return folded(plain(self), parts)


def folded(title: str, parts: Iterable[tuple[str, str]]) -> str:
    """Return HTML that folds under *title*: (language, source) parts, in colour."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    look = HtmlFormatter(noclasses=True, nobackground=True, style="tango")
    body = [highlight(text, get_lexer_by_name(name), look) for name, text in parts]
    summary = f"<summary>{html.escape(title)}</summary>"
    return f"<details open>{summary}{''.join(body)}</details>"


_LANGUAGES = {"Triton": "triton(", "C++": "cpp"}
_KERNEL = re.compile(r"^(\w+) = async_compile\.\w+\(.*?r?'''(.*?)'''", re.M | re.S)


def output_code(
    fn: Callable[..., Any],
    *inputs: Any,
    backward: bool | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    dynamic: bool | None = None,
    to: str | PathLike[str] | None = None,
) -> Code:
    """Return the source that Inductor generates for ``fn(*inputs)``.

    Arguments and errors as for `kernels`; with *to* it is saved there as well.
    Source: the structured log of the compiler.
    """
    _, events = _compile(fn, inputs, backward, (mode, options, dynamic))
    texts = [e.payload for e in events if e.kind == "inductor_output_code"]
    code = Code(tuple((_phase(text), text) for text in texts))
    if to is not None:
        code.save(to)
    return code


def _phase(text: str) -> str:
    found = re.search(r"AOT ID: \['\d+_(\w+)'\]", text)
    return found[1] if found else "inference"
