"""`import helpers` is light, and its public names are what they seem."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import helpers

PACKAGE = Path(helpers.__file__).parent
MODULES = {  # "text", "gpu.dump"
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
}
HEAVY = [
    "torch",
    "numpy",
    "matplotlib",
    "IPython",
    "ipywidgets",
    "tqdm",
    "psutil",
    "triton",
]


def python(code: str, *options: str) -> str:
    """Return what *code* prints in a Python of its own."""
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        capture_output=True,
        text=True,
        cwd=PACKAGE.parent,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_brings_only_the_standard_library() -> None:
    new = python(
        "import sys; before = set(sys.modules); import helpers;"
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    assert set(new.split()) - sys.stdlib_module_names == {"helpers"}
    assert len(new.split()) < 40, f"more than a light start needs: {new}"


@pytest.mark.parametrize("name", HEAVY)
def test_the_light_modules_bring_nothing_heavy(name: str) -> None:
    light = ["text", "stats", "results", "comparison", "recordings"]
    light += ["plots", "health", "teach"]
    imports = "; ".join(f"import helpers.{module}" for module in light)
    loaded = python(f"{imports}; import sys; print({name!r} in sys.modules)")
    assert loaded == "False"


def test_no_module_has_the_name_of_a_function() -> None:
    assert MODULES.isdisjoint(helpers.__all__)


@pytest.mark.parametrize("name", helpers.__all__)
def test_each_name_is_what_its_module_defines(name: str) -> None:
    found = getattr(helpers, name)
    assert callable(found)
    assert found.__module__.startswith("helpers.")
    assert found.__name__ == name
    assert found.__doc__


@pytest.mark.parametrize(
    "code",
    [
        "from helpers import compare, kernels, doctor",
        "import helpers; compare, kernels, doctor = "
        "helpers.compare, helpers.kernels, helpers.doctor",
        "from helpers.codegen import kernels; from helpers import compare, doctor",
        "import helpers.benchmark, helpers.health, helpers.codegen;"
        "from helpers import doctor, kernels, compare",
        "from helpers import *",
        "import helpers; dir(helpers); from helpers import doctor, compare, kernels",
    ],
)
def test_names_in_any_order(code: str) -> None:
    names = "compare.__name__, kernels.__name__, doctor.__name__"
    assert python(f"{code}\nprint({names})") == "compare kernels doctor"


def test_a_wrong_name_is_answered_with_the_right_ones() -> None:
    with pytest.raises(AttributeError, match=r"no 'comprae'; it has: .*compare"):
        _ = helpers.comprae
    with pytest.raises(ImportError):
        exec("from helpers import comprae")


def test_dir_lists_the_names() -> None:
    assert set(helpers.__all__) <= set(dir(helpers))


def typed(source: str) -> dict[str, str]:
    """Return the names under TYPE_CHECKING in *source*, each with its module."""
    (block,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    )
    return {
        alias.name: line.module
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }


def test_editors_see_the_same_names() -> None:
    source = (PACKAGE / "__init__.py").read_text(encoding="utf-8")
    assert typed(source) == helpers._HOME


def test_that_check_sees_a_name_that_drifted() -> None:
    source = (PACKAGE / "__init__.py").read_text(encoding="utf-8")
    assert typed(source.replace("import compare", "import compete")) != helpers._HOME


# --- the layers -----------------------------------------------------------------


def source_of(module: str) -> str:
    """Return the text of a module of the package."""
    return (PACKAGE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")


def imported(source: str) -> set[str]:
    """Return the modules of the package that *source* imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(
            "helpers."
        ):
            home = node.module.removeprefix("helpers").removeprefix(".")
            names = [f"{home}.{alias.name}".removeprefix(".") for alias in node.names]
            found |= {home, *names}
    return found & MODULES


def first_cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return modules that import each other in a circle, or [] when none do."""

    def walk(path: list[str]) -> list[str]:
        for after in sorted(graph.get(path[-1], ())):
            if after in path:
                return [*path[path.index(after) :], after]
            if found := walk([*path, after]):
                return found
        return []

    return next(filter(None, (walk([module]) for module in sorted(graph))), [])


def test_imports_go_one_way() -> None:
    graph = {
        module: imported(source_of(module))
        for module in MODULES - {"__init__", "__main__", "gpu.__init__"}
    }
    assert first_cycle(graph) == []
    used = {module: graph[module] for module in graph if "gpu." not in module}
    assert not [m for m, names in used.items() if any("gpu." in n for n in names)]


def test_a_circle_would_be_seen() -> None:
    assert imported("def f():\n    from helpers.text import mark") == {"text"}
    assert imported("from helpers import text, compare") == {"text"}
    assert imported("from helpers.gpu import tidy") == {"gpu.tidy"}
    assert imported("from helpers.gpu.tidy import tidy") == {"gpu.tidy"}
    assert first_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def private_mentions(text: str) -> list[str]:
    return [line for line in text.splitlines() if re.search(r"torch\._(?!_)", line)]


@pytest.mark.parametrize("module", sorted(MODULES - {"compat"}))
def test_only_compat_knows_what_torch_does_not_promise(module: str) -> None:
    assert private_mentions(source_of(module)) == []


def test_a_private_name_would_be_seen() -> None:
    assert private_mentions("x = torch._dynamo.config") == ["x = torch._dynamo.config"]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_modules_stay_short(module: str) -> None:
    lines = source_of(module).count("\n")
    assert lines <= 300, f"{module}.py has {lines} lines: split it or say less"
