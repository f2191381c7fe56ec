"""A wrong answer is traced to its stage, graph, piece, line, and pass or lowering."""

import math
import sys
import textwrap
from dataclasses import replace
from functools import partial
from unittest import mock

import pytest
import torch
from torch import fx
from torch._inductor.decomposition import select_decomp_table

from torch_checkup import where, where_child
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
        path = tmp_path / "mine.py"
        path.write_text("import torch\n" + textwrap.dedent(body))
        patient = Patient({"target": f"{path}:make", "train": train})
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
    path = tmp_path / "mine.py"
    path.write_text("import torch\n" + textwrap.dedent(body))
    order = {"target": f"{path}:make", "train": False, "trains": False}
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
    (tmp_path / "mine.py").write_text("import torch\n" + textwrap.dedent(ENDS))
    said = "it ended its process, with status 3; it said: nothing"
    died = "the call", "raises", "runs", said
    sought = Difference(1, *died, ended="status 3")
    order = {"target": f"{tmp_path / 'mine.py'}:make", "keep": str(tmp_path)}
    order["memory"] = None
    where_child.search(looking.p, sought, looking.told, order)
    known = looking.told._report.known
    assert (known["stage"], known["still_fails"]) == ("eager", True), known
    assert f"seen(True)  # {said}" in known["repro"]
    alone = "not narrowed further: no piece of it was compiled by itself"
    assert known["notes"] == [alone]
