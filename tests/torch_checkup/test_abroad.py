"""torch-checkup, installed, in projects of other people: their imports are theirs."""

import os
import re
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.refresh import ROOT, ran
from torch_checkup.helpers.errors import InputError
from torch_checkup.sandbox import folders_of

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
NEXT_TO_IT = MODEL.format(first="from sizes import FACTOR", late="")
THEIRS = MODEL.format(first="import helpers", late="from helpers import FACTOR")
PACKAGED = MODEL.format(first="import pkg.helpers", late="from .helpers import FACTOR")
OWN_PATH = "import sys\nsys.path.insert(0, 'project/lib')\n" + NEXT_TO_IT
SIZES = "FACTOR = 2\n"
PROJECTS = {  # what is asked for, and the files
    "a module helpers": ("model", {"model.py": THEIRS, "helpers.py": SIZES}),
    "helpers of the package": (
        "project/src/pkg/model.py",
        {
            "src/pkg/model.py": PACKAGED,
            "src/pkg/__init__.py": "",
            "src/pkg/helpers/__init__.py": SIZES,
        },
    ),
    "a path in the model, and helpers that raise": (
        "project/model.py",
        {
            "model.py": OWN_PATH,
            "lib/sizes.py": SIZES,
            "helpers.py": "raise RuntimeError('not for you')",
        },
    ),
}
# A process of a check-up, and what starts it; torch would take its time.
LOOK = """
from torch_checkup.sandbox import module_function

def run(order, report):
    factor = module_function(order["target"]).__globals__["factor"]
    report.put(factor=factor())
"""
START = """
import sys
from torch_checkup import sandbox

target = sandbox.target_of(sys.argv[1])
print(*sandbox.reports("look:run", {"target": target}, 60))
"""
NOT_NEEDED = {"matplotlib.py", "jinja2.py"}  # in a terminal
CHECKUP = ("--only", "capture", "--require", "graphs=1,breaks=0")


def written(name, folder):
    """Write the project *name*; return what is asked for, and where one asks."""
    target, files = PROJECTS[name]
    home = folder / "project"
    for file, text in files.items():
        (home / file).parent.mkdir(parents=True, exist_ok=True)
        (home / file).write_text(text)
    return f"{target}:make", folder if target.startswith("project/") else home


# --- installed -----------------------------------------------------------------------


class Place:
    """A virtual environment in which it is installed; torch comes from this one."""

    def __init__(self, folder, *what):
        self.env = {**os.environ, "PYTHONUSERBASE": "", "CI": "1"}
        self.env.pop("PYTHONPATH", None)
        venv = "-m", "venv", "--without-pip", "--system-site-packages"
        ran(sys.executable, *venv, folder / "venv")
        self.python = folder / "venv" / "bin" / "python"
        find = "import sysconfig; print(sysconfig.get_path('purelib'))"
        self.site = Path(ran(self.python, "-c", find).stdout.strip())
        (self.site / "torch.pth").write_text(sysconfig.get_path("purelib"))
        pip = sys.executable, "-m", "pip", "--python", self.python, "install", "-q"
        ran(
            *pip, "--no-deps", "--no-build-isolation", "--no-index", *what, env=self.env
        )

    def run(self, *words, **how):
        """Return what a program of this place prints."""
        return ran(*words, env=self.env, **how).stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the checkout, in a folder with a space."""
    folder = tmp_path_factory.mktemp("a checkout")
    for name in ("helpers", "torch_checkup"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def place(checkout, tmp_path_factory):
    """A place where the wheel is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-index"
    ran(*pip, "--no-build-isolation", "-w", folder, checkout)
    place = Place(tmp_path_factory.mktemp("place"), *folder.glob("*.whl"))
    [wheel] = folder.glob("*.whl")
    assert wheel.stat().st_size < 300 * 1024
    return place


