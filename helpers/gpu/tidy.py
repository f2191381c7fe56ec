"""A generated Triton kernel, rewritten for reading: the same code to the compiler.

    tidy(source)    the kernel alone, without what only Inductor needs

Constants stand where they are used; names that are never read, second names for the
same value, casts and broadcasts to what a value is already, masks that mask nothing
and parentheses that do nothing are gone.  Each rewrite leaves what Triton makes of the
kernel as it was: one that needs a value's type or shape waits until that is certain.
"""

from __future__ import annotations

import ast
import re

WIDTH = 79
# Kernels that people wrote, with comments that a reader would miss.
_BY_HAND = {"template", "user_autotune"}
# What may go when its result is not used.
_PURE = {"arange", "broadcast_to", "cdiv", "float", "full", "program_id", "to", "where"}
# What gives back the type and shape of its arguments, and what only their type.
_LIKE = {"abs", "ceil", "cos", "erf", "exp", "exp2", "expm1", "floor", "log", "log1p"}
_LIKE |= {"log2", "maximum", "minimum", "pow", "rsqrt", "sigmoid", "sin", "sqrt"}
_LIKE |= {"sqrt_rn", "tan", "tanh", "where", "broadcast_to"}
_REDUCE = {"sum", "max2", "min2"}
_FIRST = "the elements of this program"
_STORES = {"store", "atomic_add", "atomic_max", "atomic_min"}


def tidy(source: str) -> str:
    """Return the kernel in *source* as Triton code that is easy to read.

    *source* is the module that Inductor writes for one kernel.  Functions that the
    kernel calls come first.  One written by hand, such as a template, keeps its text.
    Raises ValueError when no Triton function is in it.
    """
    functions = [n for n in ast.parse(source).body if "jit" in _decorators(n)]
    if not functions:
        raise ValueError("no @triton.jit function in this source")
    return "\n\n".join(_one(source, function) for function in functions) + "\n"


def _one(source: str, function: ast.FunctionDef) -> str:
    decorators = _decorators(function)
    if _BY_HAND & set(decorators) or len(decorators) == 1:
        lines = source.splitlines()[function.lineno - 1 : function.end_lineno]
        return "\n".join(["@triton.jit", *lines])
    signature, before = _signature(source), ""
    while before != (before := ast.dump(function)):
        _Clean(_Facts(function, signature)).visit(function)
        names = [n for part in function.body for n in ast.walk(part)]
        read = [n for n in names if isinstance(getattr(n, "ctx", None), ast.Load)]
        _Drop({n.id for n in read if isinstance(n, ast.Name)}).visit(function)
        ast.fix_missing_locations(function)
    return _text(function)


def _decorators(node: ast.stmt) -> list[str]:
    found = getattr(node, "decorator_list", ())
    return [getattr(getattr(each, "func", each), "attr", "") for each in found]


def _signature(source: str) -> dict[str, str]:
    """Return the types of the parameters: "*fp32" for a pointer, "i32"."""
    found = re.search(r"'signature': ({[^}]*})", source)
    return ast.literal_eval(found[1]) if found else {}


