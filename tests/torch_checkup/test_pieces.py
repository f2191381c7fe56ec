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
