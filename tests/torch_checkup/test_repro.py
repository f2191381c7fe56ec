"""A piece of a graph is compiled alone; its program has what it needs, and was run."""

import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import fx

from torch_checkup import repro, sandbox
from torch_checkup.helpers.differences import Difference
from torch_checkup.repro import Check, OnePiece, Piece, of_piece

X = torch.linspace(-1, 1, 6).reshape(2, 3)


def graph_of(run, *inputs):
    """Return the graph that Dynamo captures of a call."""
    backend = OnePiece("eager")
    torch.compiler.reset()
    torch.compile(run, backend=backend)(*inputs)
    [captured] = backend.graphs
    return captured


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
    def before(graph):
        *places, last = repro.cuts(graph.module.graph)
        assert last == len(graph.body)
        return [graph.body[i].name for i in places]

    # Not in no_grad, and not while the two results of split are still to be taken.
    modes, later = ["a", "_set_grad_enabled", "add"], ["e", "f", "sum_1", "sum_2"]
    moded_graph = graph_of(moded, X.clone().requires_grad_())
    assert before(moded_graph) == [*modes, "split", *later, "add_1"]
    assert before(graph_of(autocasted, X)) == ["y", "_enter_autocast", "cos"]


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
    right, count = model(X), len(graph_of(model, X).body)
    for start in range(count):
        for stop in range(start + 1, count + 1):
            stage = OnePiece("eager", Piece(0, start, stop), keep=True)
            torch.compiler.reset()
            assert torch.equal(torch.compile(model, backend=stage)(X)[0], right[0])
            [given] = stage.piece.runs
            assert len(stage.piece.body) == stop - start
            for one in stage.piece.module(*given):
                assert isinstance(one, torch.Tensor)


# --- a program, and what it has ------------------------------------------------------


DTYPE = Check("out[0]", "assert compiled.dtype == eager.dtype")


def program(fn, given, check=DTYPE, compiling="torch.compile(f)", exact=False):
    return of_piece(fx.symbolic_trace(fn), given, check, compiling, exact)


def made(written):
    """Return the inputs that a program makes."""
    scope = {}
    exec(written.setup, scope)
    return scope["inputs"]()


ENDS = {  # a program, and how it ends: an exception, or its process
    "assert 1 > 2": ("", ""),
    "raise ValueError('status 3')": ("ValueError: no file", ""),
    "import os; os._exit(3)": ("", "status 3"),
    "import time; time.sleep(600)": ("", "time"),
}


@pytest.mark.parametrize("program", ENDS)
def test_it_must_fail_as_the_model_did(program, tmp_path):
    sleeps = ENDS[program][1] == "time"
    for raises, ends in ENDS.values():
        written = repro.Repro(program, "", raises, ends)
        with pytest.raises(TimeoutError) if sleeps and not ends else nullcontext():
            fails = written.fails(tmp_path, 1.0 if sleeps else 60.0, memory=2**30)
            assert fails == ((raises, ends) == ENDS[program])
    assert [path.name for path in tmp_path.iterdir()] == ["repro.py"]


def test_a_program_that_fails_with_eager_on_both_sides_proves_nothing(tmp_path):
    sides = "import random\nseen = lambda compiled: {}"
    for body, proves in (("compiled", True), ("random.random()", False)):
        check = "assert seen(False) == seen({})"
        both = check.format(True), check.format(False)
        made = repro.Repro(sides.format(body), both[0], control=both[1])
        assert made.fails(tmp_path, 60.0) is proves
        assert both[0] in (tmp_path / "repro.py").read_text()  # not the control


