"""The command torch-checkup: what it takes, what it gives to a script, what it says."""

import io
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from tests.torch_checkup import test_starts
from tests.torch_checkup.test_checkups import result, target
from torch_checkup import __main__ as command
from torch_checkup import checkups, starts
from torch_checkup.__main__ import main
from torch_checkup.checkups import NAMES, QUESTIONS, Checkup, Part
from torch_checkup.helpers import graphs
from torch_checkup.helpers.results import Machine

RESULT = result(breaks=0)

# --- what it takes ------------------------------------------------------------------


USUAL = {
    "only": [],
    "train": False,
    "gpu": "",
    "budget": 5.0,
    "timeout": 300.0,
    "memory": None,
    "repro": None,
    "emit_test": None,
    "issue": None,
}
GIVEN = {  # options, and what they are to checkup()
    "--only capture,,silent": {"only": ["capture", "silent"]},
    "--train": {"train": True},
    "--gpu a100": {"gpu": "a100"},
    "--budget 1.5": {"budget": 1.5},
    "--timeout 9": {"timeout": 9.0},
    "--memory 0.5": {"memory": 2**29},
    "--repro here --emit-test t.py --issue i.md": {
        "repro": "here", "emit_test": "t.py", "issue": "i.md",
    },
}  # fmt: skip


@pytest.mark.parametrize("words", ["", *GIVEN])
def test_each_option_is_one_of_the_function(words, monkeypatch):
    asked = []
    monkeypatch.setattr(
        checkups, "checkup", lambda *given, **how: asked.append((given, how)) or RESULT
    )
    assert main(["m:make", *words.split()]) == 0
    assert asked == [(("m:make",), {**USUAL, **GIVEN.get(words, {})})]


def test_each_option_of_cold_start_is_one_of_the_function(
    monkeypatch, tmp_path, capsys
):
    asked, found = [], test_starts.found(empty=[test_starts.started()])

    def cold_start(*given, **how):
        asked.append((given, how))
        return found

    monkeypatch.setattr(starts, "cold_start", cold_start)
    assert main(["cold-start", "m:make"]) == 0
    place = tmp_path / "found.json"
    words = f"--repeat 2 --train --timeout 9 --to {place}"
    assert main(["cold-start", "m:make", *words.split()]) == 0
    usual = {"repeat": 1, "timeout": 600.0, "train": False}
    other = {"repeat": 2, "timeout": 9.0, "train": True}
    assert asked == [(("m:make",), usual), (("m:make",), other)]
    assert f"written to {place}" in capsys.readouterr().out
    assert starts.ColdStart.from_json(place.read_text()) == found
    found = test_starts.found(empty=[test_starts.started(problem="it died")])
    assert main(["cold-start", "m:make"]) == 1
    found = replace(found, interrupted=True)
    assert main(["cold-start", "m:make"]) == 2


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("gone.txt", True),
        ("logs/gone", True),
        ("err.log", True),
        ("Unsupported: x", False),
        ("see a/b for more", False),
        ("x" * 5000, False),
        ("a\0b", False),
    ],
)
def test_words_are_told_from_the_name_of_a_file(words, path, tmp_path):
    assert command._is_path(words) is path
    (tmp_path / "a log").touch()
    assert command._is_path(str(tmp_path / "a log"))


# --- what it says -------------------------------------------------------------------


@pytest.mark.parametrize("command", [[], ["cold-start"], ["explain"]])
def test_each_command_tells_its_version_and_its_exit_statuses(command, capsys):
    for option, words in [("--version", "torch-compile-course "), ("--help", "; 2 it")]:
        with pytest.raises(SystemExit) as ended:
            main([*command, option])
        said = capsys.readouterr().out
        assert ended.value.code == 0 and words in said
    assert re.search(
        r"^(?:torch-checkup: )?what .*torch.compile|^what a first", said, re.M
    )


TAKES = "what returns (model, inputs): module:function, or path/to/file.py:function"
HELP = {  # of each command, the lines on what it takes
    "": f"""
TARGET {TAKES}; also (model, inputs, loss), and a list of the inputs of several calls
--only PARTS with commas in between
--train with a backward
--gpu GPU h100, a100, t4, ...: for the part gpu
--budget SECONDS of timing, for each part that times (5)
--timeout SECONDS of each part, and of the search for a wrong answer (300)
--memory GIB of the process and all it starts (three quarters of what is free)
--to FILE write the report there: .html, .json or .txt; may be given again
--repro FOLDER write a program there that shows what is wrong
--emit-test FILE the same as a test of pytest
--issue FILE the draft of an issue, in Markdown
--require RULES what must hold, such as "breaks=0,matches"
--against FILE an earlier report (--to): it may not become worse
""",
    "cold-start": f"""
TARGET {TAKES}
--repeat N starts of each way (1)
--train with a backward
--timeout SECONDS of each step of a start (600)
--to FILE write the result there, as JSON
""",
    "explain": """
FILE a file, or the message itself; else, or with -, standard input
""",
}


