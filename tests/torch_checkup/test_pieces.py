"""A piece of a captured graph is compiled alone, and the whole means what it meant."""

import linecache

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
