"""The form that every notebook keeps: one small rule after another.

A rule takes a Lesson and yields what is wrong with it, one line each.  The rules
read stored notebooks and run nothing, so all of them together take milliseconds.
"""

from __future__ import annotations

import ast
import re
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import nbformat

from tests.refresh import texts, unfit

TAGS = {
    "setup",
    "exercise",
    "check",
    "score",
    "raises-exception",
    "nbval-ignore-output",
    "shows-warning",
}
SETUP = """\
import torch

from helpers import check, claim, hint, predict, reveal, score, start

start("{id}")"""
CHECK = r"""check\("{key}", .+\)
hint\("{key}", level=0\)  # 1 is a nudge, 3 is nearly the answer"""
EXERCISE = r"Exercise {key}(?:, a stretch)?: \S.* \([1-5] of 5, \d+ minutes\)"
HYPE = r"\b(?:simply|obviously|as you can see|as we can see|blazing\w*|magic\w*)\b"
UNCOMPARED_SHARE = 0.3

# A figure that was measured is computed in front of the reader, never typed.
# Counts (3 graphs), sizes (256 MiB), settings (`budget=2`) and 95 % are not figures.
_NUMBER = r"(?<![\w.])\d+(?:[.,]\d+)?\s?"
_COMPARED = "faster|slower|quicker|less|more|better|worse|longer|shorter|cheaper"
MEASURED = {
    "a ratio": rf"{_NUMBER}[x×](?!\w|\s?\d)",
    "a multiple": rf"{_NUMBER}(?:times|fold)\s(?:as|{_COMPARED})",
    "a percentage": rf"{_NUMBER}(?:%|percent|per cent)\s(?:{_COMPARED}|of the time)",
    "a time": rf"{_NUMBER}(?:ns|µs|μs|us|ms|s|secs?|seconds?|milli\w+|micro\w+)(?!\w)",
    "a rate": rf"{_NUMBER}(?:[KMGT]i?B/s|[MGT]?FLOP/?s|tokens/s|it/s)(?!\w)",
}


@dataclass(frozen=True)
class Lesson:
    """A notebook and what the rules ask of it."""

    notebook: nbformat.NotebookNode
    file: Path
    known: frozenset[str] = frozenset()

    @property
    def course(self) -> dict:
        return self.notebook.metadata.get("course", {})

    @property
    def id(self) -> str:
        return str(self.course.get("id", ""))

    @property
    def cells(self) -> list:
        return self.notebook.cells

    @property
    def code(self) -> list:
        return [c for c in self.cells if c.cell_type == "code"]

    @property
    def words(self) -> list:
        return [c for c in self.cells if c.cell_type == "markdown"]

    @cached_property
    def headings(self) -> list[tuple[int, str]]:
        found = []
        for cell in self.words:
            text = re.sub(
                r"^```.*?^```", "", cell.source, flags=re.DOTALL | re.MULTILINE
            )
            found += re.findall(r"^(#{1,6}) +(.+)$", text, re.MULTILINE)
        return [(len(marks), title.strip()) for marks, title in found]

    @cached_property
    def calls(self) -> list[tuple[str, ast.Call]]:
        """Return each call of a plain name in the code, in order."""
        found = []
        for cell in self.code:
            nodes = [
                n for n in ast.walk(_parsed(cell.source)) if isinstance(n, ast.Call)
            ]
            nodes.sort(key=lambda n: (n.lineno, n.col_offset))
            found += [(n.func.id, n) for n in nodes if isinstance(n.func, ast.Name)]
        return found

    def first_arguments(self, name: str) -> list[str]:
        """Return the first argument of each call of *name*, where it is a text."""
        return [
            node.args[0].value
            for called, node in self.calls
            if called == name and node.args and isinstance(node.args[0], ast.Constant)
        ]


