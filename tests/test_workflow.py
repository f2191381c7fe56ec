"""The workflows call only what there is, for every torch, and open one issue."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from helpers import _torch
from tests.proof.__main__ import NAMES
from tests.refresh import ROOT, python

FOLDER = ROOT / ".github" / "workflows"
CANARY, TEST = (
    (FOLDER / name).read_text(encoding="utf-8") for name in ("canary.yml", "test.yml")
)
JOBS = yaml.safe_load(CANARY)["jobs"]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="runs the steps of Linux")


def complaints(folder):
    """Return what linters find in workflows, without a network and any exception."""
    zizmor = Path(sys.executable).with_name("zizmor")
    options = "--offline --strict-collection --no-config --no-ignores --no-progress"
    commands = [[zizmor, *options.split(), folder]]
    workflows = {*folder.glob("*")} - {folder / "action.yml"}
    if workflows and (actionlint := shutil.which("actionlint")):  # the workflow has it
        # Only its own rules, whatever else this machine has.
        commands.append([actionlint, "-shellcheck=", "-pyflakes=", *workflows])
    runs = [subprocess.run(c, capture_output=True, text=True) for c in commands]
    return "".join(run.stdout + run.stderr for run in runs if run.returncode)


def test_the_linters_find_nothing():
    assert complaints(FOLDER) == ""


def test_they_find_nothing_in_the_action_either(tmp_path):
    shutil.copy(ROOT / "torch_checkup" / "action.yml", tmp_path / "action.yml")
    assert complaints(tmp_path) == ""
    found = yaml.safe_load((tmp_path / "action.yml").read_text())
    [look] = [s for s in found["runs"]["steps"] if "torch-checkup " in s.get("run", "")]
    options = {*re.findall(r"--[\w-]+", look["run"])}
    help_ = python("from torch_checkup.__main__ import main; main(['--help'])").stdout
    assert options and options <= {*re.findall(r"--[\w-]+", help_)}


def test_a_workflow_calls_only_what_there_is():
    workflow = CANARY + TEST
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    called = {*re.findall(r"\bmake (\w+)", workflow)} - {*targets}
    called |= {*re.findall(r"-m tests\.proof (\w+)", workflow)} - {*NAMES}
    modules = {*re.findall(r"\bpython -m ([\w.]+)", workflow)} - {"pip"}
    called |= {module for module in modules if not importlib.util.find_spec(module)}
    assert called == set()


def test_the_matrix_holds_every_supported_torch_with_its_triton():
    matrix = JOBS["canary"]["strategy"]["matrix"]
    extra = [cell for cell in matrix["include"] if "os" in cell]
    versions = {*matrix["torch"], *(cell["torch"] for cell in extra)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wants = map(Requirement, project["dependencies"])
    [torch] = (want.specifier for want in wants if want.name == "torch")
    supported = {f"2.{n}" for n in range(100) if torch.contains(f"2.{n}.0")}
    assert versions == supported | {"newest", "candidate"}
    assert matrix["torch"][0] == "newest"
    for cell in matrix["include"]:
        assert cell.get("triton") == _torch._TRITON.get(cell["torch"])


def step_with(words):
    """Return the step of the issue's job whose commands have these words."""
    [step] = [s for s in JOBS["issue"]["steps"] if words in s.get("run", "")]
    return step


def test_the_issue_is_written_with_the_packages_that_its_job_installs():
    done = python(
        "import sys; before = {*sys.modules}; import tests.failing\n"
        "print(*{name.split('.')[0] for name in {*sys.modules} - before})"
    )
    ours = {"helpers", "tests", "tools"}
    needed = {*done.stdout.split()} - {*sys.stdlib_module_names} - ours
    assert needed and needed <= {*step_with("pip install")["run"].split()}


def test_the_issue_links_the_table_of_what_works_since_when():
    step = step_with("tests.failing")
    assert "$TABLE_URL" in step["run"]
    path = step["env"]["TABLE_URL"].partition("/blob/main/")[2]
    assert (ROOT / path).is_file()
