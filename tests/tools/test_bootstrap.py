"""`make setup` says in one line what is missing, and takes no time when done."""

import shutil
import sys
import sysconfig
from pathlib import Path
from unittest import mock

import pytest

import bootstrap
from tests.refresh import ROOT

FILES = ("bootstrap.py", "Makefile", "requirements.txt", "pyproject.toml")
PLACES = "ROOT", "VENV", "STATE", "PYTHON", "PINS", "LOG"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A copy of what set-up reads, for which bootstrap.py now works."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    there = {n: getattr(bootstrap, n).replace(str(ROOT), str(folder)) for n in PLACES}
    for name, path in there.items():
        monkeypatch.setattr(bootstrap, name, path)
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


# What is wrong with the machine (what to replace, by what), and the line it gets.
MISSING = [
    (
        {"HERE": "3.9", "sys.version_info": (3, 9, 2), "runs": lambda name: False},
        "Python 3.9 is too old: the course needs 3.11 to 3.14; make setup PYTHON",
    ),
    ({"runs": lambda name: False}, "apt install g++"),
    ({"importlib.util.find_spec": lambda name: None}, "-venv"),
    ({"sysconfig.get_paths": lambda: {"include": "/none"}}, "Python.h is missing"),
    ({"ROOT": "/my course"}, "a folder with a space: move /my course"),
    ({"os.makedirs": mock.Mock(side_effect=OSError("read-only"))}, "cannot write in"),
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


def test_what_is_not_ours_is_left_alone(checkout, capsys):
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / "mine").write_text("keep")
    assert "is not a Python environment: move it away" in stopped(capsys)
    assert (checkout / ".venv" / "mine").read_text() == "keep"


def packages(checkout):
    venv = str(checkout / ".venv")
    return Path(sysconfig.get_path("purelib", vars={"base": venv}))


@pytest.fixture
def build(checkout, monkeypatch):
    """Run set-up with steps that only make the Python; return the steps."""
    monkeypatch.setattr(bootstrap, "UV", ("python", "uv"))
    monkeypatch.setattr(bootstrap, "set_up_uv", lambda: None)
    monkeypatch.setattr(bootstrap, "has_torch", lambda backend: True)

    def run(*arguments):
        steps = []

        def step(*command, hint=""):
            steps.append(" ".join(command[1:]).replace(str(checkout), "."))
            if "venv" in command:
                assert not command[0].startswith(str(checkout)), "it would end itself"
                shutil.rmtree(checkout / ".venv", ignore_errors=True)
                python = checkout / ".venv" / "bin" / "python"
                python.parent.mkdir(parents=True)
                packages(checkout).mkdir(parents=True)
                (checkout / ".venv" / "pyvenv.cfg").touch()
                python.symlink_to(sys.executable)

        monkeypatch.setattr(bootstrap, "step", step)
        monkeypatch.setattr(sys, "argv", ["bootstrap.py", *arguments])
        bootstrap.main()
        return steps

    return run


def test_a_second_run_does_nothing_and_changed_pins_are_installed(
    checkout, build, capsys
):
    first = build("--torch", "default")
    assert first[0] == "-m venv --clear ./.venv"
    assert first[1].endswith("install -c ./requirements.txt uv setuptools")
    assert first[2:] == ["uv -r ./requirements.txt --no-build-isolation -e ."]
    found = (packages(checkout) / "torch_compile_course.pth").read_text()
    assert found.splitlines() == [str(checkout), str(checkout / "notebooks")]
    startup = checkout / ".venv" / "etc" / "ipython" / "startup"
    [first_cell] = startup.iterdir()
    assert first_cell.read_text() == bootstrap.FIRST_IN_A_KERNEL
    assert build() == []
    assert capsys.readouterr().err.endswith("setup: .venv is up to date\n")
    with (checkout / "requirements.txt").open("a") as pins:
        pins.write("# another\n")
    assert build() == first[1:]


def test_another_torch_is_a_new_environment_and_stays_chosen(build):
    build("--torch", "default")
    steps = build("--torch", "cpu")
    assert "--clear" in steps[0] and "--torch-backend cpu" in steps[2]
    assert build() == []
    assert "--clear" in build("--torch", "default")[0]


# The choice, the system, whether it has an NVIDIA driver, and torch's own index.
@pytest.mark.parametrize(
    ("choice", "system", "driver", "reached", "backend"),
    [
        ("auto", "linux", False, True, "cpu"),
        ("auto", "linux", True, True, "auto"),
        ("auto", "linux", False, False, None),
        ("auto", "darwin", False, True, None),
        ("cpu", "linux", True, False, "cpu"),
        ("default", "linux", False, True, None),
    ],
)
def test_which_torch_is_taken(
    choice, system, driver, reached, backend, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(bootstrap.os.path, "exists", lambda path: driver)
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: None)
    monkeypatch.setattr(bootstrap, "has_torch", lambda backend: reached)
    options = ("--torch-backend", backend) if backend else ()
    assert bootstrap.torch_backend(choice) == options
    said = capsys.readouterr().err
    assert ("cannot be reached; taking" in said) == (choice == "auto" and not reached)


def test_uv_looks_where_pip_does(monkeypatch):
    listed = """:env:.find-links='/of/environment'
global.extra-index-url='\\nhttps://a.example\\nhttps://b.example'
global.find-links='/of/file'
global.index-url='https://mirror.example'
install.find-links='/of/section /b'
"""
    monkeypatch.setattr(bootstrap.os, "environ", {"UV_DEFAULT_INDEX": "mine"})
    monkeypatch.setattr(bootstrap.subprocess, "check_output", lambda *_, **__: listed)
    bootstrap.set_up_uv()
    assert bootstrap.os.environ == {
        "UV_COMPILE_BYTECODE": "1",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "mine",
        "UV_INDEX": "https://a.example https://b.example",
        "UV_FIND_LINKS": "/of/environment",
    }
