"""A program of a few lines that shows one difference, and says it with one assertion.

It is written from a piece of a captured graph, or calls the user's own ``make``, and it
is run in its own process before you get it.
"""

from __future__ import annotations

import inspect
import math
import re
import subprocess
import textwrap
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import fx

from . import sandbox
from .helpers.children import start
from .helpers.differences import Difference
from .helpers.tensors import tensors
from .model import Model

_SHORT = 16
"""So many numbers of a tensor are written out; longer ones are made from a seed."""
_MOST_SAVED = 256 << 20
"""More bytes of inputs than this are kept in no file."""
_BUILT_IN = ("aten", "prims", "higher_order", "prim", "rngprims", "quantized", "mkldnn")
BACKWARD = (  # of a loss in which each number has its own weight
    "leaves = torch.utils._pytree.tree_leaves(out)",
    "roots = [t for t in leaves if torch.is_tensor(t) and t.requires_grad]",
    "places = [torch.arange(t.numel()).view(t.shape) for t in roots]",
    "loss = sum((t * (n % 13 - 6)).sum() for t, n in zip(roots, places))",
    "loss.backward()",
)
_USUAL = 1e-4
"""Torch's own tolerance decides where one side is nearer than this, the other not."""
_COMPARED = {  # of each field, what must hold of both sides
    "dtype": "compiled.dtype == eager.dtype, (compiled.dtype, eager.dtype)",
    "shape": "compiled.shape == eager.shape, (compiled.shape, eager.shape)",
    "requires_grad": "compiled.requires_grad == eager.requires_grad",
    "stride": "compiled.stride() == eager.stride()",
    "missing": "(compiled is None) == (eager is None)",
    "extra": "(compiled is None) == (eager is None)",
    "type": "type(compiled) is type(eager), (type(compiled), type(eager))",
    "identity": "compiled == eager, (compiled, eager)",
    "alias": "compiled == eager, (compiled, eager)",
    "sign of zero": "compiled.signbit().equal(eager.signbit())",
}
_NAME = "repro.py"
_DATA = "repro.pt"


@dataclass(frozen=True)
class Repro:
    """A program that shows a difference: what stands before its check, and the check.

    *saved* are inputs in a file next to it.
    """

    setup: str
    check: str
    raises: str = ""
    ends: str = ""
    saved: dict[str, torch.Tensor] | None = None

    @property
    def source(self) -> str:
        """The text of ``repro.py``."""
        return f"{self.setup}\n\n{self.check}\n"

    @property
    def lines(self) -> int:
        """How many lines it has, without those that make inputs, and empty ones."""
        text = re.sub(r"def inputs\(\):\n(?: .*\n|\n)*", "", self.source)
        return sum(bool(line.strip()) for line in text.splitlines())

    def write(self, folder: Path) -> None:
        """Write it, and what it loads, to a folder."""
        (folder / _NAME).write_text(self.source, "utf-8")
        (folder / _DATA).unlink(missing_ok=True)
        if self.saved:
            torch.save(self.saved, folder / _DATA)

    def fails(
        self,
        folder: Path,
        timeout: float,
        path: Sequence[str] = (),
        memory: int | None = None,
    ) -> bool:
        """Write it and run it; return whether it fails, and for this difference.

        Where the difference is that its process ends, or has no end, so must this one.
        It may have *memory* bytes.  Raises TimeoutError after *timeout* seconds, in any
        other case.
        """
        self.write(folder)
        said, limit = folder / "said", sandbox.memory_limit(memory)
        with said.open("w") as errors:
            pipes = {"stdout": subprocess.DEVNULL, "stderr": errors}
            child = start(_NAME, path=path, cwd=folder, **pipes)
            end = sandbox.awaited(child, said, max(timeout, 0.1), limit)
        said.unlink()
        if self.ends:
            return end.how == self.ends
        if end.how == "time":
            raise TimeoutError
        expected = self.raises.split(":")[0] or "AssertionError"
        return end.how == "raised" and bool(
            re.search(rf"^(?:[\w.]+\.)?{re.escape(expected)}\b", end.says, re.M)
        )


# -------------------------------------------------------------------- what it checks


@dataclass(frozen=True)
class Check:
    """An expression that shows a difference, and the assertion that fails for it.

    *found* is an expression of the names that the program has: ``out``, ``given``.
    *assertion* is a line, *raises* names the exception that is the difference, and
    *ends* says how it ends its process (`sandbox.End`), if it does.
    """

    found: str
    assertion: str = ""
    train: bool = False
    raises: str = ""
    ends: str = ""


