"""`import helpers` is light, its names are what they seem, and imports go one way."""

import ast
import re
import sys
from pathlib import Path

import pytest

import helpers
from tests.refresh import python

PACKAGE = Path(helpers.__file__).parent
MODULES = {  # "text", "gpu.dump"
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in PACKAGE.rglob("*.py")
}
LIGHT = ["text", "stats", "results", "errors"]
HEAVY = {"torch", "numpy", "matplotlib", "IPython", "ipywidgets", "psutil", "triton"}
# Of a first call's process, each import would be timed.
CHILD = ["own_model.start_child"], HEAVY | {"jinja2"}


def test_import_brings_only_the_standard_library():
    done = python(
        "import sys; before = set(sys.modules); import helpers;"
        "print(*{name.split('.')[0] for name in set(sys.modules) - before})"
    )
    new = {*done.stdout.split()}
    assert new - sys.stdlib_module_names == {"helpers"}
    assert len(new) < 40, f"more than a light start needs: {new}"


@pytest.mark.parametrize(("modules", "heavy"), [(LIGHT, HEAVY), CHILD])
def test_light_modules_bring_nothing_heavy(modules, heavy):
    imports = "; ".join(f"import helpers.{module}" for module in modules)
    done = python(f"{imports}; import sys; print(*sys.modules)")
    assert not heavy & {*done.stdout.split()}


@pytest.mark.parametrize("name", helpers.__all__)
def test_each_name_is_what_its_module_defines(name):
    value = getattr(helpers, name)
    assert callable(value) and value.__doc__
    assert value.__module__.startswith("helpers.") and value.__name__ == name
    assert name not in MODULES, "the import of the module would hide the function"


def test_a_wrong_name_is_answered_with_the_right_ones():
    with pytest.raises(AttributeError, match=r"no 'comprae'; it has: .*compare"):
        _ = helpers.comprae
    assert set(helpers.__all__) <= set(dir(helpers))


def test_editors_see_the_same_names():
    source = MODULES["__init__"].read_text(encoding="utf-8")
    block = re.search(r"^if TYPE_CHECKING:.*\n((?:    .+\n)+)", source, re.M)[1]
    lines = re.findall(r"^    from \.(\S+) import (.+)$", block, re.M)
    homes = {name: home for home, names in lines for name in names.split(", ")}
    assert homes == helpers._HOME


# --- the layers -----------------------------------------------------------------


def imported(source):
    """Return the modules of the package that *source* imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(
            "helpers."
        ):
            home = node.module.removeprefix("helpers").removeprefix(".")
            found |= {home, *(f"{home}.{a.name}".removeprefix(".") for a in node.names)}
    return found & MODULES.keys()


def test_nothing_but_the_helpers_is_needed_by_them():
    """Neither tests nor tools: an installed package has none beside it."""
    outside = re.compile(r"^\s*(?:from|import) (?:tests|tools)\b", re.MULTILINE)
    assert outside.search("def f():\n    from tests.kinds import KINDS")
    for path in MODULES.values():
        assert not outside.search(path.read_text(encoding="utf-8")), path.name


def bare_private_imports(node):
    """Yield private imports of torch that no ``with needed_for(...)`` explains."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.ImportFrom | ast.Import):
            if re.search(r"(from|import|,) torch\._", ast.unparse(inner)):
                yield ast.unparse(inner)
        elif not isinstance(inner, ast.With | ast.Try | ast.If):
            yield from bare_private_imports(inner)


def test_what_torch_does_not_promise_is_imported_with_what_it_is_for():
    for path in MODULES.values():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert [*bare_private_imports(tree)] == [], path.name
    line = "from torch._dynamo.utils import counters"
    source = f"with needed_for('counts'):\n    {line}\ndef f():\n    {line}"
    assert [*bare_private_imports(ast.parse(source))] == [line]


def above_what_it_uses(names, sources):
    """Return each import of a module that does not stand above in *names*."""
    wrong = []
    for n, name in enumerate(names):
        below = imported(sources[name]) & sources.keys() - {*names[: n + 1]}
        wrong += [f"{name} uses {used}" for used in sorted(below)]
    return wrong


def test_the_readme_lists_every_module_below_those_it_uses():
    """So there is no circle, and the package does without its part for GPUs."""
    readme = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    listing, folder, names = readme.split("helpers/\n", 1)[1].split("```")[0], "", []
    for line in filter(None, listing.splitlines()):
        if line.startswith("helpers/"):
            folder = line.removeprefix("helpers/").replace("/", ".")
        else:
            names.append(folder + line.split()[0])
    sources = {n: p.read_text(encoding="utf-8") for n, p in MODULES.items()}
    sources = {n: source for n, source in sources.items() if not n.endswith("__")}
    assert sorted(names) == sorted(sources)
    assert above_what_it_uses(names, sources) == []
    sources["text"] += "def f():\n    from helpers.gpu import tidy"
    assert above_what_it_uses(names, sources) == ["text uses gpu.tidy"]
