"""Imports of the three rooms are light, go one way, and no name hides another."""

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name

import pytest

import course
import helpers
import torch_checkup
from tests.refresh import ROOT, python

ROOMS = {  # what each may use
    "helpers": {"helpers"},
    "torch_checkup": {"helpers", "torch_checkup"},
    "course": {"helpers", "torch_checkup", "course"},
}
FOLDERS = {room: ROOT / room for room in ("helpers", "torch_checkup")}
FOLDERS["course"] = ROOT / "notebooks" / "course"
MODULES = {  # helpers, helpers.text, helpers.gpu.dump, course.ch07.checks
    ".".join((room, *path.relative_to(folder).with_suffix("").parts)): path
    for room, folder in FOLDERS.items()
    for path in folder.rglob("*.py")
}
MODULES = {name.removesuffix(".__init__"): path for name, path in MODULES.items()}
SOURCES = {name: path.read_text("utf-8") for name, path in MODULES.items()}
NAMES = [
    pytest.param(package, name, id=f"{package.__name__}.{name}")
    for package in (helpers, torch_checkup, course)
    for name in package.__all__
]
LIGHT = [f"helpers.{module}" for module in ("text", "stats", "results", "errors")]
HEAVY = {"torch", "numpy", "matplotlib", "IPython", "ipywidgets", "psutil", "triton"}
# Of a first call's process, each import would be timed.
CHILD = ["torch_checkup.start_child"], HEAVY | {"jinja2", "msgspec"}


@pytest.mark.parametrize("room", ROOMS)
def test_import_brings_only_the_standard_library(room):
    done = python(
        f"import sys; before = set(sys.modules); import {room};"
        "print(*{name.split('.')[0] for name in set(sys.modules) - before})"
    )
    new = {*done.stdout.split()}
    assert new - sys.stdlib_module_names == {room}
    assert len(new) < 40, f"more than a light start needs: {new}"


@pytest.mark.parametrize(("modules", "heavy"), [(LIGHT, HEAVY), CHILD])
def test_light_modules_bring_nothing_heavy(modules, heavy):
    done = python(f"import {', '.join(modules)}, sys; print(*sys.modules)")
    assert not heavy & {*done.stdout.split()}


# --- the names that a room offers -------------------------------------------------


@pytest.mark.parametrize(("package", "name"), NAMES)
def test_each_name_is_what_its_module_defines(package, name):
    value, room = getattr(package, name), package.__name__
    assert callable(value) and value.__doc__
    assert value.__module__.startswith(f"{room}.") and value.__name__ == name
    assert f"{room}.{name}" not in MODULES, "its import would hide the function"


@pytest.mark.parametrize("package", [helpers, torch_checkup, course])
def test_a_wrong_name_is_answered_with_the_right_ones(package):
    right = re.escape(package.__all__[0])
    with pytest.raises(AttributeError, match=rf"no 'comprae'; it has: .*{right}"):
        _ = package.comprae
    assert set(package.__all__) <= set(dir(package))


@pytest.mark.parametrize("package", [helpers, torch_checkup, course])
def test_editors_see_the_same_names(package):
    source = SOURCES[package.__name__]
    block = re.search(r"^if TYPE_CHECKING:.*\n((?:    .+\n)+)", source, re.M)[1]
    lines = re.findall(r"^    from \.(\S+) import (.+)$", block, re.M)
    homes = {name: home for home, names in lines for name in names.split(", ")}
    assert homes == package._HOME


# --- imports point one way --------------------------------------------------------


def imports(module: str, source: str) -> Iterator[tuple[str, bool]]:
    """Yield all that *source* imports, anywhere in it, and whether by its full name."""
    package = MODULES.get(module) and MODULES[module].stem == "__init__"
    home = module if package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, True) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), home)
            for name in (base, *(f"{base}.{alias.name}" for alias in node.names)):
                yield name, not node.level


def used(module: str, source: str | None = None) -> set[str]:
    """Return the modules of the three rooms that a module imports, itself left out."""
    found = {name for name, _ in imports(module, source or SOURCES[module])}
    # The check-up has the helpers inside it.
    found = {re.sub(r"^torch_checkup\.helpers\b", "helpers", name) for name in found}
    return found & MODULES.keys() - ROOMS.keys() - {module}


