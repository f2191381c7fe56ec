"""The pages beside the notebooks say what the notebooks say, and nothing more.

Glossary, cheat sheet, coverage, routes and the facilitators' pages: each names
lessons, headings, polls and minutes, and each of those is looked up here.
"""

import inspect
import os
import re
import sys
from functools import partial
from importlib.util import find_spec
from itertools import pairwise

import pytest
import torch

from tests import companions
from tests.companions import FOLDER, LESSONS, ROUTES, WORKSHOP
from tests.form import Lesson, measured, prose, tags
from tests.refresh import notebooks, ran, read, references

GLOSSARY = FOLDER / "glossary.md"
CHEAT_SHEET = FOLDER / "cheat_sheet.md"
COVERAGE = FOLDER / "coverage.md"
# Lessons by number, reference pages by name.
EVERY = {**LESSONS, **{p.stem: Lesson(read(p), p) for p in references()}}
PAGES = [GLOSSARY, CHEAT_SHEET, COVERAGE, *sorted(WORKSHOP.glob("*.md"))]


def rows(page):
    """Return the cells of the rows of all tables of a page, without headings."""
    text = page.read_text(encoding="utf-8")
    cells = []
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        lines = table.strip().split("\n")[2:]
        cells += [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
    return cells


def linked(cell):
    """Return the lessons and reference pages that a cell links to."""
    keys = re.findall(r"\[(\w+)\]\(", cell)
    assert keys, f"{cell!r} links to no lesson"
    for key in keys:
        assert f"[{key}]({address(EVERY[key])})" in cell
    return [EVERY[key] for key in keys]


def address(page):
    return page.file.relative_to(FOLDER).as_posix()


def everything(lesson):
    return "\n".join(cell.source for cell in lesson.cells)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_nothing_measured_is_typed(page):
    assert measured(prose(page.read_text(encoding="utf-8"))) == []


# --- the glossary -----------------------------------------------------------------


def is_taught(term, lesson):
    """Return whether a lesson has the first two words of a term, or how they begin."""
    text = " ".join(cell.source for cell in lesson.words).lower()
    return all(word[:5] in text for word in re.findall(r"\w+", term.lower())[:2])


def test_each_term_is_one_sentence_and_taught_where_it_says():
    terms = [term.strip("*") for term, _, _ in rows(GLOSSARY)]
    assert [t.lower() for t in terms] == sorted({t.lower() for t in terms})
    missing = []
    for term, (_, sentence, where) in zip(terms, rows(GLOSSARY), strict=True):
        text = re.sub(r"`[^`]*`", "code", sentence)
        assert text.endswith(".") and not re.search(r"[.?!] [A-Z]", text), term
        missing += [(term, L.id) for L in linked(where) if not is_taught(term, L)]
    assert missing == []


# --- the cheat sheet --------------------------------------------------------------

NEEDS_A_GPU = {"torch.cuda.synchronize()"}
RECIPES = [(wish, code.strip("`"), where) for wish, code, where in rows(CHEAT_SHEET)]
PYTHON = [code for _, code, _ in RECIPES if not code.startswith("$ ")]
SHELL = [code.removeprefix("$ ") for _, code, _ in RECIPES if code.startswith("$ ")]


def run(code):
    """Run a line of the cheat sheet as a reader would, who has defined a few names."""
    import course
    import helpers
    import torch_checkup

    def f(x):
        return torch.relu(x * 0.9) + 1

    rooms = (course, helpers, torch_checkup)
    names = {name: getattr(room, name) for room in rooms for name in room.__all__}
    for name in ("compare", "sweep", "copy_bandwidth"):  # must work, not be precise
        names[name] = partial(names[name], budget=0.05)
    for name in ("cold_start", "composes"):  # lessons 20 and 03 run them
        names[name] = inspect.signature(names[name]).bind
    names["doctor"] = partial(names["doctor"], compile=False)
    x, y = torch.randn(16, 8), torch.randn(4, 8)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    compiled = torch.compile(f, backend="eager")
    compiled(x)
    names |= {"torch": torch, "f": f, "x": x, "y": y, "model": model}
    names |= {"compiled": compiled, "state": model.state_dict()}
    if "result." in code:
        names["result"] = names["compare"](f, compiled, x)
    try:  # what a line asked for is no matter of the next
        with torch.compiler.set_stance("default"):
            exec(compile(code, "cheat_sheet", "exec"), names)
    finally:
        torch._logging.set_logs()
        torch.nn.modules.module._global_forward_hooks.clear()


@pytest.mark.weekly
@pytest.mark.parametrize("code", PYTHON)
def test_a_line_of_python_runs(code, monkeypatch):
    monkeypatch.chdir(FOLDER)  # where the sheet lies, and the examples
    if "dump_triton" in code and not find_spec("triton"):
        pytest.skip("no Triton here")
    if code in NEEDS_A_GPU:
        compile(code, "cheat_sheet", "exec")
    else:
        run(code)


posix = pytest.mark.skipif(sys.platform == "win32", reason="lines for a POSIX shell")
RANKS = "python -m torch.distributed.run "


SCRIPT = """\
import torch

def f(x):
    print(end="")
    return torch.relu(x * 0.9) + 1

def make():
    return torch.relu, (torch.randn(8),)

if __name__ == "__main__":
    for size in 8, 9:
        torch.compile(f, backend="eager")(torch.randn(size))
"""


@posix
@pytest.mark.weekly
@pytest.mark.parametrize("line", [line for line in SHELL if RANKS not in line])
def test_a_line_of_the_shell_runs(line, tmp_path):
    # Lesson 18 bisects a compiler that is broken.
    (tmp_path / "train.py").write_text("" if "bisector" in line else SCRIPT)
    line = line.replace("python", f'"{sys.executable}"')
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    env = {**os.environ, "PYTHONPATH": str(FOLDER.parent), "PATH": path}
    ran("sh", "-c", line, cwd=tmp_path, env=env)


def test_a_line_is_taught_where_it_says():
    for wish, code, where in RECIPES:
        text = "\n".join(map(everything, linked(where)))
        names = {*re.findall(r"\w{4,}", code)}
        names -= {"compiled", "model", "python", "train"}
        unknown = {n for n in names if not re.search(rf"\b{n}\b", text)}
        assert not unknown, f"{wish}: {unknown} not in {where}"


# --- the order of reading -----------------------------------------------------------


def test_each_lesson_leads_to_the_next():
    for lesson, follower in pairwise(LESSONS.values()):
        words = "\n".join(cell.source for cell in lesson.words)
        [found] = re.findall(r"\bNext:.*?\]\((\S+?\.ipynb)\)", words, re.DOTALL)
        assert found == follower.file.name, lesson.id
    assert sorted(lesson.file for lesson in LESSONS.values()) == notebooks()


# --- coverage ---------------------------------------------------------------------


def section(lesson, title):
    """Return the sources of all cells below an H2 of a lesson."""
    parts = re.split(r"^## +(.+)$", everything(lesson), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True)).get(title, "")


