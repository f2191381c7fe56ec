"""torch-checkup, installed, in projects of other people: their imports are theirs.

One part of it here; `python -m tests.test_checkup_abroad` does all parts in each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.refresh import ROOT

MODEL = """
import torch
{imports}

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        {late}
        return torch.relu(self.layer(x)) * FACTOR

def make():
    print("loading ...")
    return Model().eval(), (torch.randn(4, 8),)
"""
BESIDE = MODEL.format(imports="from sizes import FACTOR", late="")
THEIRS = MODEL.format(imports="import helpers", late="from helpers import FACTOR")
FOLDER = MODEL.format(imports="from helpers.sizes import FACTOR", late="")
RELATIVE = MODEL.format(imports="from .sizes import FACTOR", late="")
SIZES = "FACTOR = 2\n"
# What imports a model, without a torch, which takes its time.
LOOK = """
import sys
from types import SimpleNamespace as Fake

from helpers.own_model.start_child import module_function

sys.modules["torch"] = Fake(nn=Fake(Module=object))
assert module_function(sys.argv[1]).__globals__["FACTOR"] == 2
"""
# The folder it is run in, what it is asked for, the files of the project.
PROJECTS: dict[str, tuple[str, str, dict[str, str]]] = {
    "a module helpers": (".", "model:make", {"helpers.py": SIZES, "model.py": THEIRS}),
    "a package helpers, from outside": (
        "..",
        "project/model.py:make",
        {"helpers/__init__.py": SIZES, "model.py": THEIRS},
    ),
    "a folder helpers, without __init__.py": (
        ".",
        "model.py:make",
        {"helpers/sizes.py": SIZES, "model.py": FOLDER},
    ),
    "helpers, beside the package": (
        ".",
        "pkg/model.py:make",
        {"helpers.py": SIZES, "pkg/__init__.py": "", "pkg/model.py": THEIRS},
    ),
    "what stands beside, from inside": (
        ".",
        "model:make",
        {"sizes.py": SIZES, "model.py": BESIDE},
    ),
    "what stands beside, from outside": (
        "..",
        "project/model.py:make",
        {"sizes.py": SIZES, "model.py": BESIDE},
    ),
    "a package": (
        ".",
        "pkg.models:make",
        {"pkg/__init__.py": "", "pkg/sizes.py": SIZES, "pkg/models.py": RELATIVE},
    ),
    "a file of a package": (
        "..",
        "project/pkg/models.py:make",
        {"pkg/__init__.py": "", "pkg/sizes.py": SIZES, "pkg/models.py": RELATIVE},
    ),
}


def install(folder: Path) -> Path:
    """Install the helpers to *folder*, as from a checkout, and return the command."""
    source = folder / "checkout"
    source.mkdir()
    for name in ("helpers", "data"):
        shutil.copytree(ROOT / name, source / name)
    for name in ("torch_checkup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
    pip += ["--no-build-isolation", "--target", str(folder / "installed"), str(source)]
    subprocess.run(pip, check=True, capture_output=True)
    return folder / "installed"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("abroad"))


def checked(
    name: str, folder: Path, command: list[str], path: str, *options: str
) -> subprocess.CompletedProcess[str]:
    """Write the project *name* to *folder*, and return what a checkup of it says."""
    where, target, files = PROJECTS[name]
    home = folder / "project"
    for file, text in files.items():
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text(text)
    command = [*command, target, "--require", "graphs=1,breaks=0", *options]
    env = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        command, cwd=home / where, env=env, capture_output=True, text=True
    )


@pytest.mark.parametrize("name", [name for name in PROJECTS if "helpers" in name])
def test_it_is_checked_in_its_project(
    name: str, installed: Path, tmp_path: Path
) -> None:
    command = [sys.executable, str(installed / "bin" / "torch-checkup")]
    done = checked(name, tmp_path, command, str(installed), "--only", "capture")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all of it is one graph" in done.stdout and "loading" not in done.stdout


@pytest.mark.parametrize("name", [name for name in PROJECTS if "helpers" not in name])
def test_what_stands_beside_it_is_found(name: str, tmp_path: Path) -> None:
    done = checked(name, tmp_path, [sys.executable, "-P", "-c", LOOK], str(ROOT))
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_found_where_their_helpers_come_first(
    installed: Path, tmp_path: Path
) -> None:
    theirs = os.pathsep.join([str(tmp_path / "project"), str(installed)])
    command = [sys.executable, str(installed / "bin" / "torch-checkup")]
    name = "a module helpers"
    done = checked(name, tmp_path, command, theirs, "--only", "capture")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_checkout_needs_no_installation(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "torch_checkup.py")]
    name = "a folder helpers, without __init__.py"
    done = checked(name, tmp_path, command, "", "--only", "capture")
    assert done.returncode == 0, done.stdout + done.stderr


if __name__ == "__main__":
    wrong = 0
    with tempfile.TemporaryDirectory() as place:
        home = install(Path(place))
        command = [sys.executable, str(home / "bin" / "torch-checkup")]
        for number, name in enumerate(PROJECTS):
            folder = Path(place) / str(number)
            options = ("--gpu", "h100", "--budget", "1")
            done = checked(name, folder, command, str(home), *options)
            wrong += bool(done.returncode)
            print(name, done.returncode, done.stdout, done.stderr, flush=True)
    sys.exit(bool(wrong))