@pytest.mark.parametrize("name", PROJECTS)
def test_a_project_imports_its_own(name, place, tmp_path):
    target, where = written(name, tmp_path)
    (where / "look.py").write_text(LOOK)
    said = place.run(place.python, "-P", "-c", START, target, cwd=where)
    assert said.strip() == "{'factor': 2}"


def test_a_file_of_theirs_with_its_name_is_an_error(tmp_path):
    theirs = tmp_path / "torch_checkup.py"
    theirs.touch()
    with pytest.raises(InputError, match=r"another name.* torch_checkup\.py"):
        folders_of(f"{theirs}:make")


@pytest.mark.skipif(os.name == "nt", reason="names the folders of Linux and macOS")
@pytest.mark.parametrize(
    "editable", [False, pytest.param(True, marks=pytest.mark.weekly)]
)
def test_it_works_from_wherever_it_is_installed(editable, checkout, place, tmp_path):
    if editable:
        place = Place(tmp_path, "-e", checkout)
        for name in NOT_NEEDED:
            (place.site / name).write_text(f"raise ImportError('no {name}')")
    names = {path.name for path in place.site.iterdir() if path.suffix in ("", ".py")}
    names = {name for name in names if not name.startswith("__")} - {"bin"}
    assert names == (NOT_NEEDED if editable else {"torch_checkup"})
    program = place.python.with_name("torch-checkup")
    target, where = written("a module helpers", tmp_path)
    (where / "log.txt").write_text("Unsupported Tensor.item() call")
    said = place.run(program, "explain", "log.txt", cwd=where)
    assert said.startswith("A NUMBER TAKEN OUT OF A TENSOR\n")
    before = {path: path.stat().st_mtime_ns for path in where.iterdir()}
    where.chmod(0o555)
    try:
        said = place.run(program, target, *CHECKUP, cwd=where)
    finally:
        where.chmod(0o755)
    assert "all of it is one graph" in said and "loading" not in said
    after = {path: path.stat().st_mtime_ns for path in where.iterdir()}
    after.pop(where / "__pycache__", None)  # which Python itself may write
    assert after == before


README = (ROOT / "README.md").read_text("utf-8")
TAKEN_HOME = "compare sweep graphs recompiles kernels eager_bytes dump_triton doctor"
TAKEN_HOME += " checkup explain_error"


def test_what_the_readme_takes_home_works_there(place, tmp_path):
    """Also where another part of it was imported first: a module hides no function."""
    names = ", ".join(TAKEN_HOME.split())
    [code] = re.findall(r"```python\n(.+?)```", README, re.S)
    first = (
        "import torch_checkup.report, torch\nf, x = torch.tanh, torch.ones(8, 256)\n"
    )
    last = f"\nfrom torch_checkup import {names}\nassert all(map(callable, [{names}]))"
    code = code if sys.platform == "linux" else ""  # where Triton is
    said = place.run(place.python, "-c", first + code + last, cwd=tmp_path)
    assert ("registers" in said) == bool(code)


EVERY_PROCESS = """
from torch_checkup import cold_start, composes

started = cold_start("model.py:trains", ["empty"])["empty"].starts[0]
around = composes("model.py:trains", only=["accumulation"])
print(started.problem or started.agrees, around["accumulation"].verdict)
"""


@pytest.mark.weekly
def test_what_starts_other_processes_finds_them_there(place, tmp_path):
    _, where = written("a module helpers", tmp_path)
    with (where / "model.py").open("a") as file:
        file.write("\nimport functools, torch\nfrom torch import nn, ones\n")
        file.write("compiles = functools.partial(torch.compile, backend='eager')\n")
        file.write("torch.compile = compiles  # without kernels: quicker\n")
        file.write("\ndef trains(): return nn.Linear(4, factor()), (ones(2, 4),)\n")
    said = place.run(place.python, "-c", EVERY_PROCESS, cwd=where)
    assert said == "True agrees\n"
