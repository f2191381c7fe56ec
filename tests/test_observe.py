"""graphs() and recompiles(): counts, lines, reasons and fixes, and bad input."""

import linecache
import time

import numpy as np
import pytest
import torch

from helpers import advice
from helpers.isolate import InputError
from helpers.observe import graphs, recompiles

X = torch.arange(1.0, 5.0)


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


def prints(x):
    y = x.sin()
    print(end="")
    return y.cos()


def prints_last(x):
    y = x.sin()
    print(end="")
    return y


def prints_in_a_loop(x):
    for _ in range(3):
        x = x + 1
        print(end="")
    return x


def lists(x):
    return sum(x.tolist())


def nothing(x):
    return 3


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


def test_ops_have_the_names_of_torch_functions():
    found = graphs(chain, X)
    assert [graph.ops for graph in found.graphs] == [("sin", "mul", "add", "relu")]
    assert found.breaks == ()
    assert str(found) == "1 graph, 0 graph breaks\ngraph 1: 4 ops: sin, mul, add, relu"


def test_options_of_the_function_are_passed_on():
    def power(x, *, n):
        return torch.nn.functional.linear(x, x) ** n

    assert graphs(power, torch.ones(2, 2), n=3).ops == ("linear", "pow")


@pytest.mark.parametrize(
    ("fn", "count", "reason", "fix", "skipped"),
    [
        (item, 2, "item", "keep the value a tensor", False),
        (branch, 2, "branching", "torch.where", False),
        (prints, 2, "builtin", "print, log or warn", False),
        (prints_last, 1, "builtin", "print, log or warn", False),
        (prints_in_a_loop, 0, "builtin", "print, log or warn", True),
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
    found = graphs(fn, X)
    assert found.count == count
    (stop,) = found.breaks
    owner = inner if fn is nested else fn
    assert reason in stop.reason
    assert "\n" not in stop.reason
    assert stop.function == owner.__name__
    assert stop.file == "test_observe.py"
    assert stop.source == linecache.getline(__file__, stop.line).strip()
    assert stop.fix.startswith(fix) or fix in stop.fix
    assert stop.skipped == skipped
    assert "/" not in str(stop)


def test_a_called_function_that_runs_eagerly_as_a_whole_is_told():
    found = graphs(lambda x: prints_in_a_loop(x.cos()).sin(), X)
    (stop,) = found.breaks
    assert (stop.function, stop.skipped) == ("prints_in_a_loop", True)
    assert found.ops == ("cos", "sin")


def test_two_breaks_of_one_line_are_two():
    def two(x):
        return x * x.sum().item() + x * x.max().item()

    found = graphs(two, X)
    assert found.count == 3
    if torch.__version__ >= "2.13":  # older ones do not say where in the line
        assert len(found.breaks) == 2


def test_a_function_that_captures_nothing_says_so():
    for fn in (nothing, lists):
        found = graphs(fn, X)
        assert found.count == 0
        assert "nothing was captured" in str(found)


def test_a_break_in_a_notebook_cell_has_its_line():
    name = "/tmp/ipykernel_7/1234.py"
    source = "def cell(x):\n    y = x.sin()\n    print(end='')\n    return y.cos()\n"
    lines = source.splitlines(keepends=True)
    linecache.cache[name] = (len(source), None, lines, name)
    space: dict = {}
    exec(compile(source, name, "exec"), space)
    (stop,) = graphs(space["cell"], X).breaks
    assert (stop.line, stop.source, stop.file) == (3, "print(end='')", "the cell")
    assert "ipykernel" not in str(stop)


def test_a_compiled_function_is_captured_anew():
    compiled = torch.compile(prints, backend="eager")
    compiled(X)
    assert str(graphs(compiled, X)) == str(graphs(prints, X))


def test_a_module_is_captured_whole():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(x).relu()

    net = Net()
    expected = ("linear", "relu")
    assert graphs(net, X).ops == expected
    assert graphs(torch.compile(net), X).ops == expected
    net.compile()
    assert graphs(net, X).ops == expected
    assert graphs(torch.nn.Sequential(net, net), X).ops == expected * 2


def test_the_same_text_twice_and_after_other_compiles():
    first = str(graphs(nested, X))
    for _ in range(3):
        graphs(prints, X)
    assert str(graphs(nested, X)) == first


def test_nested_outputs_gradients_and_random_numbers():
    def outputs(x):
        return {"a": [x.sin(), (x.cos(),)], "b": torch.rand(3), "c": None}

    x = X.clone().requires_grad_()
    found = graphs(outputs, x)
    assert (found.count, len(found.breaks)) == (1, 0)
    assert x.grad is None


def test_a_function_that_raises_says_what_to_do():
    def fails(x):
        return x.reshape(7, 7)

    for fn in (fails, lambda x: 1 / 0, lambda x, y: x):
        with pytest.raises(InputError, match="uncompiled") as caught:
            graphs(fn, X)
        assert caught.value.__cause__ is not None


def test_the_result_instead_of_the_function_says_what_to_do():
    with pytest.raises(InputError, match=r"graphs\(f, x\)"):
        graphs(chain(X))


def test_inputs_on_two_devices_say_what_to_do():
    with pytest.raises(InputError, match=r"cpu and meta.*to\(device\)"):
        graphs(lambda x, y: x + y, X, X.to("meta"))


def test_recompiles_count_each_call_with_its_reason():
    found = recompiles(chain, [(X,), (X,), (torch.ones(5),), (torch.ones(6),)])
    assert found.counts == (1, 0, 1, 0)
    assert found.total == 2
    assert found.calls[0].reasons == ("first call",)
    assert found.calls[2].reasons == ("x has size 5 in dimension 0, compiled for 4",)
    guard = "tensor 'x' size mismatch at index 0. expected 4, actual 5"
    assert found.calls[2].guards == (guard,)
    assert not found.limit_hit
    assert "4 calls, 2 compiles" in str(found)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ((X, 1), (X.double(), 1), "x has dtype Double, compiled for Float"),
        ((X, True), (X, False), "n is no longer True"),
        ((X, "a"), (X, "b"), "n is no longer 'a'"),
        ((X, 1), (X.clone().requires_grad_(), 1), "requires gradients"),
        (
            (torch.ones(3, 4), 1),
            (torch.ones(4, 3).t(), 1),
            "x has stride 1 in dimension 0",
        ),
        ((torch.ones(3, 4), 1), (X, 1), "the number of dimensions of x is 1"),
    ],
)
def test_a_failed_guard_in_words(first, second, words):
    def use(x, n):
        return x * 2 if n else x * 3

    found = recompiles(use, [first, second, second])
    assert found.counts == (1, 1, 0)
    assert words in found.calls[1].reasons[0]


