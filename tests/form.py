"""What every notebook keeps to, so that a reader and the tests find their way.

A rule takes a Lesson and yields what is wrong with it, one line each.  The rules
read stored notebooks and run nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat

from tests.refresh import texts, unfit

SETUP = re.compile(r"""import torch

from course import check, claim, hint, predict, (recorded, )?reveal, score, start
from helpers import [\w, ()\n]*device[\w, ()\n]*
(from torch_checkup import [\w, ]+
)?
start\("(\d\d)"\)""")
SETUP_OF_A_REFERENCE = re.compile(
    r"""import torch

from course import [\w, ]*start
(from helpers import [\w, ()\n]+
)?
start\("(reference/\w+)"\)"""
)
CHECK = 'hint("{key}", level=0)  # 1 is a nudge, 3 is nearly the answer'
EXERCISE = r"Exercise {key}(?:, a stretch)?: \S.* \([1-5] of 5, \d+ minutes\)"

# A figure that was measured is computed in front of the reader, never typed.
# Counts (3 graphs), sizes (256 MiB), settings (`budget=2`) and 95 % are not figures.
_NUMBER = r"(?<![\w.])\d+(?:[.,]\d+)?\s?"
_COMPARED = "faster|slower|quicker|less|more|better|worse|longer|shorter|cheaper"
MEASURED = (
    rf"{_NUMBER}[x×](?!\w|\s?\d)",
    rf"{_NUMBER}(?:times|fold)\s(?:as|{_COMPARED})",
    rf"{_NUMBER}(?:%|percent|per cent)\s(?:{_COMPARED}|of the time)",
    rf"{_NUMBER}(?:ns|µs|μs|us|ms|s|secs?|seconds?|milli\w+|micro\w+)(?!\w)",
    rf"{_NUMBER}(?:[KMGT]i?B/s|[MGT]?FLOP/?s|tokens/s|it/s)(?!\w)",
)


@dataclass(frozen=True)
class Lesson:
    """A notebook and what the rules ask of it."""

    notebook: nbformat.NotebookNode
    file: Path

    @property
    def course(self) -> dict:
        return self.notebook.metadata.get("course", {})

    @property
    def id(self) -> str:
        return str(self.course.get("id", ""))

    @property
    def is_reference(self) -> bool:
        """Whether it's looked up rather than read: no predictions, no exercises."""
        return self.file.parent.name == "reference"

    @property
    def cells(self) -> list:
        return self.notebook.cells

    @property
    def code(self) -> list:
        return [c for c in self.cells if c.cell_type == "code"]

    @property
    def words(self) -> list:
        return [c for c in self.cells if c.cell_type == "markdown"]

    @property
    def headings(self) -> list[tuple[int, str]]:
        """The level and the words of each heading, in order."""
        text = without_blocks("\n\n".join(cell.source for cell in self.words))
        found = re.findall(r"^(#{1,6}) +(.+)$", text, re.MULTILINE)
        return [(len(marks), title.strip()) for marks, title in found]

    def calls(self, name: str) -> list[ast.Call]:
        """Return each call of the plain *name* in the code, in order."""
        # Lines for IPython (%magic, !shell) are no Python.
        sources = [re.sub(r"^\s*[%!].*$", "", c.source, flags=re.M) for c in self.code]
        nodes = [n for n in ast.walk(ast.parse("\n".join(sources))) if _names(n, name)]
        return sorted(nodes, key=lambda node: node.lineno)


