"""Lines of the functions that a call runs: chosen ones run eagerly, the rest compiled.

What Dynamo captures wrongly is in no graph, so the search is in the code itself:
an expression that is run eagerly in the place of a line breaks the graph there.
"""

from __future__ import annotations
import __future__

import ast
import gc
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .helpers import text

_PYTHON = Path(inspect.__file__).parent
_OTHERS = Path(torch.__file__).parent, Path(__file__).parent, Path(text.__file__).parent
_EAGERLY, _BREAK = "__run_eagerly__", "__break_here__"  # names in the user's module
_VALUES = (  # where a statement has an expression that can be run by itself
    *((ast.Assign, "value"), (ast.AugAssign, "value"), (ast.AnnAssign, "value")),
    *((ast.Return, "value"), (ast.Expr, "value")),
    *((ast.If, "test"), (ast.While, "test"), (ast.For, "iter")),
)
_KEEPS = (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)


@dataclass(frozen=True, eq=False)
class Line:
    """One expression of a statement, in functions that share their code."""

    functions: tuple[types.FunctionType, ...]
    number: int
    """Of those that the function has, from 0."""
    line: int

    @property
    def file(self) -> str:
        """The file that holds it."""
        return self.functions[0].__code__.co_filename

    @property
    def code(self) -> str:
        """The line as its owner wrote it."""
        first = self.functions[0].__code__.co_firstlineno
        lines, begin = inspect.getsourcelines(self.functions[0])
        return lines[self.line - (begin or first)].strip()


def lines_of(call: Callable[[], Any]) -> list[Line]:
    """Return the lines of each function that *call* runs: inner functions first.

    Left out are those of torch, of Python and of the check-up, and what has no file.
    """
    codes = dict[types.CodeType, None]()

    def seen(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "return":
            codes.setdefault(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(before)
    return [line for code in codes if _is_users(code) for line in _lines(code)]


def _is_users(code: types.CodeType) -> bool:
    path = Path(code.co_filename)
    pythons = _PYTHON in path.parents and "site-packages" not in path.parts
    return path.is_file() and not pythons and {*_OTHERS}.isdisjoint(path.parents)


def _lines(code: types.CodeType) -> Iterator[Line]:
    owners = [o for o in gc.get_referrers(code) if isinstance(o, types.FunctionType)]
    functions = tuple(o for o in owners if o.__code__ is code)
    tree = _tree(functions[0]) if functions else None
    if tree and _compiled(functions[0], tree):
        for number, (statement, name) in enumerate(_expressions(tree)):
            yield Line(functions, number, getattr(statement, name).lineno)


def _tree(function: types.FunctionType) -> ast.FunctionDef | None:
    """Return the definition of a function, with the lines of its file."""
    with suppress(OSError, SyntaxError, TypeError):
        lines, first = inspect.getsourcelines(function)
        [tree] = ast.parse(textwrap.dedent("".join(lines))).body
        if isinstance(tree, ast.FunctionDef):
            return ast.increment_lineno(tree, max(first, 1) - 1)
    return None


def _expressions(tree: ast.FunctionDef) -> Iterator[tuple[ast.stmt, str]]:
    """Yield each statement of a function that has an expression, and its field."""
    blocks = [tree.body]
    while blocks:
        for statement in blocks.pop(0):
            if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                continue
            for kind, name in _VALUES:
                value = getattr(statement, name, None)
                if isinstance(statement, kind) and _works(value):
                    yield statement, name
            inner = (getattr(statement, n, []) for n in ("body", "orelse", "finalbody"))
            handlers = (one.body for one in getattr(statement, "handlers", []))
            blocks += [block for block in (*inner, *handlers) if block]


def _works(value: ast.expr | None) -> bool:
    plain = value is None or isinstance(value, (ast.Constant, ast.Name))
    return not plain and not any(isinstance(n, _KEEPS) for n in ast.walk(value))


class _WithSelf(ast.NodeTransformer):
    """Writes ``super()`` out: it finds nothing in a separate function."""

    def __init__(self, tree: ast.FunctionDef) -> None:
        self.first = [one.arg for one in (*tree.args.posonlyargs, *tree.args.args)][:1]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            names = ["__class__", *self.first] if not node.args else []
            node.args += [ast.Name(name, ast.Load()) for name in names]
        return self.generic_visit(node)


def _changed(tree: ast.FunctionDef, numbers: Collection[int], how: str) -> None:
    """Let *how*, a global name, run the expressions of these *numbers*."""
    for number, (statement, name) in enumerate([*_expressions(tree)]):
        if number in numbers:
            nothing = ast.arguments([], [], None, [], [], None, [])
            value = _WithSelf(tree).visit(getattr(statement, name))
            call = ast.Call(ast.Name(how, ast.Load()), [ast.Lambda(nothing, value)], [])
            setattr(statement, name, ast.copy_location(call, value))


def _compiled(
    function: types.FunctionType, tree: ast.FunctionDef
) -> types.CodeType | None:
    """Return the code of a changed function, if it can replace the old one."""
    old = function.__code__
    tree.decorator_list = []
    outer = ast.parse(f"def outer({', '.join(old.co_freevars)}): pass")
    outer.body[0].body = [tree]
    flags = old.co_flags & __future__.annotations.compiler_flag
    whole = compile(
        ast.fix_missing_locations(outer), old.co_filename, "exec", flags, True
    )
    [inside] = [one for one in whole.co_consts if isinstance(one, types.CodeType)]
    for one in inside.co_consts:
        if isinstance(one, types.CodeType) and one.co_name == tree.name:
            return one if one.co_freevars == old.co_freevars else None
    return None


@contextmanager
def eagerly(lines: Sequence[Line], breaks: bool = False) -> Iterator[None]:
    """Run these *lines* eagerly in the block; with *breaks*, break the graph before.

    With a break alone, compiled code runs the line itself.
    """
    how = _BREAK if breaks else _EAGERLY
    chosen = dict[tuple[types.FunctionType, ...], set[int]]()
    for line in lines:
        chosen.setdefault(line.functions, set()).add(line.number)
    with ExitStack() as stack:
        for functions, numbers in chosen.items():
            tree = _tree(functions[0])
            _changed(tree, numbers, how)
            code = _compiled(functions[0], tree)
            for function in functions:
                stack.enter_context(_with_code(function, code))
        yield


@contextmanager
def _with_code(function: types.FunctionType, code: types.CodeType) -> Iterator[None]:
    """Give a function other code, which knows what runs an expression."""
    scope, usual = function.__globals__, function.__code__
    names = {_EAGERLY: _run, _BREAK: _broken}
    scope.update(names)
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = usual
        for name in names:
            scope.pop(name, None)


@torch.compiler.disable
def _run(expression: Callable[[], Any]) -> Any:
    return expression()


def _broken(expression: Callable[[], Any]) -> Any:
    torch._dynamo.graph_break()
    return expression()