def test_a_program_has_the_settings_and_the_seed_that_it_needs():
    given, check = (torch.ones(4),), Check("out", "assert compiled.equal(eager)")
    graph = fx.symbolic_trace(lambda x: torch.nn.functional.dropout(x, 0.5))
    with (
        torch._functorch.config.patch(activation_memory_budget=0.5),
        torch._inductor.config.patch(fallback_random=True),
    ):
        how = given, check, "torch.compile(f)", False, "", repro.settings()
        draws = of_piece(graph, *how).source
        plain = of_piece(fx.symbolic_trace(lambda x: x.sin()), *how).source
    budget = "torch._functorch.config.activation_memory_budget = 0.5"
    assert budget in draws and budget in plain
    for line in ("torch._inductor.config.fallback_random = True", "manual_seed(0)\n"):
        assert line in draws and line not in plain


def test_a_file_is_part_of_the_program_without_what_a_script_runs(tmp_path):
    body = (
        "def make(): return torch.sin, (torch.ones(3),)\nif __name__ == '__main__':\n"
    )
    (tmp_path / "whole.py").write_text(f"import torch\n{body}    raise SystemExit\n")
    source = repro.source_of(sandbox.module_function(f"{tmp_path / 'whole.py'}:make"))
    check = Check("out", "assert compiled.equal(eager)")
    call = "call = given", "out = run(*call)"
    made = repro.of_make("whole.py:make", call, check, "torch.cos", source)
    assert "__main__" not in made.source and "import make" not in made.source
    assert made.fails(tmp_path, 60.0) and made.passes(tmp_path, timeout=60.0)


def test_it_finds_the_model_where_the_checkup_was_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    model = tmp_path / "src" / "my_model.py"
    model.parent.mkdir()
    check = Check("out", "assert compiled.equal(eager)")
    call = "call = given", "out = run(*call)"
    written = repro.of_make(f"{model}:make", call, check, "fn")
    (tmp_path / "wrong").mkdir()
    written.write(tmp_path / "wrong")
    for fn, status in (("abs", 0), ("None", 1)):
        model.write_text(f"import torch\ndef make(): return {fn}, (torch.ones(3),)\n")
        run = [sys.executable, "wrong/repro.py"]
        assert subprocess.run(run, timeout=120).returncode == status
    assert str(tmp_path) not in written.source


def test_inputs_keep_their_form():
    base = torch.randn(40)
    given = (
        torch.randn(6, 8).t(),
        torch.randn(5, 1).expand(5, 9),
        base[:20].view(4, 5),
        base.view(10, 4)[:, 1],
        torch.randint(3, 9, (30,)),
        torch.ones(7, dtype=torch.bfloat16).requires_grad_(),
        3,
    )
    found = made(program(lambda a, b, c, d, e, f, n: (a, b, c, d, e, f), given))
    for ours, theirs in zip(given[:-1], found[:-1], strict=True):
        for field in ("shape", "dtype", "requires_grad"):
            assert getattr(ours, field) == getattr(theirs, field)
        assert ours.stride() == theirs.stride()
    c, d = found[2:4]
    assert c.untyped_storage().data_ptr() == d.untyped_storage().data_ptr()
    assert found[4].min() >= 3 and found[4].max() < 9
    assert (found[5] == 1).all() and found[-1] == 3


INF, NAN = float("inf"), float("nan")
MADE = {  # an input, and how it is written; x is of 5 rows of 8
    "torch.randn((5, 8), dtype=torch.float16)": lambda x: x.half(),
    "torch.rand((5, 8))": torch.Tensor.abs,
    "torch.randn((5, 8), dtype=torch.complex64)": lambda x: x + 1j,
    "torch.tensor(-8, dtype=torch.int8)": lambda x: (x[0, 0] * 0 - 8).char(),
    "torch.randint(3, 43, (5, 8))": lambda x: torch.arange(3, 43).view(5, 8),
    "(torch.rand((36,)) < 0.5).as_strided((5, 4), (8, 1))": lambda x: (x > 0)[:, :4],
    "torch.full((5, 8), True, dtype=torch.bool)": lambda x: x == x,
    'torch.tensor([2.0, float("nan"), -float("inf")], dtype=torch.float32)': (
        lambda x: torch.tensor([2.0, NAN, -INF])
    ),
    "torch.empty((0, 8), dtype=torch.int32)": lambda x: x[:0].int(),
}