def test_each_concept_is_where_the_table_says():
    taught = set()
    for concept, number, where in rows(COVERAGE):
        title = where[1:].partition("](")[0]
        anchor = f"{address(EVERY[number])}#{title.replace(' ', '-')}"
        assert where == f"[{title}]({anchor})", where
        text = section(EVERY[number], title)
        for name in re.findall(r"`([^`]+)`", concept):
            assert name in text, f"{name} is not below {title!r}"
        taught.add((number, title))
    for number, lesson in EVERY.items():
        titles = {title for level, title in lesson.headings if level == 2}
        missing = (
            titles - {"Exercises", "Recap"} - {t for n, t in taught if n == number}
        )
        assert not missing, f"{number}: {missing}"


# --- the workshop -----------------------------------------------------------------


@pytest.mark.parametrize("number", LESSONS)
def test_exercises_take_the_minutes_of_the_metadata(number):
    lesson = LESSONS[number]
    stated = companions.exercises(lesson)
    checks = sum("check" in tags(cell) for cell in lesson.code)
    assert len(stated) == checks
    assert sum(stated.values()) == lesson.course["minutes"]["exercise"]


@pytest.mark.parametrize("page", companions.PAGES, ids=lambda p: p.name)
def test_tables_of_minutes_are_up_to_date(page):
    text = page.read_text(encoding="utf-8")
    assert "<!-- " in text
    assert text == companions.renewed(page), "run python -m tests.companions"


@pytest.mark.parametrize("name", ROUTES)
def test_a_route_adds_up_and_needs_nothing_that_comes_later(name):
    whole, steps = ROUTES[name]
    assert 0.05 * whole <= companions.spare(name) <= 0.15 * whole
    assert companions.route(name).endswith(f"**{whole}** |")
    while name := companions.FOLLOWS.get(name, ""):
        steps = f"{ROUTES[name][1]} {steps}"
    lessons = [step[:2] for step in steps.split() if "+" not in step]
    for n, lesson in enumerate(lessons):
        assert {*LESSONS[lesson].course["needs"]} <= {*lessons[:n]}, lesson


POLL = r"^\*\*(\d\d\.p\d+)\*\* (.+)\n\n- Expect: (.+)\n- The machine: (.+)\n- Why: .+\n"


def polls(lesson):
    """Return question, options and what came out of each prediction, as stored."""
    streams = (o for cell in lesson.code for o in cell.outputs if "text" in o)
    text = "\n".join(stream.text for stream in streams)
    revealed = dict(re.findall(r"^(\d\d\.p\d+)  The machine says: (.+)$", text, re.M))
    asked = r"^(\d\d\.p\d+)  (?!The machine says)(.+)\n((?:  \d+\. .+\n)+)"
    return {
        key: (question, re.findall(r"^  \d+\. (.+)$", options, re.M), revealed.get(key))
        for key, question, options in re.findall(asked, text, re.M)
    }


def faults(number, text):
    """Yield what is wrong with the facilitator's page of a notebook."""
    lesson = LESSONS[number]
    late = text.partition("## When late")[2].partition("\n## ")[0]
    for title in re.findall(r"^- \*(.+?)\*: ", late, re.M):
        if (2, title) not in lesson.headings:
            yield f"no section {title!r} to cut"
    found = re.findall(POLL, text, re.M)
    if not found or text.count("- Expect") != len(found):
        yield f"{len(found)} polls, of {text.count('- Expect')} that say what to expect"
    for key, question, expected, revealed in found:
        asked, options, answer = polls(lesson).get(key, ("", (), ""))
        if (question, revealed) != (asked, answer):
            yield f"{key} asks {asked!r}, the machine says {answer!r}"
        elif expected not in options or expected == revealed:
            yield f"{key}: {expected!r} is right, or no option"


@pytest.mark.parametrize("number", LESSONS)
def test_a_facilitators_page_keeps_to_its_notebook(number):
    text = (WORKSHOP / f"{number}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# Teaching {companions.link(LESSONS[number])}\n")
    assert list(faults(number, text)) == []
