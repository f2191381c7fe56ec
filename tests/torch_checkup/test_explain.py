"""Each known message is said by its program, recognised, and not said by its twin."""

import functools
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

from tests.refresh import ROOT, notebooks, ran
from torch_checkup import explain_error

FILE = ROOT / "torch_checkup" / "errors.toml"
WHOLE = tomllib.loads(FILE.read_text(encoding="utf-8"))
ENTRIES = {entry["name"]: entry for entry in WHOLE["entry"]}
RUN = [name for name, entry in ENTRIES.items() if "program" in entry]
TOGETHER = [name for name in RUN if not ENTRIES[name].get("alone")]
UNBUILT = [  # with kernels in neither of the two
    name
    for name in TOGETHER
    if all("backend=" in ENTRIES[name][part] for part in ("program", "twin"))
]
SAMPLE = UNBUILT[::6]
NAMES = [
    pytest.param(name, marks=[] if name in SAMPLE else pytest.mark.weekly)
    for name in RUN
]
REFERENCE = torch.__version__.startswith(WHOLE["run_with"])


def said(*names):
    """Return what the programs and twins of entries say, run in one process."""
    command = [sys.executable, "-m", "tests.torch_checkup.errors_child", *names]
    with FILE.open("rb") as file:
        done = ran(*command, stdin=file, timeout=600)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def texts(request):
    """Return what programs and twins say: all of them each week, else the sample."""
    weekly = any(item.get_closest_marker("weekly") for item in request.session.items)
    return said(*(TOGETHER if weekly else SAMPLE))


@pytest.mark.skipif(not REFERENCE, reason="the words are those of another torch")
@pytest.mark.parametrize("name", NAMES)
def test_a_program_says_it_and_its_twin_does_not(name, texts):
    entry = ENTRIES[name]
    program, twin = texts.get(name) or map(told, (entry["program"], entry["twin"]))
    meanings = explain_error(program).meanings
    assert name in [one.name for one in meanings], program
    assert "Traceback" not in twin, twin
    assert name not in [one.name for one in explain_error(twin + ".").meanings], twin


@functools.cache
def told(code):
    """Return what a program says in a process of its own; some twins are the same."""
    env = os.environ | {"TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0"}  # quicker
    how = {"capture_output": True, "text": True, "timeout": 600}
    return subprocess.run([sys.executable, "-c", code], env=env, **how).stderr


@pytest.mark.parametrize("name", [n for n in ENTRIES if n not in RUN])
def test_what_is_not_run_is_recognised_and_is_in_torch(name):
    entry = ENTRIES[name]
    [meaning] = explain_error(entry["text"]).meanings
    assert meaning.name == name
    needs = f"which would need {entry.get('needs')}: the words"
    assert needs in meaning.evidence and not meaning.program
    if "source" in entry and REFERENCE:
        source = Path(torch.__file__).parent / entry["source"]
        assert entry["words"] in re.sub(r'"\s+f?"', "", source.read_text())


def test_there_are_enough_and_each_has_a_lesson():
    assert len(ENTRIES) == len(WHOLE["entry"]) >= 110
    assert {e["lesson"] for e in ENTRIES.values()} <= {p.name[:2] for p in notebooks()}


def names(error):
    return [one.name for one in explain_error(error).meanings]


def test_an_exception_is_read_with_its_causes():
    try:
        try:
            torch.compile(lambda x: x, mode="max_autotune")
        except RuntimeError as error:
            raise ValueError("could not start") from error
    except ValueError as error:
        explanation = explain_error(error)
    [meaning] = explanation.meanings
    assert meaning.name == "a mode that does not exist"
    assert meaning.line.startswith("RuntimeError: Unrecognized mode=")
    assert meaning.evidence == f"both programs ran with torch {WHOLE['run_with']}"


def test_several_messages_come_in_the_order_of_the_text():
    first = "Invalid backend: 'x'"
    second = "0%| | 0/9 [?it/s]W1122 1:0.1 7 a.py:1] [0/8] hit config.recompile_limit"
    known = ["a backend that does not exist", "the recompile limit"]
    assert names(f"{first}\n{second}") == known
    assert names(f"{second}\n{first}") == known[::-1]
    wrapped = f"> {'a' * 60}\n> {'b' * 50}Invalid ba\n> ckend: 'x'"
    assert names(wrapped) == known[:1]
    [meaning] = explain_error(second).meanings
    assert meaning.line == "hit config.recompile_limit"


def test_a_part_of_a_log_is_enough():
    limit, last = "the recompile limit", "[9/8]    last reason: 9/0: L['self']."
    assert names(f"{last}index == 0") == [limit]
    assert names(f"{last}key == 'blocks.6'") == [limit, "another text compiles again"]
    old = "[0/1] Recompiling function f\n[0/1]    triggered by the following:\n- 0/0: "
    assert names(old) == ["a function compiled with another backend"]
    asked = "Dynamo does not know how to trace the builtin `<a module>.{}.`".format
    assert names(asked("datetime.now")) == ["a clock read inside"]
    assert names(asked("open")) == ["a function that is skipped"]
    log = "E  Unsupported: x\nE    Explanation: It\nE    goes >\nE\nE  For more details"
    assert "It goes >\n" in explain_error(log).advice


def test_torch_itself_explains_a_graph_break_without_an_entry():
    registry = Path(torch.__file__).parent / "_dynamo/graph_break_registry.json"
    for name, (kind, *_) in json.loads(registry.read_text(encoding="utf-8")).items():
        about = kind["Gb_type"], "", kind["Explanation"], kind["Hints"]
        whole = torch._dynamo.exc.format_graph_break_message(*about)
        whole = f"Unsupported: {re.sub(r'gb[0-9]{4}', name.lower(), whole)}"
        cut = whole[: whole.index("Explanation:") + 20]  # known by its words alone
        log = "\n".join(f"[rank0]: \x1b[31m  {line}" for line in cut.splitlines())
        own = " ".join(re.split(r"[{\n]", kind["Explanation"])[0].split())
        for text in (whole, log):
            found = explain_error(text)
            assert found.meanings or own in " ".join(found.advice.split()), text
            assert found.meanings or f"gb/{name.lower()}.html" in found.advice, text


def test_all_causes_of_a_log_are_told_and_what_is_unknown_is_said():
    chain = (
        "Traceback (most recent call last):\nBackendCompilerFailed: raised:\n"
        "ValueError: odd\n\nThe above exception was the direct cause of the following "
        "exception:\n\nTraceback (most recent call last):\nRuntimeError: {}\n"
    )
    log = chain.format("a moon") + (
        "Traceback (most recent call last):\nKeyError: 'a star'\n"
        "Traceback (most recent call last):\nRuntimeError: Invalid backend: 'x'\n"
        "Graph break in user code at a.py:3\n visit gb9999.html\n"
    )
    found = explain_error(log)
    assert names(log) == ["a backend that failed", "a backend that does not exist"]
    assert "not known: KeyError: 'a star'" in found.advice
    assert "does not have it" in found.advice and "gb/gb9999.html" in found.advice
    assert "TORCH_LOGS" in found.advice and "a moon" not in found.advice
    # One exception and its cause are one message: the special meaning is enough.
    wrapped = chain.format("Invalid backend: 'x'")
    for name in ("BackendCompilerFailed", "InternalTorchDynamoError"):
        special = wrapped.replace("BackendCompilerFailed", name)
        assert names(special) == ["a backend that does not exist"]