def check_of_piece(
    found: Difference, module: fx.GraphModule, train: bool
) -> Check | None:
    """Return the check for a difference of a piece; None where there is none."""
    names = [n.name for n in module.graph.find_nodes(op="placeholder")]
    place, gradient = found.place, found.place.startswith("gradient")
    if found.field in ("raises", "exception"):
        return _of_error(found, train and place == "the backward")
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
    return check_of(found, expression, train=gradient)


def _of_error(found: Difference, train: bool = False) -> Check:
    """Return the check for an exception: that of compiled code, if it raises."""
    if found.eager == "runs":
        left = re.match(r"SystemExit: (\d+)", found.compiled)
        ends = f"status {left[1]}" if left else found.ended
        return Check("out", train=train, raises=found.compiled, ends=ends)
    return Check("", "assert compiled == eager, (compiled, eager)", train)


def check_of(found: Difference, expression: str, train: bool) -> Check | None:
    """Return the check for *found* in an expression; None for an unknown field."""
    memory = "untyped_storage().data_ptr()"
    many = "[{} for one in (*given, *out){}]"
    if found.field == "identity":
        expression = many.format(f"one is {expression}", "")
    elif found.field == "alias":
        same = f"one.{memory} == {expression}.{memory}"
        expression = many.format(same, " if torch.is_tensor(one)")
    if found.field in ("values", "nan/inf"):
        return Check(expression, _close(found), train)
    compared = _COMPARED.get(found.field)
    return Check(expression, f"assert {compared}", train) if compared else None


def _close(found: Difference) -> str:
    """Return torch's own assertion on values, or a tighter one for small ones."""
    usual = "torch.testing.assert_close(compiled, eager, equal_nan=True)"
    if found.off_eager is None or found.off_compiled is None:
        return usual
    if 4 * found.off_eager < _USUAL < found.off_compiled / 4:
        return usual
    limit = max(4 * found.off_eager, found.off_compiled / 4)
    close = limit < found.off_compiled
    return f"{usual[:-1]}, rtol=0, atol={limit:.1g})" if close else usual


def check_of_model(found: Difference, m: Model) -> Check | None:
    """Return the check for a difference of the user's model; None if there is none."""
    if found.field in ("raises", "exception"):
        return _of_error(found)
    expression = _in_model(found.place, m)
    check = check_of(found, expression, False) if expression else None
    return None if check and "given" in check.found else check


def _in_model(place: str, m: Model) -> str:
    """Return the expression for a place of the user's model or its inputs; or ''."""
    if place.startswith("output"):
        return "out" + place.removeprefix("output")
    if match := re.fullmatch(r"(gradient of )?input (\w+)(?: after the call)?", place):
        names = [*inspect.signature(getattr(m.fn, "forward", m.fn)).parameters]
        given = m.calls[0][0]
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


# ----------------------------------------------------------------- the whole program


def beside(target: str) -> list[str]:
    """Return the lines that import, and let a program find the module of *target*.

    It is run where the check-up was: no folder of this machine is written into it.
    """
    file, folder = Path(target.rpartition(":")[0]), Path()
    with suppress(ValueError):
        folder = file.parent.relative_to(Path.cwd())
    here = f"sys.path.append({folder.as_posix()!r})  # from where it is run"
    return ["import sys", "", "import torch", "", here]


def of_piece(
    module: fx.GraphModule,
    given: Sequence[Any],
    check: Check,
    compiling: str,
    exact: bool,
    target: str = "",
) -> Repro:
    """Return the program of a piece of a graph, which is called with *given*.

    *compiling* is how it is compiled: ``torch.compile(f)``.  With *exact*, inputs have
    the values that they had, those that are long in a file; else these come from a
    seed.  *target* is the user's, whose module may register operators.
    """
    names = [n.name for n in module.graph.find_nodes(op="placeholder")]
    heads, body = _code(module, target)
    making, saved = _inputs(names, given, exact)
    arguments = ", ".join(names)
    comma = "," if len(names) == 1 else ""
    setup = "\n".join(
        [
            *heads,
            "",
            "",
            *body,
            "",
            "",
            "def inputs():",
            *(f"    {line}" for line in making),
            f"    return {arguments}{comma}" if names else "    return ()",
            "",
            "",
            *_seen("given = inputs()", "fn(*given)", check),
            "",
        ]
    )
    shows = _checked(check, "f", compiling)
    return Repro(setup, shows, check.raises, check.ends, saved)


def of_make(
    target: str, call: Callable[[str], list[str]], check: Check, how: str
) -> Repro:
    """Return the program that calls the user's own *target*.

    *call* gives the lines that call what it is given by name; *how* is what compiles.
    """
    name = target.rpartition(":")[2]
    setup = [
        *beside(target),
        f"from {module_of(target)} import {name}",
        "",
        "",
        "def seen(compiled):",
        "    torch.manual_seed(0)",
        f"    fn, given, *loss = {name}()",
        f"    run = {how} if compiled else fn",
        *_guarded(call("run"), check),
        "",
    ]
    shows = _checked(check, "False", "True")
    return Repro("\n".join(setup), shows, check.raises, check.ends)