def tags(cell: nbformat.NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def _parsed(source: str) -> ast.Module:
    """Return the syntax tree; lines for IPython (%magic, !shell) are left out."""
    kept = re.sub(r"^\s*[%!].*$", "pass", source, flags=re.MULTILINE)
    try:
        return ast.parse(kept)
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def prose(markdown: str) -> str:
    """Return the words of a Markdown cell, without code, links' targets and tags."""
    text = re.sub(r"^```.*?^```", "", markdown, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "`code`", text)
    return re.sub(r"\]\([^)]*\)|<[^>]+>", " ", text)


Rule = Callable[[Lesson], Iterator[str]]


def one_title_that_asks(lesson: Lesson) -> Iterator[str]:
    titles = [title for level, title in lesson.headings if level == 1]
    if len(titles) != 1:
        yield f"{len(titles)} H1, and one is wanted"
    for title in titles:
        if not title.endswith("?"):
            yield f"the title is not a question: {title}"
        if title != f"{lesson.id} · {lesson.course.get('title')}":
            yield f"the title differs from the metadata: {title}"


def four_to_eight_sections(lesson: Lesson) -> Iterator[str]:
    levels = [level for level, _ in lesson.headings]
    if not 4 <= levels.count(2) <= 8:
        yield f"{levels.count(2)} H2, and 4 to 8 are wanted"
    for before, after in pairwise(levels):
        if after > before + 1:
            yield f"an H{after} follows an H{before}"


def complete_metadata(lesson: Lesson) -> Iterator[str]:
    if sorted(lesson.course) != ["id", "minutes", "needs", "title"]:
        yield f"course metadata has {sorted(lesson.course)}"
        return
    if not re.fullmatch(r"\d\d", lesson.id) or not lesson.file.name.startswith(
        lesson.id
    ):
        yield f"id {lesson.id!r} does not begin the file name {lesson.file.name}"
    minutes = lesson.course["minutes"]
    if sorted(minutes) != ["exercise", "read", "run"]:
        yield f"minutes has {sorted(minutes)}"
    elif not all(isinstance(n, int) and 0 < n <= 60 for n in minutes.values()):
        yield f"minutes are whole and between 1 and 60, not {minutes}"
    for need in lesson.course["needs"]:
        if need >= lesson.id or (lesson.known and need not in lesson.known):
            yield f"needs {need!r}, which is no earlier notebook"


def says_what_it_asks_and_gives(lesson: Lesson) -> Iterator[str]:
    opening = "\n".join(cell.source for cell in lesson.words[:3])
    for phrase in ("**You will be able to**", "**You need**", "**Minutes:**"):
        if phrase not in opening:
            yield f"the opening lacks {phrase}"
    stated = re.search(r"\*\*Minutes:\*\*([^.]*)", opening)
    numbers = [int(n) for n in re.findall(r"\d+", stated[1])] if stated else []
    minutes = lesson.course.get("minutes", {})
    if numbers != [minutes.get(kind) for kind in ("read", "run", "exercise")]:
        yield f"the opening says minutes {numbers}, and the metadata {dict(minutes)}"
    sections = [title for level, title in lesson.headings if level == 2]
    if sections[-1:] != ["Recap"]:
        yield "the last H2 is not Recap"


def readable_size(lesson: Lesson) -> Iterator[str]:
    if not 25 <= len(lesson.cells) <= 45:
        yield f"{len(lesson.cells)} cells, and 25 to 45 are wanted"
    for number, cell in enumerate(lesson.cells):
        lines = cell.source.splitlines()
        if cell.cell_type == "markdown":
            words = len(prose(cell.source).split())
            if words > 120:
                yield f"cell {number}: {words} words, at most 120"
            continue
        if len(lines) > 25:
            yield f"cell {number}: {len(lines)} lines of code, at most 25"
        if any(len(line) > 79 for line in lines):
            yield f"cell {number}: a line is wider than 79 columns"
    counts = [len(prose(cell.source).split()) for cell in lesson.words]
    if counts and statistics.median(counts) > 55:
        yield f"the median Markdown cell has {statistics.median(counts)} words, not 40"


def two_code_cells_in_a_row(lesson: Lesson) -> Iterator[str]:
    kinds = "".join(cell.cell_type[0] for cell in lesson.cells)
    if "ccc" in kinds:
        yield f"three code cells in a row, from cell {kinds.index('ccc')}"


def the_setup_cell(lesson: Lesson) -> Iterator[str]:
    found = [cell for cell in lesson.code if "setup" in tags(cell)]
    if found != lesson.code[:1]:
        yield "the first code cell, and only that, is tagged setup"
    if found and found[0].source != SETUP.format(id=lesson.id):
        yield "the setup cell differs from that of every notebook"


def the_score_cell(lesson: Lesson) -> Iterator[str]:
    found = [cell for cell in lesson.code if "score" in tags(cell)]
    if found != lesson.code[-1:]:
        yield "the last code cell, and only that, is tagged score"
    if found and found[0].source != f'score("{lesson.id}")':
        yield f'the score cell is not score("{lesson.id}")'


def two_predictions(lesson: Lesson) -> Iterator[str]:
    asked, told = lesson.first_arguments("predict"), lesson.first_arguments("reveal")
    if len(asked) < 2:
        yield f"{len(asked)} predictions, at least 2"
    if sorted(asked) != sorted(told):
        yield f"predicts {asked} and reveals {told}"
    for key in asked:
        if not re.fullmatch(rf"{lesson.id}\.p\d+", key):
            yield f"a prediction is named {key!r}, not like {lesson.id}.p1"
    for name, node in lesson.calls:
        mine = [k.value for k in node.keywords if k.arg == "mine"]
        if name == "predict" and not (mine and _is_none(mine[0])):
            yield "a prediction lacks mine=None, or is answered already"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def four_claims_that_can_fail(lesson: Lesson) -> Iterator[str]:
    claims = [node for name, node in lesson.calls if name == "claim"]
    if len(claims) < 4:
        yield f"{len(claims)} claims, at least 4"
    said = lesson.first_arguments("claim")
    for text in {text for text in said if said.count(text) > 1}:
        yield f"the same claim twice: {text}"
    for text in said:
        yield from (f"{what} typed in a claim: {hit}" for what, hit in measured(text))
    for node in claims:
        if len(node.args) < 2 or not any(
            isinstance(part, (ast.Name, ast.Call, ast.Attribute))
            for part in ast.walk(node.args[1])
        ):
            yield f"a claim that cannot fail: {ast.unparse(node)}"


def two_exercises(lesson: Lesson) -> Iterator[str]:
    stubs = [cell for cell in lesson.cells if "exercise" in tags(cell)]
    checks = [cell for cell in lesson.cells if "check" in tags(cell)]
    if len(stubs) < 2:
        yield f"{len(stubs)} exercises, at least 2"
    if [keys(cell) for cell in stubs] != [keys(cell) for cell in checks]:
        yield "exercise and check cells do not pair up"
    for cell in checks:
        key = "".join(keys(cell))
        if not re.fullmatch(CHECK.format(key=re.escape(key)), cell.source):
            yield f"the check cell of {key} is not check(...) and hint(..., level=0)"
    titles = [title for level, title in lesson.headings if level == 3]
    for cell in stubs:
        key = "".join(keys(cell))
        if not any(re.fullmatch(EXERCISE.format(key=key), title) for title in titles):
            yield f"no heading '### Exercise {key}: its name (2 of 5, 10 minutes)'"


def keys(cell: nbformat.NotebookNode) -> list[str]:
    """Return the exercises that a cell belongs to, from its tags ``ex-01.1``."""
    return [tag.removeprefix("ex-") for tag in tags(cell) if tag.startswith("ex-")]


def known_tags(lesson: Lesson) -> Iterator[str]:
    for number, cell in enumerate(lesson.cells):
        for tag in tags(cell):
            if tag not in TAGS and not re.fullmatch(rf"ex-{lesson.id}\.[1-9]", tag):
                yield f"cell {number}: unknown tag {tag!r}"


def executed_in_order(lesson: Lesson) -> Iterator[str]:
    counts = [cell.execution_count for cell in lesson.code]
    if counts != list(range(1, len(counts) + 1)):
        yield "the code cells were not all executed in order: run tests/refresh.py"
    if not any(cell.outputs for cell in lesson.code):
        yield "no outputs are stored, so nothing would be compared"
    for number, cell in enumerate(lesson.cells):
        failed = any(o.output_type == "error" for o in cell.get("outputs", []))
        if failed and "raises-exception" not in tags(cell):
            yield f"cell {number}: a stored error"
        if "raises-exception" in tags(cell) and not failed:
            yield f"cell {number}: is tagged raises-exception, and raised nothing"


def compared_to_the_letter(lesson: Lesson) -> Iterator[str]:
    shown = [cell for cell in lesson.code if cell.outputs]
    ignored = [cell for cell in lesson.code if "nbval-ignore-output" in tags(cell)]
    if len(ignored) > UNCOMPARED_SHARE * len(shown):
        yield f"{len(ignored)} of {len(shown)} cells with output are not compared"
    for cell in ignored:
        if len(cell.metadata.get("reason", "").split()) < 3:
            yield f"not compared, without a reason: {cell.source[:40]!r}"
    for cell in lesson.code:
        if "reason" in cell.metadata and cell not in ignored:
            yield f"a reason, and the cell is compared: {cell.source[:40]!r}"
        if re.search(r"#\s*(?:NBVAL|PYTEST_VALIDATE)_", cell.source):
            yield "a comment steers nbval: use a tag, which the rules can count"


def runs_the_same_everywhere(lesson: Lesson) -> Iterator[str]:
    for number, cell in enumerate(lesson.cells):
        if cell.cell_type != "code":
            continue
        if cell.source.rstrip().endswith(";"):
            yield f"cell {number}: ends with a semicolon"
        for word in (r"\bOut\[", r"\bIn\[", r"\bclear_output\b", r"\bdisplay_id\b"):
            if re.search(word, cell.source):
                yield f"cell {number}: uses {word}"


def nothing_measured_is_typed(lesson: Lesson) -> Iterator[str]:
    for cell in lesson.words:
        for what, hit in measured(prose(cell.source)):
            yield f"{what} typed in Markdown: {hit}"


def measured(text: str) -> list[tuple[str, str]]:
    """Return each figure in *text* that ought to have been measured."""
    return [
        (what, hit[0])
        for what, pattern in MEASURED.items()
        for hit in re.finditer(pattern, text)
    ]


def plain_words(lesson: Lesson) -> Iterator[str]:
    for cell in lesson.words:
        for hit in re.finditer(HYPE, prose(cell.source), re.IGNORECASE):
            yield f"hype: {hit[0]}"


def pictures_in_words(lesson: Lesson) -> Iterator[str]:
    for number, cell in enumerate(lesson.cells):
        shown = [text for kind, text in texts(cell) if kind == "text/html"]
        for html in [cell.source] if cell.cell_type == "markdown" else shown:
            for image in re.findall(r"<img\b[^>]*>", html):
                if not re.search(r'\balt="[^"]{10,}"', image):
                    yield f"cell {number}: <img> without alternative text"
        if cell.cell_type == "markdown":
            for alt in re.findall(r"!\[([^\]]*)\]\(", cell.source):
                if len(alt) < 10:
                    yield f"cell {number}: picture without alternative text"
        for output in cell.get("outputs", []):
            if any(mime.startswith("image/") for mime in output.get("data", {})):
                yield f"cell {number}: a bare picture; show a Picture, which has words"


def fit_outputs(lesson: Lesson) -> Iterator[str]:
    yield from unfit(lesson.notebook)


RULES: tuple[Rule, ...] = (
    one_title_that_asks,
    four_to_eight_sections,
    complete_metadata,
    says_what_it_asks_and_gives,
    readable_size,
    two_code_cells_in_a_row,
    the_setup_cell,
    the_score_cell,
    two_predictions,
    four_claims_that_can_fail,
    two_exercises,
    known_tags,
    executed_in_order,
    compared_to_the_letter,
    runs_the_same_everywhere,
    nothing_measured_is_typed,
    plain_words,
    pictures_in_words,
    fit_outputs,
)


def problems(lesson: Lesson) -> list[str]:
    """Return all that the rules find, each with the rule's name."""
    return [f"{rule.__name__}: {what}" for rule in RULES for what in rule(lesson)]
