"""What a comparison says, from rounds that are made up: no clock, no compiler."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import stats
from helpers.benchmark import ENOUGH_CLEAN, Comparison, Round, combine, estimate
from helpers.text import unmark

times = st.floats(1e-7, 1e2)
some_rounds = st.lists(
    st.builds(Round, times, times, st.booleans(), st.booleans()), min_size=1
)


def made(**changed):
    """A comparison of three rounds, the last of them disturbed."""
    rounds = tuple(Round(2e-3, 1e-3, i % 2 == 0, i < 2) for i in range(3))
    usual = dict(  # noqa: C408
        names=("eager", "compiled"),
        speedup=2.0,
        interval=(1.9, 2.1),
        confidence=0.9612,
        verdict="faster",
        median_s=(2e-3, 1e-3),
        cold_start_s=3.0,
        compiles=1,
        graphs=1,
        graph_breaks=0,
        page_faults=(3, 4),
        peak_bytes=(2048, 512),
        matches=True,
        max_error=1e-7,
        error64=(2e-7, 3e-7),
        rounds=rounds,
        notes=("a note", "another"),
        threads=2,
        device="cpu",
        scope="this process",
    )
    return Comparison(**usual | changed)


def rounds(clean, disturbed):
    """Clean rounds say 2, disturbed ones say 10."""
    one, two = Round(2.0, 1.0, True, True), Round(10.0, 1.0, True, False)
    return [one] * clean + [two] * disturbed


def test_disturbed_rounds_count_only_while_there_are_few_others():
    enough = rounds(ENOUGH_CLEAN, 40)
    used, ratio, interval = estimate(enough)
    assert used == enough[:ENOUGH_CLEAN] and ratio == pytest.approx(2)
    assert interval.high == pytest.approx(2)
    few = rounds(ENOUGH_CLEAN - 1, 40)
    used, ratio, _ = estimate(few)
    assert used == few and ratio == pytest.approx(10)
    assert ENOUGH_CLEAN == 15


@given(some_rounds)
def test_swapping_the_sides_turns_the_estimate_round(found):
    used, ratio, interval = estimate(found)
    turned = [Round(r.b_s, r.a_s, not r.a_first, r.clean) for r in found]
    others, back, swapped = estimate(turned)
    assert len(others) == len(used) and back == pytest.approx(1 / ratio)
    assert (interval is None) == (swapped is None) == (len(used) < 6)
    if interval is not None:
        assert swapped.low == pytest.approx(1 / interval.high)
        assert swapped.high == pytest.approx(1 / interval.low)


@given(some_rounds, st.lists(st.text()), st.none() | st.booleans())
def test_what_was_found_comes_back_from_its_json(found, notes, matches):
    used, ratio, interval = estimate(found)
    one = made(
        rounds=tuple(found),
        speedup=ratio,
        interval=interval and (interval.low, interval.high),
        verdict=stats.verdict(interval),
        notes=tuple(notes),
        matches=matches,
    )
    back = Comparison.from_json(one.to_json())
    assert back == one and str(back) == str(one)
    assert estimate(back.rounds) == (used, ratio, interval)


def test_every_fact_is_the_one_that_was_measured():
    assert dict(made().facts()) == {
        "verdict": "faster: 2x, 96% interval 1.9 to 2.1",
        "eager, median call": "2 ms",
        "compiled, median call": "1 ms",
        "compiled, first call": "3 s",
        "paid back after": "2999 calls",
        "page faults a call": "3, 4",
        "peak memory": "2 KiB, 512 B",
        "largest difference": "1e-07 (from float64: eager 2e-07, compiled 3e-07)",
        "measured in": "this process: 3 rounds, 2 undisturbed, 2 threads, caches hot",
        "notes": "a note; another",
    }


def test_what_is_not_known_is_not_made_up():
    bare = made(
        interval=None,
        verdict="cannot tell",
        page_faults=None,
        peak_bytes=None,
        error64=None,
        notes=(),
        threads=1,
    )
    facts = dict(bare.facts())
    assert facts["verdict"] == "cannot tell (too few rounds for an interval)"
    assert facts["paid back after"] == "cannot tell"
    assert facts["page faults a call"] == facts["peak memory"] == "not known"
    assert facts["largest difference"] == "1e-07"
    assert facts["notes"] == "none"
    assert facts["measured in"].endswith("1 thread, caches hot")


@pytest.mark.parametrize("verdict", ["same", "slower"])
def test_a_side_that_is_not_faster_never_pays_back(verdict):
    assert dict(made(verdict=verdict).facts())["paid back after"] == (
        "no number of calls"
    )


def test_the_first_call_is_paid_back_by_the_medians():
    found = made(cold_start_s=10.0, median_s=(3.0, 1.0))
    assert found.calls_to_pay_back == 5
    assert dict(found.facts())["paid back after"] == "5 calls"


@pytest.mark.parametrize(
    ("matches", "word"), [(True, "agree"), (False, "DIFFER"), (None, "not compared")]
)
def test_the_table_starts_with_the_answers_and_marks_what_was_measured(matches, word):
    found = made(names=("old", "new"), matches=matches)
    table = found.table()
    assert table.headings == ("", "new against old")
    assert table.rows[0] == ("answers", word)
    assert table.rows[1:] == tuple((k, f"⟨{v}⟩") for k, v in found.facts())
    assert str(found) == repr(found) == str(table)
    assert found._repr_html_() == table._repr_html_()


def test_the_sentence_marks_all_but_the_names():
    assert made().sentence() == (
        "compiled against eager: ⟨faster: 2x, 96% interval 1.9 to 2.1⟩"
    )
    assert unmark(made().sentence()) == "compiled against eager: ⟨…⟩"


# ------------------------------------------------------- several processes into one


def runs(*speedups):
    return tuple(
        made(
            speedup=s,
            median_s=(s, 1.0),
            cold_start_s=10 * s,
            max_error=s,
            notes=("of all", f"of {s}"),
            rounds=(Round(s, 1.0, True, True),),
        )
        for s in speedups
    )


def test_processes_are_combined_by_their_medians():
    found = combine(runs(2.0, 4.0, 3.0), ("a", "b"))
    assert (found.speedup, found.interval) == (3.0, (2.0, 4.0))
    assert found.confidence == 0.75 and found.verdict == "faster"
    assert found.median_s == (3.0, 1.0) and found.cold_start_s == 30.0
    assert found.max_error == 4.0 and found.names == ("a", "b")
    assert found.notes == ("of all", "of 2.0", "of 4.0", "of 3.0")
    assert [r.a_s for r in found.rounds] == [2.0, 4.0, 3.0]
    assert found.scope == "3 fresh processes"


def test_from_six_processes_on_the_interval_is_the_sign_interval():
    found = combine(runs(*range(1, 10)), ("a", "b"))
    assert found.interval == (2, 8) and found.verdict == "faster"
    assert found.confidence == stats.sign_interval([*range(9)]).confidence


@given(st.permutations([1.0, 2.0, 3.0, 4.0, 5.0]))
def test_the_order_of_processes_does_not_matter(order):
    found = combine(runs(*order), ("a", "b"))
    assert (found.speedup, found.interval) == (3.0, (1.0, 5.0))


def test_one_wrong_answer_spoils_all():
    good = runs(1.0, 2.0, 3.0)
    bad = dataclasses.replace(good[0], matches=False)
    assert combine(good, ("a", "b")).matches is True
    assert combine((bad, *good[1:]), ("a", "b")).matches is False
