"""Verdicts: a box with a sign, a word and a colour, and the same as plain text."""

import re

import pytest

from course import exercises, signs, teach
from course.teach import Progress, claim, lesson, predict, reveal


@pytest.fixture
def shown(monkeypatch):
    """What a live notebook displays."""
    bundles = []
    monkeypatch.setattr(signs, "watched", lambda: True)
    monkeypatch.setattr(
        "IPython.display.display", lambda bundle, raw: bundles.append(bundle)
    )
    monkeypatch.setattr(lesson, "progress", Progress())
    lesson.begin("01")
    return bundles


def test_claims_and_guesses_have_their_signs(shown, learner, monkeypatch):
    claim("one < two", True)
    claim("one is two", False, "numbers differ")
    for guess in (None, 1, 2):
        predict("01.p1", "How many?", ["one", "two"], mine=guess)
        reveal("01.p1", "two")
    found = [re.search(r"<b [^>]*>(.*?)</b>", b["text/html"])[1] for b in shown]
    assert found == ["✓ holds", "✗ does not hold", "○ open", "✗ wrong", "✓ right"]
    assert "✓ holds</b> one &lt; two</div>" in shown[0]["text/html"]
    for part in ("one is two", "Why it should: numbers differ", "helpers doctor"):
        assert part in shown[1]["text/html"] and part in shown[1]["text/plain"]
    assert "✗ does not hold here: one is two" in shown[1]["text/plain"]
    assert "You said: one" in shown[3]["text/html"]
    monkeypatch.setenv("COURSE_STRICT", "1")
    with pytest.raises(teach.ClaimFailed):
        claim("one is two", False)


def test_a_hint_is_a_click_away_until_it_is_passed(shown, learner, monkeypatch):
    def stub():
        raise NotImplementedError

    hints = ("a first nudge", "somewhat more", "nearly the answer")
    cases = [("one", (), 1)]
    made = exercises.exercise("97.1", hints=hints, passed="Yes.", cases=cases)
    monkeypatch.setattr(exercises, "find", lambda key: made)
    for answer in (stub, lambda: 7, lambda: 1):
        exercises.check("97.1", answer)
    first, second, third = (bundle["text/html"] for bundle in shown)
    assert "○ open" in first and "… not yet" in second and "✓ passed" in third
    folded = ".*<details>.*".join(["", *hints])  # each hint in a fold of its own
    assert re.search(folded, first, re.DOTALL) and re.search(folded, second, re.DOTALL)
    assert "<details>" not in third
    assert 'Stuck? hint("97.1", 1)' in shown[1]["text/plain"]
