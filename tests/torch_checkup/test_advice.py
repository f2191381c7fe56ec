"""Advice is what was tried: its cause, its line, what it brought; health gets none.

Each case is the smallest program of its kind.  A line of advice is held against words
that must be in it, in their order.
"""

import re

import pytest
import torch

from tests.refresh import ROOT
from torch_checkup import again
from torch_checkup.helpers.capture import Guard
from torch_checkup.options import Versions

X = "X = torch.linspace(-1, 1, 4)\n"


@pytest.fixture
def advised(looked_at):
    """A function that returns what a part finds of a program with its `make`."""
    return lambda body, part: looked_at(X + body, part)[0]


def calls(inputs, *lines):
    body = "\n    ".join(lines)
    return f"def f({inputs}):\n    {body}\n"


def sizes(*numbers, of="torch.ones(2, n)"):
    return f"def make(): return f, [({of},) for n in {numbers}]\n"


def twice(*values):
    return f"def make(): return f, [(X, v) for v in {values}]\n"


TABLE = calls(
    "x",
    "n = x.shape[1]",
    "if n not in T:",
    "    T[n] = torch.ones(n)",
    "return x + T[n]",
)
HELD = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step, self.name = 0, "a"
    def forward(self, x):
        self.step += 1
        return x * self.step
def make(): return Model(), [(X,)] * 3
"""
OPTIMIZER = """\
w = torch.nn.Parameter(torch.ones(4))
opt = torch.optim.SGD([w], lr=0.5)
def f(x, lr):
    opt.param_groups[0]["lr"] = lr
    w.grad = x.clone()
    opt.step()
    return w * 1
