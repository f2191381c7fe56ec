"""checkup() names what is wrong with a model, and nothing that is not."""

import sys
from types import SimpleNamespace
from unittest import mock

import pytest
from torch._inductor import compile_fx

from tests.torch_checkup.conftest import written
from tests.torch_checkup.test_report import target
from torch_checkup import capture, checkup
from torch_checkup.helpers.errors import CompiledRaises, InputError
from torch_checkup.model import found_of
from torch_checkup.report import Part

OWN = """
def make(): return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), (
    torch.ones(2, 4),)
"""
ONCE = """
class Model(torch.nn.Module):
    table = None
    def forward(self, x):
        if self.table is None:
            self.table = torch.ones(4)
        return x * self.table
def make(): return Model(), (torch.ones(4),)
"""
ALREADY = """
class Model(torch.nn.Module):
    def forward(self, x):
        return x * (2 if torch.compiler.is_compiling() else 1)
def make():
    model = Model()
    return {0}, (torch.ones(3),)
"""
LATER = """
def f(x, mask=None):
    return x * 2 if mask is None else x * mask.sum().item()
def make():
    return f, [(torch.ones(3),), (torch.ones(3), torch.ones(3))]
"""
WIDER = """
def make(): return lambda x: (x * 2).float(), (torch.ones(4, dtype=torch.bfloat16),)
"""
DRAWS = """
def make():
    layers = torch.nn.Linear(4, 4), torch.nn.Dropout(0.1)
    return torch.nn.Sequential(*layers), (torch.rand(8, 4),), torch.sum
"""
PARTLY = """
def counted(x):
    for _ in range(2):
        x = x - x.max().item()
    return x
def f(x): return counted(x * 2) + 1
def make(): return f, (torch.rand(3),)
"""
POSITION = """
def f(x, at): x[at] = 1; return x * 2
def make(): return f, (torch.rand(3), torch.tensor(1))
"""
EAGER_LATER = """
def f(x, listed=False): return x.tolist() if listed else x * 2
def make(): return f, [(torch.ones(3),), (torch.ones(3), True)]
"""
PIECES = """
def make():
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    return net[0].compile() or net, (torch.ones(2, 3),)
"""
WHOLE = """
@torch.compile(fullgraph=True)
def f(x): return x * 2, print()
def make(): return f, (torch.rand(3),)
"""
BESIDE = "fast = torch.compile(f, fullgraph=True)\n"
MODES = """
def f(x, mode): return x * len(mode)
def make(): return f, [(torch.ones(3), "a" * n) for n in range(9)]
"""
CHECKPOINTED = """
from torch.utils.checkpoint import checkpoint
layers = torch.nn.Linear(3, 4), torch.nn.SiLU(), torch.nn.Linear(4, 3)
block = torch.compile(torch.nn.Sequential(*layers))
def f(x): return checkpoint(block, x, use_reentrant=False)
def make(): return f, (torch.ones(2, 3),), torch.sum
"""
FUSES = "def make(): return lambda x: x.sin().cos(), (torch.ones(2**12),)\n"
STALE = "call the model once before torch.compile: it agrees then", "DIFFERS"
VERDICTS = {  # a model, what a part must say of it, and some of its words
    "breaks": (target("breaks"), "capture", "bad"),
    "hook": (target("hook"), "silent", "bad", *STALE, "'stale': 1"),
    "promotes": (target("promotes"), "traffic", "bad"),
    "differs": (target("differs"), "matches", "bad"),
    "compiled already": (ALREADY.format("torch.compile(model)"), "matches", "bad"),
    "compiled as one graph": (WHOLE, "matches", "bad", "a graph break under fullgraph"),
    "given as it is": (WHOLE.replace("@", "# ") + BESIDE, "matches", "good"),
    "compiled in place": (ALREADY.format("model.compile() or model"), "matches", "bad"),
    "breaks for later inputs": (LATER, "capture", "look", "'breaks': 1}"),
    "checkpoints what it compiles": (CHECKPOINTED, "matches", "good"),
    "is eager in a later call": (EAGER_LATER, "capture", "bad", "captured of call 2"),
    "compiles a layer": (PIECES, "capture", "good", "what it compiles is one"),
    "makes a table once": (ONCE, "recompiles", "look", "again: 1 time in 4 rounds"),
    "hits the limit": (MODES, "recompiles", "bad", "these inputs compile until"),
    "wider on purpose": (WIDER, "traffic", "look", "'promotes': True"),
    "draws other numbers": (DRAWS, "silent", "good"),
    "runs compiled in part": (PARTLY, "silent", "look", "only a part"),
    "is refused by AOTAutograd": (POSITION, "silent", "bad", "can't be compiled"),
}


