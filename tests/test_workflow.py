"""The workflows call only what there is, for every torch, and open one issue."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from helpers import _torch
from tests.proof.__main__ import NAMES
from tests.refresh import ROOT

FOLDER = ROOT / ".github" / "workflows"
CANARY, TEST = (
    (FOLDER / name).read_text(encoding="utf-8") for name in ("canary.yml", "test.yml")
)
JOBS = yaml.safe_load(CANARY)["jobs"]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="runs the steps of Linux")


def linted(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the pinned linter, without a network and without any exception."""
    program = Path(sys.executable).with_name("zizmor")
    options = "--offline --strict-collection --no-config --no-ignores --no-progress"
    command = [program, *options.split(), folder]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_linters_find_nothing() -> None:
    done = linted(FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr
    if program := shutil.which("actionlint"):  # the workflow installs it
        # Only its own rules, whatever else this machine has.
        command = [program, "-shellcheck=", "-pyflakes=", *FOLDER.glob("*.yml")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_a_workflow_calls_only_what_there_is() -> None:
    workflow = CANARY + TEST
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    called = {*re.findall(r"\bmake (\w+)", workflow)} - {*targets}
    called |= {*re.findall(r"-m tests\.proof (\w+)", workflow)} - {*NAMES}
    modules = {*re.findall(r"\bpython -m ([\w.]+)", workflow)} - {"pip"}
    called |= {module for module in modules if not importlib.util.find_spec(module)}
    assert called == set()


def test_the_matrix_holds_every_supported_torch_with_its_triton() -> None:
    matrix = JOBS["canary"]["strategy"]["matrix"]
    extra = [cell for cell in matrix["include"] if "os" in cell]
    versions = {*matrix["torch"], *(cell["torch"] for cell in extra)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wants = map(Requirement, project["dependencies"])
    [torch] = (want.specifier for want in wants if want.name == "torch")
    supported = {f"2.{n}" for n in range(100) if torch.contains(f"2.{n}.0")}
    assert versions == supported | {"newest"}
    for cell in matrix["include"]:
        assert cell.get("triton") == _torch._TRITON.get(cell["torch"])


# --- its steps, with stand-ins for the programs that they call --------------------


def step_named(start: str) -> dict[str, Any]:
    steps = [step for job in JOBS.values() for step in job["steps"]]
    [step] = [step for step in steps if step.get("name", "").startswith(start)]
    return step


def played(script: str, folder: Path, env: dict[str, str], **programs: str) -> str:
    """Run a step in *folder*, and return the commands that it gave to *programs*.

    Each program is the body of a bash script that stands in for the real one.
    """
    programs_folder, log = folder / "bin", folder / "log"
    programs_folder.mkdir()
    for name, body in programs.items():
        path = programs_folder / name
        path.write_text(f'#!/bin/bash\necho {name} "$@" >> {log}\n{body}\n')
        path.chmod(0o755)
    env = {**os.environ, **env, "PATH": f"{programs_folder}:{os.environ['PATH']}"}
    options = ["--noprofile", "--norc", "-eo", "pipefail"]  # as GitHub calls bash
    subprocess.run(
        ["bash", *options, "-c", script], cwd=folder, env=env, check=True, timeout=60
    )
    return log.read_text()


@pytest.mark.parametrize(
    ("titles", "wanted"),
    [
        ({}, "gh issue create --title The weekly run fails"),
        ({3: "Else", 7: "The weekly run fails"}, "gh issue comment 7"),
        ({3: "The weekly run fails on my side"}, "gh issue create"),
    ],
)
def test_only_one_issue_is_open(
    titles: dict[int, str], wanted: str, tmp_path: Path
) -> None:
    if shutil.which("jq") is None:
        pytest.skip("jq plays the part that gh has built in, and is not here")
    issues = [{"number": number, "title": title} for number, title in titles.items()]
    (tmp_path / "issues.json").write_text(json.dumps(issues))
    (tmp_path / "issue.md").write_text("x" * 100_000)
    step = step_named("Open the issue")
    gh = 'if [ "$2" = list ]; then jq -r "${@: -1}" issues.json; fi'
    calls = played(step["run"], tmp_path, {"TITLE": step["env"]["TITLE"]}, gh=gh)
    looked, told = calls.splitlines()
    assert "--state open" in looked and told.startswith(wanted)
    assert len((tmp_path / "body.md").read_text()) < 65536
