"""graphs(), recompiles() and Watch: counts, lines, reasons, advice, and bad input."""

import linecache
import random
import sys
import sysconfig
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from helpers import capture
from helpers.capture import Recompiles, Watch, graphs, recompiles
from helpers.errors import InputError
from helpers.text import pre

X = torch.arange(1.0, 5.0)
NEWER = sys.version_info >= (3, 14)  # its while tests in the body of the loop


def chain(x):
    return (x.sin() * 2 + 1).relu()


def item(x):
    y = x.sin()
    scale = y.sum().item()
    return y * scale


def branch(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def refuses(x):
    if x.sum() > 100:
        raise ValueError
    return x * 2


def gambles(x):
    return x.sin() if random.random() < 0.5 else x.cos()


def waits(x):
    y = x.sin()
    while y.sum() > 100:
        y = y / 2
    return y.cos()


def prints(x):
    y = x.sin()
    print(end="")
    return y.cos()


def lists(x):
    return sum(x.tolist())


def inner(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def nested(x):
    return inner(x.cos()).sin()


def mask(x):
    return x[x > 2] * 2


def numpy_random(x):
    return x * np.random.rand()


def clock(x):
    return x * time.time()


@torch.compiler.disable
def off(x):
    return x + 1


def disabled(x):
    return off(x.sin()).cos()


def in_try(x):
    try:
        scale = x.sum().item()
    finally:
        pass
    return x * scale


@pytest.mark.parametrize(
    ("fn", "count", "reason", "fix", "skipped"),
    [
        (item, 2, "item", "keep the value a tensor", False),
        (branch, 2, "branching", "torch.where", False),
        (refuses, 2, "branching", "stays in the graph", False),
        (gambles, 2, "branching", "draw it before", False),
        (waits, 0 if NEWER else 2, "branching", "", NEWER),
        (prints, 2, "builtin", "print, log or warn", False),
        (lists, 0, "tolist", "keep the value a tensor", False),
        (nested, 4, "graph_break", "remove the call", False),
        (mask, 2, "Dynamic shape", "torch.where(mask", False),
        (numpy_random, 1, "", "torch.rand", False),
        (clock, 1, "", "before or after", False),
        (disabled, 2, "disable", "remove torch.compiler.disable", False),
        (in_try, 0, "item", "keep the value a tensor", True),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_break_has_reason_line_and_fix(fn, count, reason, fix, skipped):
    captured = graphs(fn, X)
    assert captured.count == count
    assert ("nothing was captured" in str(captured)) == (count == 0)
    (stop,) = captured.breaks
    owner = inner if fn is nested else fn
    assert reason in stop.reason and "\n" not in stop.reason
    assert (stop.function, stop.file) == (owner.__name__, Path(__file__).name)
    assert len(stop.way) == (fn is nested)
    assert stop.source == linecache.getline(__file__, stop.line).strip()
    assert fix in stop.fix and bool(fix) == bool(stop.fix)
    assert stop.skipped == skipped == ("a whole function runs" in str(stop))
    # torch is quoted whole.
    hints = [line.strip() for hint in stop.hints for line in hint.split("\n")]
    for text in (stop.reason, "Developer debug context", "https://", *hints):
        assert text in stop.message
    for text in (str(captured), *stop.way, stop.message):
        shown = pre(text).split(">", 1)[1].removesuffix("</pre>")
        assert shown in captured._repr_html_()
    place, why, *advice = str(stop).splitlines()
    where = f"line {stop.line} of test_capture.py, in {owner.__name__}: {stop.source}"
    assert place == where and stop.reason in why
    given = zip(advice, [stop.fix] if fix else hints, strict=True)
    assert all(line.endswith(said) for line, said in given)
    assert str(captured).endswith(f"\nbreak 1: {stop}")


PACKAGES = sysconfig.get_path("purelib")


def defined(source, name, folder=PACKAGES, file="boxes/ops.py"):
    """A function that stands in a file of an installed package, or in another."""
    path = str(Path(folder, file))
    lines = source.splitlines(keepends=True)
    linecache.cache[path] = (len(source), None, lines, path)
    space = {"torch": torch}
    exec(compile(source, path, "exec"), space)
    return space[name]


CHECKED = """
@torch.no_grad()
def checked(boxes):
    if boxes.max() > 100:
        raise ValueError("outside")
    return boxes * 2
"""


def test_a_break_in_a_library_has_its_line_and_the_way_there():
    checked = defined(CHECKED, "checked")

    def model(x):
        return checked(x.sin()).cos()

    (stop,) = graphs(model, X).breaks
    assert (stop.file, stop.line) == ("site-packages/boxes/ops.py", 4)
    assert stop.source == "if boxes.max() > 100:" and stop.function == "checked"
    assert stop.fix == "" and "torch.where" not in str(stop).partition("hint")[0]
    (last,) = stop.way
    at = f"line {model.__code__.co_firstlineno + 1} of test_capture.py"
    assert last == f"{at}, in model: return checked(x.sin()).cos()"
    assert f"  from: {last}" in str(stop)

    def stops_before(x):
        print(x.shape)
        return model(x) * 2

    *way, again = graphs(stops_before, X).breaks[1].way
    (line,) = way  # of two breaks in a row, the second does not hang on the first
    assert line.endswith("in stops_before: return model(x) * 2") and again == last
    (alone,) = graphs(checked, X).breaks
    assert (alone.file, alone.line) == (stop.file, 4) and "from:" not in str(alone)


def test_a_guard_has_the_line_of_the_caller_or_of_the_library_and_never_ours():
    source = "def scaled(x, n):\n    return x * n\n"
    calls = [(X, "a"), (X, "bb")]
    texts = defined(source.replace("* n", "* len(n)"), "scaled")
    alone = recompiles(texts, calls).calls[1].failed[0]
    assert alone.test == "n == 'a'"
    place = "line 2 of site-packages/boxes/ops.py, in scaled: return x * len(n)"
    assert alone.place == place

    def use(x, n):
        return texts(x, n) + 1

    (called,) = recompiles(use, calls).calls[1].failed
    line = use.__code__.co_firstlineno + 1
    assert called.place == (
        f"line {line} of test_capture.py, in use: return texts(x, n) + 1, "
        "inside site-packages/boxes/ops.py"
    )


def test_what_is_compiled_already_is_captured_anew_and_a_module_whole():
    compiled = torch.compile(prints, backend="eager")
    compiled(X)
    assert str(graphs(compiled, X)) == str(graphs(prints, X))
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    ops = ("linear", "relu")
    assert graphs(net, X).ops == graphs(torch.compile(net), X).ops == ops
    net.compile()
    assert graphs(net, X).ops == ops
    assert graphs(torch.nn.Sequential(net, net), X).ops == ops * 2


LEARNS = X.clone().requires_grad_()
WIDE, TURNED = torch.ones(3, 4), torch.ones(4, 3).t()


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ((X, 1), (X.double(), 1), "x has dtype Double, compiled for Float"),
        ((X, True), (X, False), "n is no longer True"),
        ((X, 1), (LEARNS, 1), "x differs in whether it requires gradients"),
        ((WIDE, 1), (TURNED, 1), "x has stride 1 in dimension 0, compiled for 4"),
        ((WIDE, 1), (X, 1), "the number of dimensions of x is 1, compiled for 2"),
    ],
)
def test_a_failed_guard_in_words(first, second, words):
    def use(x, n):
        return x * 2 if n else x * 3

    costs = recompiles(use, [first, second, second])
    assert costs.counts == (1, 1, 0)
    assert costs.calls[1].reasons == (words,)


def test_the_recompile_limit_is_reported():
    calls = [(torch.ones(n),) for n in range(2, 7)]
    with torch._dynamo.config.patch(recompile_limit=3):
        costs = recompiles(chain, calls, dynamic=False)
    assert costs.counts == (1, 1, 1, 0, 0)
    assert costs.limit_hit
    limit = "the recompile limit was hit: new inputs run eagerly from then on"
    assert str(costs).endswith(f"\n5 calls, 3 compiles; {limit}")
    assert recompiles(chain, calls).total == 2, "dynamic from the second size on"
    assert recompiles(chain, calls, dynamic=True).total == 1


@pytest.mark.parametrize("calls", [[], [X], (X, X), [[X]], X])
def test_calls_that_are_no_tuples_say_what_to_do(calls):
    said = r"list of tuples.*recompiles\(f, \[\(x,\), \(y,\)\]\)"
    with pytest.raises(InputError, match=said):
        recompiles(chain, calls)


# ------------------------------------------------------------- compiles in a block


def test_a_watch_counts_what_is_new_and_only_that():
    compiled = torch.compile(chain, backend="eager")
    compiled(X)
    with Watch() as watch:
        compiled(X)
        assert watch.compiles == 0 and watch.graphs == 0
        compiled(torch.ones(5))
        assert watch.compiles == 1
        compiled(torch.ones(5, 5))
    compiled(torch.ones(5, 5, 5))
    assert (watch.compiles, watch.graphs, watch.graph_breaks) == (2, 2, 0)
    assert not watch.limit_hit
    assert len(watch.reasons) == 2 and "size mismatch" in watch.reasons[0]
    assert watch.ignored == ()


def test_what_a_budget_has_found_is_kept(monkeypatch):
    ticks = iter(range(9))  # each look at the clock is a second later
    monkeypatch.setattr(capture, "time", SimpleNamespace(monotonic=ticks.__next__))
    calls = [(torch.ones(n),) for n in range(2, 9)]
    costs = recompiles(chain, calls, dynamic=False, budget=2.0)
    assert costs.counts == (1, 1, 1)
    why = "the budget of 2 s was spent"
    assert costs.stopped == f"stopped after call 3 of 7: {why}"
    assert str(costs).endswith(f"3 calls, 3 compiles\n{costs.stopped}")
    assert Recompiles.from_json(costs.to_json()) == costs
