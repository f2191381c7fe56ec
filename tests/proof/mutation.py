"""The lies: a module with one operator, number, string or argument changed.

The operators are those of mutmut, which puts all mutants into one file behind
switches.  Here each is a file of its own, so that child processes import it too,
and properties and constants of a module are mutated like all else.

What is left alone was decided before the first count: annotations, decorators and
docstrings; all of a ``raise`` (the wording of errors); ``len(...)`` and
``isinstance(...)``, as in mutmut; and strings that hold two words in a row, which
are sentences for a reader.  All other strings count, as do all numbers.  Mutants
that do the same as the original are not looked for: they count as survivors.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

from tests.proof.mutant_tests import Mutant

_SENTENCE = re.compile(r"[A-Za-z]{2,} [A-Za-z]{2,}")
_APART = (cst.Annotation, cst.Decorator, cst.Raise, cst.Import, cst.ImportFrom)
_CALLS = {"len", "isinstance"}


class Mutants:
    """The mutants of a module; each text is made when it is asked for."""

    def __init__(self, source: str) -> None:
        self._wrapper = MetadataWrapper(cst.parse_module(source))
        self._changes = list(_changes(self._wrapper.module))

    def __len__(self) -> int:
        return len(self._changes)

    def drawn(self, seed: int) -> Iterator[Mutant]:
        """Yield the mutants in a random order, which is the same each time."""
        places, module = self._wrapper.resolve(PositionProvider), self._wrapper.module
        for node, changed in random.Random(seed).sample(self._changes, len(self)):
            text = module.deep_replace(node, changed).code
            if _compiles(text):
                yield Mutant(places[node].start.line, text)


def _changes(module: cst.Module) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    for node in _nodes(module):
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                yield from ((node, changed) for changed in operator(node))


def _nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    if isinstance(node, _APART) or _is_text(node):
        return
    if isinstance(node, cst.Call) and getattr(node.func, "value", "") in _CALLS:
        return
    yield node
    for child in node.children:
        yield from _nodes(child)


def _is_text(node: cst.CSTNode) -> bool:
    """Return whether a node is a docstring or a sentence."""
    if isinstance(node, cst.Expr):  # a string that nothing uses
        return isinstance(node.value, cst.SimpleString)
    strings = isinstance(node, cst.SimpleString | cst.ConcatenatedString)
    return strings and bool(_SENTENCE.search(str(node.evaluated_value)))


def _compiles(text: str) -> bool:
    try:
        compile(text, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True
