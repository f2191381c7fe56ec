"""torch-checkup, installed, in projects of other people: their imports are theirs."""

import os
import shutil
import sys

import pytest

from tests.refresh import ROOT, ran

MODEL = """
{first}

def factor():
    {late}
    return FACTOR

def make():
    import torch
    print("loading ...")
    return lambda x: torch.relu(x) * factor(), (torch.randn(4, 8),)
"""
BESIDE = MODEL.format(first="from sizes import FACTOR", late="")
THEIRS = MODEL.format(first="import helpers", late="from helpers import FACTOR")
FOLDER = MODEL.format(first="from helpers.sizes import FACTOR", late="")
RELATIVE = MODEL.format(first="from .sizes import FACTOR", late="")
PROJECTS = {  # what is asked for, the text of the model, the file of the sizes
    "a module helpers": ("model", THEIRS, "helpers.py"),
    "a package helpers, outside": ("project/model.py", THEIRS, "helpers/__init__.py"),
    "a folder helpers, without __init__.py": ("model.py", FOLDER, "helpers/sizes.py"),
    "helpers, beside the package": ("pkg/model.py", THEIRS, "helpers.py"),
    "what stands beside, from inside": ("model", BESIDE, "sizes.py"),
    "what stands beside, from outside": ("project/model.py", BESIDE, "sizes.py"),
    "a package": ("pkg.models", RELATIVE, "pkg/sizes.py"),
    "a file of a package": ("project/pkg/models.py", RELATIVE, "pkg/sizes.py"),
}
# What every process of a checkup does first; torch would take its time.
LOOK = """
import sys
from torch_checkup.start_child import become_theirs, module_function
become_theirs()
assert module_function(sys.argv[1]).__globals__["factor"]() == 2
"""


CHECKUP = ("--only", "capture", "--require", "graphs=1,breaks=0")


def run(name, folder, path, *command):
    """Write the project *name*; return what *command* says there of its target."""
    target, model, sizes = PROJECTS[name]
    home = folder / "project"
    module = target.removeprefix("project/").removesuffix(".py").replace(".", "/")
    files = {sizes: "FACTOR = 2\n", f"{module}.py": model}
    if module.startswith("pkg/"):
        files["pkg/__init__.py"] = ""
    for file, text in files.items():
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text(text)
    words = sys.executable, *command, f"{target}:make"
    where = folder if target.startswith("project/") else home
    return ran(*words, cwd=where, env={**os.environ, "PYTHONPATH": path}).stdout


@pytest.mark.parametrize("name", PROJECTS)
def test_a_project_imports_its_own(name, tmp_path):
    run(name, tmp_path, str(ROOT), "-P", "-c", LOOK)


def test_a_checkout_needs_no_installation(tmp_path):
    name = "a folder helpers, without __init__.py"
    run(name, tmp_path, "", ROOT / "torch_checkup.py", *CHECKUP)


def test_installed_it_is_found_where_their_helpers_come_first(tmp_path):
    source, installed = tmp_path / "checkout", tmp_path / "installed"
    source.mkdir()
    for name in ("helpers", "data"):
        shutil.copytree(ROOT / name, source / name)
    for name in ("torch_checkup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
    pip += ["--no-build-isolation", "--target", str(installed), str(source)]
    ran(*pip)
    path = os.pathsep.join([str(tmp_path / "project"), str(installed)])
    program = installed / "bin" / "torch-checkup"
    said = run("a module helpers", tmp_path, path, program, *CHECKUP)
    assert "all of it is one graph" in said and "loading" not in said