class _Facts:
    """What is known of a kernel's names, from its assignments in their order."""

    def __init__(self, function: ast.FunctionDef, signature: dict[str, str]) -> None:
        self.signature = signature
        self.types, self.shapes = {}, {}
        values: dict[str, list[ast.expr]] = {}
        assigned = [n for n in ast.walk(function) if isinstance(n, ast.Assign)]
        for node in sorted(assigned, key=lambda n: n.lineno):
            target, value = node.targets[0], self.plain(node.value)
            one = isinstance(target, ast.Name)
            for name in (n.id for n in ast.walk(target) if isinstance(n, ast.Name)):
                self.types.setdefault(name, set()).add(self.type(value) if one else "")
                shape = self.shape(value)
                self.shapes[name] = self.shapes.get(name, shape) & shape
                values.setdefault(name, []).append(value)
        stores = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
        stores = [n for n in stores if isinstance(n.ctx, ast.Store)]
        self.order = [n.id for n in sorted(stores, key=lambda n: n.lineno)]
        single = [n for n in values if self.order.count(n) == 1 and n not in signature]
        found = {name: _constant(values[name][0]) for name in single}
        self.constants = {name: value for name, value in found.items() if value}
        self.aliases = {
            name: given[0].id
            for name, given in values.items()
            if name not in signature
            and len({ast.dump(each) for each in given}) == 1
            and isinstance(given[0], ast.Name)
            and self._twins(name, given[0].id)
        }

    def _twins(self, name: str, other: str) -> bool:
        """Return whether *name* is set after *other*, whenever that is set."""
        order = [each for each in self.order if each in (name, other)]
        argument = other in self.signature and other not in order
        return argument or order == [other, name] * order.count(name)

    def plain(self, value: ast.expr) -> ast.expr:
        """Return *value* without a cast or broadcast to what it is already."""
        called = _called(value)
        if called == "to" and len(value.args) == 1 and not value.keywords:
            inner = value.func.value
            return inner if self.type(inner) == self.type(value) != "" else value
        if called == "broadcast_to" and isinstance(value.args[-1], ast.List):
            sizes = {ast.unparse(size) for size in value.args[-1].elts}
            if len(value.args) == len(sizes) == 2 and sizes <= self.shape(
                value.args[0]
            ):
                return value.args[0]
        return value

    def shape(self, node: ast.AST) -> set[str]:
        """Return the block sizes that a value surely has, such as XBLOCK."""
        called = _called(node)
        if isinstance(node, ast.Name):
            return self.shapes.get(node.id, set())
        if called in ("arange", "broadcast_to"):
            sizes = ast.walk(node.args[-1])
            return {each.id for each in sizes if isinstance(each, ast.Name)}
        parts = node.args if called in _LIKE else []
        if called in ("load", "to"):
            parts = [node.args[0] if called == "load" else node.func.value]
        elif not called:
            parts = ast.iter_child_nodes(node)
        return set().union(*map(self.shape, parts))

    def type(self, node: ast.expr) -> str:
        """Return a value's type, "fp32" or "fp32 scalar", or "" when not certain."""
        called, kind = _called(node), ""
        if isinstance(node, ast.Name):
            kinds = self.types.get(node.id, set())
            kind = next(iter(kinds)) if len(kinds) == 1 else ""
        elif isinstance(node, ast.Subscript):
            kind = self.type(node.value)
        elif isinstance(node, ast.BinOp):
            kind = self._common(node.left, node.right)
            kind = kind if kind.startswith("fp") else ""  # integers divide to floats
        elif called == "to" and node.args:
            scalar = " scalar" * self.type(node.func.value).endswith("scalar")
            kind = _dtype(node.args[0]) + scalar
        elif called == "full" and len(node.args) == 3:
            kind = _dtype(node.args[2])
        elif called in ("rand", "rand4x"):
            kind = "fp32"
        elif called == "load":
            names = [n.id for n in ast.walk(node.args[0]) if isinstance(n, ast.Name)]
            kinds = [self.signature.get(name, "") for name in names]
            kind = next((kind[1:] for kind in kinds if kind.startswith("*")), "")
            kind += "" if self.shape(node) else " scalar"
        elif called == "broadcast_to":
            kind = self.type(node.args[0]).removesuffix(" scalar")
        elif called in _LIKE:
            kind = self._common(*node.args[called == "where" :])
        elif called in _REDUCE:  # Triton adds up small types in larger ones
            kind = self.type(node.args[0])
            kind = kind if kind in ("fp32", "fp64") else ""
        return kind

    def _common(self, *nodes: ast.expr) -> str:
        kinds = {self.type(node) for node in nodes if not _literal(node)}
        floats = {kind for kind in kinds if kind.startswith(("fp", "bf"))}
        kinds = floats if floats and "" not in kinds else kinds  # they beat integers
        return kinds.pop() if len(kinds) == 1 else ""


def _called(node: ast.AST) -> str:
    """Return ``load`` for a call of ``tl.load``, and "" for what is no call."""
    found = getattr(node, "func", None)
    return getattr(found, "attr", getattr(found, "id", ""))


