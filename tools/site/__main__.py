"""Build the site from the stored notebooks: ``python -m tools.site`` or `make site`.

Sphinx and myst-nb make the pages.  Before that, copies of the notebooks are prepared
for reading without a kernel: claims and figures show what came out and fold how, what
answers a prediction is folded until the reader opens it, and each term is linked to
the glossary where a lesson explains it.  No page asks another host for anything.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

from course import moved
from tools.alone import NOTEBOOKS, read
from tools.commands import command
from tools.site import TEMPLATES, contents, finish, lessons

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
SOURCE, SITE = (ROOT / ".cache" / "site" / name for name in ("source", "html"))
PAGES = ("cheat_sheet.md", "coverage.md", "claims.md", "multi_node.md", "platforms.md")
PAGES += ("workshop/*.md", "figures/*.svg")


def prepare(course: Path, target: Path) -> None:
    """Write what Sphinx reads to *target*, from the checkout *course*."""
    notebooks = course / "notebooks"
    shutil.rmtree(target, ignore_errors=True)

    def write(name: str, text: str) -> None:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text, "utf-8")

    for path in (path for pattern in PAGES for path in notebooks.glob(pattern)):
        text = path.read_text("utf-8")
        page = lessons.with_links(text) if path.suffix == ".md" else text
        write(path.relative_to(notebooks).as_posix(), page)
    for name, page in contents.pages(course).items():
        write(name, page)
    terms = lessons.glossary((notebooks / "glossary.md").read_text("utf-8"))
    write("glossary.md", lessons.glossary_page(terms))
    (target / "reference").mkdir()
    for path in (path for pattern in NOTEBOOKS for path in notebooks.glob(pattern)):
        name = path.relative_to(notebooks)
        page = lessons.lesson_page(read(path), terms, name.as_posix())
        nbformat.write(page, target / name)


def build(source: Path, site: Path) -> int:
    """Run Sphinx, for which each warning is an error; return its exit status."""
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto"]
    command += ["-c", HERE, "-d", source.parent / "doctrees", source, site]
    status = subprocess.call(command)
    for page in site.rglob("*.html"):
        page.write_text(finish.finished(page.read_text("utf-8")), "utf-8")
    if not status:
        (site / "texts.js").write_text(finish.texts(site), "utf-8")
        leads_on = TEMPLATES.get_template("moved.html")
        for old, new in moved.lessons().items():
            (site / f"{old}.html").write_text(leads_on.render(new=new), "utf-8")
    return status


def main(arguments: list[str] | None = None) -> int:
    """Build the site; say where it is.  Returns 1 where Sphinx finds fault."""
    command("tools.site", __doc__, "a page has a fault").parse_args(arguments)
    print("preparing the pages, then Sphinx builds them: some minutes", flush=True)
    prepare(ROOT, SOURCE)
    if build(SOURCE, SITE):
        print("site: Sphinx had something to say; see above", file=sys.stderr)
        return 1
    print(f"open {(SITE / 'index.html').relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
