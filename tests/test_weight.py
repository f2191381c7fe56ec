"""What has to be read stays below the ceilings of weight.toml."""

import tomllib

import pytest

from tests.form import Lesson, is_folded
from tests.refresh import ROOT, notebooks, pages, read

CEILINGS = tomllib.loads((ROOT / "tests" / "weight.toml").read_text(encoding="utf-8"))
ROOMS = {room: [ROOT / room] for room in CEILINGS["lines"]}
ROOMS["tools"].append(ROOT / "bootstrap.py")


def lines(place):
    files = place.rglob("*.py") if place.is_dir() else [place]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def weights():
    """Return what the lessons and the reference pages weigh, by ceiling."""
    every = [Lesson(read(path), path) for path in pages()]
    cells = [cell for page in every for cell in page.code]
    sizes = [(is_folded(cell), len(cell.source.splitlines())) for cell in cells]
    minutes = [sum(p.course["minutes"].values()) for p in every if not p.is_reference]
    return {
        "lessons": len(notebooks()),
        "minutes": sum(minutes),
        "minutes_of_a_lesson": max(minutes),
        "claims": sum(len(page.calls("claim")) for page in every),
        "folded": sum(size for folded, size in sizes if folded),
        "visible": sum(size for folded, size in sizes if not folded),
    }


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_stays_below_its_ceiling(room):
    assert sum(map(lines, ROOMS[room])) <= CEILINGS["lines"][room]


def test_the_pages_stay_below_their_ceilings():
    found, most = weights(), CEILINGS["pages"]
    assert found.keys() == most.keys()
    assert {what: n for what, n in found.items() if n > most[what]} == {}