def _literal(node: ast.expr) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return number or _called(node) == "float"


def _constant(value: ast.expr) -> ast.expr | None:
    """Return the number that ``tl.full`` fills a block with, or None."""
    if _called(value) == "to" and value.args and _dtype(value.args[0]) == "fp32":
        inner = getattr(_constant(value.func.value), "value", None)
        return ast.Constant(float(inner)) if type(inner) is int else None
    full = _called(value) == "full" and _literal(value.args[1])
    return value.args[1] if full else None


def _dtype(node: ast.expr) -> str:
    """Return ``fp32`` for ``tl.float32``, as signatures have it."""
    name = ast.unparse(node).removeprefix("tl.").replace("bfloat", "bf")
    return name.replace("float", "fp").replace("uint", "u").replace("int", "i")


class _Clean(ast.NodeTransformer):
    """Put constants and first names where they are used; drop what does nothing."""

    def __init__(self, facts: _Facts) -> None:
        self.facts = facts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self.facts.aliases:
            return ast.Name(self.facts.aliases[node.id], node.ctx)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        node.left, node.right = self._pair(node.left, node.right)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.comparators) == 1:
            node.left, node.comparators[0] = self._pair(node.left, node.comparators[0])
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        mask = {"load": 1, "store": 2}.get(_called(node), len(node.args))
        if len(node.args) == mask + 1 and getattr(node.args[mask], "value", 0) is None:
            del node.args[mask]
        if _called(node) == "where" and len(node.args) == 3:
            node.args[1:] = self._pair(*node.args[1:])
        return self.facts.plain(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        flat = _called(node.value) in ("arange", "full")
        return node.value if flat and ast.unparse(node.slice) == ":" else node

    def _pair(self, *sides: ast.expr) -> tuple[ast.expr, ...]:
        """Return two operands, with the value of one that is a constant."""
        known, kind = self.facts.constants, self.facts.type
        named = [side for side in sides if getattr(side, "id", "") in known]
        if len(named) != 1 or kind(sides[0]) != kind(sides[1]):
            return sides
        return tuple(known[side.id] if side in named else side for side in sides)


class _Drop(ast.NodeTransformer):
    """Drop assignments to names that are not read."""

    def __init__(self, read: set[str]) -> None:
        self.read = read

    def visit_Assign(self, node: ast.Assign | ast.AnnAssign) -> ast.stmt | None:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        pure = all(_called(n) in _PURE | {""} for n in ast.walk(node.value))
        unread = isinstance(target, ast.Name) and target.id not in self.read
        return None if pure and unread else node

    visit_AnnAssign = visit_Assign


def _text(function: ast.FunctionDef) -> str:
    """Return the function as text, its parts parted, in lines that fit a page."""
    arguments = ast.unparse(function.args)
    lines = ["@triton.jit", f"def {function.name}({arguments}):"]
    title = ""
    for number, statement in enumerate(function.body):
        called = {_called(node) for node in ast.walk(statement)}
        found = _FIRST if not number else ""
        if called & _STORES:
            found = "load, compute and store" if "load" in called else "store"
        elif "load" in called and title in ("", _FIRST):
            found = "load and compute"
        if found not in ("", title):
            lines += [""] * bool(number) + [f"    # {found}"]
            title = found
        lines += [f"    {line}" for line in ast.unparse(statement).splitlines()]
    return "\n".join(_folded(line) for line in lines)


def _folded(line: str) -> str:
    """Return a line of code broken inside its brackets, where it is too long."""
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    parts, depth = [], 0
    while len(line) > WIDTH and (at := _break(line, len(indent), depth)):
        part, line = line[:at].rstrip(), indent + line[at:].lstrip()
        depth += sum((letter in "([") - (letter in ")]") for letter in part)
        parts.append(part)
    return "\n".join([*parts, line])


def _break(line: str, least: int, depth: int) -> int:
    """Return where to break a line: at its last comma, else a bracket."""
    comma = bracket = 0
    for place, letter in enumerate(line):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth and least <= place < WIDTH:
            comma = place + 1
        if letter == "(" and place >= least:
            bracket = bracket or place + 1
    return comma or bracket
