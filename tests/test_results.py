"""Results survive the disk, and a damaged file says so."""

import dataclasses
import errno
import json
import os

import pytest

from helpers import results
from helpers.comparison import Comparison, Round
from helpers.results import ResultError
from helpers.sweeps import Point, Sweep
from helpers.text import seconds, unmark


@pytest.fixture
def comparison():
    return Comparison(
        names=("eager", "compiled"),
        speedup=2.0,
        interval=(1.9, 2.1),
        confidence=0.96,
        verdict="faster",
        median_s=(2e-3, 1e-3),
        cold_start_s=3.0,
        compiles=1,
        graphs=1,
        graph_breaks=0,
        page_faults=(0, 0),
        peak_bytes=(1024, 512),
        matches=True,
        max_error=1e-7,
        error64=(2e-7, 1e-7),
        rounds=(Round(2e-3, 1e-3, True, True), Round(2e-3, 1e-3, False, False)),
        notes=("a note",),
        threads=2,
        device="cpu",
        scope="this process",
    )


def test_a_comparison_comes_back_equal(comparison, tmp_path):
    path = comparison.save(tmp_path / "new" / "c.json")
    assert results.load(path) == comparison
    assert Comparison.from_json(comparison.to_json()) == comparison
    odd = dataclasses.replace(comparison, interval=None, peak_bytes=None, matches=None)
    assert Comparison.from_json(odd.to_json()) == odd


def test_a_sweep_comes_back_equal(comparison):
    points = tuple(Point(v, comparison) for v in (1, 2.5, "three"))
    swept = Sweep("size", "elements", points, True)
    assert Sweep.from_json(swept.to_json()) == swept
    with pytest.raises(ResultError, match="not a Comparison"):
        Comparison.from_json(swept.to_json())


def test_the_machine_and_command_travel_with_it(comparison):
    held = json.loads(comparison.to_json())["result"]
    assert held["machine"]["torch"].startswith(results.version_of("torch"))
    assert held["machine"]["cores"] >= 1
    assert held["command"] and held["when"].startswith("20")
    assert os.sep not in held["command"]


def test_the_command_holds_no_folder(monkeypatch):
    monkeypatch.delitem(results.sys.modules, "ipykernel", raising=False)
    monkeypatch.setattr(results.sys, "argv", ["/a/b/run.py", "/c/data.json", "-x"])
    assert results.command() == "run.py data.json"
    monkeypatch.setattr(results.sys, "argv", [""])
    assert results.command() == "python"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.99967, "1 s"),
        (0.9994, "999 ms"),
        (2e-6, "2 µs"),
        (0, "0 ns"),
        (61.2, "61.2 s"),
    ],
)
def test_seconds_in_words(value, said):
    assert seconds(value) == said


def damage(text, how):
    whole = json.loads(text)
    how(whole)
    return json.dumps(whole)


@pytest.mark.parametrize(
    "how",
    [
        lambda w: w["result"].pop("speedup"),
        lambda w: w["result"].update(speedup="fast"),
        lambda w: w["result"].update(extra=1),
        lambda w: w["result"].update(median_s=[1.0]),
        lambda w: w.update(kind="Sweep", result={"points": [{"value": [1]}]}),
        lambda w: w.update(kind="os.system"),
        lambda w: w.update(format=99),
        lambda w: w.pop("result"),
    ],
)
def test_damage_is_said(comparison, how):
    with pytest.raises(ResultError, match=r"measure again|damaged"):
        results.from_json(damage(comparison.to_json(), how))


def test_a_cut_or_empty_or_binary_file_is_said(comparison, tmp_path):
    path = tmp_path / "c.json"
    for content in (
        *(comparison.to_json()[:200].encode(), b"", b"\xff\xfe\x00", b"[]"),
        b"[" * 100_000,
    ):
        path.write_bytes(content)
        with pytest.raises(ResultError, match=r"c\.json"):
            results.load(path)


def test_a_write_that_fails_leaves_the_old_file(comparison, tmp_path, monkeypatch):
    path = comparison.save(tmp_path / "c.json")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def tired(_):
        raise KeyboardInterrupt

    other = dataclasses.replace(comparison, speedup=9.0)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="free some disk"):
        other.save(path)
    monkeypatch.setattr(os, "fsync", tired)
    with pytest.raises(KeyboardInterrupt):
        other.save(path)
    assert results.load(path) == comparison
    assert [p.name for p in tmp_path.iterdir()] == ["c.json"]


def test_side_by_side(comparison):
    other = dataclasses.replace(comparison, speedup=4.0, interval=(3.9, 4.1))
    table = results.side_by_side(comparison, other, labels=("laptop", "server"))
    assert table.headings == ("", "laptop", "server")
    assert "2x" in table.rows[0][1] and "4x" in table.rows[0][2]
    renamed = dataclasses.replace(other, names=("copy", "chain"))
    assert results.side_by_side(comparison, renamed).rows[0] == table.rows[0]
    with pytest.raises(TypeError, match="compare"):
        results.side_by_side(3)


def test_text_and_html_say_the_same_and_marks_hide_all_that_varies(comparison):
    slower = dataclasses.replace(
        comparison, speedup=0.5, interval=(0.4, 0.6), verdict="slower", notes=()
    )
    assert unmark(str(comparison)) == unmark(str(slower))
    assert str(comparison) != str(slower)
    for cell in ("faster: 2x", "a note", "1 undisturbed", "paid back after"):
        assert cell in str(comparison) and cell in comparison._repr_html_()


def test_pay_back_of_a_slower_side_is_never(comparison):
    assert comparison.calls_to_pay_back == 2999
    never = dataclasses.replace(comparison, verdict="slower", median_s=(1e-3, 2e-3))
    assert "no number of calls" in str(never)


def test_every_kind_of_result_comes_back_equal(tmp_path):
    import torch

    from helpers import doctor, eager_bytes, graphs, kernels, output_code, recompiles
    from helpers.bandwidth import Bandwidth

    def f(x):
        print(end="")
        return x.sin() + 1

    x = torch.ones(8)
    found = [
        graphs(f, x),
        recompiles(f, [(x,), (x,)]),
        kernels(f, x),
        output_code(f, x),
        eager_bytes(f, x),
        doctor(compile=False),
        Bandwidth(1e9, 1024, "cpu"),
    ]
    for one in found:
        path = results.save(one, tmp_path / "one.json")
        assert results.load(path) == one
        assert json.loads(path.read_text())["machine"]["torch"]
    elsewhere = {name for name, home in results._HOMES.items() if ".gpu." in home}
    elsewhere |= {"Comparison", "Sweep"}  # with tests of their own
    assert {type(one).__name__ for one in found} | elsewhere == set(results._HOMES)
