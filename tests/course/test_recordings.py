"""Recordings follow from their samples; where one is damaged, a lesson goes on."""

import dataclasses
from statistics import median
from unittest import mock

import pytest
import torch

from course import recorded, recordings
from course.recordings import read
from helpers import compare, stats
from helpers.benchmark import Comparison, estimate
from helpers.errors import ResultError
from helpers.results import Machine, load
from helpers.text import pre, seconds, size
from tools.record_gpu import record

HERE = dataclasses.replace(Machine.here(), gpu="NVIDIA A")


@pytest.fixture(scope="module")
def race():
    x = torch.ones(1000)
    race = compare(lambda x: x.sin().sin(), torch.sin, x, same_answer=False, budget=0.1)
    when = "2030-01-01T00:00:00+00:00"
    return dataclasses.replace(race, machine=HERE, when=when, matches=True)


@pytest.fixture
def folder(race, tmp_path, monkeypatch):
    """Two comparisons and a case that failed, of one GPU."""

    fails = mock.Mock(side_effect=RuntimeError("it broke\nin two lines"))
    cases = {
        "modes/MLP/default": lambda: race,
        "modes/MLP/reduce-overhead": fails,
        "modes/ResNet/default": lambda: race,
    }
    record(tmp_path / "a", cases)
    monkeypatch.setattr(recordings, "FOLDER", tmp_path)
    return tmp_path


def test_results_follow_from_their_samples(race):
    paths = [*recordings.FOLDER.glob("*/*/*/*.json")]
    kept = [load(path) for path in paths if not read(path).found.startswith("failed")]
    for one in [race, *(r for r in kept if isinstance(r, Comparison))]:
        rounds, speedup, interval = estimate(one.rounds)
        medians = median(r.a_s for r in rounds), median(r.b_s for r in rounds)
        ends = (interval.low, interval.high) if interval else ()
        stated = one.speedup, *one.median_s, *(one.interval or ())
        assert stated == pytest.approx((speedup, *medians, *ends))
        assert one.verdict == stats.verdict(interval)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"format": 1', '"format": 0'),
        ('"cold_start_s": ', '"cold_start_s": "no number", "also": '),
        ("{", "["),
    ],
)
def test_damage_is_noticed_and_a_lesson_goes_on(folder, old, new):
    path = folder / "a" / "modes" / "MLP" / "default.json"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ResultError):
        read(path)
    nothing = recorded("modes")
    assert not nothing
    assert "default.json" in str(nothing) and "make record" in str(nothing)
    assert nothing._repr_html_() == pre(nothing.label)  # a page says so, too


# --- what a lesson shows ----------------------------------------------------------


def test_an_experiment_and_a_series_of_it(folder, race):
    whole, part = recorded("modes"), recorded("modes", "MLP")
    says, failed = race.ratio(), "failed: RuntimeError: it broke"
    costs = [*map(seconds, (race.cold_start_s, *race.median_s))]
    costs = ", ".join([*costs, *map(size, race.peak_bytes or ())])
    table = whole.table()
    assert table.title == whole.label == "recorded on NVIDIA A, 2030-01-01"
    assert table.headings[:3] == ("series", "value", "found")
    assert table.headings[3] == "first call, then eager and compiled"
    assert table.rows == (
        ("MLP", "default", says, costs),
        ("MLP", "reduce-overhead", failed, ""),
        ("ResNet", "default", says, costs),
    )
    assert part.line() == f"{whole.label}: default: {says}; reduce-overhead: {failed}"
    assert whole.line().endswith(f"; ResNet default: {says}")
    assert whole and whole._repr_html_() == table._repr_html_()
    assert str(whole) == str(table) and repr(whole) == f"⟨{whole.line()}⟩"


def test_the_newest_is_shown_and_this_machines_own_before_it(folder, race, monkeypatch):
    for gpu, year in (("B", 2031), ("C", 2032)):
        machine = dataclasses.replace(HERE, gpu=f"NVIDIA {gpu}")
        when = f"{year}-01-01T00:00:00+00:00"
        other = dataclasses.replace(race, machine=machine, when=when)
        other.save(folder / gpu / "modes" / "MLP" / "default.json")
    newest = recorded("modes")
    assert newest.label == "recorded on NVIDIA C, 2032-01-01" and len(newest.cases) == 1
    monkeypatch.setattr(Machine, "here", lambda: HERE)
    assert recorded("modes").label == "recorded on NVIDIA A, 2030-01-01"
