"""``composes``: what its process is asked, and what is made of what that tells."""

import dataclasses

import pytest

from torch_checkup import composes
from torch_checkup.composition import SITUATIONS, Composition, Situation, off
from torch_checkup.guest import ADVICE, FRUGAL, folders_of
from torch_checkup.helpers import children


def test_a_row_for_each_situation_with_what_its_message_means():
    raises = Situation("retain_graph", "raises", "E: no", "donated buffers")
    found = Composition("m:make", (raises, Situation("checkpoint", "agrees", "near")))
    table = found.table()
    assert table.headings == ("around the step", "what is done", "compiled", "found")
    does = SITUATIONS["retain_graph"], SITUATIONS["checkpoint"]
    assert table.rows == (
        ("retain_graph", does[0], "raises", "E: no (explained as: donated buffers)"),
        ("checkpoint", does[1], "agrees", "near"),
    )


def test_how_far_both_sides_are_from_float64_is_told():
    assert off((1e-7, 0.25)) == "off from float64: eager ⟨1e-07⟩, compiled ⟨0.25⟩"
    assert off(None) == "no float64 to hold it against"


def test_what_its_process_is_asked_and_what_is_made_of_what_it_tells(
    tmp_path, monkeypatch, bar
):
    asked, good = [], Situation("two ranks", "agrees", "near")

    def parts(*given):
        asked.append(given)
        yield "", {"trains": True}
        yield "autocast", {"problem": "it took more than 7 B", "ended": "memory"}
        assert bar.n == 1
        yield "two ranks", dataclasses.asdict(good)

    monkeypatch.setattr(children, "parts", parts)
    (tmp_path / "mine.py").touch()
    target, only = f"{tmp_path}/mine.py:make", ["autocast", "two ranks", "scheduler"]
    found = composes(target, only=only, timeout=9.0, memory=7)
    ended = Situation("autocast", "not done", "it took more than 7 B")
    assert (found.target, found.situations) == (
        "mine.py:make",
        (ended, good),
    )
    [(child, order, names, *limits, path, advice, env)] = asked
    assert child == "torch_checkup.composition_child"
    assert order == {"target": target, "train": True}
    assert (sorted(names), limits) == (sorted(only), [9.0, 7])
    assert (path, advice, env) == (folders_of(target), ADVICE, FRUGAL)
    assert (bar.made, bar.n) == (("composes", 3, "situations"), 2)
    with pytest.raises(KeyError, match=r"no 'late hook': there are .*'two ranks'"):
        found["late hook"]


def test_an_interrupt_keeps_what_is_done_and_says_so(monkeypatch):
    row = {"name": "autocast", "verdict": "agrees", "says": "near"}

    def parts(child, order, names, timeout, memory, *_):
        assert (timeout, memory) == (300.0, None)
        yield "autocast", row
        raise KeyboardInterrupt

    monkeypatch.setattr(children, "parts", parts)
    found = composes("mine:make", only=("autocast", "two ranks"))
    assert found.interrupted and found.situations == (Situation(**row),)
    assert "interrupted: these were done" in str(found)
    monkeypatch.setattr(children, "parts", lambda *_: iter([("autocast", row)]))
    assert composes("mine:make", only=("autocast",)).interrupted is False
