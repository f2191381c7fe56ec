"""A wrong answer is traced to its stage, graph, piece, line, and pass or lowering."""

import getpass
import platform
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch import fx
from torch._inductor.decomposition import select_decomp_table

from tests.refresh import not_the_reference
from tests.torch_checkup.conftest import written
from torch_checkup import repro, sandbox, search, where
from torch_checkup.helpers.differences import Difference
from torch_checkup.model import Model
from torch_checkup.search import Progress, Search, bisected
from torch_checkup.where import Where

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


def wrong(target, result):
    """Return a stage in which the results of one operation are wrong."""

    class Wrong(fx.Interpreter):
        def call_function(self, called, args, kwargs):
            usual = super().call_function(called, args, kwargs)
            return result(usual) if called is target else usual

    return lambda graph, inputs: Wrong(graph).run


def wrong_together(graph, inputs):
    """A stage that is wrong where tanh and sin meet in one graph, as when it fuses."""
    targets = {node.target for node in graph.graph.nodes}
    both = {torch.tanh, torch.sin} <= targets
    return wrong_sin(graph, inputs) if both else graph.forward


wrong_sin = wrong(torch.sin, torch.neg)
wrong_cos = wrong(torch.cos, torch.neg)
steep_tanh = wrong(torch.tanh, lambda y: y + y - y.detach())  # twice the gradient


class News:
    """Takes the place of the report that a parent reads."""

    def __init__(self):
        self.known = {}

    def put(self, **found):
        self.known |= found.get("where", {})


@pytest.fixture
def model(tmp_path):
    """A function that returns the model of a program."""

    def made(body, train=False):
        return Model({"target": written(tmp_path, body), "train": train})

    return made


@pytest.fixture
def searched(model, tmp_path, monkeypatch):
    """A function that searches, and returns all that was reported.

    Without a stage of ours, torch's ladder is climbed.
    """

    def start(body, stage=None, train=False, seconds=300.0, change=lambda found: found):
        m = model(body, train)
        m.try_out()
        compiling = partial(m.compiled, backend=stage or "eager")
        found = change(m.judged(compiling(), again=compiling).differences[0])
        if stage:
            monkeypatch.setattr(search, "LADDER", ("eager", stage))
        monkeypatch.setattr(Search, "fails", lambda *_: True)
        monkeypatch.setattr(repro.Repro, "passes", lambda *_, **__: True)
        order = {**m.order, "keep": str(tmp_path), "cache": str(tmp_path / "cache")}
        progress = Progress(News(), seconds)
        Search(m, found, progress, {**order, "memory": None}).run()
        return progress._report.known

    return start


