"""A sweep with a comparison that is made up: which points, in which order, where."""

import pytest
import torch

from helpers import results, sweeps
from helpers.results import ResultError
from helpers.sweeps import Point, Sweep, sweep
from tests.test_comparison import made


@pytest.fixture
def asked(monkeypatch):
    """What `compare` was asked; its answer is the size in its inputs."""
    seen = []

    def compare(eager, compiled, *inputs, **options):
        seen.append((eager, compiled, inputs, options))
        return made(speedup=float(inputs[0]), names=("old", "new"))

    monkeypatch.setattr(sweeps, "compare", compare)
    return seen


def make(n):
    return "eager", "compiled", n


def run(values=(1, 2, 4), **more):
    return sweep(make, values, parameter="size", **more)


def test_each_value_is_compared_with_what_was_made_for_it(asked):
    found = run(unit="elements", budget=3, seed=7)
    assert found.parameter == "size" and found.unit == "elements" and found.complete
    assert [(p.value, p.comparison.speedup) for p in found.points] == [
        *((1, 1.0), (2, 2.0), (4, 4.0))
    ]
    options = {"budget": 3, "seed": 7}
    assert asked == [("eager", "compiled", (n,), options) for n in (1, 2, 4)]
    run(values=[5])
    assert asked[-1][3] == {"budget": 1.0}


def test_several_inputs_are_a_tuple_and_one_tensor_is_one_input(asked):
    sweep(lambda n: ("a", "b", (n, 5)), [1], parameter="size")
    sweep(lambda n: ("a", "b", torch.tensor(float(n))), [1], parameter="size")
    assert asked[0][2] == (1, 5) and asked[1][2] == (torch.tensor(1.0),)


def test_values_may_come_from_anywhere_and_be_words(asked):
    found = sweep(lambda w: ("a", "b", len(w)), iter(["x", "yy"]), parameter="word")
    assert [p.value for p in found.points] == ["x", "yy"] and found.complete
    assert found.unit == ""
    assert [p.value for p in run(values=(0.5, 2)).points] == [0.5, 2]


@pytest.mark.parametrize(
    ("values", "error", "said"),
    [
        ([], ValueError, "at least one value"),
        ([1, 2, 1], ValueError, r"twice in \[1, 2, 1\]"),
        ([(1, 2)], TypeError, "tolist"),
        ([None], TypeError, "plain numbers"),
    ],
)
def test_values_that_make_no_sweep(asked, values, error, said):
    with pytest.raises(error, match=said):
        run(values=values)
    assert not asked


def test_the_table_has_a_row_for_each_point(asked):
    table = run(unit="MiB").table()
    assert table.headings == ("size (MiB)", "old", "new", "speed-up")
    assert table.rows[0] == (
        *("1", "⟨2 ms⟩", "⟨1 ms⟩"),
        "⟨faster: 1x, 96% interval 1.9 to 2.1⟩",
    )
    assert [row[0] for row in table.rows] == ["1", "2", "4"] and table.title == ""
    assert run(values=(1,)).table().headings == ("size", "old", "new", "speed-up")
    none = Sweep("size", "", (), False)
    assert none.table().headings == ("size", "a", "b", "speed-up")
    assert none.table().title == "interrupted: these points are finished"
    assert str(none) == repr(none) == str(none.table())
    assert none._repr_html_() == none.table()._repr_html_()


def tired_at(value, error=KeyboardInterrupt):
    def tired(n):
        if n == value:
            raise error("enough")
        return make(n)

    return tired


def test_an_interrupt_ends_it_and_keeps_what_is_done(asked, tmp_path):
    path = tmp_path / "sweep.json"
    part = sweep(tired_at(4), (1, 2, 4), parameter="size", path=path)
    assert not part.complete and [p.value for p in part.points] == [1, 2]
    assert results.load(path) == part
    whole = run(path=path)
    assert whole.complete and [p.value for p in whole.points] == [1, 2, 4]
    assert len(asked) == 3 and results.load(path) == whole
    assert whole.points[:2] == part.points


def test_an_error_carries_the_points_before(asked):
    with pytest.raises(RuntimeError, match="enough") as told:
        sweep(tired_at(4, RuntimeError), (1, 2, 4), parameter="size", unit="MiB")
    kept = told.value.sweep
    assert (kept.parameter, kept.unit) == ("size", "MiB")
    assert [p.value for p in kept.points] == [1, 2] and not kept.complete
    assert told.value.__notes__ == ["at size 4; the points before are in .sweep"]


def test_values_that_are_not_asked_for_stay_in_the_file(asked, tmp_path):
    path = tmp_path / "sweep.json"
    run(path=path)
    found = run(values=(4, 8), path=path)
    assert [p.value for p in found.points] == [4, 8] and found.complete
    held = results.load(path)
    assert [p.value for p in held.points] == [4, 8, 1, 2] and held.complete
    assert len(asked) == 4


def test_the_points_come_in_the_order_that_was_asked(asked, tmp_path):
    path = tmp_path / "sweep.json"
    run(values=(4, 1), path=path)
    assert [p.value for p in run(values=(1, 2, 4), path=path).points] == [1, 2, 4]


def test_another_sweep_in_the_file_is_an_error(asked, tmp_path, monkeypatch):
    path = tmp_path / "sweep.json"
    run(path=path, unit="MiB")
    for other in ({"parameter": "length", "unit": "MiB"}, {"parameter": "size"}):
        with pytest.raises(ResultError, match=r"^sweep\.json holds another sweep"):
            sweep(make, (1,), path=path, **other)
    elsewhere = results.Machine.here().__class__("x", 1, 1, 1, *6 * [None])
    monkeypatch.setattr(sweeps.Machine, "here", lambda: elsewhere)
    with pytest.raises(ResultError, match="another machine"):
        run(path=path, unit="MiB")
    results.save(made(), path)
    with pytest.raises(ResultError, match=r"^sweep\.json does not hold a sweep"):
        run(path=path)


def test_a_full_disk_stops_nothing(asked, tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space.")

    monkeypatch.setattr(results, "save", full)
    with pytest.warns(UserWarning, match=r"no space\. The sweep goes on") as warned:
        found = run(values=(1,), path=tmp_path / "sweep.json")
    assert found.complete and warned[0].filename == __file__


def test_progress_names_each_point(asked, monkeypatch):
    said = []

    class Progress:
        def __init__(self, what, total):
            said.append((what, total))

        def __enter__(self):
            return self

        def __exit__(self, *_):
            said.append("end")

        def at(self, done, what):
            said.append((done, what))

    monkeypatch.setattr(sweeps, "Progress", Progress)
    run(values=(3, 5))
    assert said == [("size", 2), (0, "size 3"), (1, "size 5"), "end"]


def test_a_point_survives_the_disk():
    one = Sweep("size", "MiB", (Point(2.5, made()), Point("x", made())), True)
    assert Sweep.from_json(one.to_json()) == one
