"""The part ``matches``: does compiled code give eager's answers, and what differs?"""

from __future__ import annotations

import logging
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any
from unittest import mock

import torch

from .capture import least_captured
from .explain import explain_error
from .helpers import text
from .helpers._torch import cpp_compiler
from .helpers.capture import GraphBreak, Watch
from .helpers.errors import InputError, one_line
from .helpers.frames import line_in
from .helpers.judge import SEEDED, Judgement
from .helpers.session import compile_apart, torch_handlers
from .helpers.tensors import tensors
from .helpers.text import Table
from .model import Model, without_backward
from .report import BISECT, Part


def part(m: Model) -> Part:
    """Does compiled code give eager's answers?"""
    what = "answers and gradients" if m.train else "answers"
    with without_backward(m), _warned(m) as warnings_of, Watch() as watch:
        found = m.judged(m.compiled(), again=m.compiled)
    m.versions = watch.compiles
    warned = [one for one in warnings_of["compiled"] if one not in warnings_of["eager"]]
    bad = [one for one in found.differences if not one.look]
    if len(m.fails) == len(found.off) and not bad:
        raise InputError(f"both sides raise in every call: {one_line(m.fails[0])}")
    words = _words(m, found)
    raises = words.count("RAISES")
    if raises == len(words) and not (compiler := cpp_compiler())[0]:
        raise InputError(f"Inductor found no C++ compiler ({compiler[1]})")
    verdict, advice = "good", ()
    says = f"compiled {what} are as near to float64 as eager's"
    if bad:
        m.raised = bad[0].compiled
        verdict, wrong = "bad", "fail, where eager's come" if raises else ""
        if "DIFFER" in words:
            wrong = f"{wrong}, and are not eager's" if raises else "are not eager's"
        says = f"compiled {what} {wrong}: {bad[0].short}"
        if all(one.of_break for one in bad):
            says = f"a graph break under fullgraph=True raises: {bad[0].compiled}"
            advice = tuple(map(_without_break, least_captured(m)[0].breaks))
        else:
            known = explain_error(bad[0].compiled).meanings
            told = [f"{one.name}: {one.mend}" for one in known] + [BISECT]
            fix = "" if bad[0].of_promise else _fix(m, raises > 0)
            advice = (fix or told[0],)
    elif found.undecided:
        verdict, says = "cannot tell", f"whether {what} agree was not decided"
    elif found.differences:
        verdict, first = "look", found.differences[0]
        says += f"; {first.place} has a different {first.field}"
        if error := m.fails.get(first.call - 1):
            line = line_in("".join(traceback.format_exception(error)))
            advice = (f"{line}: compiled, an assert raises RuntimeError: catch both",)
    elif SEEDED in found.notes:
        says += f"; {SEEDED}"
    advice += tuple(f"torch warns: {line:.300}" for line in warned[:3])
    counts = {"matches": False if bad else found.matches}
    evidence = (_table(what, words, found), *found.notes, *_about(m, len(words)))
    how = "matches", verdict, says, counts, evidence, advice
    return Part(*how, differences=found.differences)


@contextmanager
def _warned(m: Model) -> Iterator[dict[str, dict[str, None]]]:
    """Collect, in the block, what is warned of while each side runs, or is built."""
    told, side = {"eager": dict[str, None](), "compiled": dict[str, None]()}, ["eager"]

    def add(words: str) -> None:
        lines = " ".join(line.strip() for line in words.strip().splitlines())
        if not lines.startswith("Graph break"):  # `capture` tells them, with a line
            told[side[0]][lines] = None

    def logged(record: logging.LogRecord) -> bool:
        if record.levelno == logging.WARNING:
            add(record.getMessage())
        return True

    def running(now: str, usual: Callable[[str], None] = m.running) -> None:
        side[0] = "eager" if now == "eager" else "compiled"
        usual(now)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(m, "running", running))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("default")
        show = lambda message, *_, **__: add(str(message))  # noqa: E731
        stack.enter_context(mock.patch.object(warnings, "showwarning", show))
        for handler in torch_handlers():
            handler.addFilter(logged)
            stack.callback(handler.removeFilter, logged)
        yield told


def _words(m: Model, found: Judgement) -> list[str]:
    def word(n: int) -> str:
        bad = [d for d in found.differences if d.call == n and not d.look]
        if not bad:
            none = "both raise" if n - 1 in m.fails else "agree"
            return "not decided" if n in found.undecided else none
        only = any(d.field == "raises" and d.eager == "runs" for d in bad)
        return "RAISES" if only else "DIFFER"

    return [word(n) for n in range(1, len(found.off) + 1)]


def _table(what: str, words: list[str], found: Judgement) -> Table:
    rows = []
    for number, (word, off) in enumerate(zip(words, found.off, strict=True), 1):
        far = ", ".join(f"{e:.2g}" for e in off) if off else "not known"
        rows.append((str(number), word, text.mark(far)))
    return Table.of(["inputs", what, "off from float64: eager, compiled"], rows)


def _about(m: Model, calls: int) -> list[str]:
    """Return the rest of the evidence: order, what is compiled inside."""
    said = []
    if calls > 1:
        said.append("the calls were made in a row, from one state")
    if m.inside:
        left = "compiled with all around it" if m.whole else "compiled as they are"
        with suppress(InputError):  # what raises compiled is told already
            if m.in_pieces and m.calls and not least_captured(m)[0].count:
                left += ", of which nothing is captured, so both sides run eagerly"
        names = ", ".join(m.inside[:3]) + (", …" if len(m.inside) > 3 else "")
        said.append(
            f"it compiles {text.count(len(m.inside), 'piece')} of itself ({names}): "
            f"eager runs them eagerly, and the other side has them {left}"
        )
    said += [f"inputs {n + 1}: eager raises {one_line(e)}" for n, e in m.fails.items()]
    return said


def _without_break(stop: GraphBreak) -> str:
    why = (stop.fix or stop.explanation or stop.reason).rstrip(".")
    return f"{stop.place.rstrip(':')}: {why}; or allow the break: fullgraph=False"


def _fix(m: Model, raises: bool) -> str:
    """Return the line with which all answers are eager's, if the likely one helps.

    What raises may be a class of tensors that Dynamo looks into, or code for sizes
    that vary.  Kernels keep float32 between operations on half precision, on purpose.
    """
    half = torch.bfloat16, torch.float16
    classes = {type(t) for t in tensors(m.calls)} - {torch.Tensor, torch.nn.Parameter}
    if raises and classes:
        names = ", ".join(sorted(one.__name__ for one in classes))
        line = f"torch._dynamo.config.nontraceable_tensor_subclasses |= {{{names}}}"
        with torch._dynamo.config.patch(nontraceable_tensor_subclasses=classes):
            if _right(m):
                return f"{line}: eager's answers; what handles {names} runs eagerly"
    if raises:
        how: dict[str, Any] = {"dynamic": False}
        words, why = "dynamic=False", "what failed is code for sizes that vary"
    elif any(t.dtype in half for t in tensors((m.calls, m.module))):
        how = {"options": {"emulate_precision_casts": True}}
        words = 'options={"emulate_precision_casts": True}'
        why = "half precision is rounded between operations"
    else:
        return ""
    said = f"torch.compile(model, {words}): eager's answers for all these inputs; {why}"
    return said if _right(m, **how) else ""


def _right(m: Model, **options: Any) -> bool | None:
    """Return whether all answers are eager's with other *options* of torch.compile."""
    again: Callable = partial(compile_apart, m.fn, **options)
    with suppress(InputError):
        return m.judged(m.compiled(**options), again=again).matches
    return None
