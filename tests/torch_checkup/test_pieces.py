"""A piece of a captured graph is compiled alone, and the whole means what it meant."""

import linecache
import re

import pytest
import torch

from torch_checkup import pieces
from torch_checkup.pieces import OnePiece, Piece

X = torch.linspace(-1, 1, 6).reshape(2, 3)


def graphs_of(run, *inputs, **how):
    """Return the graphs that Dynamo captures of a call."""
    found = []
    torch.compiler.reset()
    torch.compile(run, backend=lambda g, _: found.append(g) or g, **how)(*inputs)
    return found


def names(nodes):
    return [node.name for node in nodes]


# ------------------------------------------------------------------- where it is wrong


@pytest.mark.parametrize(
    ("needs", "left"),
    [({0}, [0, 1]), ({7}, [7, 8]), ({3}, [3, 4]),  ({3, 4}, [*range(9)]),
     ({4, 5}, [4, 5, 6])],
)  # fmt: skip
def test_a_piece_is_halved_while_one_half_is_wrong(needs, left):
    def wrong(start, stop):
        return needs <= {*range(start, stop)}

    assert [*pieces.halved(range(9), wrong)] == left


# ------------------------------------------------------------------ where it may be cut


def moded(x):
    a = x.sin()
    with torch.no_grad():
        b = a.cos()
        c = b.tan()
    d = (a + c).split(2, 1)
    e = d[0].exp()
    f = d[1].neg()
    return e.sum() + f.sum()


def autocasted(x):
    y = x.sin()
    with torch.autocast("cpu", torch.bfloat16):
        z = y @ y.T
    return z.cos()


def test_a_graph_is_cut_where_tensors_alone_go_on_in_the_usual_mode():
    x = X.clone().requires_grad_()
    [graph] = graphs_of(moded, x)
    body = pieces.body(graph.graph)
    assert {node.op for node in body} == {"call_function", "call_method"}
    places = pieces.cuts(graph.graph)
    before = [names(body)[i] for i in places[:-1]]
    # Not in no_grad, and not while the two results of split are still to be taken.
    modes, later = ["a", "_set_grad_enabled", "add"], ["e", "f", "sum_1", "sum_2"]
    assert before == [*modes, "split", *later, "add_1"]
    assert places[-1] == len(body)
    [graph] = graphs_of(autocasted, X)
    body = pieces.body(graph.graph)
    before = [names(body)[i] for i in pieces.cuts(graph.graph)[:-1]]
    assert before == ["y", "_enter_autocast", "cos"]


# -------------------------------------------------------------------------- cut out


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.head = torch.nn.Linear(3, 3)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3)])

    def forward(self, x):
        x = self.head(x).sin()
        y = x.cos()
        z = self.layers[0](y + x)
        return z.exp(), x


def test_each_piece_gives_what_the_whole_needs_of_it():
    model = Model()
    [graph] = graphs_of(model, X)
    right = model(X)
    count = len(pieces.body(graph.graph))
    for start in range(count):
        for stop in range(start + 1, count + 1):
            stage = OnePiece("eager", Piece(0, start, stop), keep=True)
            torch.compiler.reset()
            assert torch.equal(torch.compile(model, backend=stage)(X)[0], right[0])
            [given] = stage.piece.runs
            assert len(stage.piece.body) == stop - start
            for one in stage.piece.module(*given):
                assert isinstance(one, torch.Tensor)


def test_a_size_that_is_a_symbol_goes_with_each_piece():
    def sized(x):
        return x.sin().reshape(-1).cos() * x.shape[0]

    [graph] = graphs_of(sized, X, dynamic=True)
    assert pieces.Captured(graph).dynamic
    last = len(pieces.body(graph.graph))
    _, given, _ = pieces.cut_out(graph.graph, 0, 1)
    symbols = [n for n in given if isinstance(n.meta["example_value"], torch.SymInt)]
    assert symbols and given[: len(symbols)] == symbols
    assert not pieces.Captured(graphs_of(sized, X, dynamic=False)[0]).dynamic
    for stop in range(1, last + 1):
        stage = OnePiece("eager", Piece(0, 0, stop))
        torch.compiler.reset()
        compiled = torch.compile(sized, backend=stage, dynamic=True)
        assert torch.equal(compiled(X), sized(X))


