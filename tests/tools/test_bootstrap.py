"""`make setup` says in one line what is missing, and takes no time when done."""

import ast
import errno
import json
import os
import shutil
import subprocess
import sys
import types

import pytest

import bootstrap
from tests.refresh import ROOT

FILES = ("bootstrap.py", "Makefile", "requirements.txt", "pyproject.toml")
PLACES = {
    "ROOT": "",
    "VENV": ".venv",
    "STATE": ".venv/course.json",
    "PYTHON": ".venv/bin/python",
    "LOG": ".cache/setup.log",
}


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A copy of what set-up reads, for which bootstrap.py now works."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    for name, path in PLACES.items():
        monkeypatch.setattr(bootstrap, name, str(folder / path))
    monkeypatch.setattr(sys, "argv", ["bootstrap.py"])
    return folder


def stopped(capsys):
    """Run set-up, which has to stop, and return the one line that it says."""
    with pytest.raises(SystemExit) as stop:
        bootstrap.main()
    assert stop.value.code == 1
    line = capsys.readouterr().err.strip()
    assert line.startswith("setup: ") and "\n" not in line
    return line


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


LITTLE = types.SimpleNamespace(free=2**30)
# What is wrong with the machine (what to replace, by what), and the line it gets.
MISSING = [
    (
        {"HERE": "3.9", "sys.version_info": (3, 9, 2), "runs": lambda name: False},
        "Python 3.9 is too old: the course needs 3.11 to 3.14; install one",
    ),
    (
        {"sys.version_info": (3, 15, 0), "runs": lambda name: name == "python3.14"},
        "too new: the course needs 3.11 to 3.14; make setup PYTHON=python3.14",
    ),
    ({"runs": lambda name: False}, "apt install g++"),
    ({"runs": lambda name: name == "clang++"}, "export CXX=clang++"),
    ({"importlib.util.find_spec": lambda name: None}, "-venv"),
    ({"sysconfig.get_paths": lambda: {"include": "/none"}}, "Python.h is missing"),
    ({"shutil.disk_usage": lambda _: LITTLE}, "has 1.0 GiB free"),
    ({"os.makedirs": full_disk}, "the disk is full"),
    ({"sys.argv": ["bootstrap.py", "--torch", "rocket"]}, "TORCH=rocket is not known"),
]


@pytest.mark.parametrize(("replaced", "message"), MISSING)
def test_what_is_missing_is_said_in_one_line(
    replaced, message, checkout, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("CXX", raising=False)
    for target, value in replaced.items():
        monkeypatch.setattr(f"bootstrap.{target}", value)
    assert message in stopped(capsys)


def test_the_script_keeps_to_old_syntax():
    ast.parse((ROOT / "bootstrap.py").read_text(), feature_version=(3, 6))


def test_what_is_not_ours_is_left_alone(checkout, capsys):
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "mine").write_text("keep")
    assert "is not a Python environment: move it away" in stopped(capsys)
    assert (checkout / ".venv" / "mine").read_text() == "keep"


@pytest.mark.parametrize(
    ("log", "advice"),
    [
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("error sending request for url\n dns error", "no network"),
        ("ERROR: Could not install: [Errno 13] Permission denied", "cannot write"),
        ("ERROR: No matching distribution found for torch", "no build for this"),
        ("some words\nERROR: {odd} ending\n", "failed: ERROR: {odd} ending"),
    ],
)
def test_a_failed_step_tells_why_and_leaves_the_log(log, advice, checkout, capsys):
    bootstrap.check_folder()
    code = f"import sys; print('Downloading torch-2.whl (527.0 MB)'); print({log!r})"
    with pytest.raises(SystemExit):
        bootstrap.step(sys.executable, "-c", f"{code}; sys.exit(1)")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "setup: downloading torch (527.0 MB)"
    assert advice in lines[1] and len(lines) == 2
    assert log in (checkout / ".cache" / "setup.log").read_text()


@pytest.fixture
def build(checkout, monkeypatch):
    """Run set-up with steps that only make the Python; return the steps."""

    def run(*arguments):
        steps = []

        def step(*command, hint=""):
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

    return run


def test_a_second_run_does_nothing_and_changed_pins_are_installed(
    checkout, build, capsys
):
    first = build()
    assert first[0] == "-m venv --clear ./.venv"
    assert first[1].endswith("install -r ./requirements.txt")
    assert first[2].endswith("--no-build-isolation -e .")
    assert build() == []
    assert capsys.readouterr().err.endswith("setup: .venv is up to date\n")
    with (checkout / "requirements.txt").open("a") as pins:
        pins.write("# another\n")
    assert build() == first[1:]


def test_another_torch_is_a_new_environment_and_stays_chosen(build):
    build()
    steps = build("--torch", "cpu")
    assert "--clear" in steps[0] and "--torch-backend cpu" in steps[2]
    assert build() == []
    assert "--clear" in build("--torch", "default")[0]


def test_what_cannot_be_used_is_made_again(checkout, build):
    first = build()
    state = checkout / ".venv" / "course.json"
    state.write_text(state.read_text().replace(str(checkout), "/elsewhere"))  # moved
    assert build() == first
    (checkout / ".venv" / "bin" / "python").unlink()
    assert build() == first
    state.write_text("[half")
    assert build() == first
    state.write_text(json.dumps({**json.loads(state.read_text()), "sources": "half"}))
    assert build() == first[1:]


@pytest.mark.skipif(not shutil.which("make"), reason="no make on this machine")
def test_make_says_what_it_can_and_what_is_missing(checkout):
    def make(*words):
        return subprocess.run(
            ["make", *words], cwd=checkout, capture_output=True, text=True
        )

    done = make("setup", "PYTHON=python9")
    assert done.returncode != 0
    assert "setup: no python9 here: install Python 3.11 to 3.14" in done.stderr
    assert "\nlab " in make("help").stdout