@pytest.mark.parametrize(
    ("count", "breaks", "pieces", "says"),
    [
        (1, 0, False, "all of it is one"),
        (1, 0, True, "what it compiles is one"),
        (2, 0, False, "2 graphs, without"),
        (2, 1, False, "break cut it into 2"),
        (1, 1, False, "break, 1 graph captured"),
        (4, 1, False, "break, 4 graphs in all"),
    ],
)
def test_graphs_and_breaks_are_counted(count, breaks, pieces, says, monkeypatch):
    found = SimpleNamespace(count=count, breaks=[mock.Mock(skipped=False)] * breaks)
    monkeypatch.setattr(capture, "least_captured", lambda _: (found, 0))
    monkeypatch.setattr(capture, "_advice", lambda _: ())
    part = capture.part(SimpleNamespace(in_pieces=pieces, calls=[()]))
    assert says in part.says and part.verdict == ("look" if breaks else "good")
    assert part.counts == {"graphs": count, "breaks": breaks}


@pytest.mark.parametrize("name", VERDICTS)
def test_a_part_says_what_it_thinks_of_a_model(name, looked_at):
    model, part, verdict, *said = VERDICTS[name]
    [found] = looked_at(model, part)
    assert found["verdict"] == verdict, found
    assert [words for words in said if words not in str(found)] == [], found


def test_health_is_not_doubted(looked_at):
    found = looked_at(target("healthy"), "traffic", built=True)
    found += looked_at(target("healthy"), "matches", "capture", "recompiles", "silent")
    for part in found:
        assert part["verdict"] not in ("bad", "failed"), part


def test_fewer_bytes_than_eager_are_good(looked_at):
    [found] = looked_at(FUSES, "traffic", built=True)
    counts = found["counts"]
    told = found["verdict"], counts["kernels"], counts["promotes"]
    assert told == ("good", 1, False)
    assert counts["bytes"] < counts["eager_bytes"]


def test_speed_is_that_of_the_race(looked_at):
    [found] = looked_at(OWN, "speed")
    counts = found["counts"]
    assert counts["speedup_low"] <= counts["speedup"] <= counts["speedup_high"]
    won = counts["speedup_low"] > 1, counts["speedup_high"] < 1
    verdict = {(True, False): "good", (False, True): "bad"}.get(won)
    assert verdict is None or found["verdict"] in (verdict, "look", "cannot tell")
    assert found["pictures"] and found["evidence"]
    assert (counts["paid_back"] or 0) < 1e12  # None for never


EAGER_RAISES = {0: ValueError("no such size")}
FOUND = {  # a part, what it raises, whether eager raises in every call; what is said
    "compiled code raises": ("silent", CompiledRaises("it"), (), "bad", "it"),
    "it breaks": ("silent", KeyError("x"), (), "failed", "KeyError: 'x'"),
    "eager raises": ("silent", None, EAGER_RAISES, "not run", "eager raises in every"),
    "eager may raise": ("matches", None, EAGER_RAISES, "good", "found"),
    "an input is wrong": ("gpu", InputError("no x\nor y"), (), "failed", "no x"),
}


@pytest.mark.parametrize("case", FOUND)
def test_a_part_that_fails_leaves_the_others(case, monkeypatch):
    name, raised, fails, verdict, says = FOUND[case]

    def part(m):
        if raised:
            raise raised
        return Part(name, "good", "found")

    monkeypatch.setattr(f"torch_checkup.{name}.part", part)
    calls = [] if fails else [1]
    found = found_of(SimpleNamespace(fails=fails, calls=calls, raised=""), name)
    assert (found["name"], found["verdict"]) == (name, verdict)
    assert found["says"].startswith(says)
    assert found["advice"] == (("or y",) if "\n" in str(raised) else ())