def _names(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == name


def tags(cell: nbformat.NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def is_folded(cell: nbformat.NotebookNode) -> bool:
    return bool(cell.metadata.get("jupyter", {}).get("source_hidden"))


def keys(cell: nbformat.NotebookNode) -> list[str]:
    """Return the exercises that a cell belongs to, from its tags ``ex-01.1``."""
    return [tag.removeprefix("ex-") for tag in tags(cell) if tag.startswith("ex-")]


def parts(answers: str) -> list[tuple[str, str, str]]:
    """Return (key, what stands behind it, source) of each `# %% key: what`."""
    cut = re.split(r"^# %% *(.+)\n", answers, flags=re.MULTILINE)
    headers = [header.partition(": ") for header in cut[1::2]]
    pairs = zip(headers, cut[2::2], strict=True)
    return [(key.strip(), what, source) for (key, _, what), source in pairs]


def without_blocks(markdown: str) -> str:
    return re.sub(r"^```.*?^```", "", markdown, flags=re.DOTALL | re.MULTILINE)


def prose(markdown: str) -> str:
    """Return the words of a Markdown cell, without code, links' targets and tags."""
    text = re.sub(r"`[^`\n]*`", "`code`", without_blocks(markdown))
    return re.sub(r"\]\([^)]*\)|<[^>]+>", " ", text)


def measured(text: str) -> list[str]:
    """Return each figure in *text* that ought to have been measured."""
    return [hit[0] for pattern in MEASURED for hit in re.finditer(pattern, text)]


# --- the rules --------------------------------------------------------------------


def opening(lesson: Lesson) -> Iterator[str]:
    """The title, what it gives, and the minutes are those of the metadata."""
    titles = [title for level, title in lesson.headings if level == 1]
    if titles != [f"{lesson.id} · {lesson.course.get('title')}"]:
        yield f"the title differs from the metadata: {titles}"
    if not lesson.file.name.startswith(lesson.id):
        yield f"id {lesson.id!r} does not begin the file name {lesson.file.name}"
    words = "\n".join(cell.source for cell in lesson.words[:3])
    for phrase in ("**You will be able to**", "**You need**", "**Minutes:**"):
        if phrase not in words:
            yield f"the opening lacks {phrase}"
    stated = re.findall(r"\d+", words.partition("**Minutes:**")[2].split(".")[0])
    minutes = lesson.course.get("minutes", {})
    wanted = [str(minutes.get(kind)) for kind in ("read", "run", "exercise")]
    if stated != wanted:
        yield f"the opening says minutes {stated}, and the metadata {wanted}"
    needed = words.partition("**You need**")[2].split("\n")[0]
    if (linked := re.findall(r"\]\((\d\d)_", needed)) != lesson.course.get("needs"):
        yield f"the opening needs {linked}, and the metadata {lesson.course['needs']}"


def first_and_last_cell(lesson: Lesson) -> Iterator[str]:
    """Each notebook starts in the same way, and ends with the score."""
    first, last = lesson.code[0], lesson.code[-1]
    setup = SETUP.fullmatch(first.source)
    if "setup" not in tags(first) or not setup or setup[3] != lesson.id:
        yield "the setup cell differs from that of every notebook"
    if "score" not in tags(last) or last.source != f'score("{lesson.id}")':
        yield f'the last code cell is not score("{lesson.id}")'


def predictions(lesson: Lesson) -> Iterator[str]:
    """Each prediction is the reader's to make, and is revealed."""
    asked = [node.args[0].value for node in lesson.calls("predict")]
    revealed = [node.args[0].value for node in lesson.calls("reveal")]
    if not asked or sorted(asked) != sorted(revealed):
        yield f"predicts {asked} and reveals {revealed}"
    for node in lesson.calls("predict"):
        guesses = [ast.unparse(k.value) for k in node.keywords if k.arg == "mine"]
        if guesses != ["None"]:
            yield f"{node.args[0].value} lacks mine=None, or is answered already"


def claims(lesson: Lesson) -> Iterator[str]:
    """Each claim depends on something that ran."""
    for node in lesson.calls("claim"):
        evidence = ast.walk(node.args[1]) if len(node.args) > 1 else ()
        if not any(isinstance(n, ast.Name | ast.Call) for n in evidence):
            yield f"a claim that cannot fail: {ast.unparse(node)}"
        if isinstance(text := node.args[0], ast.Constant):
            yield from (f"typed in a claim: {hit}" for hit in measured(text.value))
        else:  # records and verdicts find a claim by its words
            yield f"a claim that is not said in plain words: {ast.unparse(text)}"


def exercises(lesson: Lesson) -> Iterator[str]:
    """Each exercise has a heading, a cell to fill in, and a check with a hint."""
    stubs = [keys(cell) for cell in lesson.cells if "exercise" in tags(cell)]
    checks = [cell for cell in lesson.cells if "check" in tags(cell)]
    if not stubs or stubs != [keys(cell) for cell in checks]:
        yield "exercise and check cells do not pair up"
    titles = [title for level, title in lesson.headings if level == 3]
    for cell in checks:
        key = "".join(keys(cell))
        if not cell.source.startswith(f'check("{key}", ') or not cell.source.endswith(
            CHECK.format(key=key)
        ):
            yield f"the check cell of {key} is not check(...) and hint(..., level=0)"
        if not any(re.fullmatch(EXERCISE.format(key=key), title) for title in titles):
            yield f"no heading '### Exercise {key}: its name (2 of 5, 10 minutes)'"


def outputs(lesson: Lesson) -> Iterator[str]:
    """Outputs are stored, in order, fit to print, and compared unless a reason says."""
    counts = [cell.execution_count for cell in lesson.code]
    if counts != list(range(1, len(counts) + 1)):
        yield "the code cells did not all run in order: run python -m tests.refresh"
    if not any(cell.outputs for cell in lesson.code):
        yield "no outputs are stored, so nothing would be compared"
    for cell in lesson.code:
        failed = any(o.output_type == "error" for o in cell.outputs)
        if failed != ("raises-exception" in tags(cell)):
            yield f"an error that is not tagged, or a tag without one: {cell.id}"
        ignored = "nbval-ignore-output" in tags(cell)
        if ignored != bool(cell.metadata.get("reason")) or "NBVAL_" in cell.source:
            yield f"not compared, without a reason: {cell.id}"
    yield from unfit(lesson.notebook)


def words(lesson: Lesson) -> Iterator[str]:
    """Nothing measured is typed, and each picture has words for who cannot see it."""
    for cell in lesson.words:
        yield from (f"typed in Markdown: {hit}" for hit in measured(prose(cell.source)))
        for alt in re.findall(r"!\[([^\]]*)\]\(", cell.source):
            if len(alt) < 10:
                yield f"a picture without alternative text: {cell.id}"
    for cell in lesson.code:
        for html in (text for kind, text in texts(cell) if kind == "text/html"):
            for image in re.findall(r"<img\b[^>]*>", html):
                if not re.search(r'\balt="[^"]{10,}"', image):
                    yield f"<img> without alternative text: {cell.id}"
        if any(m.startswith("image/") for o in cell.outputs for m in o.get("data", {})):
            yield f"a bare picture; show a Picture, which has words: {cell.id}"


# --- reference pages ----------------------------------------------------------------


def reference_opening(page: Lesson) -> Iterator[str]:
    """A reference page has its title, its own setup cell, and nothing to solve."""
    titles = [title for level, title in page.headings if level == 1]
    if titles != [f"Reference · {page.course.get('title')}"]:
        yield f"the title differs from the metadata: {titles}"
    if page.id != f"reference/{page.file.stem}":
        yield f"id {page.id!r} isn't that of {page.file.name}"
    first = page.code[0]
    setup = SETUP_OF_A_REFERENCE.fullmatch(first.source)
    if "setup" not in tags(first) or not setup or setup[2] != page.id:
        yield "the setup cell differs from that of every reference page"
    for name in ("predict", "reveal", "check", "score"):
        if page.calls(name):
            yield f"{name}(...) belongs to a lesson"


RULES = (opening, first_and_last_cell, predictions, claims, exercises, outputs, words)


RULES_OF_A_REFERENCE = (reference_opening, claims, outputs, words)


def problems(lesson: Lesson) -> list[str]:
    """Return all that the rules find, each with the rule's name."""
    rules = RULES_OF_A_REFERENCE if lesson.is_reference else RULES
    return [f"{rule.__name__}: {what}" for rule in rules for what in rule(lesson)]
