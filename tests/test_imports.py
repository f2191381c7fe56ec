"""`import helpers` is light, its names are what they seem, and imports go one way."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import helpers

PACKAGE = Path(helpers.__file__).parent
MODULES = {  # "text", "gpu.dump"
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in PACKAGE.rglob("*.py")
}
LIGHT = ["text", "stats", "results", "errors"]
HEAVY = {"torch", "numpy", "matplotlib", "IPython", "ipywidgets", "psutil", "triton"}


def python(code: str) -> set[str]:
    """Return the words that *code* prints in a Python of its own."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_import_brings_only_the_standard_library() -> None:
    new = python(
        "import sys; before = set(sys.modules); import helpers;"
        "print(*{name.split('.')[0] for name in set(sys.modules) - before})"
    )
    assert new - sys.stdlib_module_names == {"helpers"}
    assert len(new) < 40, f"more than a light start needs: {new}"


def test_the_light_modules_bring_nothing_heavy() -> None:
    imports = "; ".join(f"import helpers.{module}" for module in LIGHT)
    assert not python(f"{imports}; import sys; print(*sys.modules)") & HEAVY


@pytest.mark.parametrize("name", helpers.__all__)
def test_each_name_is_what_its_module_defines(name: str) -> None:
    value = getattr(helpers, name)
    assert callable(value) and value.__doc__
    assert value.__module__.startswith("helpers.") and value.__name__ == name
    assert name not in MODULES, "the import of the module would hide the function"


def test_names_whatever_was_imported_before() -> None:
    code = "import helpers.benchmark; from helpers.codegen import kernels\n"
    code += "from helpers import *; import helpers; dir(helpers)\n"
    names = "compare.__name__, kernels.__name__, helpers.doctor.__name__"
    assert python(f"{code}\nprint({names})") == {"compare", "kernels", "doctor"}


def test_a_wrong_name_is_answered_with_the_right_ones() -> None:
    with pytest.raises(AttributeError, match=r"no 'comprae'; it has: .*compare"):
        _ = helpers.comprae
    assert set(helpers.__all__) <= set(dir(helpers))


def typed(source: str) -> dict[str, str]:
    """Return the names under TYPE_CHECKING in *source*, each with its module."""
    [block] = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    )
    return {alias.name: line.module for line in block.body for alias in line.names}


def test_editors_see_the_same_names() -> None:
    source = MODULES["__init__"].read_text(encoding="utf-8")
    assert typed(source) == helpers._HOME
    assert typed(source.replace("import compare", "import compete")) != helpers._HOME


# --- the layers -----------------------------------------------------------------


def imported(source: str) -> set[str]:
    """Return the modules of the package that *source* imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(
            "helpers."
        ):
            home = node.module.removeprefix("helpers").removeprefix(".")
            found |= {home, *(f"{home}.{a.name}".removeprefix(".") for a in node.names)}
    return found & MODULES.keys()


def first_cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return modules that import each other in a circle, or [] when none do."""

    def walk(path: list[str]) -> list[str]:
        for after in sorted(graph.get(path[-1], ())):
            if after in path:
                return [*path[path.index(after) :], after]
            if cycle := walk([*path, after]):
                return cycle
        return []

    return next(filter(None, (walk([module]) for module in sorted(graph))), [])


def test_imports_go_one_way() -> None:
    graph = {
        module: imported(path.read_text(encoding="utf-8")) - {module}
        for module, path in MODULES.items()
        if not module.endswith(("__init__", "__main__"))
    }
    assert first_cycle(graph) == []
    for module, used in graph.items():
        if "gpu." not in module:
            assert not [name for name in used if "gpu." in name], module


def test_a_circle_would_be_seen() -> None:
    assert imported("def f():\n    from helpers.text import mark") == {"text"}
    assert imported("from helpers import text, compare") == {"text"}
    assert imported("from helpers.gpu import tidy") == {"gpu.tidy"}
    assert first_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def test_nothing_but_the_helpers_is_needed_by_them() -> None:
    """Neither tests nor tools: an installed package has none beside it."""
    for path in MODULES.values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in getattr(node, "names", [])]
            for name in [getattr(node, "module", None) or "", *names]:
                assert str(name).split(".")[0] not in ("tests", "tools"), path.name


def bare_private_imports(source: str) -> list[str]:
    """Return private imports of torch that no ``with needed_for(...)`` explains."""
    tree = ast.parse(source)
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.With | ast.Try | ast.If)
        for inner in ast.walk(node)
    }
    bare = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import) and id(node) not in guarded:
            names = [alias.name for alias in node.names]
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else names
            if any(name.startswith("torch._") for name in names):
                bare.append(ast.unparse(node))
    return bare


def test_what_torch_does_not_promise_is_imported_with_what_it_is_for() -> None:
    for path in MODULES.values():
        assert bare_private_imports(path.read_text(encoding="utf-8")) == [], path.name


def test_a_bare_private_import_would_be_seen() -> None:
    line = "from torch._dynamo.utils import counters"
    assert bare_private_imports(line) == [line]
    guarded = f"with needed_for('counts'):\n    {line}"
    assert bare_private_imports(guarded) == []


def test_the_readme_lists_every_module_below_those_it_uses() -> None:
    readme = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    top, gpu = readme.split("helpers/\n", 1)[1].split("```")[0].split("helpers/gpu/\n")
    names = [line.split()[0] for line in top.splitlines() if line]
    names += [f"gpu.{line.split()[0]}" for line in gpu.splitlines() if line]
    modules = {n: p for n, p in MODULES.items() if not n.endswith("__")}
    assert sorted(names) == sorted(modules)
    for n, name in enumerate(names):
        used = imported(modules[name].read_text(encoding="utf-8")) & modules.keys()
        assert used <= {*names[: n + 1]}, f"{name} uses {used - {*names[:n]}}"