"""
RECOMPILES = {  # a program, and the words of its advice, a line each
    "a number that an if needs breaks the graph as a tensor": (
        HELD.replace("return x", "return x.sin() if self.step > 9 else x"),
        ["make self.step a tensor.* versions, then 2 with 1 more graph break$"],
    ),
    "what a graph break leaves has guards of its own": (
        calls("x", "x = x.sin()", "print()  # here", "return x.cos() * x.shape[0]")
        + sizes(3, 4, 5, of="torch.ones(n)"),
        [r"\(line 3 of mine.py, in f: def f\(x\); line 5 of mine.py, in f: print..\):"],
    ),
    "a size that equals another, though all may vary": (
        calls("x", "return x @ torch.ones(4, 2)")
        + "def make():\n    fast = torch.compile(f, dynamic=True)\n"
        "    return fast, [(torch.ones(n, 4),) for n in (4, 5)]\n",
        [r"x has a different size in dimension 0 \(line 3.*mark_dynamic\(x, 0\).* 1$"],
    ),
    "a branch on sizes": (
        calls("x", "if x.shape[0] > x.shape[1]:", "    return x + 1", "return x - 1")
        + "def make():\n    fast = torch.compile(f, dynamic=True)\n"
        "    return fast, [(torch.ones(n, 5),) for n in (4, 8)]\n",
        [r"a size of x is outside.*line 4 of mine.py, in f: if x.shape\[0\] > .*side"],
    ),
    "sizes 0 and 1": (
        calls("x", "return x * 2") + sizes(4, 1, 0, of="torch.ones(n)"),
        [r"x has a different size.*: before the .*mark_unbacked\(x, 0\).* 1$"],
    ),
    "a length that is a key": (
        "T = {}\n" + TABLE + sizes(3, 4, 5),
        ["x has a different size in dimension 1.*a key.*line 6 of mine.py.*untried"],
    ),
    "parameters of five sizes": (
        calls("p", "return p * 2")
        + sizes(3, 4, 5, 6, 7, of="torch.nn.Parameter(torch.ones(n))"),
        ["parameter p.*force_parameter_static_shapes = False: 5 versions, then 2$"],
    ),
    "a dtype, and a gradient that nobody needs": (
        calls("x", "return x * 2")
        + "def make(): return f, [(X,), (X.clone().requires_grad_(),), (X.half(),)]\n",
        [
            r"x differs in whether.*: all at once: x.detach\(\), where no gradient of "
            r"it is needed; x.to\(torch.float32\) in each call: 3 versions, then 1$"
        ],
    ),
    "five lengths of a list are one finding": (
        calls("batch", "return sum(batch[:2]) * len(batch)")
        + sizes(2, 3, 4, 5, 6, of="[X] * n"),
        [r"batch has a different length \(line 4 of mine.py, in f.*: always as many"],
    ),
    "optional arguments": (
        calls(
            "x, mask=None, bias=None",
            "x = x if mask is None else x * mask",
            "return 2 * x if bias is None else 2 * x + bias",
        )
        + "M, Y = 3 * X, {'bias': 2 * X}\n"
        "def make(): return f, [(X,), (X, M), ({'x': X} | Y), ((X, M), Y)]\n",
        [
            r"mask is given in some calls, None in others.*; bias is given.*: all at "
            r"once: give torch.ones\(\(4,\), dtype=torch.float32\) as mask.*; give "
            r"torch.zeros\(.* as bias in place of None: 4 versions, then 1$"
        ],
    ),
    "a dictionary or None": (
        calls("x, y=None", "return x + 1 if not y else x * (y if y == 3 else y['k'])")
        + "def make(): return f, [(X, {'k': X}), (X,), (X, 3)]\n",
        ["y is given in some calls, None in others.*untried: warm up with each form"],
    ),
    "a size that a tensor says": (
        calls("x, n", "n = n.item()", "return torch.nn.functional.linear(x[:, :n], X)")
        + sizes(4, 5, 6, of="torch.ones(3, 6, 4), torch.tensor(n)"),
        [
            "the result of `n = n.item.*untried: keep it a tensor.*; "
            "or .*_scalar_outputs = True: 4 versions, then 2$",
            "the result of `n = n.item.* != 24.*untried: see what changes there",
        ],
    ),
    "a dtype and a number that grows: each hides what mends the other": (
        HELD.replace("[(X,)] * 3", "[(X,), (X.double(),), (X.half(),)]"),
        [
            r"x has a different dtype.*self.step is.*: all at once: x.to\(torch.float32"
            r"\) in each call; make self.step a tensor.*: 6 versions, then 1$"
        ],
    ),
    "a number that is counted, in training": (
        HELD.replace("* 3", "* 3, lambda y: y @ torch.ones(4, requires_grad=True)"),
        ["make self.step a tensor.*, and assign it anew, not in place: 6.* then 1$"],
    ),
    "a number inside a library": (
        OPTIMIZER + twice(0.1, 0.2, 0.3, 0.4),
        [
            r"^opt.param_groups\[0\].* \(line 6 of mine.py, in f",
            r"\['lr'\] is.*line 8 of mine.py, in f: opt.step\(\), inside .*sgd.py\)",
        ],
    ),
}


def held_against(found, patterns):
    lines = found["advice"]
    assert len(lines) == len(patterns), found
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.search(pattern, line), (pattern, line)
        assert "___stack" not in line and str(ROOT) not in line


@pytest.mark.parametrize("name", RECOMPILES)
def test_what_compiles_again_has_a_cause_a_line_and_a_fix_that_was_counted(
    name, advised
):
    body, patterns = RECOMPILES[name]
    found = advised(body, "recompiles")
    held_against(found, patterns)
    assert found["verdict"] in ("look", "bad")
    assert ("in spite of dynamic=True" in found["says"]) == ("dynamic=True)" in body)


def test_one_version_for_all_sizes_is_what_dynamic_asks_for(advised):
    body = calls("x", "return x * 2") + sizes(4, 5, of="torch.ones(n)")
    found = advised(
        body.replace("f, [", "torch.compile(f, dynamic=True), ["), "recompiles"
    )
    assert (found["verdict"], found["says"]) == ("good", "no second version")


@pytest.mark.parametrize(("limit", "verdict"), [(True, "bad"), (False, "look")])
def test_more_versions_as_it_will_run_count(limit, verdict, advised, monkeypatch):
    says, own = "as it will run", Versions(9, limit, ends=False)
    more = says, own, ["a size: untried: pad"]
    monkeypatch.setattr(again, "_as_it_runs", lambda *_: more)
    found = advised(
        calls("x", "return x * 2") + sizes(4, of="torch.ones(n)"), "recompiles"
    )
    assert (found["verdict"], found["says"]) == (verdict, says)
    assert found["advice"] == ("a size: untried: pad",)
    assert [*found["counts"].values()] == [8, 0, limit, ""]


def test_what_an_optional_argument_holds_is_optional():
    [found] = again.findings([Guard("___check_type_id(y, 7)", "")], {"y['k']"})
    assert (found.kind.name, found.words[:10]) == ("optional", "y is given")


# ----------------------------------------------------------------- what is captured

ONCE = "def make(): return f, (X,)\n"
LOSS = "torch.nn.functional.gaussian_nll_loss"
CAPTURE = {
    "a switch that captures nothing more is not told": (
        calls("x", f"return {LOSS}(x, x, x.abs() + 1)") + ONCE,
        ["^line 4 of mine.py, in f: return .*has a non-Tensor output whose value"],
    ),
    "a list that a tensor chooses from": (
        calls("x, which", "for i in which:", "    x = x * T[i]", "return x")
        + "T = [1.0, 2.0]\ndef make(): return f, (X, torch.tensor([0, 1]))\n",
        [r"T\[i\]: untried: a tensor takes index_select"],
    ),
    "rows that a mask chooses": (
        calls("x", "y = torch.zeros_like(x)", "y[x > 0] = 2 * x[x > 0]", "return y")
        + ONCE,
        ["capture_dynamic_output_shape_ops", "untried: .*each row is computed by it"],
    ),
    "torch's own break": (
        HELD.replace("x * self.step", "NORM(x[:, None])")
        + "NORM = torch.nn.BatchNorm1d(1, momentum=None)\n",
        [r"^line 10 of mine.py, in forward: return NORM\(x.*norm.py.*it can be left$"],
    ),
    "what torch only explains": (
        calls("x", "h = x.sin()", "h.retain_grad()", "return h * 2")
        + "def make(): return f, (X.clone().requires_grad_(),)\n",
        ["^line 5 of mine.py, in f: h.retain_grad.*does not work with AOTDispatcher"],
    ),
    "what prints, and is not captured any more with a switch": (
        calls("x", "y = x.sin()", "print()", "return y.cos()") + ONCE,
        ["reorderable_logging_functions.*then 0 in 1 graph", "untried: print, log"],
    ),
}


@pytest.mark.parametrize("name", CAPTURE)
def test_what_is_not_captured_has_a_line_and_what_was_tried(name, advised):
    body, patterns = CAPTURE[name]
    held_against(advised(body, "capture"), patterns)


def test_where_nothing_is_captured_the_others_do_not_guess(advised):
    body, _ = CAPTURE["what torch only explains"]
    found = advised(body, "recompiles")
    assert found["verdict"] == "cannot tell" and found["advice"] == ()
    assert found["says"] == "nothing is compiled: see capture"
    names = "recompiles", "later_recompiles", "limit_hit"
    assert found["counts"] == dict.fromkeys(names)
    found = advised(body, "silent")
    assert "TORCH_COMPILE_DISABLE" not in str(found) and "see capture" in found["says"]


# ---------------------------------------------------------------- compiled inside

NOT_WHOLE = """
class Model(torch.nn.Module):
    @torch.compile(fullgraph=True)
    def attend(self, x, mask):
        if not mask.all():
            x = x * mask
        return x.softmax(-1)
    def forward(self, x):
        return self.attend(x, x > -2)