@pytest.mark.parametrize("written", MADE)
def test_an_input_of_each_kind_is_made_by_the_shortest_expression(written):
    torch.manual_seed(0)
    x = MADE[written](torch.randn(5, 8))
    ours = program(lambda x: (x, x), (x,))
    assert f"    x = {written}\n" in ours.setup
    [found] = made(ours)
    form = x.shape, x.dtype, x.stride()
    assert (found.shape, found.dtype, found.stride()) == form
    if written.startswith(("torch.full", "torch.tensor")):
        assert torch.equal(found.nan_to_num(7), x.nan_to_num(7))


def test_values_that_no_seed_gives_lie_in_a_file_beside_it(tmp_path, monkeypatch):
    x = torch.randn(9, 20).t()
    seeded, exact = (program(lambda x: (x,), (x,), exact=n) for n in (False, True))
    assert seeded.saved is None and [*exact.saved] == ["x"]
    exact.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    [found] = made(exact)
    assert torch.equal(found, x) and found.stride() == x.stride()
    assert str(tmp_path) not in exact.source and "torch_checkup" not in exact.source


# --- what it checks -----------------------------------------------------------------

SHAPE = Difference(1, "output", "shape", "(1,)", "(2,)")
A, B = torch.tensor([1.0, 0.0]), torch.tensor([1.0, -0.0])
SHOWN = {  # of each kind of difference, two values that differ so
    "dtype": (A, A.int()),
    "shape": (A, A[:1]),
    "requires_grad": (A, A.clone().requires_grad_()),
    "stride": (torch.ones(2, 2), torch.ones(2, 2).t()),
    "values": (A, A + 1),
    "nan/inf": (A, A / 0),
    "missing": (A, None),
    "extra": (None, A),
    "type": ((1,), [1]),
    "identity": ([True], [False]),
    "alias": ([True], [False]),
    "sign of zero": (A, B),
}


@pytest.mark.parametrize("field", SHOWN)
def test_each_kind_of_difference_has_an_assertion_that_shows_it(field):
    eager, compiled = SHOWN[field]
    check = repro.check_of(replace(SHAPE, field=field), "out", train=False)
    exec(check.assertion, {"torch": torch, "eager": eager, "compiled": eager})
    with pytest.raises(AssertionError):
        exec(check.assertion, {"torch": torch, "eager": eager, "compiled": compiled})


def test_what_is_shared_is_looked_for_among_inputs_and_outputs():
    x, other = torch.ones(2), torch.ones(2)
    scope = {"torch": torch, "given": (x, other), "out": (x, x.view(2), 3)}
    for field, same in (
        ("identity", [True, False, True, False, False]),
        ("alias", [True, False, True, True]),
    ):
        check = repro.check_of(replace(SHAPE, field=field), "given[0]", train=False)
        assert eval(check.found, dict(scope)) == same
    assert repro.check_of(replace(SHAPE, field="unheard of"), "out", False) is None


@pytest.mark.parametrize(
    ("place", "expression"),
    [
        ("output['y']", "out['y']"),
        ("input x after the call", "call[0]"),
        ("gradient of input x", "call[0].grad"),
        ("input mask", 'call["mask"]'),
        ("gradient of a.weight", 'fn.get_parameter("a.weight").grad'),
        ("parameter a.weight after the call", 'fn.get_parameter("a.weight")'),
        ("buffer n after the call", 'fn.get_buffer("n")'),
    ],
)
def test_a_place_of_a_model_is_an_expression(place, expression):
    def f(x, mask=None):
        return x

    m = SimpleNamespace(fn=f, calls=[((torch.ones(2),), {"mask": 1})])
    found = replace(SHAPE, place=place)
    assert repro.check_of_model(found, m).found == expression
    assert repro.check_of_model(replace(found, place="somewhere"), m) is None
