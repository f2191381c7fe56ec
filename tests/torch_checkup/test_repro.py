"""A repro holds what it needs, keeps the form of its inputs, and was run."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import fx

from torch_checkup import repro
from torch_checkup.helpers.differences import Difference
from torch_checkup.repro import Check, as_test, of_piece


def cumulated(x):
    mask = torch.ones_like(x, dtype=torch.bool)
    return (mask.cumsum(1, dtype=torch.bfloat16), x + 1)


DTYPE = Check("out[0]", "assert compiled.dtype == eager.dtype")
VALUES = Check("out[1]", "torch.testing.assert_close(compiled, eager)")


def program(fn, given, check=DTYPE, compiling="torch.compile(f)", exact=False):
    return of_piece(fx.symbolic_trace(fn), given, check, compiling, exact)


def made(written):
    """Return the inputs that a program makes."""
    scope = {}
    exec(written.setup, scope)
    return scope["inputs"]()


def test_it_fails_for_its_difference_alone(tmp_path):
    """Torch 2.13 has this bug; a program that asserts another field does not fail."""
    x = torch.randn(3, 40)
    wrong, right = (program(cumulated, (x,), check) for check in (DTYPE, VALUES))
    fails = wrong.fails(tmp_path, 200.0)
    if not fails and torch.__version__.split("+")[0] != "2.13.0":
        pytest.skip("this torch does not have the bug")
    assert fails and not right.fails(tmp_path, 200.0)


def test_another_exception_is_not_the_difference(tmp_path):
    written = program(lambda x: (x.sin(), x), (torch.ones(2),), compiling="f")
    broken = repro.Repro(written.setup, "raise ValueError('no file')")
    assert not broken.fails(tmp_path, 60.0)
    raises = repro.Repro(written.setup, broken.check, "ValueError: no file")
    assert raises.fails(tmp_path, 60.0)
    sleeps = repro.Repro("import time\ntime.sleep(60)", "")
    with pytest.raises(TimeoutError):
        sleeps.fails(tmp_path, 0.5)


@pytest.mark.parametrize(
    ("program", "ends", "timeout"),
    [
        ("import time; time.sleep(600)", "time", 1.0),
        (
            "x = [0]; all(x.append(b'x' * 2**26) is None for _ in iter(int, 1))",
            "memory",
            60.0,
        ),
        ("import os; os._exit(3)", "status 3", 60.0),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV", 60.0),
        ("raise ValueError('status 3')", "", 60.0),
    ],
)
def test_a_process_must_end_as_it_did(program, ends, timeout, tmp_path):
    for sought in {"time", "memory", "status 3", "SIGSEGV"}:
        wrong = repro.Repro(program, "", ends=sought)
        assert wrong.fails(tmp_path, timeout, memory=2**28) == (sought == ends)
    assert [path.name for path in tmp_path.iterdir()] == ["repro.py"]


CALL = "call = given", "out = {}(*call)"
NAMED = Check("out", "assert compiled.equal(eager)")


def of_a_model(target):
    return repro.of_make(target, lambda run: [w.format(run) for w in CALL], NAMED, "fn")


@pytest.mark.parametrize("home", [".", "src"])
def test_it_finds_the_model_where_the_checkup_was_run(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    model = tmp_path / home / "my_model.py"
    model.parent.mkdir(exist_ok=True)
    model.write_text("import torch\ndef make(): return abs, (torch.ones(3),)\n")
    written = of_a_model(f"{model}:make")
    (tmp_path / "wrong").mkdir()
    written.write(tmp_path / "wrong")
    subprocess.run([sys.executable, "wrong/repro.py"], check=True, timeout=120)
    model.write_text(model.read_text().replace("abs", "None"))
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run([sys.executable, "wrong/repro.py"], check=True, timeout=120)
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
        torch.tensor(2.5, dtype=torch.float64),
        torch.zeros(0, 3),
        torch.rand(50) < 0.5,
        3,
    )

    def model(a, b, c, d, e, f, g, h, i, n):
        return (a, b, c, d, e, f, g, h, i)

    found = made(program(model, given))
    for ours, theirs in zip(given[:-1], found[:-1], strict=True):
        for field in ("shape", "dtype", "requires_grad"):
            assert getattr(ours, field) == getattr(theirs, field)
        assert ours.stride() == theirs.stride() or not ours.numel()
    c, d = found[2:4]
    assert c.untyped_storage().data_ptr() == d.untyped_storage().data_ptr()
    assert found[4].min() >= 3 and found[4].max() < 9
    assert (found[5] == 1).all() and found[6] == 2.5 and found[-1] == 3


INF, NAN = float("inf"), float("nan")
MADE = {  # an input, and how it is written; x is of 5 rows of 8
    "torch.randn(5, 8, dtype=torch.float16)": lambda x: x.half(),
    "torch.rand(5, 8)": torch.Tensor.abs,
    "torch.randn(5, 8).to(torch.float8_e5m2)": lambda x: x.to(torch.float8_e5m2),
    "torch.rand(40).to(torch.float8_e5m2)": lambda x: (
        x.abs().view(40).to(torch.float8_e5m2)
    ),
    "torch.randn(5, 8, dtype=torch.complex64)": lambda x: x + 1j,
    "torch.randn((), dtype=torch.complex64)": lambda x: x[0, 0] + 1j,
    "torch.tensor([-8], dtype=torch.int8).view(())": lambda x: (x[0, 0] * 0 - 8).char(),
    "torch.randint(3, 43, (5, 8))": lambda x: torch.arange(3, 43).view(5, 8),
    "torch.randint(0, 40, (40,), dtype=torch.uint16)": lambda x: torch.arange(40).to(
        torch.uint16
    ),
    "(torch.rand(40) < 0.5).view((5, 8))": lambda x: x > 0,
    "(torch.rand(40) < 0.5)": lambda x: x.view(40) > 0,
    "(torch.rand(36) < 0.5).as_strided((5, 4), (8, 1))": lambda x: (x > 0)[:, :4],
    "torch.full((40,), 40, dtype=torch.int64)": lambda x: torch.full((40,), 40),
    "torch.full((5, 8), True, dtype=torch.bool)": lambda x: x == x,
    'torch.tensor([2.0, float("nan"), -float("inf")], dtype=torch.float32)': (
        lambda x: torch.tensor([2.0, NAN, -INF])
    ),
    "torch.rand(4, 5)": lambda x: torch.full((4, 5), INF),
    "torch.empty(0, dtype=torch.int32).view((0, 8))": lambda x: x[:0].int(),
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
    x, seeded = torch.randn(9, 20).t(), program(cumulated, (torch.randn(9, 20),))
    exact = program(cumulated, (x,), exact=True)
    assert seeded.saved is None and [*exact.saved] == ["x"]
    exact.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    [found] = made(exact)
    assert torch.equal(found, x) and found.stride() == x.stride()
    assert str(tmp_path) not in exact.source and "torch_checkup" not in exact.source


@pytest.mark.parametrize(
    "check",
    [
        DTYPE,
        Check("given[0].grad", "torch.testing.assert_close(compiled, eager)", True),
        Check("", "assert compiled == eager"),
        Check("out", raises="RuntimeError: no"),
    ],
    ids=["form", "gradient", "eager raises", "compiled raises"],
)
def test_each_kind_of_program_runs_where_nothing_is_wrong(check, tmp_path):
    given = (torch.randn(4, 30, requires_grad=True),)
    written = program(lambda x: (x.sin(), x.cos()), given, check, compiling="f")
    done = Path(tmp_path / "repro.py")
    done.write_text(written.source)
    subprocess.run([sys.executable, done], check=True, timeout=120)
    assert written.lines <= 20
    assert compile(as_test(written, "output[0] has eager's dtype"), "test", "exec")
    assert "def test_output_0_has_eager_s_dtype():" in as_test(
        written, "output[0] has eager's dtype"
    )


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
