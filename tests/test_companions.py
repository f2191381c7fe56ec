"""The pages beside the notebooks say what the notebooks say, and nothing more.

Glossary, cheat sheet, coverage, routes and the facilitators' pages: each names
chapters, headings, polls and minutes, and each of those is looked up here.
"""

from __future__ import annotations

import ast
import copy
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests import companions
from tests.companions import FOLDER, LESSONS, ROUTES, WORKSHOP, Break, Stop
from tests.form import HYPE, Lesson, measured, prose, tags
from tests.test_links import broken, links

GLOSSARY = FOLDER / "glossary.md"
CHEAT_SHEET = FOLDER / "cheat_sheet.md"
COVERAGE = FOLDER / "coverage.md"
PAGES = [GLOSSARY, CHEAT_SHEET, COVERAGE, *sorted(WORKSHOP.glob("*.md"))]

# What the notebooks write in bold for a term of the glossary.
SAME = {
    "common subexpressions": "common subexpression",
    "compiled by blocks": "by blocks",
    "dead code": "dead code elimination",
    "decomposition table": "decomposition",
    "edges": "bucket",
    "fused": "fusion",
    "fuses": "fusion",
    "fx": "FX graph",
    "horizontal": "horizontal fusion",
    "inlined": "inlining",
    "inlines": "inlining",
    "looped": "looped reduction",
    "lowered": "lowering",
    "lowers": "lowering",
    "lowest rung that is wrong": "ladder",
    "lowest rung": "ladder",
    "persistent": "persistent reduction",
    "scheduled": "scheduler",
    "schedules": "scheduler",
    "specialised": "specialisation",
    "split": "split reduction",
    "timing candidates": "autotune",
    "unbacked": "unbacked symbol",
}
# Bold for stress, not as a definition.
STRESSED = {
    "against each other",
    "arithmetic",
    "choose",
    "default",
    "fake",
    "float64",
    "generates",
    "in a cache",
    "know",
    "limit",
    "load",
    "loop",
    "matmul",
    "nan",
    "prove it",
    "save",
    "setting",
    "silently",
    "size",
    "the first guard that failed",
    "tiny",
    "too small",
    "value",
    "written",
}


def rows(page: Path) -> list[list[str]]:
    """Return the cells of the rows of all tables of a page, without headings."""
    text = page.read_text(encoding="utf-8")
    found = []
    for each in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        lines = each.strip().split("\n")[2:]
        found += [[cell.strip() for cell in ln[1:-1].split("|")] for ln in lines]
    return found


def chapters(cell: str) -> list[str]:
    """Return the numbers of the notebooks that a cell links to."""
    links = re.findall(r"\[(\d\d)\]\((?:\.\./)?([^)#]+)", cell)
    assert links, f"{cell!r} links to no chapter"
    for number, file in links:
        assert LESSONS[number].file.name == file, f"{number} is not {file}"
    return [number for number, _ in links]


def words(lesson: Lesson) -> str:
    """Return the Markdown of a lesson on one line, in lower case."""
    return " ".join(" ".join(c.source for c in lesson.words).lower().split())


def everything(lesson: Lesson) -> str:
    return "\n".join(cell.source for cell in lesson.cells)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere_in_the_course(page: Path) -> None:
    assert broken(page) == []
    for target in links(page.read_text(encoding="utf-8")):
        file = (page.parent / target.split("#")[0]).resolve()
        assert target.startswith("http") or file.is_relative_to(FOLDER.parent)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_nothing_is_measured_and_nothing_praised(page: Path) -> None:
    text = prose(page.read_text(encoding="utf-8"))
    assert measured(text) == []
    assert re.findall(HYPE, text, re.IGNORECASE) == []


# The glossary.


def glossary() -> dict[str, tuple[str, list[str]]]:
    """Return each term of the glossary with its sentence and its chapters."""
    made = {}
    for term, sentence, where in rows(GLOSSARY):
        assert re.fullmatch(r"\*\*[^*]+\*\*", term), f"{term} is not in bold"
        assert term not in made, f"{term} is there twice"
        made[term.strip("*")] = (sentence, chapters(where))
    return made


