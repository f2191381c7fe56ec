"""A wrong answer is traced to its stage, graph, piece, line, and pass or lowering."""

import math
import sys
from dataclasses import replace
from functools import partial
from unittest import mock

import pytest
import torch
from torch import fx
from torch._inductor.decomposition import select_decomp_table

from tests.torch_checkup.test_checkup import written
from torch_checkup import repro, where, where_child
from torch_checkup.differences import Difference
from torch_checkup.judge import differences
from torch_checkup.patient import Patient
from torch_checkup.pieces import OnePiece, Piece, cuts, halved, smallest
from torch_checkup.where_child import Search, Spent, Told, bisected, place_of

BLOCKS = """
    class Head(torch.nn.Module):
        def forward(self, x):
            y = torch.tanh(x) + 1
            z = y * 2
            return torch.sin(z)
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.head = torch.nn.Linear(4, 4), Head()
        def forward(self, x):
            x = torch.cos(self.layer(x))
            {between}
            return self.head(x) - x
    def make():
        torch.manual_seed(0)
        return Model(), (torch.randn(3, 4),)
    """
WHOLE = BLOCKS.format(between="pass")
BROKEN = BLOCKS.format(between="torch._dynamo.graph_break()")


class Steep(torch.autograd.Function):
    """Twice the gradient of a value that stays as it is."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def wrong_sin(graph, inputs):
    """A stage that makes each sine a cosine."""

    class Wrong(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            target = torch.cos if target is torch.sin else target
            return super().call_function(target, args, kwargs)

    return Wrong(graph).run


def wrong_cos(graph, inputs):
    """A stage that makes each cosine negative."""

    class Wrong(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            result = super().call_function(target, args, kwargs)
            return -result if target is torch.cos else result

    return Wrong(graph).run


def steep_tanh(graph, inputs):
    """A stage in which the gradient of tanh is wrong."""

    class Wrong(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            result = super().call_function(target, args, kwargs)
            return Steep.apply(result) if target is torch.tanh else result

    return Wrong(graph).run


def wrong_together(graph, inputs):
    """A stage that is wrong where tanh and sin meet in one graph, as when it fuses."""
    targets = {node.target for node in graph.graph.nodes}
    both = {torch.tanh, torch.sin} <= targets
    return wrong_sin(graph, inputs) if both else graph.forward


class News:
    """Takes the place of the report that a parent reads."""

    def __init__(self):
        self.known, self.done = {}, []

    def put(self, **found):
        self.known |= (facts := found.get("where", {}))
        self.done += [facts["doing"]] if "doing" in facts else []


DOING = {  # what a search was at, when its process is ended
    "Dynamo": ["while modules were left to eager", "while lines were left to eager"],
    "below": [
        "while one graph after the other was compiled",
        "while a graph was cut",
        "while the repro ran",
        "while torch's bisector switched parts off",
    ],
}


@pytest.fixture
def search(tmp_path):
    """A function that returns the search for what a stage of ours does to a model."""

    def start(body, stage, train=False, seconds=300.0):
        patient = Patient({"target": written(tmp_path, body), "train": train})
        patient.try_out()
        compiling = partial(patient.compiled, backend=stage)
        found = differences(patient, compiling(), again=compiling)
        return Search(patient, found[0], Told(News(), seconds))

    yield start
    sys.modules.pop("mine", None)


@pytest.mark.parametrize(
    ("body", "stage", "train", "graph", "lines"),
    [
        (WHOLE, wrong_sin, False, 0, ["return torch.sin(z)"]),
        (BROKEN, wrong_sin, False, 1, ["return torch.sin(z)"]),
        (BROKEN, wrong_cos, False, 0, ["x = torch.cos(self.layer(x))"]),
        (WHOLE, steep_tanh, True, 0, ["y = torch.tanh(x) + 1"]),
        (
            WHOLE,
            wrong_together,
            False,
            0,
            ["y = torch.tanh(x) + 1"] * 2 + ["z = y * 2", "return torch.sin(z)"],
        ),
    ],
    ids=[
        "one operation",
        "second graph",
        "first graph",
        "gradient",
        "several together",
    ],
)
def test_the_smallest_piece_has_the_line(body, stage, train, graph, lines, search):
    looking = search(body, stage, train)
    number, graphs = looking.graph(stage)
    assert number == graph
    piece = looking.piece(stage, number, graphs[number])
    found = place_of(graphs[number], piece)
    assert piece.stop - piece.start == len(lines)
    home = "" if "self.layer" in lines[-1] else "self.head"
    assert (found["code"], found["module"]) == (lines[-1], home)
    assert found["file"] == "mine.py"
    kept = looking.kept(piece)
    assert where_child.by_itself(kept, looking, stage), "it is wrong by itself"


def test_what_only_raises_is_not_taken_for_the_difference(search):
    """A cut can make code that fails: that is not what is looked for."""

    def raising(graph, inputs):
        raise RuntimeError("cannot be cut")

    looking = search(WHOLE, wrong_sin)
    assert not looking.wrong_with(lambda: raising)
    assert looking.wrong_with(lambda: wrong_sin)


def test_a_graph_of_ten_thousand_operations_is_halved():
    asked = []

    def wrong(place):
        asked.append(place)
        return place >= 7654

    assert smallest(range(10_001), wrong) == 7654
    assert len(asked) <= math.log2(10_000) + 1


def test_halves_of_halves_cost_little_more_than_the_whole():
    asked = []

    def wrong(start, stop):
        asked.append(stop - start)
        return start <= 7654 < stop

    assert [*halved(range(10_001), wrong)] == [7654, 7655]
    assert sum(asked) < 2 * 10_000
    assert [*halved(range(9), lambda start, stop: start < 4 < stop)] == [*range(9)]


def test_a_graph_is_cut_where_only_tensors_go_over():
    captured = OnePiece("eager")

    def model(x):
        a, b = x.split(2, -1)
        with torch.autocast("cpu"):
            c = a @ b
        return c + 1

    torch.compile(model, backend=captured)(torch.ones(2, 4))
    [graph] = captured.graphs
    names = [node.name for node in graph.body]
    before = [names[place] for place in cuts(graph.module.graph)[:-1]]
    assert before == [names[0], *names[names.index("b") + 1 :][:1], names[-1]], names


def test_what_eager_runs_around_a_piece_changes_nothing():
    def model(x, w):
        y = (x @ w) * 2
        y.add_(1)
        return y.sum(0), y.view(-1)[:3], x.shape[0] * y

    x, w = torch.randn(5, 4), torch.randn(4, 4, requires_grad=True)
    expected = model(x, w)
    captured = OnePiece("eager")
    torch.compile(model, backend=captured, dynamic=True)(x, w)
    places = cuts(captured.graphs[0].module.graph)
    first, second, *_, last, end = places
    for start, stop in [(first, second), (second, last), (second, end)]:
        torch.compiler.reset()
        backend = OnePiece("aot_eager", Piece(0, start, stop))
        found = torch.compile(model, backend=backend, dynamic=True)(x, w)
        torch.testing.assert_close(found, expected)


def test_what_it_is_at_is_told_step_by_step(search, tmp_path, monkeypatch):
    looking = search(WHOLE, wrong_sin)
    order = {"target": f"{tmp_path / 'mine.py'}:make", "keep": str(tmp_path)}
    monkeypatch.setattr(where_child, "fails", lambda *_: True)
    where_child.narrowed(looking, wrong_sin, {**order, "cache": str(tmp_path)})
    assert looking.told._report.done == DOING["below"]
    known = looking.told._report.known
    assert (known["graph"], known["piece"], known["step"]) == (1, 1, "")
    assert known["code"] == "return torch.sin(z)" and "torch.sin" in known["repro"]


@pytest.mark.parametrize("left", [[], ["a difference"]])
def test_a_setting_is_tried_on_the_whole_model(left, search, monkeypatch):
    looking = search(WHOLE, wrong_sin)
    monkeypatch.setattr(where_child, "differences", lambda *_, **__: left)
    change = mock.Mock(config_field="emulate_precision_casts", config_value=True)
    where_child.of_the_model(looking, change)
    does = "leaves the whole model wrong" if left else "makes the whole model right"
    set_to = "torch._inductor.config.emulate_precision_casts = True"
    assert looking.told.notes == [f"{set_to} {does}"]
    assert looking.told._report.done == ["while a setting was tried on the whole model"]


def test_the_bisector_names_the_part_and_empties_no_cache(tmp_path, monkeypatch):
    own = tmp_path / "cache" / "bisect" / "mine"
    own.parent.mkdir(parents=True)
    own.touch()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    stage, aten, x = "aot_eager_decomp_partition", torch.ops.aten, torch.randn(8)

    def wrong():
        torch.compiler.reset()
        compiled = torch.compile(torch.nn.functional.gelu, backend=stage)
        return not torch.allclose(compiled(x), torch.nn.functional.gelu(x))

    other = {aten.gelu.default: lambda x, approximate="none": x * 2}
    private = str(tmp_path / "private")
    with mock.patch.dict(select_decomp_table(), other):
        assert bisected(wrong, stage, private) == ("decomposition", "of aten.gelu")
    assert own.exists()


def test_a_search_whose_time_is_spent_tells_what_it_knows(search):
    looking = search(WHOLE, wrong_sin)
    told = Told(News(), seconds=300.0)
    assert told.spend(lambda: True)
    told._seconds = 0.0
    with pytest.raises(Spent):
        told.spend(lambda: True)
    known = told._report.known = {}
    where_child.search(looking.p, looking.sought, told, {"target": "mine.py:make"})
    assert known["notes"] == ["not narrowed further: the time of the search is spent"]


def test_what_is_not_always_wrong_is_not_searched(search):
    looking = search(WHOLE, wrong_sin)
    sometimes = replace(looking.sought, note="in 1 of 3 rounds")
    where_child.search(looking.p, sometimes, looking.told, {})
    known = looking.told._report.known
    assert known["often"] == [1, 3] and looking.told.compiles == 0
    found = where.Where(1, "output", "values", "1", "2", often=(1, 3))
    assert "wrong in 1 of 3 runs" in str(found)


FILLED = """
    def fill(x):
        base = x * 0
        base.expand(3, -1).fill_(2.0)
        return base + 1
    def make():
        return fill, (torch.ones(4),)
    """


def searched_for(body, sought, stage, tmp_path):
    """Return what the search finds of a bug that the reference torch has."""
    target = written(tmp_path, body)
    order = {"target": target, "train": False, "trains": False}
    found = where.searched(sought, order, 300.0, None, tmp_path)
    if found.stage != stage and torch.__version__.split("+")[0] != "2.13.0":
        pytest.skip("this torch does not have the bug")
    return found


def test_a_bug_of_torch_is_found_in_a_process_of_its_own(tmp_path):
    sought = Difference(1, "output", "values", "3", "7")
    found = searched_for(FILLED, sought, "aot_eager", tmp_path)
    assert (found.stage, found.line, found.piece) == ("aot_eager", 5, 2), found
    assert found.still_fails and "base.expand(3, -1)" in found.repro, found
    assert found.lines <= 20 and str(tmp_path) not in where.issue(found)


# --- what Dynamo itself captures ----------------------------------------------------

ASKS = """
    def scaled(x):
        y = x.sin()
        return y * (3 if torch.compiler.is_compiling() else 2)
    class Plain(torch.nn.Module):
        def forward(self, x):
            return x + 1
    class Head(Plain):
        def forward(self, x):
            z = super().forward(x).cos()
            if torch.compiler.is_compiling():
                z = z * 2
            return z
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.head = torch.nn.Linear(4, 4), Head()
        def forward(self, x):
            return self.head(self.layer(x).relu())
    """
FUNCTION = """
    def make():
        def model(x):
            for _ in range(2):
                x = scaled(x) + 1
            return x
        return model, (torch.randn(3, 4),)
    """
RECENT = """
    import collections
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = collections.deque(maxlen=2)
        def forward(self, x):
            y = x.sin()
            self.seen.append(y)
            return sum(self.seen) + x
    def make():
        return Model(), [(torch.randn(2, 4),) for _ in range(4)]
    """


@pytest.mark.parametrize(
    ("body", "module", "line", "where"),
    [
        (
            ASKS + "def make(): return Model(), (torch.randn(3, 4),)\n",
            "self.head",
            "if torch.compiler.is_compiling():",
            "it runs eagerly",
        ),
        (
            ASKS + FUNCTION,
            "",
            "return y * (3 if torch.compiler.is_compiling() else 2)",
            "it runs eagerly",
        ),
        (RECENT, "", "self.seen.append(y)", "the graph breaks at it"),
    ],
    ids=["a module's line", "in a function it calls", "a list of its own"],
)
def test_what_dynamo_captures_otherwise_has_a_line(body, module, line, where, search):
    looking = search(body, "eager")
    assert looking.stage() == "eager"
    where_child.captured_otherwise(looking)
    known = looking.told._report.known
    assert (known.get("module", ""), known.get("code")) == (module, line), known
    assert known["notes"][-1] == f"right where {where}: `{line}`"


def test_for_what_dynamo_captures_the_program_is_the_whole_model(
    search, tmp_path, monkeypatch
):
    looking = search(RECENT, "eager")
    order = {"target": f"{tmp_path / 'mine.py'}:make", "keep": str(tmp_path)}
    run = mock.Mock(return_value=True)
    monkeypatch.setattr(where_child, "fails", run)
    where_child.search(looking.p, looking.sought, looking.told, order)
    known = looking.told._report.known
    assert (known["stage"], known["code"]) == ("eager", "self.seen.append(y)")
    assert "mine" in known["repro"] and known["lines"] > 5 and known["still_fails"]
    assert run.call_args.args[2] is order
    assert looking.told._report.done[-2:] == DOING["Dynamo"]


ENDS = """
    import os
    @torch.library.custom_op("where_test::ends", mutates_args=())
    def ends(x: torch.Tensor) -> torch.Tensor:
        return x * 2
    @ends.register_fake
    def _(x):
        os._exit(3)
    def make():
        return lambda x: ends(x.sin()), (torch.ones(4),)
    """


def test_what_ends_its_process_is_compiled_in_another_one(search, tmp_path):
    looking = search(WHOLE, wrong_sin)
    target = written(tmp_path, ENDS)
    said = "it ended its process, with status 3; it said: nothing"
    died = "the call", "raises", "runs", said
    sought = Difference(1, *died, ended="status 3")
    order = {"target": target, "keep": str(tmp_path), "memory": None}
    where_child.search(looking.p, sought, looking.told, order)
    known = looking.told._report.known
    assert (known["stage"], known["still_fails"]) == ("eager", True), known
    assert f"seen(True)  # {said}" in known["repro"]
    alone = "not narrowed further: no piece of it was compiled by itself"
    assert known["notes"] == [alone]


# --- each step by itself: what it asks next, and what it tells -----------------------


def captured(function=lambda x: nine_sines(x), dynamic=None):
    """Return the graph that Dynamo captures of a function of one tensor."""
    backend = OnePiece("eager")
    torch.compile(function, backend=backend, dynamic=dynamic)(torch.ones(4))
    [graph] = backend.graphs
    return graph


def nine_sines(x):
    for _ in range(9):
        x = x.sin()
    return x


def needing(start, stop, after):
    """Return a stand-in for `wrong_with`: whether a piece has all that is needed."""

    def wrong_with(backend):
        _, piece = backend.args
        return piece.start <= start and stop <= piece.stop and piece.after == after

    return wrong_with


@pytest.fixture
def looking(search):
    """A search with a model, and nothing told yet."""
    looking = search(WHOLE, wrong_sin)
    looking.told = Told(News(), 300.0)
    return looking


def test_a_compile_that_would_not_fit_is_not_begun(monkeypatch):
    now = [1.0]
    clock = mock.Mock(monotonic=lambda: now[0])
    monkeypatch.setattr(where_child, "time", clock)
    told = Told(News(), seconds=10.0)

    def work():
        now[0] += 4
        return True

    assert told.spend(work) and told.spend(work)
    with pytest.raises(Spent):
        told.spend(work)
    told.note("known")
    told.note("known")
    told.put(stage="eager")
    assert told.left == 2.0
    known = {"notes": ["known"], "seconds": 8.0, "compiles": 2, "stage": "eager"}
    assert told._report.known == known


@pytest.mark.parametrize(
    ("sought", "found", "same"),
    [
        ((1, "output", "values", "1", "2"), (1, "output", "values", "5", "6"), True),
        ((1, "output", "values", "1", "2"), (1, "output", "dtype", "1", "2"), False),
        ((1, "output", "values", "1", "2"), (1, "input 0", "values", "1", "2"), False),
        ((1, "output", "values", "1", "2"), (2, "output", "values", "1", "2"), True),
        (
            (1, "call", "raises", "runs", "A: x"),
            (1, "call", "raises", "", "A: y"),
            True,
        ),
        ((1, "call", "raises", "", "A: x"), (1, "call", "raises", "", "B: x"), False),
    ],
    ids=[
        "other values",
        "other field",
        "other place",
        "other call",
        "its words",
        "its kind",
    ],
)
def test_the_same_place_and_field_is_sought(sought, found, same):
    assert where_child._same(Difference(*sought), Difference(*found)) is same


@pytest.mark.parametrize(
    ("number", "after", "wanted"),
    [
        (0, False, Piece(0, 3, 6)),
        (0, True, None),  # nothing comes before the first graph
        (1, False, Piece(1, 3, 6)),
        (1, True, Piece(1, 3, 6, after=True)),
    ],
)
def test_a_piece_needs_what_is_compiled_before_it(number, after, wanted, looking):
    looking.wrong_with = needing(3, 6, after)
    assert looking.piece("eager", number, captured()) == wanted
    assert looking.smallest == wanted


@pytest.mark.parametrize(
    ("piece", "tried", "notes"),
    [
        (Piece(0, 3, 6), [(3, 6), (0, 6), (0, 9)], []),
        (Piece(0, 0, 6), [(0, 6), (0, 9)], []),
        (Piece(0, 3, 9), [(3, 9), (0, 9)], ["no prefix of the graph is wrong alone"]),
        (Piece(0, 8, 9), [(8, 9), (0, 9)], []),
        (None, [(0, 9)], ["no prefix of a graph is wrong alone"]),
    ],
)
def test_what_is_right_by_itself_is_tried_with_more_around(
    piece, tried, notes, looking
):
    graph, asked = captured(), []
    looking.graph = lambda stage: (0, [graph])
    looking.piece = lambda *_: piece
    looking.kept = asked.append  # it was given nothing
    assert where_child.narrowed(looking, "aot_eager", {}) is None
    assert [(part.start, part.stop) for part in asked] == tried
    alone = "the piece is not wrong by itself, outside the model"
    assert looking.told.notes == [*notes, alone]
    known = looking.told._report.known
    assert (known.get("graph"), known.get("operations")) in ((None, None), (1, 9))


def test_the_smallest_piece_so_far_is_told_when_the_time_is_spent(looking):
    graph = captured()
    looking.graph = lambda stage: (0, [graph])
    told = []
    looking.told.put = lambda **facts: told.append(facts)

    def piece(*_):
        looking.smallest = Piece(0, 2, 5)
        raise Spent

    looking.piece = piece
    with pytest.raises(Spent):
        where_child.narrowed(looking, "aot_eager", {})
    assert {"graph": 1, "operations": 9} in told
    [known] = [facts for facts in told if "piece" in facts]
    assert (known["piece"], known["code"]) == (3, "x = x.sin()")
    assert looking.told.notes == ["it ends there, and begins up to 2 operations before"]


def test_a_line_behind_a_graph_is_told(search):
    looking = search(BROKEN, wrong_cos)
    where_child.behind(looking, 1)
    assert looking.told.notes == []
    where_child.behind(looking, 0)
    [note] = looking.told.notes
    assert note.startswith("the graph ends at ") and "mine.py" in note


@pytest.mark.parametrize(
    ("stage", "named", "step", "notes", "tried"),
    [
        ("inductor", ("", ""), "", ["right without fusion (max_fusion_size = 1)"], 0),
        (
            "inductor",
            ("lowering", "of sin"),
            "lowering of sin",
            ["right without fusion (max_fusion_size = 1)"],
            0,
        ),
        (
            "inductor",
            ("right", "with emulate_precision_casts = True"),
            "right with emulate_precision_casts = True",
            ["right without fusion (max_fusion_size = 1)"],
            1,
        ),
        (
            "inductor",
            ("pass post_grad_passes #3", "x"),
            "pass post_grad_passes #3 x",
            [],
            0,
        ),
        ("aot_eager", ("decomposition", "of gelu"), "decomposition of gelu", [], 0),
    ],
)
def test_what_of_code_generation_matters_is_told(
    stage, named, step, notes, tried, looking, monkeypatch
):
    monkeypatch.setattr(where_child, "bisected", lambda *_: named)
    of_the_model = mock.Mock()
    monkeypatch.setattr(where_child, "of_the_model", of_the_model)
    wrong = lambda: where_child.inductor_config.max_fusion_size != 1  # noqa: E731
    where_child.step(looking, stage, {"cache": ""}, wrong)
    assert looking.told._report.known["step"] == step
    assert looking.told.notes == notes
    settings = [call.args[1].config_field for call in of_the_model.call_args_list]
    assert settings == ["emulate_precision_casts"] * tried
    assert all(call.args[0] is looking for call in of_the_model.call_args_list)
    assert looking.told._report.done == [DOING["below"][-1]]


def test_what_is_right_again_is_not_searched_in_code_generation(looking, monkeypatch):
    monkeypatch.setattr(where_child, "bisected", lambda *_: ("", ""))
    monkeypatch.setattr(where_child, "switches", mock.Mock(side_effect=AssertionError))
    where_child.step(looking, "inductor", {"cache": ""}, lambda: False)
    assert looking.told.notes == [] and looking.told.compiles == 1


def test_a_bisector_that_stops_is_told(looking, monkeypatch):
    stops = mock.Mock(side_effect=RuntimeError("it is lost"))
    monkeypatch.setattr(where_child, "bisected", stops)
    where_child.step(looking, "aot_eager", {"cache": ""}, lambda: True)
    assert looking.told.notes == ["torch's bisector stopped: RuntimeError: it is lost"]
    assert looking.told._report.known["step"] == ""


def test_a_bisector_that_finds_nothing_names_nothing(tmp_path):
    assert bisected(lambda: True, "inductor", str(tmp_path)) == ("", "")
    assert bisected(lambda: 1 / 0, "eager", str(tmp_path)) == ("", "")


@pytest.mark.parametrize(
    ("subsystem", "name", "words"),
    [
        ("joint_graph_passes", "fuse", ("pass joint_graph_passes #2", "fuse")),
        ("lowerings", "aten.sin", ("lowering", "of aten.sin")),
        ("lowerings", None, ("lowering", "#2")),
        ("decomposition", "x op='aten.gelu' y", ("decomposition", "of aten.gelu")),
        ("decomposition", "aten.gelu", ("decomposition", "of aten.gelu")),
        (
            "inductor_emulate_precision_casts",
            None,
            ("right", "with emulate_precision_casts = True"),
        ),
    ],
)
def test_what_the_bisector_names_is_said_in_words(subsystem, name, words):
    found = mock.Mock(
        backend="inductor", subsystem=subsystem, bisect_number=2, debug_info=name
    )
    assert where_child._in_words(found) == words


def test_each_run_counts_once():
    x = torch.ones(2)
    runs = [(x, 2), (x.clone(), 2), (x, 3), (x + 1, 2), (x, 2.5)]
    assert where_child._distinct(runs) == [runs[0], *runs[2:]]


@pytest.mark.parametrize(
    ("fails", "exact", "still"),
    [([True], False, True), ([False, True], True, True), ([False] * 2, True, False)],
)
def test_inputs_from_a_file_are_the_last_resort(
    fails, exact, still, looking, tmp_path, monkeypatch
):
    def of_piece(module, inputs, look, compiling, exact, target):
        return mock.Mock(source=f"exact={exact}", compiling=compiling)

    culprit = where_child.Culprit(captured(), (), looking.sought, looking.p)
    monkeypatch.setattr(where_child.repro, "of_piece", of_piece)
    monkeypatch.setattr(where_child, "fails", mock.Mock(side_effect=fails))
    order = {"target": f"{tmp_path / 'mine.py'}:make"}
    made, fails_now = where_child.shown(culprit, "aot_eager", looking, order)
    assert (made.source, fails_now) == (f"exact={exact}", still)
    assert made.compiling == 'torch.compile(f, backend="aot_eager")'


@pytest.mark.parametrize(
    ("dynamic", "stage", "how"),
    [
        (None, "inductor", "torch.compile(f)"),
        (True, "inductor", "torch.compile(f, dynamic=True)"),
        (True, "eager", 'torch.compile(f, backend="eager", dynamic=True)'),
    ],
)
def test_a_program_compiles_as_the_search_did(
    dynamic, stage, how, looking, tmp_path, monkeypatch
):
    """For sizes that vary, where they did in the graph that the piece is of."""
    monkeypatch.setattr(where_child, "fails", lambda *_: True)
    graph = captured(dynamic=dynamic)
    given = inputs_of(graph, 4)
    alone = where_child.Alone(graph.module, given, looking.p)
    culprit = where_child.Culprit(graph, given, looking.sought, alone)
    order = {"target": f"{tmp_path / 'mine.py'}:make"}
    made, _ = where_child.shown(culprit, stage, looking, order)
    assert how in made.source
    seen = []

    def backend(graph, inputs):
        seen.append(graph)
        return graph.forward

    compiled = culprit.compiling(backend=backend)()
    compiled(*given)
    compiled(*inputs_of(graph, 5))
    assert len(seen) == (1 if dynamic else 2)


def inputs_of(graph, size):
    """Return inputs of a captured graph of one tensor: its size, where that varies."""
    sizes = len(graph.module.graph.find_nodes(op="placeholder")) - 1
    return (*[size] * sizes, torch.ones(size))


def test_a_kernel_is_named():
    looking = mock.Mock()
    place = mock.Mock(place="output")
    culprit = mock.Mock(captured=captured(), inputs=(torch.ones(4),), difference=place)
    where_child.kernel(looking, culprit)
    [call] = looking.told.put.call_args_list
    assert call.kwargs["kernel"].startswith("cpp_fused_sin")


@pytest.mark.parametrize("stage", ["", "eager", "aot_eager"])
def test_each_stage_has_its_next_step(stage, looking, monkeypatch):
    done = []
    for name in ("captured_otherwise", "whole", "narrowed", "step"):
        note = lambda *_, name=name: done.append(name)  # noqa: E731
        monkeypatch.setattr(where_child, name, note)
    looking.stage = lambda: stage
    where_child.from_the_outside_in(looking, {})
    assert (
        done
        == {
            "": [],
            "eager": ["captured_otherwise", "whole"],
            "aot_eager": ["narrowed", "whole", "step"],
        }[stage]
    )
    none = ["not narrowed further: no backend by itself is wrong"]
    assert looking.told.notes == none * (not stage)
    assert looking.told._report.known["stage"] == stage


def test_where_no_program_can_be_written_that_is_told(looking, monkeypatch):
    culprit = mock.Mock()
    culprit.difference.place = "output[0]"
    monkeypatch.setattr(where_child, "shown", lambda *_: None)
    where_child.tell_program(looking, culprit, "eager", {})
    assert looking.told.notes == ["no program for output[0]"]
    monkeypatch.setattr(where_child, "shown", mock.Mock(side_effect=TimeoutError))
    with pytest.raises(Spent):
        where_child.tell_program(looking, culprit, "eager", {})
    monkeypatch.setattr(where_child, "of_the_whole", lambda *_: None)
    where_child.whole(looking, "eager", {})
    assert looking.told.notes[1:] == [f"no program for {looking.sought.place}"]


CALLED = """
    def f(x, scale=1):
        return x * scale
    def make():
        return {given}
    """
ONE, LOSS = "f, (torch.ones(3),)", "lambda out: out.sum()"


@pytest.mark.parametrize(
    ("given", "train", "call"),
    [
        (ONE, False, ["call = given", "out = run(*call)"]),
        ("f, {'x': torch.ones(3)}", False, ["call = given", "out = run(**call)"]),
        (
            "f, [(torch.ones(3),), (torch.ones(4),)]",
            False,
            ["for call in given[:2]:", "    out = run(*call)"],
        ),
        (
            f"{ONE}, {LOSS}",
            True,
            ["call = given", "out = run(*call)", "loss[0](out).backward()"],
        ),
        (ONE, True, ["call = given", "out = run(*call)", *repro.BACKWARD]),
    ],
    ids=["a call", "by name", "some calls", "a loss", "no loss"],
)
@pytest.mark.parametrize(
    ("stage", "how"), [("eager", ', backend="eager"'), ("inductor", "")]
)
def test_the_program_of_the_whole_calls_what_its_owner_makes(
    given, train, call, stage, how, tmp_path
):
    target = written(tmp_path, CALLED.format(given=given))
    order = {"target": target, "train": train}
    try:
        patient = Patient(order)
        for found in (
            Difference(2, "output", "values", "1", "2"),
            Difference(2, "the call", "raises", "runs", "RuntimeError: no"),
        ):
            looking = Search(patient, found, Told(News(), 300.0))
            source = where_child.of_the_whole(looking, stage, order).source
            lines = [line.strip() for line in source.splitlines()]
            assert f"run = torch.compile(fn{how}) if compiled else fn" in lines
            at = lines.index(call[0])
            assert lines[at : at + len(call)] == [line.strip() for line in call]
        nowhere = replace(looking.sought, place="the moon", field="values")
        looking = replace(looking, sought=nowhere)
        assert where_child.of_the_whole(looking, stage, order) is None
    finally:
        sys.modules.pop("mine", None)


@pytest.mark.parametrize("ends_at", ["eager", "aot_eager", "inductor", None])
def test_each_stage_that_may_end_a_process_has_its_share_of_the_time(
    ends_at, looking, monkeypatch
):
    asked, put = [], mock.Mock()
    monkeypatch.setattr(where_child, "put_program", put)
    monkeypatch.setattr(where_child, "of_the_whole", lambda _, stage, __: stage)

    def fails(stage, seconds, order):
        asked.append((stage, seconds))
        return stage == ends_at

    monkeypatch.setattr(where_child, "fails", fails)
    looking.told = mock.Mock(left=60.0, spend=lambda work: work())
    where_child.ends(looking, order := {"memory": None})
    ladder = [*where.LADDER]
    tried = ladder[: ladder.index(ends_at) + 1] if ends_at else ladder
    shares = [60.0 / (len(ladder) - n + 1) for n in range(len(tried))]
    assert asked == [*zip(tried, shares, strict=True)]
    told = [call.kwargs for call in looking.told.put.call_args_list]
    steps = [
        {"doing": f"a program compiled it with {stage}", "trying": stage}
        for stage in tried
    ]
    assert told == steps + [{"stage": ends_at}] * bool(ends_at)
    [note] = [call.args[0] for call in looking.told.note.call_args_list]
    if ends_at:
        assert note == "not narrowed further: no piece of it was compiled by itself"
        put.assert_called_once_with(looking, ends_at, True, order)
    else:
        assert note == "not narrowed further: no backend by itself does that"


def test_the_field_that_is_sought_is_found_before_others(looking, monkeypatch):
    """Of a piece that is wrong in several ways; what is only a look is not asked."""
    fields = [Difference(1, "output", name, "1", "2") for name in ("dtype", "values")]
    look = Difference(1, "output", "stride", "1", "2")
    runs = [(torch.ones(4),), (torch.zeros(4),)]
    graph = replace(captured(), runs=runs)
    found = iter([[look], [look, *fields]])
    monkeypatch.setattr(where_child, "differences", lambda *_, **__: next(found))
    culprit = where_child.by_itself(graph, looking, "eager")
    assert culprit.difference == fields[1]
    assert culprit.inputs == runs[1] and culprit.captured is graph
    monkeypatch.setattr(where_child, "differences", lambda *_, **__: [fields[0]])
    assert where_child.by_itself(graph, looking, "eager").difference == fields[0]
    monkeypatch.setattr(where_child, "differences", lambda *_, **__: [])
    assert where_child.by_itself(graph, looking, "eager") is None
