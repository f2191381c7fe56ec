"""The workflows are well formed, call only what there is, and open one issue."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from helpers import _torch
from tests import conftest
from tests.refresh import ROOT, reference_torch

FOLDER = ROOT / ".github" / "workflows"
CANARY, TEST = "canary.yml", "test.yml"
NEWEST = "newest"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="runs the steps of Linux")


def text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def load(source: str) -> dict[str, Any]:
    whole = yaml.safe_load(source)
    whole["on"] = whole.pop(True)  # YAML 1.1 takes the word for a boolean
    return whole


def steps(workflow: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, job in workflow["jobs"].items():
        yield from ((name, step) for step in job["steps"])


def step_named(start: str) -> dict[str, Any]:
    found = [
        s for _, s in steps(load(text(CANARY))) if s.get("name", "")[:5] == start[:5]
    ]
    assert len(found) == 1, start
    return found[0]


# --- linters ----------------------------------------------------------------------


def zizmor(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the pinned linter, without a network and without any exception."""
    program = Path(sys.executable).with_name("zizmor")
    options = "--offline --strict-collection --no-config --no-ignores --no-progress"
    return subprocess.run(
        [program, *options.split(), folder], capture_output=True, text=True
    )


def test_the_linter_finds_nothing() -> None:
    done = zizmor(FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr


CHECKOUT = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1"
SPOILT = {
    "an action that may change": (CHECKOUT, "actions/checkout@v7", "unpinned-uses"),
    "all permissions": (
        "permissions:\n  contents: read",
        "permissions: write-all",
        "exc",
    ),
    "credentials left": ("persist-credentials: false", "lfs: false", "artipacked"),
    "a key that is none": ("runs-on:", "run-on:", "runs-on"),
    "code from outside": (
        "run: python -m pytest",
        "run: echo ${{ github.event.head_commit.message }} && python -m pytest",
        "template-injection",
    ),
    "a permission that is none": ("issues: write", "issues: all", "permission"),
    "not YAML": ("permissions:\n  contents", "permissions:\n contents:\n  x", "canary"),
}


@pytest.mark.parametrize("spoilt", SPOILT)
def test_the_linter_rejects_a_spoilt_copy(spoilt: str, tmp_path: Path) -> None:
    old, new, said = SPOILT[spoilt]
    assert old in text(CANARY)
    copy = tmp_path / ".github" / "workflows" / CANARY
    copy.parent.mkdir(parents=True)
    copy.write_text(text(CANARY).replace(old, new, 1), encoding="utf-8")
    done = zizmor(copy)
    assert done.returncode != 0
    assert said in done.stdout + done.stderr


def test_actionlint_finds_nothing() -> None:
    program = shutil.which("actionlint")
    if program is None:
        pytest.skip("actionlint is not on PATH; the workflow installs it")
    # Only actionlint's own rules, whatever else this machine has.
    files = [FOLDER / CANARY, FOLDER / TEST]
    alone = [program, "-shellcheck=", "-pyflakes=", *files]
    done = subprocess.run(alone, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


# --- what the linter does not see -----------------------------------------------------


def problems(source: str) -> list[str]:
    """Return what is wrong with a workflow, one line each."""
    workflow = load(source)
    return [
        *_outside(workflow, source),
        *_jobs(workflow),
        *(
            f"{job}: {what}"
            for job, step in steps(workflow)
            for what in _step(step, workflow["jobs"][job])
        ),
    ]


def _outside(workflow: dict[str, Any], source: str) -> Iterator[str]:
    events = {"push", "pull_request", "schedule", "workflow_dispatch"}
    yield from (f"no such event: {name}" for name in set(workflow["on"]) - events)
    for entry in workflow["on"].get("schedule", ()):
        if not re.fullmatch(r"[0-5]?\d (1?\d|2[0-3]) \* \* [0-6]", entry["cron"]):
            yield f"not once a week: {entry['cron']}"
    if workflow["permissions"] != {"contents": "read"}:
        yield "more permissions than to read"
    if "group" not in workflow.get("concurrency", {}):
        yield "runs may pile up"
    for uses in re.findall(r"uses: (.*)", source):
        if not re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", uses):
            yield f"not pinned to a commit, with its version: {uses}"


def _jobs(workflow: dict[str, Any]) -> Iterator[str]:
    for name, job in workflow["jobs"].items():
        needs = job.get("needs", [])
        for need in [needs] if isinstance(needs, str) else needs:
            if need not in workflow["jobs"]:
                yield f"{name} needs {need}, which is no job"
        if not 0 < job.get("timeout-minutes", 0) <= 120:
            yield f"{name} has no limit of time"
        may_write = [k for k, v in job.get("permissions", {}).items() if v == "write"]
        if may_write not in ([], ["issues"]):
            yield f"{name} may write {may_write}"
        for used in re.findall(r"matrix\.(\w+)", json.dumps(job)):
            if not any(used in cell for cell in cells(job)):
                yield f"{name}: nothing in the matrix is called {used}"


def _step(step: dict[str, Any], job: dict[str, Any]) -> Iterator[str]:
    script = step.get("run", "")
    if "${{" in script:
        yield f"an expression within a script: {step.get('name')}"
    if script and step.get("shell") != "pwsh":
        done = subprocess.run(
            ["bash", "-n", "-c", script], capture_output=True, text=True
        )
        if done.returncode:
            yield f"not a script: {done.stderr.strip()}"
    for variable in re.findall(r"\$(?:env\.)?([A-Z_]{4,})", script):
        if variable not in step.get("env", {}) and not variable.startswith("GITHUB_"):
            yield f"${variable} is not set"
    yield from _commands(script)


def _commands(script: str) -> Iterator[str]:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for target in re.findall(r"\bmake (\w+)", script):
        if target not in targets:
            yield f"make knows no {target}"
    for module in re.findall(r"\bpython -m ([\w.]+)", script):
        if importlib.util.find_spec(module) is None:
            yield f"Python has no module {module}"
    from tests.proof.__main__ import NAMES

    for name in re.findall(r"-m tests\.proof (\w+)", script):
        if name not in NAMES or importlib.util.find_spec(f"tests.proof.{name}") is None:
            yield f"there is no proof {name}"
    for file in re.findall(r"\b[\w./]+\.(?:py|txt|toml)\b", script):
        made = re.search(rf"> {re.escape(file)}", script)
        if not made and not (ROOT / file).exists():
            yield f"there is no {file}"


@pytest.mark.parametrize("name", [CANARY, TEST])
def test_a_workflow_is_sound(name: str) -> None:
    assert problems(text(name)) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (TEST, "run: make test", "run: make tests", "make knows no tests"),
        (TEST, "  pull_request:", "  pull_requests:", "no such event"),
        (TEST, "timeout-minutes", "timeout", "no limit of time"),
        (TEST, "contents: read", "contents: write", "more permissions"),
        (TEST, " # v7.0.1", "", "not pinned"),
        (TEST, "concurrency:", "env:", "pile up"),
        (CANARY, "needs: canary", "needs: canaries", "which is no job"),
        (CANARY, "* * 1", "* * 7", "not once a week"),
        (CANARY, "17 4", "17 24", "not once a week"),
        (CANARY, "matrix.torch }}", "matrix.torhc }}", "is called torhc"),
        (CANARY, "issues: write", "contents: write", "may write"),
        (CANARY, "-m tests.failing", "-m tests.fails", "no module tests.fails"),
        (CANARY, "proof versions", "proof version", "there is no proof version"),
        (CANARY, "' requirements.txt >", "' requirement.txt >", "no requirement.txt"),
        (CANARY, "TITLE: The", "TITEL: The", "$TITLE is not set"),
        (CANARY, "          fi\n", "", "not a script"),
        (CANARY, 'echo "$RUN_URL"', 'echo "${{ github.head_ref }}"', "an expression"),
    ],
)
def test_a_spoilt_workflow_is_seen(name: str, old: str, new: str, said: str) -> None:
    assert old in text(name)
    found = problems(text(name).replace(old, new, 1))
    assert any(said in problem for problem in found), found


