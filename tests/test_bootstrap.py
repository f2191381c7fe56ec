"""`make setup` says in one line what is missing, and takes no time when done."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

import bootstrap

ROOT = Path(__file__).resolve().parents[1]
FILES = ("bootstrap.py", "Makefile", "requirements.txt", "pyproject.toml")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what set-up reads, for which bootstrap.py now works."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    monkeypatch.setattr(bootstrap, "ROOT", str(folder))
    for name, path in (
        *(("VENV", ".venv"), ("STATE", ".venv/course.json")),
        *(("PYTHON", ".venv/bin/python"), ("LOG", ".cache/setup.log")),
    ):
        monkeypatch.setattr(bootstrap, name, str(folder / path))
    monkeypatch.setattr(sys, "argv", ["bootstrap.py"])
    return folder


def stopped(capsys: pytest.CaptureFixture[str]) -> str:
    """Run set-up, which has to stop, and return the one line that it says."""
    with pytest.raises(SystemExit) as stop:
        bootstrap.main()
    assert stop.value.code == 1
    said = capsys.readouterr().err.strip()
    assert said.startswith("setup: ")
    assert "\n" not in said
    return said


@pytest.mark.parametrize(
    ("version", "said"),
    [((3, 9, 2), "3.9 is too old"), ((3, 15, 0), "3.15 is too new")],
)
def test_the_wrong_python(
    version: tuple,
    said: str,
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(bootstrap, "HERE", "{}.{}".format(*version))
    monkeypatch.setattr(sys, "version_info", version)
    monkeypatch.setattr(bootstrap, "runs", lambda name: name == "python3.12")
    line = stopped(capsys)
    assert f"Python {said}: the course needs 3.11 to 3.14" in line
    assert "make setup PYTHON=python3.12" in line


def test_the_script_keeps_to_old_syntax() -> None:
    import ast

    ast.parse((ROOT / "bootstrap.py").read_text(), feature_version=(3, 6))


@pytest.mark.parametrize(
    ("platform", "cxx", "there", "fix"),
    [
        ("linux", "", (), "apt install g++"),
        ("linux", "", ("clang++",), "export CXX=clang++"),
        ("linux", "nope++", ("g++",), "CXX=nope++ does not run"),
        ("darwin", "", (), "xcode-select --install"),
    ],
)
def test_no_compiler(
    platform: str,
    cxx: str,
    there: tuple,
    fix: str,
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CXX", cxx)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(bootstrap, "runs", lambda name: name in there)
    line = stopped(capsys)
    assert "no C++ compiler" in line
    assert fix in line


def test_no_venv_module(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda name: None)
    assert f"apt install python{bootstrap.HERE}-venv" in stopped(capsys)


def test_no_headers(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        bootstrap.sysconfig, "get_paths", lambda: {"include": str(checkout)}
    )
    assert "Python.h is missing" in stopped(capsys)


@pytest.mark.parametrize("torch", ["default", "cpu"])
def test_no_disk(
    torch: str,
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", "--torch", torch])
    monkeypatch.setattr(sys, "platform", "linux")
    free = types.SimpleNamespace(free=2**30)
    monkeypatch.setattr(bootstrap.shutil, "disk_usage", lambda _: free)
    line = stopped(capsys)
    assert "has 1.0 GiB free" in line
    assert ("TORCH=cpu" in line) == (torch == "default")


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.ENOSPC, "the disk is full"), (errno.EACCES, "cannot write in")],
)
def test_a_folder_that_cannot_be_written(
    number: int,
    said: str,
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(bootstrap.os, "makedirs", refuse)
    assert said in stopped(capsys)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_not_ours_is_left_alone(
    kind: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = checkout / ".venv"
    if kind == "folder":
        mine.mkdir()
        mine = mine / "mine"
    mine.write_text("keep")
    assert "is not a Python environment: move it away" in stopped(capsys)
    assert mine.read_text() == "keep"


def test_an_unknown_torch(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", "--torch", "rocket"])
    assert "TORCH=rocket is not known" in stopped(capsys)


@pytest.mark.parametrize(
    ("log", "advice"),
    [
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("error sending request for url\n dns error", "no network"),
        ("Failed to establish a new connection\nERROR: No matching", "no network"),
        ("ERROR: Could not install: [Errno 13] Permission denied", "cannot write"),
        ("ERROR: No matching distribution found for torch", "no build for this"),
        ("some words\nERROR: {odd} ending\n", "failed: ERROR: {odd} ending"),
        ("", "the installation failed: no message"),
    ],
)
def test_why_an_installation_failed(log: str, advice: str) -> None:
    said = bootstrap.explain(log)
    assert advice in said
    assert "\n" not in said


def test_a_failed_step_tells_and_leaves_the_log(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap.check_folder()
    command = (
        "print('Downloading torch-2.whl (527.0 MB)'); raise SystemExit('dns error')"
    )
    with pytest.raises(SystemExit):
        bootstrap.step(sys.executable, "-c", command)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "setup: downloading torch (527.0 MB)"
    assert "no network" in said[1]
    assert "dns error" in (checkout / ".cache" / "setup.log").read_text()


def build(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> list[str]:
    """Run set-up with steps that only make the Python; return the steps."""
    steps = []

    def step(*command: str, hint: str = "") -> None:
        steps.append(" ".join(command[1:]).replace(str(checkout), "."))
        if "venv" in command:
            python = checkout / ".venv" / "bin" / "python"
            python.parent.mkdir(parents=True, exist_ok=True)
            (checkout / ".venv" / "pyvenv.cfg").touch()
            python.unlink(missing_ok=True)
            python.symlink_to(sys.executable)

    monkeypatch.setattr(bootstrap, "step", step)
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", *arguments])
    bootstrap.main()
    return steps


def test_a_second_run_does_nothing(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = build(checkout, monkeypatch)
    assert first[0] == "-m venv --clear ./.venv"
    assert first[1].endswith("install -r ./requirements.txt")
    assert first[2].endswith("--no-build-isolation -e .")
    assert build(checkout, monkeypatch) == []
    assert capsys.readouterr().err.endswith("setup: .venv is up to date\n")


def test_changed_pins_are_installed_into_what_is_there(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build(checkout, monkeypatch)
    with (checkout / "requirements.txt").open("a") as pins:
        pins.write("# another\n")
    assert build(checkout, monkeypatch) == first[1:]


def test_a_build_that_broke_off_goes_on(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = build(checkout, monkeypatch)
    state = checkout / ".venv" / "course.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "sources": "half"}))
    assert build(checkout, monkeypatch) == first[1:]


def test_another_torch_is_a_new_environment_and_stays_chosen(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(checkout, monkeypatch)
    steps = build(checkout, monkeypatch, "--torch", "cpu")
    assert "--clear" in steps[0]
    assert steps[1].endswith("-c ./requirements.txt uv")
    assert "--torch-backend cpu" in steps[2]
    assert build(checkout, monkeypatch) == []
    assert "--clear" in build(checkout, monkeypatch, "--torch", "default")[0]


@pytest.mark.parametrize("damage", ["moved", "no python", "no state", "odd state"])
def test_an_environment_that_cannot_be_used_is_made_again(
    damage: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(checkout, monkeypatch)
    state = checkout / ".venv" / "course.json"
    if damage == "moved":
        text = state.read_text().replace(str(checkout), "/elsewhere")
        state.write_text(text)
    elif damage == "no python":
        (checkout / ".venv" / "bin" / "python").unlink()
    elif damage == "no state":
        state.unlink()
    else:
        state.write_text("[half")
    assert "--clear" in build(checkout, monkeypatch)[0]


@pytest.mark.parametrize(("gpu", "hinted"), [("", True), ("/usr/bin/x", False)])
def test_the_hint_without_a_gpu(
    gpu: str,
    hinted: bool,
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(bootstrap.os.path, "exists", _no_driver(os.path.exists))
    monkeypatch.setattr(bootstrap.shutil, "which", lambda _: gpu)
    monkeypatch.setattr(sys, "platform", "linux")
    build(checkout, monkeypatch)
    assert ("no NVIDIA GPU here" in capsys.readouterr().err) == hinted


def _no_driver(exists: object) -> object:
    return lambda path: path != "/proc/driver/nvidia" and exists(path)


def test_make_says_when_there_is_no_python(checkout: Path) -> None:
    if not shutil.which("make"):
        pytest.skip("no make on this machine")
    done = subprocess.run(
        ["make", "setup", "PYTHON=python9"],
        cwd=checkout,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "setup: no python9 here: install Python 3.11 to 3.14" in done.stderr


def test_help_lists_what_can_be_made() -> None:
    if not shutil.which("make"):
        pytest.skip("no make on this machine")
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True)
    for name in ("lab", "setup", "test", "refresh", "bench", "clean"):
        assert f"\n{name} " in f"\n{done.stdout}"