@pytest.mark.skipif(sys.platform != "linux", reason="Triton is for Linux")
def test_the_code_of_a_gpu_is_written_here_too(looked_at):
    [gpu] = looked_at(OWN, "gpu", built=True)
    assert gpu["verdict"] == "good", gpu
    says = "on h100: 1 kernel of Triton and 1 library call; slower, 0."
    assert gpu["says"].startswith(says)  # two launches: entering the graph costs more
    assert "<iframe" in gpu["pictures"][0]  # its kernel, from the line to SASS
    assert gpu["counts"] == {"gpu_kernels": 1, "gpu_spilled": 0}


# --- health that looks ill ---------------------------------------------------------

CACHE = """
class Cache:
    def __init__(self): self.keys, self.length = None, torch.tensor(0)
    def update(self, new):
        if self.keys is None: self.keys = torch.zeros(16, new.shape[1])
        at = torch.arange(len(new)) + self.length
        self.length.add_(len(new))
        return self.keys.index_copy_(0, at, new)
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.key = torch.nn.Linear(4, 4)
    def forward(self, x, cache):
        return cache.update(self.key(x))
def make():
    sizes = (5, 11)
    return Model(), [dict(x=torch.randn(n, 4), cache=Cache()) for n in sizes]
"""


def test_a_cache_among_the_inputs_is_put_back(looked_at):
    matches, *others = looked_at(CACHE, "matches", "silent", "traffic", "speed")
    assert matches["verdict"] == "good", matches
    assert not [one for one in others if one["verdict"] == "failed"], others


LENGTHS = """
def make():
    w = torch.ones(4, 4, requires_grad=True)
    return lambda x: (x @ w).sin() * len(x), [(torch.rand(n, 4),) for n in (3, 5, 7)]
"""


@pytest.mark.parametrize("train", [False, True])
def test_a_backward_is_built_where_it_is_trained(
    train, looked_at, tmp_path, monkeypatch
):
    """Where a size varies, torch builds it with the forward."""
    built, usual = [], compile_fx.compile_fx_backward

    def noted(*inputs, **options):
        built.append(1)
        return usual(*inputs, **options)

    monkeypatch.setattr(compile_fx, "compile_fx_backward", noted)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    [found] = looked_at(LENGTHS, "matches", train=train, built=True)
    assert (found["verdict"], bool(built)) == ("good", train)


# --- bad input: said, and nothing stays -------------------------------------------

ON = "def make(): return torch.nn.Linear(2, 2, device={0!r}), (torch.rand(3, {1}),)"
BROKEN = {
    "no inputs": ("def make(): return torch.nn.Linear(2, 2)", "must return"),
    "without numbers": (ON.format("meta", 2), "meta"),
}


@pytest.mark.parametrize(("body", "said"), BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_called_is_an_error(body, said, looked_at):
    with pytest.raises((TypeError, ValueError), match=said):
        looked_at(body)


def test_what_prints_and_changes_the_process_stays_in_its_process(tmp_path, capfd):
    body = """
        import os
        def make():
            print("hello")
            os.environ["SECRET"] = "s3cret"
            torch.set_default_dtype(torch.float64)
            return torch.nn.Linear(2, 2), [{"input": torch.rand(3, 2)}]
        """
    found = checkup(written(tmp_path, body), only=["matches", "capture"])
    assert "hello" not in capfd.readouterr().out
    assert "s3cret" not in found.to_json() and "s3cret" not in found.to_html()
    assert str(tmp_path) not in found.to_json()


# --- what ends its process ----------------------------------------------------------


EATS = """
    @torch.library.custom_op("checkup_test::eats", mutates_args=())
    def eats(x: torch.Tensor) -> torch.Tensor:
        return x * 2
    @eats.register_fake
    def _(x):
        rows = []
        while True:
            rows.append(b"x" * 2**26)
    def make():
        return lambda x: eats(x) + 1, (torch.ones(4),)
    """


@pytest.mark.weekly
def test_what_eats_memory_only_when_compiled_is_bad_and_the_rest_is_kept(tmp_path):
    made, kept = written(tmp_path, EATS), tmp_path / "wrong"
    found = checkup(made, only=["matches", "capture"], memory=2**31, repro=kept)
    matches, capture = found.parts
    assert (matches.verdict, matches.counts) == ("bad", {"matches": False}), found
    assert "it never gives an answer: it took" in matches.says
    assert (matches.where.stage, matches.where.still_fails) == ("eager", True), found
    assert "checkup_test::eats" in (kept / "repro.py").read_text()  # the whole file
    assert capture.verdict == "failed" and "it took" in capture.says
