"""Imports of the three rooms are light, go one way, and no name hides another."""

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
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


@pytest.mark.parametrize("room", ROOMS)
def test_import_brings_only_the_standard_library(room):
    done = python(
        f"import sys; before = set(sys.modules); import {room};"
        "print(*{name.split('.')[0] for name in set(sys.modules) - before})"
    )
    new = {*done.stdout.split()}
    assert room in new and new - sys.stdlib_module_names <= ROOMS[room]
    assert len(new) < 40, f"more than a light start needs: {new}"


def test_light_modules_bring_nothing_heavy():
    done = python(f"import {', '.join(LIGHT)}, sys; print(*sys.modules)")
    assert not HEAVY & {*done.stdout.split()}


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


# --- imports point one way --------------------------------------------------------


def imports(module: str) -> Iterator[str]:
    """Yield all that a module imports, anywhere in it."""
    package = MODULES.get(module) and MODULES[module].stem == "__init__"
    home = module if package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(SOURCES[module])):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), home)
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def used(module: str) -> set[str]:
    """Return the modules of the three rooms that a module imports, itself left out."""
    # The check-up has the helpers inside it.
    own = r"^torch_checkup\.helpers\b"
    found = {re.sub(own, "helpers", name) for name in imports(module)}
    return found & MODULES.keys() - ROOMS.keys() - {module}


def test_no_room_uses_one_above_it():
    """Neither tests nor tools: what is installed has none of them."""
    rooms = {"course", "helpers", "tests", "tools", "torch_checkup"}
    for module in MODULES:
        above = rooms - ROOMS[module.partition(".")[0]]
        found = [name for name in imports(module) if name.partition(".")[0] in above]
        assert not found, module


def test_there_is_no_circle():
    graph = {module: used(module) for module in MODULES}
    TopologicalSorter(graph).prepare()


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