def spelt(term: str) -> re.Pattern[str]:
    """Return what finds a term, in any of its forms, in lower-case words."""
    forms = [term, *(form for form, of in SAME.items() if of == term)]
    found = "|".join(re.escape(form.lower()) for form in forms)
    return re.compile(rf"(?<![a-z])(?:{found})(?:s|es)?(?![a-z])")


def test_terms_are_in_order() -> None:
    terms = [term.lower() for term in glossary()]
    assert terms == sorted(terms)
    assert len(terms) >= 60


@pytest.mark.parametrize("term", glossary())
def test_a_term_is_one_sentence_and_taught_where_it_says(term: str) -> None:
    sentence, where = glossary()[term]
    plain = re.sub(r"`[^`]*`", "code", sentence)
    assert len(plain.split()) <= 30
    assert sentence.endswith(".") and not re.search(r"[.?!] [A-Z]", plain)
    assert where == sorted(where)
    assert where == [n for n in where if spelt(term).search(words(LESSONS[n]))]


def test_a_term_is_found_as_a_word() -> None:
    assert spelt("guard").search("two guards hold")
    assert spelt("fusion").search("it fuses")
    assert not spelt("pass").search("a compass is passing")
    assert not any(spelt("tensor core").search(words(e)) for e in LESSONS.values())


def bold(lesson: Lesson) -> set[str]:
    """Return what a lesson puts in bold, without the words of every opening."""
    text = re.sub(
        r"^```.*?^```",
        "",
        "\n\n".join(c.source for c in lesson.words),
        flags=re.DOTALL | re.MULTILINE,
    )
    text = re.sub(r"`[^`]*`", lambda m: m[0].replace("**", ""), text)
    found = {
        " ".join(each.split()).lower().rstrip(":.")
        for each in re.findall(r"\*\*(.+?)\*\*", text, re.DOTALL)
    }
    opening = {"you will be able to", "you need", "minutes"}
    return {e for e in found - opening if not re.match(r"exercise \d|stretch", e)}


@pytest.mark.parametrize("number", LESSONS)
def test_what_a_notebook_defines_is_in_the_glossary(number: str) -> None:
    terms = {term.lower() for term in glossary()}
    terms |= {f"{term}s" for term in terms} | {*SAME, *STRESSED}
    assert bold(LESSONS[number]) <= terms


def test_forms_and_exceptions_are_still_needed() -> None:
    seen = set().union(*map(bold, LESSONS.values()))
    assert {*SAME, *STRESSED} <= seen
    assert set(SAME.values()) <= set(glossary())


# The cheat sheet.

SHELL = "$ "
# Executed nowhere: only that they are Python is tested.
ONLY_PARSED = {"torch.cuda.synchronize()": "it needs a GPU"}


def recipes() -> list[tuple[str, str, str]]:
    """Return each row of the cheat sheet: what for, the code, the chapters."""
    made = []
    for wish, code, where in rows(CHEAT_SHEET):
        found = re.fullmatch(r"`([^`]+)`", code)
        assert found, f"{code!r} is not one line of code"
        made.append((wish, found[1], where))
    return made


def namespace() -> dict[str, Any]:
    """Return the names that every line of the cheat sheet may use."""
    import torch

    import helpers

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 0.9) + 1

    x, y = torch.randn(16, 8), torch.randn(4, 8)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    compiled = torch.compile(f, backend="eager")
    compiled(x)
    made = {name: getattr(helpers, name) for name in helpers.__all__}
    for name in ("compare", "sweep", "copy_bandwidth"):  # must work, not be precise
        made[name] = partial(made[name], budget=0.05)
    made |= {"torch": torch, "f": f, "x": x, "y": y, "model": model}
    made |= {"compiled": compiled, "state": model.state_dict()}
    made["q"] = made["k"] = made["v"] = torch.randn(1, 2, 4, 8)
    return made


def python_lines() -> list[str]:
    return [code for _, code, _ in recipes() if not code.startswith(SHELL)]


def shell_lines() -> list[str]:
    return [code for _, code, _ in recipes() if code.startswith(SHELL)]