PLANTED = {  # a model, a stage, with a backward; the graph, and the piece's lines
    "second graph": (BROKEN, wrong_sin, False, 2, ["return torch.sin(z)"]),
    "first graph": (BROKEN, wrong_cos, False, 1, ["x = torch.cos(self.layer(x))"]),
    "gradient": (WHOLE, steep_tanh, True, 1, ["y = torch.tanh(x) + 1"]),
    "several together": (
        *(WHOLE, wrong_together, False, 1),
        ["y = torch.tanh(x) + 1"] * 2 + ["z = y * 2", "return torch.sin(z)"],
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_cause_is_found(name, searched):
    body, stage, train, graph, lines = PLANTED[name]
    known = searched(body, stage, train)
    assert (known["stage"], known["graph"]) == (stage, graph)
    assert known["piece"] == len(lines) <= known["operations"]
    home = "" if "self.layer" in lines[-1] else "self.head"
    assert (known["code"], known["module"]) == (lines[-1], home)
    assert known["file"] == "mine.py" and known["step"] == ""
    assert "repro" in known, known["notes"]
    operations = ("sin", "tanh", "cos")
    named = [one for one in operations if f"torch.{one}(" in lines[-1]]
    assert all(f"torch.{one}(" in known["repro"] for one in named)
    assert known["still_fails"] and "def test_" in known["test"]
    assert [note for note in known["notes"] if "not" in note] == []


ASKS = """
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
    def make():
        return Model(), (torch.randn(3, 4),)
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
DYNAMO = {
    "a module's line": (ASKS, "if torch.compiler.is_compiling():"),
    "a list of its own": (RECENT, "self.seen.append(y)"),
}


@pytest.mark.parametrize("name", DYNAMO)
def test_what_dynamo_captures_wrongly_has_a_line_and_the_whole_as_program(
    name, searched
):
    body, line = DYNAMO[name]
    known = searched(body)
    assert (known["stage"], known["code"]) == ("eager", line), known
    assert known["notes"][-1] == f"right where it runs eagerly: `{line}`"
    assert "def make():" in known["repro"] and known["still_fails"]
    assert "source" not in known  # the program has all of it


FILLED = """
    def fill(x):
        base = x * 0
        base.expand(3, -1).fill_(2.0)
        return base + 1
    def make():
        return fill, (torch.ones(4),)
    """


@pytest.mark.weekly
def test_a_bug_of_torch_is_found_in_a_process_by_itself(tmp_path):
    target = written(tmp_path, FILLED)
    order = {"target": target, "train": False, "trains": False}
    sought = Difference(1, "output", "values", "3", "7")
    found = where.searched(sought, order, 300.0, None, tmp_path)
    if found.stage != "aot_eager" and not_the_reference():
        pytest.skip("this torch does not have the bug")
    assert (found.stage, found.line, found.piece) == ("aot_eager", 5, 2), found
    assert found.still_fails and "base.expand(3, -1)" in found.repro, found
    assert found.lines <= 20 and str(tmp_path) not in where.issue(found)


def test_what_is_not_searched_tells_what_is_known(searched):
    known = searched(WHOLE, wrong_sin, seconds=-1.0)
    assert known["notes"] == ["not narrowed further: the time of the search is spent"]
    assert known["trying"] == "eager" and "stage" not in known
    sometimes = partial(replace, note="in 1 of 3 rounds")
    known = searched(WHOLE, wrong_sin, change=sometimes)
    assert known["often"] == [1, 3] and "stage" not in known


# --- pass, lowering, setting --------------------------------------------------------


def test_the_bisector_names_the_part_and_empties_no_cache(tmp_path, monkeypatch):
    own = tmp_path / "cache" / "bisect" / "mine"
    own.parent.mkdir(parents=True)
    own.touch()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    stage, aten, x = "aot_eager_decomp_partition", torch.ops.aten, torch.randn(8)

    def differs():
        torch.compiler.reset()
        compiled = torch.compile(torch.nn.functional.gelu, backend=stage)
        return not torch.allclose(compiled(x), torch.nn.functional.gelu(x))

    other = {aten.gelu.default: lambda x, approximate="none": x * 2}
    private = str(tmp_path / "private")
    with mock.patch.dict(select_decomp_table(), other):
        found = bisected(differs, stage, private)
    assert found == ("decomposition", "of aten.gelu", None)
    assert own.exists()
    assert bisected(lambda: True, "inductor", private) == ("", "", None)


# --- the program of the whole -------------------------------------------------------

CALLED = """
    def f(x):
        return x * torch.ones((), requires_grad=True)
    def make():
        return {given}
    """
ONE = "f, (torch.ones(3),)"
CALLS = [  # what make() returns, whether it is trained, and words of the program
    (ONE, False, "call = given\n    out = run(*call)\n"),
    ("f, [(torch.ones(n),) for n in (3, 4)]", False, "for call in given[:2]:"),
    (f"{ONE}, lambda out: out.sum()", True, "loss[0](out).backward()"),
    (ONE, True, repro.BACKWARD[-1]),
]


@pytest.mark.parametrize(("given", "train", "words"), CALLS)
def test_the_program_of_the_whole_runs_what_its_owner_makes(
    given, train, words, model, monkeypatch
):
    monkeypatch.setattr(sys, "path", [*sys.path])
    m = model(CALLED.format(given=given), train)
    for field, place in (("values", "output"), ("raises", "the call")):
        found = Difference(2, place, field, "runs", "RuntimeError: no")
        looking = Search(m, found, Progress(News(), 300.0), m.order)
        source = looking.of_the_whole("eager").source
        exec(source, {})
        how = 'run = torch.compile(fn, backend="eager") if compiled else fn'
        assert how in source and words in source
    looking.sought = replace(found, place="the moon", field="values")
    assert looking.of_the_whole("eager") is None


# --- what is told, and written -------------------------------------------------------

FOUND = Where(1, "output[0]", "dtype", "bfloat16", "int64", stage="inductor")


def test_what_a_search_knew_is_kept_where_it_is_ended(tmp_path, monkeypatch):
    asked = []

    def reports(function, order, timeout, memory):
        asked.append((function, order["memory"], timeout, memory))
        yield {"where": {"trying": "inductor", "doing": "it was compiled"}}
        yield {"where": {"step": "lowering"}, "stage": "s"}
        problem = "failed at: s: it died of SIGSEGV"
        yield {"stage": "s", "problem": problem, "ended": "SIGSEGV"}

    monkeypatch.setattr(sandbox, "reports", reports)
    sought = Difference(2, "output", "values", "1", "2")
    given = {"target": f"{tmp_path / 'mine.py'}:make"}
    found = where.searched(sought, given, 9.0, 7, tmp_path)
    died = "not narrowed further: it died of SIGSEGV, it was compiled"
    known = {"step": "lowering", "notes": (died,)}
    assert found == Where(2, "output", "values", "1", "2", **known)
    # Only the end that is sought tells the stage.
    same = where.searched(replace(sought, ended="SIGSEGV"), given, 9.0, 7, tmp_path)
    assert same.stage == "inductor"
    eats = replace(sought, ended="memory")  # and so does a program of the search
    where.searched(eats, given, 9.0, 7, tmp_path)
    assert asked == [(".search:look", 7, 9.0, n) for n in (7, 7, 14)]


def test_one_folder_has_the_program_the_test_and_the_issue(tmp_path):
    kept, home = tmp_path / "kept", tmp_path / "home"
    kept.mkdir()
    (kept / "repro.pt").write_bytes(b"numbers")
    texts = {"repro": "import torch\n", "test": "def test_it(): ...\n"}
    found = replace(FOUND, **texts, files=("repro.pt",), still_fails=True)
    assert where.written(found, kept, home) == found
    assert {path.name: path.read_text() for path in home.iterdir()} == {
        "repro.py": texts["repro"],
        "test_repro.py": texts["test"],
        "repro.pt": "numbers",
        "issue.md": where.issue(found),
    }
    [lacks] = where.written(found, kept, None).notes
    assert "--repro FOLDER keeps" in lacks
    assert where.written(FOUND, kept, None) == FOUND  # it has no program
    # No name of a person or a host.
    draft = where.issue(replace(found, kernel="cpp_0", notes=("but see",)))
    for words in (f"- torch: {torch.__version__}", "- kernel: cpp_0", "- but see"):
        assert words in draft
    assert "```python\nimport torch\n```" in draft and "wrong in" not in draft
    assert "def mine" in where.issue(replace(found, source="def mine(): ...\n"))
    for word in (platform.node(), str(Path.home()), f"/{getpass.getuser()}/"):
        assert word not in draft


BACKWARDS = """
    class Model(torch.nn.Module):
        def forward(self, x):
            x = x.detach().requires_grad_()
            for part in torch.compile(torch.unbind, backend="aot_eager")(x):
                part.sum().backward()  # all are of one node
            return x.grad
    def make(): return Model(), (torch.ones(3, 4),)
    """


def test_what_raises_and_is_in_no_graph_has_its_owners_line(searched, looked_at):
    _, silent = looked_at(BACKWARDS, "matches", "silent")  # it's told once
    assert (silent["verdict"], silent["says"]) == ("not run", "see matches")
    known = searched(BACKWARDS, "aot_eager")
    assert (known["line"], known["code"]) == (7, "part.sum().backward()"), known
    assert known["stage"] == "aot_eager" and "repro" in known


OVERLAP = """
    def model(x, y):
        x.mul_(2)
        return x + y
    def make():
        base = torch.ones(8)
        return model, [(torch.ones(4), torch.ones(4)), (base[:4], base[2:6])]
    """


def test_what_no_guard_tells_from_an_earlier_call_is_said(searched):
    known = searched(OVERLAP, "aot_eager")
    assert (known["stage"], known["line"]) == ("aot_eager", 5)
    assert f"it {search._STALE}" in known["notes"]
