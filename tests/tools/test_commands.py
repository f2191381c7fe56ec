"""Every command says what it does, what its exit status means, and its version."""

import re
from importlib import import_module

import pytest

from tests.proof.__main__ import NAMES
from tests.refresh import ROOT

COMMANDS = (
    *("helpers.__main__", "torch_checkup.__main__"),
    *("tools.lab", "tools.site.__main__", "tools.record_gpu", "tools.claims"),
    "tools.alone",
    *("tests.strict", "tests.refresh", "tests.companions", "tests.failing"),
    *("tests.benchmarks.__main__", "tests.field.__main__", "tests.proof.__main__"),
)
PROOFS = [f"tests.proof.{name}" for name in NAMES if name != "report"]


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


def test_every_module_that_is_a_command_is_here():
    found = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for room in ("helpers", "torch_checkup", "tools", "tests")
        for path in (ROOT / room).rglob("*.py")
        if 'if __name__ == "__main__":' in path.read_text("utf-8")
    }
    inner = r"_child$|\.(sandbox|warm|rivals|visit|test_\w+)$"  # nobody types these
    assert {name for name in found if not re.search(inner, name)} == {*COMMANDS}
