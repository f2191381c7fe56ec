"""A recording is believed only when it follows from its samples; a lesson goes on."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from helpers import compare, recorded, recordings
from helpers.errors import ResultError
from helpers.recordings import SCHEMA, Finding, Recording, read
from helpers.results import Machine
from helpers.text import unmark

NOW = "2030-01-01T00:00:00+00:00"


def finding(
    experiment: str, series: str, value: Any, comparison: Any = None, **rest: Any
) -> Finding:
    defaults = {"status": "done", "message": "", "texts": {}, "seconds": 1.0}
    defaults |= {"facts": {"GB/s": 93.8}, "comparison": comparison, "when": NOW}
    return Finding(experiment, series, value, **{**defaults, **rest})


@pytest.fixture(scope="module")
def recording() -> Recording:
    """Two timed cases, one that is not and one that failed, on this CPU."""
    x = torch.ones(1000)
    race = compare(lambda x: x.sin().cos(), torch.sin, x, same_answer=False, budget=0.1)
    failure = {"status": "failed", "message": "it broke", "facts": {}}
    findings = (
        finding("chains", "length", 1, race),
        finding("chains", "length", 8, race),
        finding("chains", "size", 8, race, facts={}),
        finding("machine", "state", "idle"),
        finding("lengths", "default", "exact", **failure),
    )
    return Recording(SCHEMA, True, findings, when=NOW)


@pytest.fixture
def folder(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    recording.save(tmp_path / "cpu.json")
    monkeypatch.setenv("COURSE_RECORDED", str(tmp_path))
    return tmp_path


def test_a_recording_says_where_when_and_with_what(
    folder: Path, recording: Recording
) -> None:
    assert read(folder / "cpu.json") == recording
    machine = recording.machine
    assert str(recording).startswith(f"recorded on {machine.cpu} (no GPU), 2030-01-01")
    assert machine.torch in str(recording) and "failed: it broke" in str(recording)


# --- what is not believed ---------------------------------------------------------

Damage = Callable[[dict[str, Any]], object]


def timed(result: dict[str, Any]) -> dict[str, Any]:
    """Return the first comparison of a recording, as JSON has it."""
    return result["findings"][0]["comparison"]


def case(result: dict[str, Any]) -> dict[str, Any]:
    return result["findings"][3]


DAMAGE: dict[str, tuple[Damage, str]] = {
    "another schema": (lambda r: r.update(schema=1), f"schema 1.*reads {SCHEMA}"),
    "no schema": (lambda r: r.pop("schema"), "damaged"),
    "real sizes, no GPU": (lambda r: r.update(quick=False), "no GPU is named"),
    "a word for a number": (lambda r: timed(r).update(speedup="fast"), "damaged"),
    "findings are no list": (lambda r: r.update(findings=7), "damaged"),
    "NaN": (lambda r: timed(r)["rounds"][0].update(a_s=float("nan")), "not follow"),
    "a negative time": (lambda r: timed(r)["rounds"][0].update(b_s=-1.0), "not follow"),
    "missing samples": (
        lambda r: timed(r).update(rounds=timed(r)["rounds"][:3]),
        "not follow",
    ),
    "a better verdict": (lambda r: timed(r).update(verdict="superb"), "not follow"),
    "no interval": (lambda r: timed(r).update(interval=None), "not follow"),
    "another GPU": (
        lambda r: r["machine"].update(gpu="NVIDIA H200"),
        "another machine",
    ),
    "another torch": (lambda r: r["machine"].update(torch="2.99"), "another torch"),
    "an unknown status": (lambda r: case(r).update(status="fine"), "damaged.*'fine'"),
    "nothing found": (lambda r: case(r).update(facts={}), "nothing was found"),
}


def spoilt(recording: Recording, change: Damage) -> str:
    whole = json.loads(recording.to_json())
    change(whole["result"])
    return json.dumps(whole)


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_noticed_and_a_lesson_goes_on(
    name: str, recording: Recording, tmp_path: Path
) -> None:
    change, message = DAMAGE[name]
    path = tmp_path / "gpu.json"
    path.write_text(spoilt(recording, change))
    with pytest.raises(ResultError, match=message):
        read(path)
    nothing = recorded("chains", folder=tmp_path)
    assert not nothing
    assert "gpu.json" in str(nothing) and "make record" in str(nothing)


@examples(max_examples=30)
@given(
    name=st.sampled_from(["speedup", "confidence", "median_s", "interval"]),
    factor=st.floats(1.0001, 10),
    up=st.booleans(),
)
def test_a_prettier_number_is_never_believed(
    name: str,
    factor: float,
    up: bool,
    recording: Recording,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    def prettier(result: dict[str, Any]) -> None:
        by, old = factor if up else 1 / factor, timed(result)[name]
        new = [old[0] * by, old[1]] if isinstance(old, list) else old * by
        timed(result)[name] = new

    path = tmp_path_factory.mktemp("prettier") / "gpu.json"
    path.write_text(spoilt(recording, prettier))
    with pytest.raises(ResultError, match="do not follow"):
        read(path)


def test_nothing_else_counts_as_a_recording(
    recording: Recording, tmp_path: Path
) -> None:
    path = tmp_path / "gpu.json"
    recording.findings[0].comparison.save(path)
    with pytest.raises(ResultError, match="does not hold a recording"):
        read(path)
    path.write_text(recording.to_json()[:-100])
    with pytest.raises(ResultError, match="damaged"):
        read(path)
    path.write_bytes(b"\x80\x04\x95")  # the first bytes of a pickle
    with pytest.raises(ResultError, match=r"gpu\.json"):
        read(path)


def test_the_folder_of_the_course_holds_no_damaged_recording() -> None:
    for path in recordings.FOLDER.glob("*.json"):
        assert not read(path).quick


# --- what a lesson shows ----------------------------------------------------------


def test_an_experiment_and_a_series_of_it(folder: Path) -> None:
    whole, part = recorded("chains"), recorded("chains", "length")
    assert [f.series for f in whole.findings] == ["length", "length", "size"]
    assert [f.value for f in part.findings] == [1, 8]
    assert whole and "length" in str(whole) and whole.label in whole._repr_html_()
    assert "failed: it broke" in str(recorded("lengths"))
    width = recorded("chains", "width")
    assert not width and "has nothing of chains, width" in str(width)


def test_without_a_recording_a_sentence_says_how_to_make_one(tmp_path: Path) -> None:
    nothing = recorded("chains", "length", folder=tmp_path)
    assert not nothing
    assert "No GPU recording" in str(nothing) and "make record" in str(nothing)


def test_the_newest_is_shown_and_this_machines_own_before_it(
    folder: Path, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    for gpu, year in (("A", 2031), ("B", 2032)):
        machine = dataclasses.replace(recording.machine, gpu=gpu)
        origin = {"machine": machine, "when": f"{year}-01-01T00:00:00+00:00"}
        other = Recording(SCHEMA, False, recording.findings[3:], **origin)
        other.save(folder / f"{gpu}.json")
    assert recorded("machine").label == "recorded on B, 2032-01-01"
    here = dataclasses.replace(Machine.here(), gpu="A")
    monkeypatch.setattr(Machine, "here", lambda: here)
    assert recorded("machine").label == "recorded on A, 2031-01-01"


def test_a_page_reads_the_same_with_without_and_beside_a_damaged_one(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (folder / "zzz.json").write_text("{")
    shown = recorded("chains")
    nothing = recorded("chains", folder=tmp_path_factory.mktemp("empty"))
    assert shown and "zzz.json" in repr(shown) and "zzz.json" in shown._repr_html_()
    for one in (shown, nothing):
        assert re.fullmatch(r"⟨[^⟩\n]+⟩", repr(one))
    assert unmark(repr(shown)) == unmark(repr(nothing))