# --- the matrix -------------------------------------------------------------------


def cells(job: dict[str, Any]) -> list[dict[str, str]]:
    """Return the combinations of a job's matrix, as GitHub extends it by `include`.

    An entry is added to each combination of which it changes no value, and is one
    of its own when there is none.
    """
    matrix = dict(job.get("strategy", {}).get("matrix", {}))
    included = matrix.pop("include", [])
    combined: list[dict[str, str]] = [{}] if matrix else []
    for key, values in matrix.items():
        combined = [{**cell, key: value} for cell in combined for value in values]
    whole = [dict(cell) for cell in combined]
    for entry in included:
        fits = [
            n
            for n, cell in enumerate(combined)
            if all(cell.get(key, value) == value for key, value in entry.items())
        ]
        for n in fits:
            whole[n].update(entry)
        whole += [] if fits else [dict(entry)]
    return whole


def on(system: str) -> set[str]:
    """Return the versions of torch that the matrix runs on a system."""
    found = cells(load(text(CANARY))["jobs"]["canary"])
    return {cell["torch"] for cell in found if cell["os"].startswith(system)}


def supported() -> set[str]:
    """Return the versions that pyproject.toml allows, like 2.13."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wants = map(Requirement, project["dependencies"])
    (torch,) = (want.specifier for want in wants if want.name == "torch")
    return {f"2.{minor}" for minor in range(100) if torch.contains(f"2.{minor}.0")}


def test_the_matrix_holds_every_supported_torch() -> None:
    assert on("ubuntu") == supported() | {NEWEST}
    reference = Version(reference_torch() or "")
    late = {v for v in supported() if Version(v).release >= reference.release[:2]}
    assert on("macos") == on("windows") == late


def test_each_torch_comes_with_its_triton() -> None:
    for cell in cells(load(text(CANARY))["jobs"]["canary"]):
        assert cell.get("triton") == _torch._TRITON.get(cell["torch"])


@pytest.mark.parametrize(
    ("problem", "installed", "outcome"),
    [
        (RuntimeError("Triton is not installed, so"), None, pytest.skip.Exception),
        (ImportError("No module named 'triton'"), None, pytest.skip.Exception),
        (RuntimeError("Triton is not installed, so"), "3.7.1", RuntimeError),
        (RuntimeError("what else?"), None, RuntimeError),
    ],
)
def test_a_test_is_skipped_only_where_there_is_no_triton(
    problem: Exception, installed: str | None, outcome: type, monkeypatch
) -> None:
    monkeypatch.setattr(conftest, "version_of", lambda name: installed)
    with pytest.raises(outcome), conftest._skipped_without_triton():
        raise problem


def test_what_is_asked_for_can_be_installed(tmp_path: Path) -> None:
    shutil.copy(ROOT / "requirements.txt", tmp_path)
    step = step_named("Install")
    for cell in cells(load(text(CANARY))["jobs"]["canary"]):
        env = {"TORCH": cell["torch"], "TRITON": cell.get("triton", "")}
        said = played(step["run"], tmp_path, env, uv="", python="")
        asked = next(line for line in said if line[:3] == ["uv", "pip", "install"])
        packages = [word for word in asked if word.startswith(("torch", "triton"))]
        wants = {w.name: w.specifier for w in map(Requirement, packages)}
        assert (str(wants["torch"]) == "") == (cell["torch"] == NEWEST)
        if cell["torch"] != NEWEST:
            assert wants["torch"].contains(cell["torch"] + ".1")
            assert wants["triton"].contains(cell["triton"] + ".1")
    pins = (tmp_path / "others.txt").read_text()
    assert "numpy==" in pins and not re.search(r"^(torch|triton)==", pins, re.MULTILINE)


# --- the issue ----------------------------------------------------------------------


def played(
    script: str, folder: Path, env: dict[str, str], **programs: str
) -> list[list[str]]:
    """Run a step in *folder* and return the command lines that it gave to *programs*.

    Each program is the body of a bash script that stands in for the real one.
    """
    place, log = folder / "bin", folder / "log"
    place.mkdir(exist_ok=True)
    log.write_text("")
    for name, body in programs.items():
        path = place / name
        path.write_text(f'#!/bin/bash\necho {name} "${{@@Q}}" >> {log}\n{body}\n')
        path.chmod(0o755)
    around = {**os.environ, **env, "PATH": f"{place}:{os.environ['PATH']}"}
    options = ["--noprofile", "--norc", "-eo", "pipefail"]  # as GitHub calls bash
    subprocess.run(
        ["bash", *options, "-c", script], cwd=folder, env=around, check=True, timeout=60
    )
    return [shlex.split(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize(
    ("others", "does"),
    [
        ([], ["issue", "create", "--title", "The weekly run fails"]),
        ([(7, "The weekly run fails")], ["issue", "comment", "7"]),
        ([(3, "Else"), (7, "The weekly run fails")], ["issue", "comment", "7"]),
        ([(3, "The weekly run fails on my side")], ["issue", "create"]),
    ],
)
def test_only_one_issue_is_open(
    others: list[tuple[int, str]], does: list[str], tmp_path: Path
) -> None:
    if shutil.which("jq") is None:
        pytest.skip("jq plays the part that gh has built in, and is not here")
    listed = [{"number": number, "title": title} for number, title in others]
    (tmp_path / "issues.json").write_text(json.dumps(listed))
    (tmp_path / "issue.md").write_text("x" * 100_000)
    step = step_named("Open the issue")
    gh = 'if [ "$2" = list ]; then jq -r "${@: -1}" issues.json; fi'
    said = played(step["run"], tmp_path, {"TITLE": step["env"]["TITLE"]}, gh=gh)
    assert [line[1:3] for line in said] == [["issue", "list"], does[:2]]
    assert said[1][1 : 1 + len(does)] == does
    assert "open" in said[0] and said[1][-2:] == ["--body-file", "body.md"]
    assert len((tmp_path / "body.md").read_text()) < 65536


def test_the_issue_names_jobs_and_cells(tmp_path: Path) -> None:
    step = step_named("Write what failed")
    line = '<property name="line" value="claim: one graph"/>'
    torch = '<property name="torch" value="2.15.0"/>'
    case = f'<testcase classname="n.01_x.ipynb" name="Cell 3"><properties>{torch}{line}'
    folder = tmp_path / "reports" / "reports-macos-15-2.15" / "2.15.0"
    folder.mkdir(parents=True)
    whole = f"<testsuite>{case}</properties><failure/></testcase></testsuite>"
    (folder / "01.xml").write_text(whole)
    (folder / "half.xml").write_text("<testsuite>")
    python = f'PYTHONPATH={ROOT} exec {sys.executable} "$@"'
    env = {"RUN_ID": "1", "RUN_URL": "https://github.com/a/b/actions/runs/1"}
    gh = "echo '- macos-15, torch 2.15'"
    played(step["run"], tmp_path, env, gh=gh, python=python)
    issue = (tmp_path / "issue.md").read_text()
    assert "runs/1" in issue and "- macos-15, torch 2.15" in issue
    assert (
        "## reports-macos-15-2.15" in issue and "### 01_x.ipynb, torch 2.15.0" in issue
    )
    assert "- **Cell 3**\n  - `` claim: one graph ``" in issue
    assert "half.xml: no report can be read" in issue and "could not be read." in issue


def test_the_issue_is_for_the_weekly_run_only() -> None:
    job = load(text(CANARY))["jobs"]["issue"]
    for part in ("!cancelled()", "needs.canary.result != 'success'", "'schedule'"):
        assert part in job["if"]
    uploaded = [
        s for _, s in steps(load(text(CANARY))) if "upload" in s.get("uses", "")
    ]
    assert uploaded[0]["with"]["name"].startswith("reports-")
    assert "!cancelled()" in uploaded[0]["if"]
