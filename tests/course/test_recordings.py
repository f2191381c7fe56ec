"""Recordings follow from their samples; where one is damaged, a lesson goes on."""

import dataclasses
import re
from statistics import median

import pytest
import torch

from course import recorded, recordings
from course.recordings import SCHEMA, Finding, Recording, read
from helpers import compare, stats
from helpers.benchmark import estimate
from helpers.errors import ResultError
from helpers.results import Machine
from helpers.text import pre, seconds, size

NOW = "2030-01-01T00:00:00+00:00"


def finding(experiment, series, value, comparison=None, **rest):
    usual = {"status": "done", "message": "", "facts": {"GB/s": 93.8125}, "texts": {}}
    usual |= {"comparison": comparison, "seconds": 1.0, "when": NOW, **rest}
    return Finding(experiment, series, value, **usual)


@pytest.fixture(scope="module")
def recording():
    """Two timed cases, one that is not and one that failed, on this CPU."""
    x = torch.ones(1000)
    race = compare(lambda x: x.sin().cos(), torch.sin, x, same_answer=False, budget=0.1)
    failure = {"status": "failed", "message": "it broke", "facts": {}}
    findings = (
        finding("chains", "length", 1, race),
        finding("chains", "length", 8, race),
        finding("chains", "size", 8, race, facts={"bytes": 12345}),
        finding("machine", "state", "idle"),
        finding("lengths", "default", "exact", **failure),
    )
    return Recording(SCHEMA, True, findings, when=NOW)


@pytest.fixture
def folder(recording, tmp_path, monkeypatch):
    recording.save(tmp_path / "cpu.json")
    monkeypatch.setenv("COURSE_RECORDED", str(tmp_path))
    return tmp_path


def test_a_recording_says_where_when_and_with_what(folder, recording):
    assert read(folder / "cpu.json") == recording
    machine = recording.machine
    assert str(recording).startswith(f"recorded on {machine.cpu} (no GPU), 2030-01-01")
    assert machine.torch in str(recording) and "failed: it broke" in str(recording)
    headings = str(recording).splitlines()[1]
    assert headings.split() == ["experiment", "series", "value", "found", "took"]


# --- what is not believed ---------------------------------------------------------


def check_follows(race):
    """Compute the results from the samples, and compare with what is stated."""
    rounds, speedup, interval = estimate(race.rounds)
    medians = median(r.a_s for r in rounds), median(r.b_s for r in rounds)
    ends = (interval.low, interval.high) if interval else ()
    stated = race.speedup, *race.median_s, *(race.interval or ())
    assert stated == pytest.approx((speedup, *medians, *ends))
    assert race.verdict == stats.verdict(interval)


def test_results_follow_from_their_samples(recording):
    kept = [read(path) for path in recordings.FOLDER.glob("*.json")]
    assert not any(one.quick for one in kept)
    races = [f.comparison for one in (recording, *kept) for f in one.findings]
    for race in filter(None, races):
        check_follows(race)
    with pytest.raises(AssertionError):
        check_follows(dataclasses.replace(races[0], speedup=2 * races[0].speedup))


def test_damage_is_noticed_and_a_lesson_goes_on(recording, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_RECORDED", str(tmp_path))
    path, whole = tmp_path / "gpu.json", recording.to_json()
    for damaged, message in (
        (whole.replace(f'"schema": {SCHEMA}', '"schema": 1'), f"of schema {SCHEMA}"),
        (whole.replace('"failed"', '"fine"'), "damaged.*'fine'"),
        (recording.findings[0].comparison.to_json(), "holds no recording"),
    ):
        path.write_text(damaged)
        with pytest.raises(ResultError, match=message):
            read(path)
        nothing = recorded("chains")
        assert not nothing
        assert "gpu.json" in str(nothing) and "make record" in str(nothing)


# --- what a lesson shows ----------------------------------------------------------


def test_an_experiment_and_a_series_of_it(folder):
    whole, part = recorded("chains"), recorded("chains", "length")
    assert [f.series for f in whole.findings] == ["length", "length", "size"]
    assert [f.value for f in part.findings] == [1, 8]
    assert whole and whole._repr_html_() == whole.table()._repr_html_()
    assert str(whole) == str(whole.table()) and repr(whole) == f"⟨{whole.line()}⟩"
    race = whole.findings[0].comparison
    says = f"{race.ratio()}, GB/s 93.81"
    cases = f"length 1: {says}; length 8: {says}; size 8: {race.ratio()}"
    assert whole.line() == f"{whole.label}: {cases}, bytes 12345"
    assert part.line() == f"{part.label}: 1: {says}; 8: {says}"
    costs = [*map(seconds, (race.cold_start_s, *race.median_s))]
    costs += map(size, race.peak_bytes or ())
    table = part.table()
    assert table.title == part.label
    assert table.headings[:3] == ("series", "value", "found")
    assert table.headings[3] == "first call, then eager and compiled"
    assert table.rows[0] == ("length", "1", says, ", ".join(costs))
    assert recorded("machine").table().rows[0][3] == ""
    assert "failed: it broke" in str(recorded("lengths"))
    width = recorded("chains", "width")
    assert not width and str(width).startswith("The recording of ")
    assert "has nothing of chains, width: " in str(width)
    assert "has nothing of areas: " in str(recorded("areas"))


def test_the_newest_is_shown_and_this_machines_own_before_it(
    folder, recording, monkeypatch
):
    for gpu, year in (("A", 2031), ("B", 2032)):
        machine = dataclasses.replace(recording.machine, gpu=gpu)
        origin = {"machine": machine, "when": f"{year}-01-01T00:00:00+00:00"}
        other = Recording(SCHEMA, False, recording.findings[3:], **origin)
        other.save(folder / f"{gpu}.json")
    assert recorded("machine").label == "recorded on B, 2032-01-01"
    here = dataclasses.replace(Machine.here(), gpu="A")
    monkeypatch.setattr(Machine, "here", lambda: here)
    assert recorded("machine").label == "recorded on A, 2031-01-01"


def test_without_one_a_page_reads_the_same_and_a_sentence_says_how_to_make_one(
    folder, monkeypatch
):
    shown = recorded("chains")
    monkeypatch.setenv("COURSE_RECORDED", str(folder / "empty"))
    nothing = recorded("chains", "length")
    assert not nothing
    assert "No GPU recording" in str(nothing) and "make record" in str(nothing)
    assert str(nothing) == nothing.line() == nothing.label
    assert nothing._repr_html_() == pre(nothing.label)
    for one in (shown, nothing):
        assert re.fullmatch(r"⟨[^⟩\n]+⟩", repr(one))