@pytest.mark.parametrize("name", HELP)
def test_the_help_says_what_each_option_is(name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main([*name.split(), "--help"])
    said = capsys.readouterr().out
    assert said.startswith(f"usage: {' '.join(['torch-checkup', *name.split()])} [-h]")
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert [line for line in HELP[name].split("\n") if line not in lines] == []


def test_an_option_is_not_shortened(capsys):
    with pytest.raises(SystemExit):
        main(["m:make", "--tim", "9"])  # a new option might mean something else by it
    assert "unrecognized arguments: --tim" in capsys.readouterr().err


def test_the_help_lists_each_part_and_each_fact(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert "\n\nIts parts:\n\n    matches     Does" in said
    assert (
        "\n    next        What to try next?\n\nFacts for --require: matches, " in said
    )
    for name, (question, _) in QUESTIONS.items():
        assert re.search(rf"^ +{name} +{re.escape(question)}", said, re.M), name
    for name in NAMES:
        assert re.search(rf"\b{name}\b", said.partition("Facts for --require")[2]), name


# --- the messages that it explains --------------------------------------------------


@pytest.mark.parametrize(
    ("log", "status"), [(b"\xff Invalid backend: 'x'", 0), (b"the moon", 1), (b"", 2)]
)
@pytest.mark.parametrize("named", [(), ("-",)], ids=["by itself", "a dash"])
def test_the_command_reads_a_log(log, status, named, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(log)))
    assert main(["explain", *named]) == status
    assert ("torch._dynamo.list_backends()" in capsys.readouterr().out) == (status == 0)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("Invalid backend: 'x'", 0),
        ("the moon is full", 1),
        ("Invalid backend: " + "x" * 5000, 0),
        ("gone.txt", 2),
        ("logs/gone.txt/of-today", 2),
    ],
)
def test_the_command_takes_a_message(words, status, capsys):
    assert main(["explain", words]) == status
    if status == 2:
        assert "gone.txt" in capsys.readouterr().err


def test_the_command_reads_a_file(tmp_path, capsys):
    log = tmp_path / "a log"
    log.write_text("Invalid backend: 'x'")
    assert main(["explain", str(log)]) == 0
    assert "A BACKEND THAT DOES NOT EXIST" in capsys.readouterr().out


def test_nobody_need_read_to_the_end():
    explain = f"{sys.executable} -m torch_checkup explain 'Invalid backend: x'"
    shell = f"{explain} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert (done.stdout, done.stderr) in [("0\n", ""), ("1\n", "")]


# --- what it is worth to a script: its exit status ----------------------------------


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
    monkeypatch.setattr(checkups, "checkup", lambda *_, **__: judged)
    assert main([target("healthy"), *options]) == status


def test_rules_that_do_not_hold_and_what_became_worse_are_said(
    monkeypatch, tmp_path, capsys
):
    found, before = result(breaks=1, graphs=2), result(breaks=0, graphs=2)
    monkeypatch.setattr(checkups, "checkup", lambda *_, **__: found)
    report, earlier = tmp_path / "now.txt", before.save(tmp_path / "before.json")
    words = ["--require", "breaks=0", "--against", str(earlier), "--to", str(report)]
    assert main(["m:make", *words]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[-3:] == [
        f"written to {report}",
        "required: breaks=0: it is 1",
        "worse: breaks: 0 before, 1 now",
    ]
    assert str(found) == report.read_text()
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
    ],
)
def test_a_wrong_file_is_refused_before_anything_runs(option, said, tmp_path, capsys):
    if option == ["--against"]:
        option = [*option, str(graphs(abs, torch.ones(2)).save(tmp_path / "a.json"))]
    assert main([target("healthy"), *option]) == 2
    assert said in capsys.readouterr().err


def test_a_place_for_the_report_that_is_closed_is_told_at_once(monkeypatch, capsys):
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert main([target("healthy"), "--to", "new/report.html"]) == 2
    assert "new/report.html cannot be written" in capsys.readouterr().err
