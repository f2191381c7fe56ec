"""Following torch: pins, what changed by name, and what is worst comes first."""

import subprocess

import pytest

from tests.failing import Failure
from tests.proof import bump
from tests.refresh import ROOT

PINS = f"# Head.\n{bump.HEAD}torch==1.0.0\nuv==1.0\n{bump.SECOND}b==1\n"
RESOLVED = "a==3\nb==2 ; os_name == 'nt'\nnvidia-x==1\ntorch==2.0.0\nuv==1.1\n"


def test_pins_are_renewed_and_stay_in_their_blocks():
    wanted = (
        "torch==2.0.0\nuv==1.1\n\n# What those need.\na==3\nb==2; os_name == 'nt'\n"
    )
    assert bump.renewed(PINS, RESOLVED) == f"# Head.\n{bump.HEAD}{wanted}"


def test_the_pins_that_are_there_have_the_form_that_is_renewed():
    pins = (ROOT / "requirements.txt").read_text("utf-8")
    lines = [line for line in pins.splitlines() if "==" in line]
    assert bump.renewed(pins, "\n".join(lines)) == pins


@pytest.fixture
def follow(monkeypatch, tmp_path):
    """Follow to a torch on which pages do as asked; return what was said of them."""

    def told(**found):
        pages = {ROOT / f"{name}.ipynb": what for name, what in found.items()}
        stored = []
        how = {"BUMPS": tmp_path, "work_tree": lambda torch: tmp_path}
        how |= {"renew": lambda *_: None, "build": lambda folder: "python"}
        how["names"] = lambda *_: {kind: {} for kind in bump.TITLES}
        how["pages"] = lambda: [*pages]
        how["differing"] = lambda _, __, page: pages[ROOT / page]
        how["store"] = lambda *page: stored.append(page[-1].stem)
        for name, value in how.items():
            monkeypatch.setattr(bump, name, value)
        status = bump.main(["9.9.9"])
        return status, stored, (tmp_path / "torch-9.9.9.md").read_text("utf-8")

    return told


def cell(*lines):
    return Failure("a.ipynb", "Cell 1", "Here", "9.9.9", lines)


def test_only_pages_whose_claims_hold_are_stored(follow):
    fell, other = cell("claim: one"), cell("stdout - 1", "stdout + 2")
    status, stored, text = follow(a=[fell, other], b=[other], c=[], d="it crashed")
    assert (status, stored) == (1, ["b"])
    order = (
        "- d.ipynb: it crashed",
        "claim: one",
        "stdout + 2",
        "a.ipynb: a claim fell",
    )
    assert sorted(order, key=text.index) == [*order]


def test_a_torch_that_cannot_be_had_is_told(monkeypatch, tmp_path, capsys):
    for name in ("requirements.txt", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / ".cache").mkdir()
    fails = subprocess.CompletedProcess((), 1, "", "no version of torch==99.0.0")
    monkeypatch.setattr(bump, "work_tree", lambda torch: tmp_path)
    monkeypatch.setattr(bump.subprocess, "run", lambda *_, **__: fails)
    assert bump.main(["99.0.0"]) == 2
    assert "torch 99.0.0 can't be had: no version" in capsys.readouterr().err
    pins = ROOT / "requirements.txt"
    assert (tmp_path / pins.name).read_bytes() == pins.read_bytes()
