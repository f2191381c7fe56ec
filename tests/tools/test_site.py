"""The site: folds, links and marks, without a word from Sphinx or another host."""

import json
import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from course import moved
from tools.site import __main__ as site
from tools.site import lessons
from tools.site.finish import finished

GLOSSARY = """# Glossary

| term | in one sentence | chapter |
| --- | --- | --- |
| **guard** | A condition. | [00](00_first.ipynb) |
"""
FOLDED = {"jupyter": {"source_hidden": True}}
NO_GUESS = "Your guess: none yet. Set mine=1, run again.\n"
SAID = "00.p1  The machine says: b\nNo guess on record. Guess before you look.\n"


def printed(source, text, **metadata):
    outputs = [new_output("stream", text=text)]
    return new_code_cell(source, outputs=outputs, metadata=metadata, execution_count=1)


README = """# The course

What it is.

## Which lessons

- **One evening**: [00](notebooks/00_first.ipynb).

**Start**

- [00 · What can one line buy?](notebooks/00_first.ipynb) 28
"""
MESSAGES = """[[entry]]
name = "a result that was written over"
says = 'output of CUDAGraphs that has been overwritten|tensor\\(s\\)'
why = "All share the memory."
mend = "clone() it."
lesson = "00"
"""
ROW = {
    "name": "a <lock>",
    "group": "Python code",
    "link": "00_first",
    "program": "import torch\nprint(1 < 2)",
    "cells": {
        "2.14": ["a break", "GB0142"],
        "2.15": ["raises", "E: " + "why <b> " * 9],
    },
}
SINCE = {
    "machine": {"cpu": "a CPU", "python": "3"},
    "settings": {
        "columns": {v: {"when": "2026-11-29T00:00"} for v in ("2.14", "2.15")},
        "verdicts": {"raises": "it raises"},
    },
    "rows": [ROW],
}
CODE = (
    '<pre style="background:#F8F8F8; color:black; line-height: 125%;">'
    '<span style="color: #204A87; font-weight: bold">import</span></pre>'
)


CELLS = [
    new_markdown_cell("# 00 · First?\n\nA **guard**, and **guards** again."),
    new_markdown_cell("## A part, and more\n\n[code](course/ch05/zoo.py) mark_it"),
    printed('predict("00.p1", "Which?", [])', f"00.p1  Which?\n  1. a\n{NO_GUESS}"),
    printed("%cd -q $folder\nrun()", "the answer\n"),
    printed('reveal("00.p1", x)', f"{SAID}it said\n", **FOLDED),
    printed('claim("true", x)', "on ⟨x86⟩\n✓ holds: true, took ⟨3 ms⟩\n", **FOLDED),
    new_code_cell("draw()", outputs=[new_output("display_data", {"text/html": CODE})]),
    printed('check("00.1", f)', "not attempted\n", tags=["check"]),
    new_markdown_cell("[Above](#A-part,-and-more); answers: `solutions/ch00.py`."),
]
FILES = {
    "README.md": README,
    "torch_checkup/README.md": "# Check-up\n\n[00](../notebooks/00_first.ipynb)\n",
    "torch_checkup/errors.toml": MESSAGES,
    "torch_checkup/SKILL.md": "---\nname: x\n---\n\n# For agents\n",
    "data/published/README.md": "# Published\n\nmark_it\n",
    "data/since/table.json": json.dumps(SINCE),
    "notebooks/solutions/ch00.py": (
        "# Try first.\n\n# %% 00.1\ndef f():\n    return 1\n"
    ),
    "notebooks/glossary.md": GLOSSARY,
    **{
        f"notebooks/{name}.md": f"# {name}\n\nmark_it\n"
        for name in ("cheat_sheet", "platforms", "multi_node", "claims", "workshop/00")
    },
    "notebooks/coverage.md": (
        "# Coverage\n\n[A part](00_first.ipynb#A-part,-and-more)\n"
    ),
    "notebooks/workshop/routes.md": (
        "# Routes\n\n[commands](../../README.md#two-commands)\n"
        "[hub](../../tools/jupyterhub_config.py) [it](../examples/a.py)\n"
    ),
}


def written(path, *cells):
    """Write a notebook of these cells."""
    page = new_notebook(cells=cells)
    page.metadata["language_info"] = {"name": "python"}
    path.parent.mkdir(exist_ok=True)
    nbformat.write(page, path)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a folder")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    written(folder / "notebooks" / "00_first.ipynb", *CELLS)
    looked_up = new_markdown_cell("# Reference · Breaks")
    written(folder / "notebooks" / "reference" / "breaks.ipynb", looked_up)
    site.prepare(folder, folder / "source")
    assert site.build(folder / "source", folder / "html") == 0
    return folder / "html"


