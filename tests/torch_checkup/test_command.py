"""The command torch-checkup: what it takes, what it gives to a script, what it says."""

import io
import sys
from dataclasses import replace

import pytest
import torch

from tests.torch_checkup.test_report import result, target
from torch_checkup import report
from torch_checkup.__main__ import main
from torch_checkup.helpers import graphs
from torch_checkup.helpers.results import Machine
from torch_checkup.report import Checkup, Part

RESULT = result(breaks=0)

GIVEN = "--only capture,,silent --train --gpu a100 --budget 1.5 --timeout 9"
GIVEN += " --memory 0.5 --repro here"


def test_each_option_is_one_of_the_function(monkeypatch):
    asked = []
    monkeypatch.setattr(
        report, "checkup", lambda *_, **how: asked.append(how) or RESULT
    )
    assert main(["m:make", *GIVEN.split()]) == 0
    given = {"only": ["capture", "silent"], "train": True, "gpu": "a100"}
    given |= {"budget": 1.5, "timeout": 9.0, "memory": 2**29, "repro": "here"}
    assert asked == [given]


@pytest.mark.parametrize(
    ("words", "log", "status"),
    [
        ("-", b"\xff Invalid backend: 'x'", 0),
        ("-", b"the moon", 1),
        ("-", b"", 2),
        ("Invalid backend: " + "x" * 5000, b"", 0),
        ("gone.txt", b"", 2),
    ],
)
def test_the_command_explains_a_log_and_a_message(
    words, log, status, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(log)))
    assert main(["explain", words]) == status
    said = capsys.readouterr()
    assert ("torch._dynamo.list_backends()" in said.out) == (status == 0)
    assert ("gone.txt" in said.err) == (words == "gone.txt")


@pytest.mark.parametrize(
    ("counts", "verdict", "options", "status"),
    [
        ({"matches": True, "speedup": 0.5}, "bad", [], 0),
        ({"matches": False}, "bad", [], 1),
        ({"matches": False}, "failed", [], 1),
        ({"stale": 1}, "bad", [], 1),
        ({"matches": None}, "cannot tell", [], 0),
        ({"matches": True}, "failed", [], 2),
        ({"matches": None}, "cannot tell", ["--require", "matches"], 1),
    ],
)
def test_the_exit_status_tells_wrong_from_slow(
    counts, verdict, options, status, monkeypatch, capsys
):
    found = result(**counts)
    parts = (Part("speed", verdict, ""), *found.parts)
    judged = Checkup("mine:make", parts, False, 1, machine=Machine.here())
    monkeypatch.setattr(report, "checkup", lambda *_, **__: judged)
    assert main([target("healthy"), *options]) == status


def test_rules_that_do_not_hold_and_what_became_worse_are_said(
    monkeypatch, tmp_path, capsys
):
    found, before = result(breaks=1, graphs=2), result(breaks=0, graphs=2)
    monkeypatch.setattr(report, "checkup", lambda *_, **__: found)
    place, earlier = tmp_path / "now.txt", before.save(tmp_path / "before.json")
    words = ["--require", "breaks=0", "--against", str(earlier), "--to", str(place)]
    assert main(["m:make", *words]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[-3:] == [
        f"written to {place}",
        "required: breaks=0: it is 1",
        "worse: breaks: 0 before, 1 now",
    ]
    assert str(found) == place.read_text()
    found = before
    assert main(["m:make", *words]) == 0
    found = replace(before, interrupted=True)
    assert main(["m:make", *words]) == 2


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--to", "a.pdf"], "ends in .html"),
        (["--against"], "not a Checkup"),
        (["--require", "braeks=0"], "'braeks=0' is no requirement"),
        (["--repro", "a.json/inside"], "a.json/inside/repro.py cannot be written"),
    ],
)
def test_a_wrong_file_is_refused_before_anything_runs(
    option, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").touch()
    if option == ["--against"]:
        option = [*option, str(graphs(abs, torch.ones(2)).save(tmp_path / "b.json"))]
    assert main([target("healthy"), *option]) == 2
    assert said in capsys.readouterr().err
