"""Verdicts: a box with a sign, a word and a colour, and the same as plain text."""

import itertools
import re

import pytest

from course import exercises, signs, teach
from course.signs import Sign, box, verdict
from course.teach import Progress, claim, lesson, predict, reveal

# Paper and ink of the pages on which boxes stand.
PAGES = {
    "JupyterLab": ("#ffffff", "#212121"),
    "JupyterLab, dark": ("#111111", "#ffffff"),
    "the site": ("#ffffff", "#000000"),
    "the site, dark": ("#131416", "#cfd0d0"),
    "VS Code": ("#ffffff", "#3b3b3b"),
    "VS Code, dark": ("#1f1f1f", "#cccccc"),
}
BY_KIND = {
    "right": (Sign.HOLDS, Sign.RIGHT, Sign.PASSED),
    "wrong": (Sign.FAILS, Sign.WRONG),
    "neither": (Sign.NOT_YET, Sign.OPEN, Sign.ANSWER),
}


def channels(colour):
    return [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]


def light(colour):
    """Return the relative luminance of channels, as WCAG 2.2 defines it."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour
    ]
    return sum(c * w for c, w in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def contrast(one, other):
    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_wcag():
    black, white, grey = (channels(c) for c in ("#000000", "#ffffff", "#767676"))
    assert contrast(black, white) == pytest.approx(21)
    assert contrast(grey, white) == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("sign", Sign, ids=lambda sign: sign.name)
@pytest.mark.parametrize("page", PAGES)
def test_a_box_can_be_read_on_each_page(sign, page):
    shown = box(sign, "words")
    [colour] = set(re.findall(r"background:(#\w{6});color:#fff", shown))
    [tint] = set(re.findall(r"background:#\w{6}(\w\w);", shown))
    share = int(tint, 16) / 255
    paper, ink = map(channels, PAGES[page])
    pairs = zip(channels(colour), paper, strict=True)
    tinted = [share * over + (1 - share) * under for over, under in pairs]
    assert contrast(channels(colour), channels("#ffffff")) >= 4.5  # AA, of text
    assert contrast(ink, tinted) >= 4.5
    assert contrast(channels(colour), paper) >= 3  # AA, of what is no text


def test_no_colour_stands_alone():
    kinds = {sign: kind for kind, some in BY_KIND.items() for sign in some}
    assert set(kinds) == set(Sign)
    for one, other in itertools.combinations(Sign, 2):
        assert one.value[1] != other.value[1]  # the word
        if kinds[one] != kinds[other]:
            assert one.value[0] != other.value[0] and one.value[2] != other.value[2]


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


def test_a_verdict_is_a_box_only_where_somebody_watches(shown, capsys, monkeypatch):
    verdict(Sign.HOLDS, "a < b", "✓ holds: a < b")
    [bundle] = shown
    assert bundle["text/plain"] == "✓ holds: a < b"
    assert "✓ holds</b> a &lt; b</div>" in bundle["text/html"]
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(signs, "watched", lambda: False)
    verdict(Sign.HOLDS, "a < b", "✓ holds: a < b")
    assert capsys.readouterr().out == "✓ holds: a < b\n" and len(shown) == 1


def test_claims_and_guesses_have_their_signs(shown, learner, monkeypatch):
    claim("one is one", True)
    claim("one is two", False, "numbers differ")
    for guess in (None, 1, 2):
        predict("01.p1", "How many?", ["one", "two"], mine=guess)
        reveal("01.p1", "two")
    found = [re.search(r"<b [^>]*>(.*?)</b>", b["text/html"])[1] for b in shown]
    assert found == ["✓ holds", "✗ does not hold", "○ open", "✗ wrong", "✓ right"]
    for part in ("one is two", "Why it should: numbers differ", "helpers doctor"):
        assert part in shown[1]["text/html"] and part in shown[1]["text/plain"]
    assert "✗ does not hold here: one is two" in shown[1]["text/plain"]
    assert "You said: one" in shown[3]["text/html"]
    monkeypatch.setenv("COURSE_STRICT", "1")
    with pytest.raises(teach.ClaimFailed):
        claim("one is two", False)


def test_a_hint_is_a_click_away_until_it_is_passed(shown, learner):
    def stub():
        raise NotImplementedError

    hints = exercises.find("01.1").hints
    for answer in (stub, lambda make, *inputs: 7):
        exercises.check("01.1", answer)
    exercises.check("01.1", solution)
    first, second, third = (bundle["text/html"] for bundle in shown)
    assert "○ open" in first and "… not yet" in second and "✓ passed" in third
    for asked in (first, second):
        assert asked.count("<details>") == asked.count("</details>") == 3
        inside = [asked.index(hint[:20]) for hint in hints]
        opened = [at.start() for at in re.finditer("<details>", asked)]
        assert sorted([*inside, *opened]) == [
            at for pair in zip(opened, inside, strict=True) for at in pair
        ]
    assert "<details>" not in third
    assert 'Stuck? hint("01.1", 1)' in shown[1]["text/plain"]


def solution(make, *inputs):
    ran = []

    def backend(graph, given):
        def run(*tensors):
            ran.append(graph)
            return graph(*tensors)

        return run

    thing = make(backend)
    thing(*inputs)
    ran.clear()
    thing(*inputs)
    return len(ran)