"""


def test_a_break_where_none_is_allowed_is_a_break_with_its_line(looked_at):
    found = looked_at(
        X + NOT_WHOLE + "def make(): return Model(), (X,)\n", "matches", "capture"
    )
    for part, verdict in zip(found, ("bad", "look"), strict=True):
        assert part["verdict"] == verdict and "doctor" not in str(part), part
        assert "line 7 of mine.py, in attend: if not mask.all()" in str(part["advice"])
    assert "a graph break under fullgraph=True raises: Unsup" in found[0]["says"]
    assert found[1]["counts"]["breaks"] == 1


@pytest.mark.parametrize("whole", [True, False])
def test_what_fullgraph_captures_is_captured(whole, advised):
    made = f"torch.compile(f, fullgraph={whole})"
    body = calls("x", "return x * x.max().item()") + ONCE.replace("f,", f"{made},")
    found = advised(body, "capture")
    assert found["verdict"] == ("good" if whole else "look"), found


MARKED = calls("x", "return x + 1 if x.shape[0] > 8 else x - 1") + (
    "def make():\n    x = torch.ones(16)\n"
    "    torch._dynamo.mark_dynamic(x, 0, min=4, max=64)\n    return f, (x,)\n"
)


def test_a_promise_that_is_not_kept_is_no_wrong_layer(advised):
    found = advised(MARKED, "matches")
    said = "Error: a marked size does not keep its promise: Not all values"
    assert found["verdict"] == "bad" and said in found["says"]
    held_against(found, ["a range that the code cuts: Mark the range that the guard"])


BLOCKS = """
class Block(torch.nn.Module):
    def __init__(self, i):
        super().__init__()
        self.i = i
    def forward(self, x):
        return x.sin() * self.i
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block({index}) for i in range(10))
        for block in self.blocks:
            block.compile()
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
def make(): return Model(), (X,)
"""


def test_blocks_that_are_compiled_inside_are_looked_at_as_they_are(advised):
    found = advised(BLOCKS.format(index="i"), "recompiles")
    said = "10 blocks compiled one by one: 8 versions"
    assert (found["verdict"], found["says"].split(";")[0]) == ("bad", said)
    was = "8 versions and the recompile limit, then"
    held_against(
        found,
        [
            rf"self.i is a constant.*make self.i a tensor, .*: {was} 1$",
            rf"^torch._dynamo.config.recompile_limit = 64: {was} 10$",
            rf"^block.compile\(isolate_recompiles=True\): {was} 10$",
        ],
    )
    found = advised(BLOCKS.format(index="3"), "recompiles")
    assert (found["verdict"], found["advice"]) == ("good", ()), found
    assert found["says"].startswith("10 blocks compiled one by one: 1 version; no sec")


SERVED = """
class Served(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {compiles}
    def answer(self, x):
        return x.sin()
    def forward(self, x):
        with open("/dev/null") as file:
            file.read()
        return self.{calls}(x) + 1
def make(): return Served(), (X,)
"""


def test_what_an_attribute_has_compiled_is_judged_by_every_part(looked_at):
    parts = "matches", "capture", "recompiles", "silent", "traffic"
    served = {"compiles": "self.fast = torch.compile(self.answer)", "calls": "fast"}
    found = looked_at(X + SERVED.format(**served), *parts)
    assert [one["verdict"] for one in found[:4]] == ["good"] * 4, found
    assert [found[1]["counts"][name] for name in ("graphs", "breaks")] == [1, 0]
    assert found[4]["counts"]["kernels"] == 1
    unused = SERVED.format(compiles="self = torch.compile(self)", calls="answer")
    [silent] = looked_at(X + unused, "silent")
    assert silent["verdict"] == "bad" and "never called" in silent["says"]


@pytest.mark.parametrize("compiled", ["compile(g)", "compile(dynamic=True)(g)"])
def test_a_compile_in_each_call_is_named(compiled, advised):
    body = f"def g(x): return x.sin()\n{calls('x', f'return torch.{compiled}(x)')}"
    body += ONCE
    pattern = r"in each call \(line 5 of mine.py, in f: .*untried: compile once"
    held_against(advised(body, "recompiles"), [pattern])


# ----------------------------------------------------------- not seen by any guard

WRITES = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    def forward(self, x):
        with torch.no_grad():
            self.b.weight.{write}
        return self.b(self.a(x))
def make(): return Model(), (X,)
"""


def test_a_parameter_that_is_tied_later_and_written_to_is_stale(advised):
    found = advised(WRITES.format(write="mul_(0.5)"), "silent")
    assert found["says"].endswith("first call: b.weight tied to a.weight")
    assert (found["verdict"], found["counts"]["stale"]) == ("bad", 1)
    switch = "skip_no_tensor_aliasing_guards_on_parameters = False: b.weight tied"
    held_against(found, [switch, r"torch.compiler.reset\(\) after the change: it is"])
    found = advised(WRITES.format(write="mul(0.5)"), "silent")
    assert found["verdict"] == "good" and "NOT NOTICED" not in str(found)
    assert ("b.weight tied to a.weight", "noticed") in found["evidence"][0]["rows"]


CHANGES = """
SCALE, NAME = 3, "a"
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4, bias=False)
        self.scale, self.shift, self.flag, self._own = 2.0, 5, True, 7
    def forward(self, x):
        y = self.b(self.a(x)) * self.scale * SCALE + self.shift + self._own
        return y * 2 if self.training else y
def make(): return Model().eval(), (X,)
"""


def test_all_that_people_change_is_changed_and_looked_at(advised):
    found = advised(CHANGES, "silent")
    rows = found["evidence"][0]["rows"]
    assert [name for name, seen in rows if seen == "noticed"] == [
        *("train()", "the attribute scale", "the attribute shift"),
        *("b.weight tied to a.weight", "the global SCALE"),
    ]
    assert found["says"] == "its graph runs; 5 changes after the first call noticed"


@pytest.mark.parametrize(
    ("body", "off", "why"),
    [
        (calls("x", "return x"), False, ": no operation of torch was found to capture"),
        (calls("x", "return x * 2"), True, ": TORCH_COMPILE_DISABLE is set"),
        (
            "@torch.compiler.disable\n" + calls("x", "return x * 2"),
            False,
            "; see cap.*",
        ),
    ],
    ids=["no operation", "switched off", "disabled"],
)
def test_why_nothing_is_compiled_is_told(body, off, why, advised):
    with torch._dynamo.config.patch(disable=off):
        found = advised(body + ONCE, "silent")
    assert re.fullmatch("no graph ran: the call is eager" + why, found["says"])
    assert (found["verdict"], found["counts"]["compiled"]) == ("bad", False)


def test_versions_are_counted_with_the_kernels_that_will_run(looked_at):
    body = "def f(x): return x.mean()\n" + sizes(64, 63, 8, of="torch.ones(n, 256)")
    (found,) = looked_at(body, "recompiles", built=True)
    says = "as it will run, 3 versions: a size of x is outside of what was compiled"
    assert (found["verdict"], found["says"]) == ("look", says)
    assert found["counts"]["recompiles"] == 2 and "line 2 of" in found["advice"][0]
