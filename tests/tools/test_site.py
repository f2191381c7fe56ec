"""The site: folds, links and marks, without a word from Sphinx or another host."""

import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tools.site import __main__ as site

GLOSSARY = """# Glossary

| term | in one sentence | chapter |
| --- | --- | --- |
| **guard** | A condition. | [00](00_first.ipynb) |
"""
FOLDED = {"jupyter": {"source_hidden": True}}


def printed(source, text, **metadata):
    outputs = [new_output("stream", text=text)]
    return new_code_cell(source, outputs=outputs, metadata=metadata, execution_count=1)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a folder")
    notebooks = folder / "notebooks"
    (notebooks / "workshop").mkdir(parents=True)
    (notebooks / "glossary.md").write_text(GLOSSARY)
    (notebooks / "cheat_sheet.md").write_text("# Cheat sheet\n\n[00](00_first.ipynb)\n")
    (notebooks / "multi_node.md").write_text("# Launching\n\n[it](examples/a.py)\n")
    (notebooks / "coverage.md").write_text(
        "# Coverage\n\n[A part](00_first.ipynb#A-part,-and-more)\n"
    )
    (notebooks / "claims.md").write_text("# Claims\n")
    (notebooks / "workshop" / "routes.md").write_text(
        "# Routes\n\n[commands](../../README.md#two-commands)\n"
        "[values](../../tools/hub/values.yaml)\n"
    )
    (notebooks / "workshop" / "00.md").write_text("# Teaching\n")
    ask = "00.p1  Which?\n  1. a\nYour guess: none yet. Set mine=1, run again.\n"
    cells = [
        new_markdown_cell("# 00 · First?\n\nA **guard**, and **guards** again."),
        new_markdown_cell("## A part, and more\n\n[code](course/ch04/zoo.py)"),
        printed('predict("00.p1", "Which?", [])', ask),
        printed("%cd -q $folder\nrun()", "the answer\n"),
        printed('reveal("00.p1", x)', "it said\n", **FOLDED),
        printed('claim("true", x)', "✓ holds: true, took ⟨3 ms⟩\n", **FOLDED),
        printed('check("00.1", f)', "not attempted\n", tags=["check"]),
    ]
    lesson = new_notebook(cells=cells)
    lesson.metadata["language_info"] = {"name": "python"}
    nbformat.write(lesson, notebooks / "00_first.ipynb")
    site.prepare(notebooks, folder / "source")
    assert site.build(folder / "source", folder / "html") == 0
    return folder / "html"


def test_lessons_stand_as_the_readme_lists_them(tmp_path):
    notebooks = tmp_path / "notebooks"
    notebooks.mkdir()
    for name in ("00_a", "01_b", "02_c"):
        (notebooks / f"{name}.ipynb").write_text("{}")
    inside = (
        "- [02 · C?](notebooks/02_c.ipynb) 3\n- [00 · A?](notebooks/00_a.ipynb) 4\n"
    )
    (tmp_path / "README.md").write_text(inside)
    order = [path.name[:2] for path in site._in_reading_order(notebooks)]
    assert order == ["02", "00", "01"]


def test_a_lesson_reads_without_a_kernel(pages):
    html = (pages / "00_first.html").read_text()
    folded = [re.sub(r"<[^>]+>", "", part) for part in html.split("<details")[1:]]
    assert "the answer" in folded[0] and "it said" in folded[1]
    assert "✓ holds" in html and "not attempted" not in html
    assert "none yet" not in html
    assert 'title="depends on the machine">3 ms</span>' in html and "⟨" not in html
    assert html.count('href="glossary.html#term-guard"') == 1
    assert "course/ch04/zoo.py" not in html


def test_links_lead_to_headings(pages):
    coverage = (pages / "coverage.html").read_text()
    [anchor] = re.findall(r'href="00_first\.html#([^"]+)"', coverage)
    assert f'id="{anchor}"' in (pages / "00_first.html").read_text()


def test_no_page_asks_another_host(pages):
    loaded = r'<(?:link|script|img|iframe)\b[^>]*\b(?:src|href)="(?:https?:)?//'
    for page in pages.rglob("*.html"):
        assert not re.findall(loaded, page.read_text())


def test_what_sphinx_cannot_resolve_is_an_error(tmp_path):
    (tmp_path / "source" / "_static").mkdir(parents=True)
    for name in ("conf.py", "course.css", "find.js"):
        (tmp_path / "source" / name).write_text((site.HERE / name).read_text())
    (tmp_path / "source" / "index.md").write_text("# Index\n\n[gone](nowhere.md)\n")
    assert site.build(tmp_path / "source", tmp_path / "html") != 0
