"""Build the site from the stored notebooks: ``python -m tools.site`` or `make site`.

Sphinx and myst-nb make the pages.  Before that, copies of the notebooks are prepared
for reading without a kernel: claims and figures show what came out and fold how, what
answers a prediction is folded until the reader opens it, and each term is linked to
the glossary where a lesson explains it.  No page asks another host for anything.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
SOURCE, SITE = (ROOT / ".cache" / "site" / name for name in ("source", "html"))
PAGES = ("cheat_sheet.md", "coverage.md", "claims.md", "multi_node.md")
PAGES += ("workshop/*.md", "figures/*.svg")
Glossary = dict[str, tuple[str, str]]  # term -> what it means, where it is taught


def prepare(notebooks: Path, target: Path) -> None:
    """Write what Sphinx reads to *target*, from the folder with the notebooks."""
    shutil.rmtree(target, ignore_errors=True)
    (target / "_static").mkdir(parents=True)
    shutil.copy(HERE / "conf.py", target)
    for name in ("course.css", "find.js"):
        shutil.copy(HERE / name, target / "_static")
    for path in (path for pattern in PAGES for path in notebooks.glob(pattern)):
        text = path.read_text("utf-8")
        copy = target / path.relative_to(notebooks)
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(_with_links(text) if path.suffix == ".md" else text, "utf-8")
    terms = glossary((notebooks / "glossary.md").read_text("utf-8"))
    (target / "glossary.md").write_text(_glossary_page(terms), "utf-8")
    lessons = _in_reading_order(notebooks)
    for path in lessons:
        page = lesson_page(nbformat.read(path, as_version=4), terms)
        nbformat.write(page, target / path.name)
    index = (HERE / "index.md").read_text("utf-8")
    names = "\n".join(path.stem for path in lessons)
    (target / "index.md").write_text(index.replace("{LESSONS}", names), "utf-8")


def _in_reading_order(notebooks: Path) -> list[Path]:
    """Return the lessons as the README lists them, then those that it does not."""
    readme = notebooks.parent / "README.md"
    text = readme.read_text("utf-8") if readme.is_file() else ""
    listed = re.findall(r"^- \[\d\d · .*?\]\(notebooks/(.+?\.ipynb)\)", text, re.M)
    place = {name: number for number, name in enumerate(listed)}
    lessons = sorted(notebooks.glob("[0-9]*.ipynb"))
    return sorted(lessons, key=lambda path: place.get(path.name, len(place)))


def _with_links(markdown: str) -> str:
    """Return links to headings as Sphinx names them; those to other files as words."""

    def slug(match: re.Match[str]) -> str:
        words = re.sub(r"[^\w\s-]", "", match[2].replace("%20", "-")).lower()
        return f"{match[1]}#{words})"

    elsewhere = r"[\w./-]+\.py|(?:\.\./)+(?:data|tools|README)[^)]*"
    markdown = re.sub(rf"\[([^\]]+)\]\((?:{elsewhere})\)", r"\1", markdown)
    return re.sub(r"(\]\([\w./-]+\.(?:ipynb|md))#([^)\s]+)\)", slug, markdown)


# --- the glossary --------------------------------------------------------------------


def glossary(markdown: str) -> Glossary:
    """Return the rows of the glossary's table."""
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.+?) \| (.+?) \|$", markdown, re.M)
    return {term: (meaning, where) for term, meaning, where in rows}


def _glossary_page(terms: Glossary) -> str:
    body = "\n".join(
        f"{term}\n  {meaning} Taught in {where}.\n"
        for term, (meaning, where) in terms.items()
    )
    return f"# Glossary\n\n```{{glossary}}\n{body}```\n"


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
    lesson: nbformat.NotebookNode, terms: Glossary
) -> nbformat.NotebookNode:
    """Return the notebook with what Sphinx needs to fold, to link and to hide."""
    lesson.metadata.language_info["pygments_lexer"] = "ipython3"  # which has %%magics
    known = {term.lower() + ending: term for term in terms for ending in ("", "s")}
    linked: set[str] = set()
    open_predictions: set[str] = set()
    for cell in lesson.cells:
        if cell.cell_type == "markdown":
            cell.source = _linked(_with_links(cell.source), known, linked)
            continue
        tags = set(cell.metadata.get("tags", []))
        asked = set(re.findall(r'\bpredict\(\s*"(\S+?)"', cell.source))
        revealed = set(re.findall(r'\breveal\(\s*"(\S+?)"', cell.source))
        folded = cell.metadata.get("jupyter", {}).get("source_hidden")
        if tags & {"check", "score"}:
            tags.add("remove-output")  # nobody has tried yet
        elif open_predictions and not asked:
            tags.add("hide-cell" if folded else "hide-output")
        elif folded:
            tags.add("hide-input")
        open_predictions = (open_predictions | asked) - revealed
        for output in cell.outputs if asked else ():
            if "text" in output:
                output["text"] = re.sub(r"Your guess: none yet\..*\n", "", output.text)
        cell.metadata["tags"] = sorted(tags)
    return lesson


# --- the pages -----------------------------------------------------------------------


def build(source: Path, site: Path) -> int:
    """Run Sphinx, for which each warning is an error; return its exit status."""
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto"]
    command += ["-d", source.parent / "doctrees", source, site]
    status = subprocess.call(command)
    for page in site.rglob("*.html"):
        page.write_text(underlined(page.read_text("utf-8")), "utf-8")
    return status


def underlined(html: str) -> str:
    """Return a page with measured values underlined in place of their marks."""
    span = '<span class="measured" title="depends on the machine">\\1</span>'
    return re.sub(r"⟨([^⟩<>\n]*)⟩", span, html)


def main() -> int:
    """Build the site; say where it is."""
    prepare(ROOT / "notebooks", SOURCE)
    status = build(SOURCE, SITE)
    if status:
        print("site: Sphinx had something to say; see above", file=sys.stderr)
        return status
    print(f"open {(SITE / 'index.html').relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
