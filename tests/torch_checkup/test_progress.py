"""Each verdict is told as soon as it is known, and parts share what they build."""

import re
import time
from dataclasses import asdict
from pathlib import Path

from torch_checkup.checkups import Part, checkup
from torch_checkup.helpers import children


def test_parts_that_are_reported_at_once_have_their_own_seconds(monkeypatch, capsys):
    monkeypatch.delenv("HELPERS_QUIET", raising=False)

    def parts(*order):
        yield "", {"calls": 1, "trains": False}
        begin = time.monotonic()
        for name, end in ("capture", begin + 300), ("silent", begin + 720):
            yield name, asdict(Part(name, "good", "x")) | {"when": end}

    monkeypatch.setattr(children, "parts", parts)
    checkup("mine:make", only=["capture", "silent"])
    told = capsys.readouterr().err
    assert "✓ capture 300 s: " in told and "✓ silent 420 s: " in told


def test_the_bar_names_the_part_that_runs(monkeypatch, bar):
    def parts(*order):
        yield "", {"calls": 1, "trains": False}
        for name in "capture", "silent":
            yield name, asdict(Part(name, "good", "x"))

    monkeypatch.setattr(children, "parts", parts)
    checkup("mine:make", only=["capture", "silent", "speed"])
    assert (bar.n, bar.said) == (2, ["checkup, silent", "checkup, speed"])


def test_each_verdict_is_told_at_once_with_its_seconds(monkeypatch, capsys):
    monkeypatch.delenv("HELPERS_QUIET", raising=False)
    told, places = [], []

    def parts(*order):
        yield "", {"calls": 1, "trains": False}
        places.append(Path(order[-1]["TORCHINDUCTOR_CACHE_DIR"]))
        assert places[0].is_dir() and not any(places[0].iterdir())
        yield "capture", asdict(Part("capture", "good", "all of it is one graph"))
        told.append(capsys.readouterr().err)
        yield "speed", asdict(Part("speed", "cannot tell", "⟨cannot tell: 0.741x⟩"))
        told.append(capsys.readouterr().err)
        yield "silent", {"problem": "failed at: silent: it died", "ended": "SIGKILL"}
        told.append(capsys.readouterr().err)

    monkeypatch.setattr(children, "parts", parts)
    found = checkup("mine:make", only=["capture", "silent", "speed"])
    assert [part.name for part in found.parts] == ["capture", "silent", "speed"]
    first, timed, second = told
    assert re.fullmatch(r"✓ capture [\d.]+ \w+: good, all of it is one graph\n", first)
    assert re.fullmatch(r". speed [\d.]+ \w+: cannot tell: 0.741x\n", timed)
    assert re.fullmatch(r"✗ silent [\d.]+ \w+: .*it died\n", second)
    assert not places[0].exists(), "the cache is the check-up's own"
