"""A lesson for reading without a kernel: folds, links, colours and the glossary."""

from __future__ import annotations

import re
from collections.abc import Iterator

import nbformat
from nbformat.v4 import new_output
from pygments.formatters import HtmlFormatter

from course.signs import Sign, box
from tools.alone import GUESS_FIRST, address, answering, only_asks, ways_in
from tools.site import TEMPLATES

Glossary = dict[str, tuple[str, str]]  # term -> what it means, where it is taught

# What a fold says, shut and open.
_FOLDS = {
    "answer": (GUESS_FIRST, "hide the answer"),
    "test": ("how this was tested", "hide the test"),
    "code": ("the code of this", "hide the code"),
}


def with_links(markdown: str) -> str:
    """Return links to headings as Sphinx names them, and to answers; others as words.

    The site has no page for what lies outside of the notebooks' folder.
    """

    def slug(match: re.Match[str]) -> str:
        words = re.sub(r"[^\w\s-]", "", match[2].replace("%20", "-")).lower()
        return f"{match[1]}#{words})"

    markdown = markdown.replace("(../data/published/README.md)", "(published.md)")
    rooms = "data|helpers|tests|tools|torch_checkup|README"
    pages = "md|ipynb|svg"
    elsewhere = rf"[\w./-]+\.(?!(?:{pages})\))\w+|(?:\.\./)+(?:{rooms})[^)]*"
    markdown = re.sub(rf"(?<!!)\[([^\]]+)\]\((?:{elsewhere})\)", r"\1", markdown)
    answers = r"`((?:\.\./)*)(solutions/ch\d\d)\.py`"
    markdown = re.sub(answers, r"[`\2.py`](\1\2.md)", markdown)
    return re.sub(r"(\]\((?:[\w./-]+\.(?:ipynb|md))?)#([^)\s]+)\)", slug, markdown)


# --- the glossary --------------------------------------------------------------------


def glossary(markdown: str) -> Glossary:
    """Return the rows of the glossary's table."""
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.+?) \| (.+?) \|$", markdown, re.M)
    return {term: (meaning, where) for term, meaning, where in rows}


def glossary_page(terms: Glossary) -> str:
    """Return the glossary as a page to whose terms others can link."""
    return TEMPLATES.get_template("glossary.md").render(terms=terms)


def _linked(markdown: str, terms: dict[str, str], linked: set[str]) -> str:
    """Link a bold term to the glossary, where a lesson has it for the first time."""

    def link(match: re.Match[str]) -> str:
        term = terms.get(match[1].lower())
        if term is None or term in linked:
            return match[0]
        linked.add(term)
        return f"**{{term}}`{match[1]} <{term}>`**"

    return re.sub(r"\*\*([^*`\n]+)\*\*", link, markdown)


# --- a lesson ------------------------------------------------------------------------


def lesson_page(
    lesson: nbformat.NotebookNode, terms: Glossary, page: str
) -> nbformat.NotebookNode:
    """Return the notebook with what Sphinx needs to fold, to link and to hide."""
    lesson.metadata.language_info["pygments_lexer"] = "ipython3"  # which has %%magics
    known = {term.lower() + ending: term for term in terms for ending in ("", "s")}
    linked: set[str] = set()
    answers = [cell.id for cell in answering(lesson.cells)]
    if where := address():
        lesson.cells[0].source += f"\n\nOpen it in {ways_in(where, page)}."
    for cell in lesson.cells:
        if cell.cell_type == "markdown":
            cell.source = _linked(with_links(cell.source), known, linked)
            continue
        asked = "predict(" in cell.source
        _fold(cell, cell.id in answers)
        for output in cell.outputs:
            if asked and "text" in output:
                output["text"] = re.sub(r"Your guess: none yet\..*\n", "", output.text)
            if html := output.get("data", {}).get("text/html"):
                output["data"]["text/html"] = coloured("".join(html))
        cell.outputs = [new for output in cell.outputs for new in _boxed(output)]
    return lesson


# A claim that holds, and what answers a prediction.
_VERDICT = re.compile(
    r"^(✓ holds: .*|\S+  The machine says: .*)\n(?:No guess on record\..*\n)?", re.M
)


def _boxed(output: nbformat.NotebookNode) -> Iterator[nbformat.NotebookNode]:
    """Yield an output in pieces: each verdict in it as a live notebook shows it."""
    pieces = _VERDICT.split(output.get("text", ""))
    if len(pieces) == 1:
        yield output
        return
    for place, text in enumerate(pieces):
        if place % 2:
            words = text.removeprefix("✓ holds: ")
            html = box(Sign.ANSWER if words == text else Sign.HOLDS, words)
            yield new_output("display_data", {"text/html": html})
        elif text.strip():
            yield new_output("display_data", {"text/plain": text})


def _fold(cell: nbformat.NotebookNode, answers: bool) -> None:
    """Fold what *answers* a prediction, and code that a reader of the page may skip.

    A cell that only asks prints its question: its code would ask it once more.
    """
    asks = only_asks(cell.source)
    tags = set(cell.metadata.get("tags", []))
    folded = cell.metadata.get("jupyter", {}).get("source_hidden")
    kind = "test" if "claim(" in cell.source else "code"
    if tags & {"check", "score"}:
        tags.add("remove-output")  # nobody has tried yet
    elif answers:
        tags.add("hide-cell" if folded else "hide-output")
        kind = "answer"
    elif folded or asks:
        tags.add("hide-input")
    shut, opened = _FOLDS[kind]
    cell.metadata["mystnb"] = {"code_prompt_show": shut, "code_prompt_hide": opened}
    cell.metadata["tags"] = sorted(tags)


# The colours that `helpers.codegen.folded` gives to code, and the class of each token:
# with classes, code has the colours of the page, light or dark.
_STYLES = HtmlFormatter(style="tango").class2style
_TOKENS = {look: name for name, (look, *_) in reversed(_STYLES.items())}


def coloured(html: str) -> str:
    """Return an output whose code has classes, and whose empty headings are cells."""

    def token(match: re.Match[str]) -> str:
        name = _TOKENS.get(match[1])
        return f'<span class="{name}">' if name else match[0]

    html = re.sub(r'<pre style="background:#F8F8F8; color:black[^"]*">', "<pre>", html)
    html = re.sub(r'<span style="([^"]*)">', token, html)
    return re.sub(r"<th( [^>]*)?></th>", "<td></td>", html)