def run(code: str) -> None:
    """Run a line of the cheat sheet as a reader would, who has defined a few names."""
    names = namespace()
    if "result." in code:
        names["result"] = names["compare"](names["f"], names["compiled"], names["x"])
    exec(compile(code, "cheat_sheet", "exec"), names)


@pytest.mark.parametrize("code", python_lines())
def test_a_line_of_python_runs(code: str) -> None:
    if "dump_triton" in code and not find_spec("triton"):
        pytest.skip("no Triton here")
    if code in ONLY_PARSED:
        compile(code, "cheat_sheet", "exec")
    else:
        run(code)


def test_a_line_that_is_wrong_is_noticed() -> None:
    with pytest.raises(AttributeError, match="compiled"):
        run("model.compiled()")
    with pytest.raises(RuntimeError, match="recompile"):
        run('with torch.compiler.set_stance("fail_on_recompile"): compiled(y)')


# A graph that comes from a cache has no stages to log; kernels may be cached.
NO_GRAPH_CACHE = {
    "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
    "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
}
# It is compiled again for a second size.
SCRIPT = """\
import torch

def f(x):
    return torch.relu(x * 0.9) + 1

if __name__ == "__main__":
    fast = torch.compile(f)
    fast(torch.randn(8))
    fast(torch.randn(9))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="lines for a POSIX shell")
@pytest.mark.parametrize("code", shell_lines())
def test_a_line_of_shell_runs(code: str, tmp_path: Path) -> None:
    """With a train.py that is short, and the python that runs this test."""
    (tmp_path / "train.py").write_text(SCRIPT)
    line = code.removeprefix(SHELL).replace("python", f'"{sys.executable}"')
    where = {**os.environ, "PYTHONPATH": str(FOLDER.parent), **NO_GRAPH_CACHE}
    run = subprocess.run(
        line, shell=True, cwd=tmp_path, env=where, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert not ("TORCH_LOGS" in code and not run.stderr), "nothing was logged"


def test_each_setting_of_the_parsed_lines_is_there() -> None:
    assert set(ONLY_PARSED) <= set(python_lines())


# Names that a line needs besides those it is about.
INCIDENTAL = {"dump", "print", "randn", "result"}


def used(code: str) -> set[str]:
    """Return the names that a line of the cheat sheet is about."""
    if code.startswith(SHELL):
        return set(re.findall(r"[A-Z_]{6,}|(?<== )\w+|helpers \w+", code))
    own = {"x", "y", "f", "q", "k", "v", "model", "compiled", "state", "torch", "n"}
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.keyword) and node.arg:
            found.add(node.arg)
    return found - own


@pytest.mark.parametrize("recipe", recipes(), ids=lambda r: r[1])
def test_a_line_is_taught_where_it_says(recipe: tuple[str, str, str]) -> None:
    wish, code, where = recipe
    texts = "\n".join(everything(LESSONS[number]) for number in chapters(where))
    unknown = {n for n in used(code) if not re.search(rf"\b{re.escape(n)}\b", texts)}
    assert unknown <= INCIDENTAL, f"{wish}: {unknown} not in {where}"


def test_the_cheat_sheet_fits_two_pages() -> None:
    text = CHEAT_SHEET.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 110
    lines = [code for _, code, _ in recipes()]
    assert len(lines) == len(set(lines))
    assert max(map(len, lines)) <= 100


# Coverage.


def section(lesson: Lesson, title: str) -> str:
    """Return the sources of all cells below an H2 of a lesson."""
    now, found = "", []
    for cell in lesson.cells:
        if cell.cell_type == "markdown":
            parts = re.split(r"^## +(.+)$", cell.source, flags=re.MULTILINE)
            if now == title:
                found.append(parts[0])
            for head, text in zip(parts[1::2], parts[2::2], strict=True):
                now = head.strip()
                if now == title:
                    found.append(text)
        elif now == title:
            found.append(cell.source)
    return "\n".join(found)


def covered() -> Iterator[tuple[str, str, str]]:
    for row in rows(COVERAGE):
        concept, number, where = row
        target = re.fullmatch(r"\[(.+)\]\(([^)#]+)#(.+)\)", where)
        assert target, f"{where!r} is no link to a heading"
        assert LESSONS[number].file.name == target[2], f"{number} is not {target[2]}"
        assert target[3] == target[1].replace(" ", "-")
        yield concept, number, target[1]


@pytest.mark.parametrize("row", [*covered()], ids=lambda r: r[0])
def test_a_concept_is_where_the_table_says(row: tuple[str, str, str]) -> None:
    concept, number, title = row
    lesson = LESSONS[number]
    assert (2, title) in lesson.headings
    text = section(lesson, title)
    for name in re.findall(r"`([^`]+)`", concept):
        assert name in text, f"{name} is not below {title!r}"


def test_no_concept_is_there_twice_and_no_section_without_one() -> None:
    table = list(covered())
    assert len({concept for concept, _, _ in table}) == len(table)
    taught = {(number, title) for _, number, title in table}
    for number, lesson in LESSONS.items():
        for level, title in lesson.headings:
            if level == 2 and title not in ("Exercises", "Recap"):
                assert (number, title) in taught, f"{number}: {title}"


def test_what_is_not_taught_is_in_no_notebook() -> None:
    text = COVERAGE.read_text(encoding="utf-8")
    missing = text.split("## Not taught yet")[1]
    names = re.findall(r"`([^`]+)`", missing)
    assert len(re.findall(r"^- ", missing, re.M)) >= 3
    for number, lesson in LESSONS.items():
        taught = {n for n in names if re.search(rf"\b{n}\b", everything(lesson))}
        assert not taught, f"{number} has {taught}"


# The workshop.


@pytest.mark.parametrize("number", LESSONS)
def test_exercises_take_the_minutes_of_the_metadata(number: str) -> None:
    lesson = LESSONS[number]
    stated = companions.exercises(lesson)
    assert list(stated) == [
        tag.removeprefix("ex-")
        for cell in lesson.code
        if "check" in tags(cell)
        for tag in tags(cell)
        if tag.startswith("ex-")
    ]
    assert sum(stated.values()) == lesson.course["minutes"]["exercise"]
    read = companions.sections(lesson)
    assert sum(read.values()) == lesson.course["minutes"]["read"]
    assert min(read.values()) >= 1


@pytest.mark.parametrize("page", sorted(WORKSHOP.glob("*.md")), ids=lambda p: p.name)
def test_tables_of_minutes_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == companions.made(page), "run python -m tests.companions"
    assert len(re.findall(r"<!-- \w", text)) >= 1


def test_each_route_is_on_the_page_once() -> None:
    text = (WORKSHOP / "routes.md").read_text(encoding="utf-8")
    marks = re.findall(r"<!-- (?!/)(.+) -->", text)
    assert marks == [*ROUTES, "pages"]


@pytest.mark.parametrize("name", ROUTES)
def test_a_route_adds_up(name: str) -> None:
    whole, steps = ROUTES[name]
    assert 0.05 * whole <= companions.spare(name) <= 0.15 * whole
    shown = companions.route(name).splitlines()[2:]
    cells = [[c.strip(" *") for c in line[1:-1].split("|")] for line in shown]
    *parts, end = cells
    assert sum(int(row[-1]) for row in parts) == int(end[-1]) == whole
    for row in parts:
        if row[4]:
            assert sum(map(int, row[4].split(" + "))) == int(row[-1])
    seen: set[str] = set()
    for step in steps:
        if isinstance(step, Break):
            continue
        lesson = LESSONS[step.lesson]
        assert set(lesson.course["needs"]) <= seen, f"{name}: {step.lesson} comes early"
        assert step.lesson not in seen
        assert "Recap" not in step.without
        seen.add(step.lesson)


def test_a_page_for_each_notebook_and_no_other() -> None:
    pages = {page.stem for page in WORKSHOP.glob("*.md")}
    assert pages == {*LESSONS, "routes"}


PARTS = ["Timing", "Polls", "When late", "What goes wrong", "At the end"]


def faults(number: str, text: str) -> Iterator[str]:
    """Yield what is wrong with the facilitator's page of a notebook."""
    lesson = LESSONS[number]
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    if parts[1::2] != PARTS:
        yield f"the sections are {parts[1::2]}"
        return
    opening, (_, asked, late, wrong, end) = parts[0], parts[2::2]
    if not opening.startswith(f"# Teaching {companions.link(lesson)}\n"):
        yield "the title is not that of the notebook"
    if not re.search(r"^\*\*Aim\.\*\* [^.?!]+(?:\.[^.?!]+)?[.]$", opening, re.M):
        yield "the aim is not one line"
    yield from _poll_faults(lesson, asked)
    cuts = re.findall(r"^- \*(.+?)\*: ", late, re.M)
    for title in {*cuts} - {t for level, t in lesson.headings if level == 2}:
        yield f"no section {title!r} to cut"
    if not cuts or "Recap" in cuts:
        yield "nothing to cut, or the recap"
    if len(re.findall(r"^- \*\*.+?\*\*: ", wrong, re.M)) < 3:
        yield "fewer than three things go wrong"
    if "?" not in end:
        yield "no question at the end"
    if len(text.splitlines()) > 60:
        yield "more than 60 lines"


