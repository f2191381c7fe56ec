"""Where a program looks to see a difference, and what it asserts there."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from torch import fx

from .differences import Difference
from .patient import Patient

_USUAL = 1e-4
"""Torch's own tolerance decides where one side is nearer than this, the other not."""


@dataclass(frozen=True)
class Look:
    """What is looked at after a call: *found*, and how both sides must agree.

    *found* is an expression of the names that the program has: ``out``, ``given``.
    *check* has the assertion; *raises* names the exception that is the difference, and
    *ends* how it ends its process (`children.End`), if it does.
    """

    found: str
    check: str = ""
    train: bool = False
    raises: str = ""
    ends: str = ""


def of_piece(found: Difference, module: fx.GraphModule, train: bool) -> Look | None:
    """Return what a program looks at to see a difference of a piece, or None."""
    names = [n.name for n in module.graph.find_nodes(op="placeholder")]
    place, gradient = found.place, found.place.startswith("gradient")
    if found.field in ("raises", "exception"):
        return raised(found, train and place == "the backward")
    if place.startswith("output"):
        expression = "out" + place.removeprefix("output")
    elif match := re.match(r"(?:gradient of )?(?:input )?(\w+)", place):
        known = dict(zip(names, range(len(names)), strict=True))
        number = known.get(match[1], match[1])
        if not str(number).isdigit():
            return None
        expression = f"given[{number}]" + ".grad" * gradient
    else:
        return None
    return seen_as(found, expression, train=gradient)


def raised(found: Difference, train: bool = False) -> Look:
    """Return the look at what is raised: the compiled error itself, if it can."""
    if found.eager == "runs":
        left = re.match(r"SystemExit: (\d+)", found.compiled)
        ends = f"status {left[1]}" if left else found.ended
        return Look("out", train=train, raises=found.compiled, ends=ends)
    return Look("", "assert compiled == eager, (compiled, eager)", train)


def seen_as(found: Difference, expression: str, train: bool) -> Look | None:
    """Return the look at an expression in which *found* shows."""
    others = "(*given, *out)"
    memory = "untyped_storage().data_ptr()"
    if found.field in ("dtype", "shape", "requires_grad"):
        both = [f"{side}.{found.field}" for side in ("compiled", "eager")]
        check = f"assert {' == '.join(both)}, ({', '.join(both)})"
    elif found.field == "stride":
        check = "assert compiled.stride() == eager.stride()"
    elif found.field in ("values", "nan/inf"):
        check = _values(found)
    elif found.field in ("missing", "extra"):
        check = "assert (compiled is None) == (eager is None)"
    elif found.field == "type":
        check = "assert type(compiled) is type(eager), (type(compiled), type(eager))"
    elif found.field == "identity":
        expression = f"[one is {expression} for one in {others}]"
        check = "assert compiled == eager, (compiled, eager)"
    elif found.field == "alias":
        expression = (
            f"[one.{memory} == {expression}.{memory} for one in {others} "
            "if torch.is_tensor(one)]"
        )
        check = "assert compiled == eager, (compiled, eager)"
    elif found.field == "sign of zero":
        check = "assert compiled.signbit().equal(eager.signbit())"
    else:
        return None
    return Look(expression, check, train)


def _values(found: Difference) -> str:
    """Return the assertion of values: torch's own, or a tighter one for small ones."""
    usual = "torch.testing.assert_close(compiled, eager, equal_nan=True)"
    if found.off_eager is None or found.off_compiled is None:
        return usual
    if 4 * found.off_eager < _USUAL < found.off_compiled / 4:
        return usual
    limit = max(4 * found.off_eager, found.off_compiled / 4)
    close = limit < found.off_compiled
    return f"{usual[:-1]}, rtol=0, atol={limit:.1g})" if close else usual


def in_model(place: str, p: Patient) -> str:
    """Return the expression for a place of the user's model, or of its inputs."""
    if place.startswith("output"):
        return "out" + place.removeprefix("output")
    if match := re.fullmatch(r"(gradient of )?input (\w+)(?: after the call)?", place):
        names = [*inspect.signature(getattr(p.fn, "forward", p.fn)).parameters]
        given = p.calls[0][0]
        known = match[2] in names and names.index(match[2]) < len(given)
        key = names.index(match[2]) if known else f'"{match[2]}"'
        return f"call[{key}]" + ".grad" * bool(match[1])
    for kind, get, end in (
        ("gradient of ", "get_parameter", ".grad"),
        ("parameter ", "get_parameter", ""),
        ("buffer ", "get_buffer", ""),
    ):
        if place.startswith(kind):
            name = place.removeprefix(kind).removesuffix(" after the call")
            return f'fn.{get}("{name}"){end}'
    return ""