def _guarded(lines: list[str], check: Check) -> list[str]:
    """Return the lines of a call, and of what is looked at after it."""
    if check.found:
        return [f"    {line}" for line in [*lines, f"return {check.found}"]]
    tried = [f"        {line}" for line in lines]
    handled = ["    except Exception as error:", "        return type(error).__name__"]
    return ["    try:", *tried, *handled]


def _seen(making: str, call: str, check: Check) -> list[str]:
    """Return the lines of a function that calls one side, and looks at it."""
    backward = BACKWARD if check.train and check.found else ()
    lines = _guarded([f"out = {call}", *backward], check)
    return ["def seen(fn):", f"    {making}", *lines]


def _checked(check: Check, name: str, compiling: str) -> str:
    if check.raises:
        return f"seen({name})\nseen({compiling})  # {check.raises}"
    return f"eager, compiled = seen({name}), seen({compiling})\n{check.assertion}"


def as_test(repro: Repro, name: str) -> str:
    """Return the same as a test of pytest."""
    words = "_".join(re.findall(r"[a-z0-9]+", name.lower()))
    check = textwrap.indent(repro.check, "    ")
    return f"{repro.setup}\n\ndef test_{words}():\n{check}\n"


# ------------------------------------------------------------------------------- code


def module_of(target: str) -> str:
    """Return the name by which a program imports the module of *target*."""
    home = target.rpartition(":")[0]
    return Path(home).stem if home.endswith(".py") else home


def _code(module: fx.GraphModule, target: str) -> tuple[list[str], list[str]]:
    """Return the lines that import, and a function ``f`` with its inner ones."""
    functions, heads = list[str](), list[str]()
    for name, inner in [*module.named_children(), ("f", module)]:
        if not isinstance(inner, fx.GraphModule):
            continue
        written = inner.graph.python_code("self")
        heads += _imports(written.globals)
        functions += [*_function(name, inner, written.src), "", ""]
    text = "\n".join(functions)
    heads = [line for line in heads if re.search(rf"\b{line.split()[-1]}\b", text)]
    spaces = set(re.findall(r"torch\.ops\.(\w+)\.", text)) - {*_BUILT_IN}
    heads = [*dict.fromkeys(heads)]
    if spaces and target:
        registers = f"{module_of(target)}  # it registers torch.ops.{min(spaces)}"
        return [*beside(target), *heads, f"import {registers}"], functions[:-2]
    return ["import torch", *heads], functions[:-2]


def _function(name: str, module: fx.GraphModule, source: str) -> list[str]:
    """Return the code of a graph as a function, without types and deletions."""
    names = [n.name for n in module.graph.find_nodes(op="placeholder")]
    after = source[source.index("def forward") :].splitlines()[1:]
    dead = r";  (?:\w+ = )+None$"
    lines = [re.sub(dead, "", line) for line in after if line.strip()]
    lines = [re.sub(r"^(\s*\w+) : [^=]+ = ", r"\1 = ", line) for line in lines]
    renamed = {n.target: n.name for n in module.graph.find_nodes(op="placeholder")}
    lines = [
        line
        for line in lines
        if line.strip() not in {f"{new} = {old}" for old, new in renamed.items()}
    ]
    lines = [re.sub(r"\bself\.(\w+)", r"\1", line) for line in lines]
    lines = [
        re.sub(r"(?<=[(,] )(\w+) = |(?<=\()(\w+) = ", r"\1\2=", line) for line in lines
    ]
    return [f"def {name}({', '.join(names)}):", *lines]


def _imports(scope: dict[str, Any]) -> list[str]:
    """Return the imports of what a graph's code names besides torch."""
    lines = []
    for name, value in scope.items():
        home, own = getattr(value, "__module__", ""), getattr(value, "__name__", "")
        if name == "torch" or value is None or own == "NoneType":
            continue
        if isinstance(value, float):
            lines.append(f"from math import {name}")
        elif isinstance(value, types.ModuleType):
            lines.append(f"import {own} as {name}" if own != name else f"import {name}")
        elif home and own:
            lines.append(f"from {home} import {own}" + f" as {name}" * (own != name))
    return lines


# ----------------------------------------------------------------------------- inputs


