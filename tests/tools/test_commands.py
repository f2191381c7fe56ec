"""Every command says what it does, what its exit status means, and its version."""

import re
from importlib import import_module

import pytest

import bootstrap
from tests.proof.__main__ import NAMES
from tests.refresh import ROOT

COMMANDS = (
    *("helpers.__main__", "torch_checkup.__main__"),
    *("tools.lab", "tools.site.__main__", "tools.record_gpu", "tools.claims"),
    *("tests.strict", "tests.refresh", "tests.companions", "tests.failing"),
    *("tests.benchmarks.__main__", "tests.field.__main__", "tests.proof.__main__"),
    "tools.hub.__main__",
)
PROOFS = [f"tests.proof.{name}" for name in NAMES if name not in ("hub", "report")]


def ended(main, *words):
    """Return the exit status with which a command ends at once."""
    with pytest.raises(SystemExit) as end:
        main([*words])
    return end.value.code


@pytest.mark.parametrize("name", [*COMMANDS, *PROOFS])
def test_help_says_what_the_exit_status_means(name, capsys):
    assert ended(import_module(name).main, "--help") == 0
    told = capsys.readouterr().out
    program = name.removesuffix(".__main__")
    [usage] = re.findall(r"^usage: (?:python -m )?([\w. -]+?) \[-h\]", told, re.M)
    assert usage.replace(" ", ".").replace("-", "_") == program
    assert re.search(r"exit status: 0 [\w ,;]+1 [\w ,;]+2 ", " ".join(told.split()))


@pytest.mark.parametrize("name", [*COMMANDS, *PROOFS])
def test_version_names_torch(name, capsys):
    assert ended(import_module(name).main, "--version") == 0
    assert re.search(r"\btorch \d", capsys.readouterr().out)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_line_is_status_2(name, capsys):
    takes_others = {"tools.lab", "tools.hub.__main__", "tests.strict"}
    if name in takes_others:
        pytest.skip("hands on what it does not know")
    assert ended(import_module(name).main, "--no-such-option", "x") == 2
    assert "usage: " in capsys.readouterr().err


def test_every_module_that_is_a_command_is_here():
    found = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for room in ("helpers", "torch_checkup", "tools", "tests")
        for path in (ROOT / room).rglob("*.py")
        if 'if __name__ == "__main__":' in path.read_text("utf-8")
    }
    inner = r"_child$|\.rivals$|\.visit$|\.test_\w+$"  # nobody types these
    assert {name for name in found if not re.search(inner, name)} == {*COMMANDS}


def test_the_set_up_says_it_too(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bootstrap.py", "--help"])
    with pytest.raises(SystemExit) as end:
        bootstrap.main()
    assert end.value.code == 0
    assert "exit status: 0 ready" in capsys.readouterr().out