def upward(module: str, source: str | None = None) -> list[str]:
    """Return what a module imports that its room may not use."""
    room = module.partition(".")[0]
    every = {name for name, _ in imports(module, source or SOURCES[module])}
    others = {"course", "helpers", "tests", "tools", "torch_checkup"} - ROOMS[room]
    return sorted(name for name in every if name.partition(".")[0] in others)


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_uses_one_above_it(room):
    """Neither tests nor tools, too: what is installed has none beside it."""
    inside = [name for name in MODULES if name.partition(".")[0] == room]
    assert {name: upward(name) for name in inside if upward(name)} == {}
    planted = "def f():\n    from tests import kinds\n    import tools.site"
    assert upward(f"{room}.x", planted) == ["tests", "tests.kinds", "tools.site"]
    assert upward("helpers.x", "import course.teach") == ["course.teach"]


def test_what_is_installed_names_itself_nowhere():
    """By its full name, the helpers inside the check-up would be a project's own."""
    for module in MODULES:
        if module.startswith(("helpers", "torch_checkup")):
            full = [name for name, full in imports(module, SOURCES[module]) if full]
            assert not {name.partition(".")[0] for name in full} & ROOMS.keys(), module
    assert ("helpers.text", True) in imports("helpers.x", "from helpers.text import a")


def test_there_is_no_circle():
    graph = {module: used(module) for module in MODULES}
    TopologicalSorter(graph).prepare()
    graph["helpers.text"] = {"helpers.gpu.dump"}
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()


def lesson_of(module: str) -> str:
    found = re.match(r"course\.(ch\d\d)\b", module)
    return found[1] if found else ""


def test_nobody_uses_what_one_lesson_shows_but_that_lesson():
    """What two of them need stands beside their folders."""
    for module in MODULES:
        lessons = {lesson_of(name) for name in used(module)} - {""}
        assert lessons <= {lesson_of(module)}, module
    assert lesson_of("course.ch07.checks") == "ch07" and not lesson_of("course.chart")


def listed() -> dict[str, list[str]]:
    """Return the modules as CONTRIBUTING.md lists them, by the room they are in."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    [listing] = re.findall(r"^```\n(helpers/\n.*?)^```", text, re.M | re.S)
    found: dict[str, list[str]] = {}
    for line in filter(None, listing.splitlines()):
        if line.endswith("/"):
            folder = line.replace("/", ".")
            names = found.setdefault(folder.partition(".")[0], [])
        else:
            names.append(folder + line.split()[0])
    return found


def above_what_it_uses(names: list[str], source: dict[str, str]) -> list[str]:
    """Return each import of a module that does not stand above in *names*."""
    wrong = []
    for n, name in enumerate(names):
        below = used(name, source[name]) & {*names[n + 1 :]}
        wrong += [f"{name} uses {module}" for module in sorted(below)]
    return wrong


@pytest.mark.parametrize("room", ["helpers", "torch_checkup"])
def test_contributing_lists_every_module_below_those_it_uses(room):
    """So who reads from the top meets nothing unknown, and each may be left out."""
    names = listed()[room]
    inside = {m for m, path in MODULES.items() if not path.stem.startswith("__")}
    assert sorted(names) == sorted(m for m in inside if m.startswith(f"{room}."))
    assert above_what_it_uses(names, SOURCES) == []


def test_a_module_above_what_it_uses_would_be_seen():
    planted = SOURCES | {"helpers.text": "def f():\n    from .gpu import tidy"}
    wrong = above_what_it_uses(listed()["helpers"], planted)
    assert wrong == ["helpers.text uses helpers.gpu.tidy"]


# --- what torch does not promise --------------------------------------------------


def bare_private_imports(node):
    """Yield private imports of torch that no ``with needed_for(...)`` explains."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.ImportFrom | ast.Import):
            if re.search(r"(from|import|,) torch\._", ast.unparse(inner)):
                yield ast.unparse(inner)
        elif not isinstance(inner, ast.With | ast.Try | ast.If):
            yield from bare_private_imports(inner)


def test_what_torch_does_not_promise_is_imported_with_what_it_is_for():
    for module, source in SOURCES.items():
        if not module.startswith("course"):
            assert [*bare_private_imports(ast.parse(source))] == [], module
    line = "from torch._dynamo.utils import counters"
    source = f"with needed_for('counts'):\n    {line}\ndef f():\n    {line}"
    assert [*bare_private_imports(ast.parse(source))] == [line]