# ------------------------------------------------------------ what the stage is given


def broken(x):
    x = x.sin()
    torch._dynamo.graph_break()
    x = x.cos()
    torch._dynamo.graph_break()
    return x.tan().exp()


@pytest.mark.parametrize(
    ("how", "compiled"),
    [
        ({}, []),
        ({"whole": 2}, ["sin", "cos"]),
        ({"piece": Piece(1, 0, 1)}, ["cos"]),
        ({"piece": Piece(1, 0, 1, after=True)}, ["sin", "cos"]),
        ({"piece": Piece(2, 0, 2)}, ["tan", "exp"]),
        ({"piece": Piece(2, 1, 2)}, ["exp"]),
        ({"piece": Piece(2, 0, 1, after=True)}, ["sin", "cos", "tan"]),
    ],
)
def test_the_stage_compiles_what_was_chosen_and_no_more(how, compiled, monkeypatch):
    seen = []

    def stage(graph, inputs):
        seen.extend(node.target for node in pieces.body(graph.graph))
        return graph.forward

    monkeypatch.setattr(pieces, "lookup_backend", {"mine": stage}.get)
    backend = OnePiece("mine", **how)
    torch.compiler.reset()
    assert torch.equal(torch.compile(broken, backend=backend)(X), broken(X))
    assert [re.sub(r"\W", "", str(name)) for name in seen] == compiled
    assert [len(one.body) for one in backend.graphs] == [1, 1, 2]


def test_a_backward_passes_through_a_piece():
    model = Model()

    def gradients(run):
        model.zero_grad()
        x = X.clone().requires_grad_()
        out, _ = run(x)
        out.sum().backward()
        return [x.grad, *(p.grad.clone() for p in model.parameters())]

    right = gradients(model)
    for stage in (
        OnePiece("aot_eager", Piece(0, 1, 4)),
        OnePiece("eager", Piece(0, 1, 4), keep=True),
    ):
        torch.compiler.reset()
        found = gradients(torch.compile(model, backend=stage))
        for one, other in zip(found, right, strict=True):
            torch.testing.assert_close(one, other)
    [(given, *_)] = stage.piece.runs
    assert given.is_leaf and given.requires_grad


# ----------------------------------------------------------------- what the user wrote


def test_a_node_has_its_users_line_and_module():
    [graph] = graphs_of(Model(), X)
    body = pieces.body(graph.graph)
    told = [(pieces.users_line(n)[2], pieces.users_module(n)) for n in body]
    assert told == [
        ("x = self.head(x).sin()", "self.head"),
        ("x = self.head(x).sin()", ""),
        ("y = x.cos()", ""),
        ("z = self.layers[0](y + x)", ""),
        ("z = self.layers[0](y + x)", "self.layers.0"),
        ("return z.exp(), x", ""),
    ]
    file, line, text = pieces.users_line(body[0])
    assert file == __file__ and text in linecache.getline(file, line)


def test_a_node_without_a_line_has_that_of_those_that_use_it():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    first = graph.call_method("sin", (x,))
    assert pieces.users_line(first) == ("", 0, "")
    second = graph.call_method("cos", (first,))
    inside = 'File "/a/mine.py", line 7, in f\n    y = g(x)\n'
    within = f'File "{pieces._TORCH}nn/x.py", line 9, in g\n    return 1\n'
    second.meta["stack_trace"] = inside + within
    assert pieces.users_line(first) == ("/a/mine.py", 7, "y = g(x)")