def test_a_lesson_reads_without_a_kernel(pages):
    html = (pages / "00_first.html").read_text()
    folded = [re.sub(r"<[^>]+>", "", part) for part in html.split("<details")[1:]]
    question, *folded = folded
    assert "predict(" in question and "the code of this" in question
    assert "the answer" in folded[0] and "it said" in folded[1]
    assert "✓ holds" in html and "not attempted" not in html
    assert "the answer is inside" in folded[0] and "how this was tested" in folded[2]
    assert "none yet" not in html
    assert '<pre><span class="k">import</span></pre>' in html  # of the page's colours
    assert "true, took ⟨3 ms⟩</div>" in html and "⟨x86⟩" not in html
    assert "✓ holds</b>" in html and "→ answer</b> 00.p1  The machine says: b" in html
    code, rest = html.split("</details>", 1)
    assert code.count("Which?") == rest.count("Which?") == 1  # and code is shut
    assert html.count('href="glossary.html#term-guard"') == 1
    assert "course/ch05/zoo.py" not in html


def test_links_lead_to_headings(pages):
    coverage = (pages / "coverage.html").read_text()
    [anchor] = re.findall(r'href="00_first\.html#([^"]+)"', coverage)
    lesson = (pages / "00_first.html").read_text()
    assert f'id="{anchor}"' in lesson
    assert f'href="#{anchor}">Above' in lesson


def test_reference_pages_are_listed_and_old_names_lead_on(pages):
    assert 'href="reference/breaks.html"' in (pages / "index.html").read_text()
    for old, new in moved.lessons().items():
        assert f"url={new}.html" in (pages / f"{old}.html").read_text()


def test_the_search_quotes_sections(pages):
    """Also where the site was opened as files: the search page has their words."""
    texts = json.loads((pages / "texts.js").read_text()[len("const TEXTS = ") : -2])
    [_, (name, title, words)] = texts["00_first"]
    assert (name, title) == ("a-part-and-more", "A part, and more")
    assert "mark_it" in words and "it said" in words and "guess first" not in words
    search = (pages / "search.html").read_text()
    assert 'src="texts.js"' in search and "find.js" in search


def test_a_lesson_opens_elsewhere_where_the_repository_has_an_address(monkeypatch):
    monkeypatch.setattr(lessons, "address", lambda: "https://github.com/a/b")
    page = new_notebook(cells=[new_markdown_cell("# 00 · First?")])
    page.metadata["language_info"] = {"name": "python"}
    lessons.lesson_page(page, {}, "reference/breaks.ipynb")
    for words in (
        "colab.research.google.com/github/a/b/",
        "codespaces.new/a/b",
        "gh/a",
    ):
        assert words in page.cells[0].source
    assert page.cells[0].source.count("notebooks/reference/breaks.ipynb") == 2


def test_answers_are_linked(pages):
    assert 'href="solutions/ch00.html"' in (pages / "00_first.html").read_text()
    answers = (pages / "solutions" / "ch00.html").read_text()
    assert 'href="../00_first.html"' in answers and ">00.1<" in answers


def test_a_message_says_what_it_means(pages):
    html = (pages / "messages.html").read_text()
    assert "output of CUDAGraphs that has been overwritten" in html
    assert "tensor(s)" in html and "clone() it." in html
    assert 'href="00_first.html"' in html


def test_what_works_since_when_has_a_program_and_each_version(pages):
    html = (pages / "since.html").read_text()
    assert "<summary>a &lt;lock&gt;</summary>" in html and "&lt;</span>" in html
    assert re.search(r'<td data-head="2.14"><b>a break</b> <a href="[^"]+gb0142', html)
    assert html.count("why &lt;b&gt; " * 8) == 1  # whole where the row is open
    assert "<tr data-differs>" in html and 'href="00_first.html">00 · What' in html
    assert 'href="since.html"' in (pages / "index.html").read_text()


def test_no_page_asks_another_host(pages):
    loaded = r'<(?:link|script|img|iframe)\b[^>]*\b(?:src|href)="(?:https?:)?//'
    for page in pages.rglob("*.html"):
        assert not re.findall(loaded, page.read_text())


def test_a_sentence_on_the_marks_keeps_them_and_an_output_has_those_of_numbers():
    page = "<p>What stands between ⟨ and ⟩ was measured.</p><pre>⟨yes⟩ in\n⟨3 s⟩</pre>"
    assert finished(page) == page.replace("⟨yes⟩", "yes")
