"""A generated Triton kernel, rewritten for reading: the same code to the compiler.

Second names for a value give way to the first, constants stand where they are used,
and names that are never read, masks that mask nothing and parentheses that do nothing
are gone.  A constant goes into arithmetic only: there Triton gives a plain number the
type of the other side, and Inductor wrote both sides in one type.
"""

from __future__ import annotations

import ast
import re

_WIDTH = 79
# Kernels that people wrote, with comments that one would miss.
_BY_HAND = {"template", "user_autotune"}
# What may go when its result is not used.
_PURE = {"", "arange", "broadcast_to", "cdiv", "full", "program_id", "to", "where"}
_STORES = {"store", "atomic_add", "atomic_max", "atomic_min"}


def tidy(source: str) -> str:
    """Return the kernel in *source* as Triton code that is easy to read.

    *source* is the module that Inductor writes for one kernel.  Functions that the
    kernel calls come first.  One written by hand, such as a template, keeps its text.
    """
    functions = [n for n in ast.parse(source).body if "jit" in _decorators(n)]
    texts = []
    for function in functions:
        decorators = _decorators(function)
        if _BY_HAND & {*decorators} or len(decorators) == 1:
            texts.append(f"@triton.jit\n{ast.get_source_segment(source, function)}")
            continue
        before = ""
        while before != (before := ast.dump(function)):
            _Simplify(function).visit(function)
        texts.append(_text(function))
    return "\n\n".join(texts) + "\n"


def _decorators(node: ast.stmt) -> list[str]:
    decorators = getattr(node, "decorator_list", ())
    return [getattr(getattr(d, "func", d), "attr", "") for d in decorators]


def called(node: ast.AST) -> str:
    """Return ``load`` for a call of ``tl.load``, and "" for what is no call."""
    function = getattr(node, "func", None)
    return getattr(function, "attr", getattr(function, "id", ""))


class _Simplify(ast.NodeTransformer):
    """One pass over a kernel; passes go on until nothing changes."""

    def __init__(self, function: ast.FunctionDef) -> None:
        nodes = list(ast.walk(function))
        names = [n for n in nodes if isinstance(n, ast.Name)]
        stores = [n for n in names if isinstance(n.ctx, ast.Store)]
        self.read = {n.id for n in names if isinstance(n.ctx, ast.Load)}
        self.stored = [n.id for n in sorted(stores, key=lambda n: n.lineno)]
        self.parameters = {argument.arg for argument in function.args.args}
        values: dict[str, list[ast.expr]] = {}  # what each name is set to
        for node in nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                values.setdefault(node.targets[0].id, []).append(node.value)
        self.aliases = {
            name: same[0].id
            for name, same in values.items()
            if len({ast.dump(value) for value in same}) == 1
            and isinstance(same[0], ast.Name)
            and self._is_alias(name, same[0].id)
        }
        self.constants = {
            name: value.args[1]
            for name, (value, *_) in values.items()
            if self.stored.count(name) == 1 and name not in self.parameters
            if called(value) == "full" and _is_number(value.args[1])
        }

    def _is_alias(self, name: str, other: str) -> bool:
        """Return whether *name* is set to *other* each time after that is set."""
        order = [stored for stored in self.stored if stored in (name, other)]
        unchanged = other in self.parameters and other not in order
        after = order == [other, name] * (len(order) // 2)
        return name not in self.parameters and (unchanged or after)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load):
            node.id = self.aliases.get(node.id, node.id)
        return node

    def visit_Assign(self, node: ast.Assign | ast.AnnAssign) -> ast.stmt | None:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        pure = all(called(n) in _PURE | {"float"} for n in ast.walk(node.value))
        if pure and isinstance(target, ast.Name) and target.id not in self.read:
            return None
        return self.generic_visit(node)

    visit_AnnAssign = visit_Assign

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        left, right = (getattr(side, "id", "") for side in (node.left, node.right))
        if (left in self.constants) != (right in self.constants):
            node.left = self.constants.get(left, node.left)
            node.right = self.constants.get(right, node.right)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        mask = {"load": 1, "store": 2}.get(called(node), len(node.args))
        if len(node.args) == mask + 1 and getattr(node.args[mask], "value", 0) is None:
            del node.args[mask]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        flat = called(node.value) in ("arange", "full")
        return node.value if flat and ast.unparse(node.slice) == ":" else node


def _is_number(node: ast.expr) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    return number or called(node) == "float"


def _text(function: ast.FunctionDef) -> str:
    """Return the function as text, its parts with titles, in lines that fit a page."""
    lines = ["@triton.jit", f"def {function.name}({ast.unparse(function.args)}):"]
    title = ""
    for number, statement in enumerate(function.body):
        calls = {called(node) for node in ast.walk(statement)}
        before = title
        if not number:
            title = "the elements of this program"
        elif calls & _STORES:
            title = "load, compute and store" if "load" in calls else "store"
        elif "load" in calls and "elements" in title:
            title = "load and compute"
        if title != before:
            if number:
                lines.append("")
            lines.append(f"    # {title}")
        lines += [f"    {line}" for line in ast.unparse(statement).splitlines()]
    return "\n".join(map(_folded, lines))


def _folded(line: str) -> str:
    """Return a line of code, broken inside its brackets where it is too long."""
    if len(line) <= _WIDTH or re.search("'[^']*, [^']*'", line):  # commas in a text
        return line
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    head, bracket, inside = line.partition("(")
    lines = [head + bracket]
    for part in re.split("(?<=, )", inside):
        if len((lines[-1] + part).rstrip()) <= _WIDTH:
            lines[-1] += part
        else:
            lines.append(indent + part)
    return "\n".join(text.rstrip() for text in lines)