def test_a_global_setting_that_changed():
    words = advice.in_words("GLOBAL_STATE changed: grad_mode ")
    assert words == "the global setting grad_mode changed"


def test_no_address_and_no_path_in_a_guard():
    raw = "7/0: ___check_obj_id(L['fn'], 139871234567890)  # y = fn(x)  # a/b.py:3 in f"
    short = advice.short(raw)
    assert short == "___check_obj_id(L['fn'], …)"
    assert advice.in_words(short) == "fn is another object"
    assert advice.in_words("unheard of") == "unheard of"


def test_the_recompile_limit_is_reported():
    limit = torch._dynamo.config.recompile_limit
    calls = [(torch.ones(n),) for n in range(2, limit + 4)]
    found = recompiles(chain, calls, dynamic=False)
    assert found.counts == (1,) * limit + (0, 0)
    assert found.limit_hit
    assert "recompile limit was hit" in str(found)
    assert recompiles(chain, calls).total == 2, "dynamic from the second size on"
    assert recompiles(chain, calls, dynamic=True).total == 1


def test_a_compiled_function_is_used_as_it_is():
    compiled = torch.compile(chain, backend="eager")
    compiled(X)
    assert recompiles(compiled, [(X,), (X.double(),)]).counts == (0, 1)
    assert recompiles(compiled, [(X.double(),)]).counts == (0,)
    assert recompiles(chain, [(X,)]).counts == (1,)


def test_a_break_costs_a_compile_of_each_part():
    assert recompiles(prints, [(X,), (X,)]).counts == (2, 0)


def test_a_counter_of_a_module_recompiles_and_stays():
    class Steps(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.step = 0

        def forward(self, x):
            self.step += 1
            return x * self.step

    module = Steps()
    found = recompiles(module, [(X,)] * 3)
    assert found.counts == (1, 1, 1)
    assert "step is no longer 0" in found.calls[1].reasons[0]
    assert module.step == 0


@pytest.mark.parametrize("calls", [[], [X], (X, X), [[X]]])
def test_calls_that_are_no_tuples_say_what_to_do(calls):
    with pytest.raises(InputError, match=r"recompiles\(f, \[\(x,\), \(y,\)\]\)"):
        recompiles(chain, calls)


def test_a_call_that_raises_says_what_to_do():
    with pytest.raises(InputError, match="uncompiled"):
        recompiles(lambda x: x.reshape(7), [(X,)])


def test_an_unknown_back_end_says_so():
    with pytest.raises(Exception, match="nonsense"):
        recompiles(chain, [(X,)], backend="nonsense")


def test_html_says_what_the_text_says():
    for result in (graphs(prints, X), recompiles(chain, [(X,), (X.double(),)])):
        shown = result._repr_html_()
        for word in str(result).replace("─", "").split():
            assert word.replace("'", "&#x27;").replace('"', "&quot;") in shown
        assert repr(result) == str(result)


def test_results_are_frozen():
    found = graphs(chain, X)
    with pytest.raises(AttributeError):
        found.graphs = ()