def _poll_faults(lesson: Lesson, text: str) -> Iterator[str]:
    known = companions.polls(lesson)
    found = re.findall(
        r"^\*\*(\d\d\.p\d+)\*\* (.+)\n\n- Expect: (.+)\n- The machine: (.+)\n"
        r"- Why: .+\n",
        text,
        re.M,
    )
    if len(found) != 2 or text.count("- Expect") != 2:
        yield f"{len(found)} polls, and not two"
    for key, question, expected, revealed in found:
        poll = known.get(key)
        if poll is None:
            yield f"{key} is no poll of the notebook"
        elif question != poll.question:
            yield f"{key} asks {poll.question!r}"
        elif revealed != poll.revealed:
            yield f"{key}: the machine says {poll.revealed!r}"
        elif expected not in poll.options:
            yield f"{key}: {expected!r} is no option"
        elif expected == revealed:
            yield f"{key}: the expected answer is right"


@pytest.mark.parametrize("number", LESSONS)
def test_a_facilitators_page_keeps_to_its_notebook(number: str) -> None:
    page = WORKSHOP / f"{number}.md"
    assert list(faults(number, page.read_text(encoding="utf-8"))) == []


Change = Callable[[str], str]
BROKEN: list[tuple[Change, str]] = [
    (lambda t: t.replace("01.p1", "01.p9"), "01.p9 is no poll"),
    (lambda t: t.replace("Expect: in every", "Expect: in any"), "is no option"),
    (
        lambda t: t.replace("Expect: in every step", "Expect: in no step"),
        "the expected answer is right",
    ),
    (lambda t: t.replace("machine: in no", "machine: in each"), "the machine says"),
    (lambda t: t.replace("how many graphs are", "how many are"), "asks"),
    (lambda t: t.replace("- *A check", "- *The check"), "no section"),
    (lambda t: t.replace("## Polls", "## Votes"), "the sections are"),
    (lambda t: t.replace("Is it even", "Was it ever"), "the title is not"),
    (lambda t: t + "\n" * 60, "more than 60 lines"),
    (lambda t: t.replace("Aim.", "Aims"), "the aim is not"),
    (lambda t: t.split("## At the end")[0] + "## At the end\n", "no question"),
]


@pytest.mark.parametrize(("change", "message"), BROKEN)
def test_a_fault_of_a_page_is_noticed(change: Change, message: str) -> None:
    text = (WORKSHOP / "01.md").read_text(encoding="utf-8")
    assert change(text) != text
    assert any(message in fault for fault in faults("01", change(text)))


def test_minutes_that_moved_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = dict(LESSONS)
    notebook = copy.deepcopy(LESSONS["03"].notebook)
    notebook.metadata["course"]["minutes"]["read"] += 5
    moved["03"] = Lesson(notebook, LESSONS["03"].file)
    monkeypatch.setattr(companions, "LESSONS", moved)
    for page in (WORKSHOP / "03.md", WORKSHOP / "routes.md"):
        assert companions.made(page) != page.read_text(encoding="utf-8")


def test_a_section_that_was_renamed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = (120, (Stop("00", (), ("No such heading",)),))
    monkeypatch.setitem(companions.ROUTES, "2 hours", gone)
    with pytest.raises(ValueError, match="00 has no No such heading"):
        companions.route("2 hours")
