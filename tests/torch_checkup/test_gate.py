"""The gate that ships as a workflow and as a test: on a model and on a worse one."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from tests.refresh import ROOT, ran
from tests.test_workflow import complaints

EXAMPLE = ROOT / "notebooks" / "examples" / "checkup.yml"
STEPS = yaml.safe_load(EXAMPLE.read_text("utf-8"))["jobs"]["model"]["steps"]
MODEL = """
import torch


def model(x):
    return torch.relu(x)


def make():
    return model, [(torch.ones(4, 8),), (torch.ones(6, 8),)]
"""
WORSE = MODEL.replace("torch.relu(x)", "torch.relu(x) / x.max().item()")

pytestmark = pytest.mark.skipif(os.name == "nt", reason="runs the steps of Linux")


def bash(command, folder, status=0):
    """Run *command* as a step does, where this environment comes first."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "HELPERS_QUIET": "1", "PATH": path}
    words = "bash", "-e", "-c", command
    return ran(*words, status=status, cwd=folder, env=env, timeout=600)


@pytest.mark.weekly
def test_its_gate_closes_for_a_model_that_became_worse(tmp_path):
    comment = EXAMPLE.read_text("utf-8").split("name: checkup")[0].replace("#", "")
    accept = re.search(r"torch-checkup.*?accepted\.json", comment, re.DOTALL)[0]
    gate = next(step["run"] for step in STEPS if "torch-checkup" in step.get("run", ""))
    (tmp_path / "my_model.py").write_text(MODEL)
    bash(accept, tmp_path)

    (tmp_path / "my_model.py").write_text(WORSE)
    closed = bash(gate, tmp_path, status=1)
    assert "Is everything captured?" in (tmp_path / "report.html").read_text()
    assert "required: graphs=1: it is 2" in closed.stdout + closed.stderr
    assert "worse: breaks: 0 before, 1 now" in closed.stdout + closed.stderr


@pytest.mark.weekly
def test_the_same_gate_as_a_test_of_pytest(tmp_path):
    (tmp_path / "my_model.py").write_text(WORSE)
    shutil.copy(EXAMPLE.with_name("test_model_health.py"), tmp_path)
    done = bash("python -m pytest -q test_model_health.py", tmp_path, status=1)
    assert "AssertionError: graphs=1: it is 2\n" in done.stdout
    assert "1 graph break cut it" in done.stdout  # the report


def test_the_linter_finds_nothing_in_it(tmp_path):
    place = tmp_path / ".github" / "workflows" / "checkup.yml"
    place.parent.mkdir(parents=True)
    shutil.copy(EXAMPLE, place)
    assert complaints(place.parent) == ""