def _inputs(
    names: Sequence[str], given: Sequence[Any], exact: bool
) -> tuple[list[str], dict[str, torch.Tensor] | None]:
    """Return the lines that make inputs, and those that must come from a file.

    Strides, offsets and shared memory are kept.  Raises ValueError for what cannot be
    written or saved.
    """
    lines, saved = list[str](), dict[str, torch.Tensor]()
    homes = dict[int, str]()  # the memory that several share
    shared = _shared(given)
    for name, value in zip(names, given, strict=True):
        if not isinstance(value, torch.Tensor):
            lines.append(f"{name} = {value!r}")
            continue
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise ValueError(f"inputs of the type {type(value).__name__}")
        flat = _memory(value)
        made = _made(flat, exact)
        grad = ".requires_grad_()" * value.requires_grad
        if not made:
            saved[name] = value.detach()
            lines.append(f"{name} = saved[{name!r}]{grad}")
            continue
        place = value.untyped_storage().data_ptr()
        steps = f"{tuple(value.shape)}, {value.stride()}"
        if place in shared:
            base = homes.get(place)
            if base is None:
                base = homes[place] = f"memory_of_{name}"
                whole = torch.empty(0, dtype=value.dtype).set_(value.untyped_storage())
                lines.append(f"{base} = {_made(whole, exact=False)}")
            lines.append(
                f"{name} = {base}.as_strided({steps}, {value.storage_offset()})"
            )
        elif value.is_contiguous():
            shape = tuple(value.shape)
            lines.append(f"{name} = {_shaped(made, flat, shape)}")
        else:
            lines.append(f"{name} = {made}.as_strided({steps})")
        lines[-1] += grad
    if any("rand" in line for line in lines):
        lines.insert(0, "torch.manual_seed(0)")
    if saved:
        if sum(t.nbytes for t in saved.values()) > _MOST_SAVED:
            raise ValueError(f"inputs of more than {_MOST_SAVED >> 20} MiB")
        lines.insert(0, f"saved = torch.load({_DATA!r}, weights_only=True)")
    return lines, saved or None


def _shared(given: Sequence[Any]) -> set[int]:
    """Return the addresses of memory that several inputs share."""
    places = [t.untyped_storage().data_ptr() for t in tensors(given) if t.numel()]
    return {place for place in places if places.count(place) > 1}


def _memory(value: torch.Tensor) -> torch.Tensor:
    """Return the memory of a tensor as one row: with gaps, repeats only once."""
    value = value.detach()
    if not value.numel():
        return value.flatten()
    if value.is_contiguous():
        return value.flatten()
    steps = zip(value.shape, value.stride(), strict=True)
    span = 1 + sum((n - 1) * step for n, step in steps)
    return value.as_strided((span,), (1,))


def _made(flat: torch.Tensor, exact: bool) -> str:
    """Return an expression for a row of numbers; '' if only a file could hold it."""
    n, dtype = flat.numel(), flat.dtype
    typed = "" if dtype == torch.float32 else f", dtype={dtype}"
    if not n:
        return f"torch.empty(0{typed})"
    first = flat[0].item() if not dtype.is_complex else None
    plain = first is not None and math.isfinite(first)
    if n > 1 and plain and bool((flat == flat[0]).all()):
        return f"torch.full(({n},), {first!r}{typed})"
    if n <= _SHORT and not dtype.is_complex:
        return _written(flat)
    if exact:
        return ""
    if dtype == torch.bool:
        return f"(torch.rand({n}) < 0.5)"
    if dtype.is_complex:
        return f"torch.randn({n}{typed})"
    if not dtype.is_floating_point:
        low, high = (int(one) for one in flat.long().aminmax())
        kind = "" if dtype == torch.int64 else typed
        return f"torch.randint({low}, {high + 1}, ({n},){kind})"
    kind = "rand" if bool((flat.double() >= 0).all()) else "randn"
    if flat.itemsize == 1:  # float8
        return f"torch.{kind}({n}).to({dtype})"
    return f"torch.{kind}({n}{typed})"


def _written(flat: torch.Tensor) -> str:
    wide = flat.double() if flat.is_floating_point() else flat
    numbers = re.sub(r"\b(nan|inf)\b", r'float("\1")', repr(wide.tolist()))
    return f"torch.tensor({numbers}, dtype={flat.dtype})"


def _shaped(made: str, flat: torch.Tensor, shape: tuple[int, ...]) -> str:
    """Return the expression of a row in the shape that the tensor has."""
    n = flat.numel()
    if shape == (n,):
        return made
    if match := re.fullmatch(rf"torch\.(rand|randn)\({n}(.*)\)", made):
        size = ", ".join(map(str, shape)) or "()"
        return f"torch.{match[1]}({size}{match[2]})"
    if made.startswith(("torch.full", "torch.randint")):
        return re.sub(rf"\({n},\)", str(shape), made, count=1)
    return f"{made}.view({shape})"
