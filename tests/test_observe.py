"""graphs() and recompiles(): counts, lines, reasons and fixes, and bad input."""

import inspect
import linecache
import time
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import capture
from helpers.capture import (
    Call,
    Graph,
    GraphBreak,
    Graphs,
    Recompiles,
    graphs,
    recompiles,
)
from helpers.errors import InputError

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


def test_a_disabled_function_is_named_by_its_own_line():
    (stop,) = graphs(off, X).breaks
    lines, first = inspect.getsourcelines(off)
    assert (stop.file, stop.line, stop.function) == (Path(__file__).name, first, "off")
    assert stop.source == lines[0].strip() == "@torch.compiler.disable"
    off_forward = torch.compiler.disable(torch.nn.Linear(4, 4))
    assert "isolate" not in str(graphs(off_forward, torch.randn(2, 4)))


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
    words = capture.in_words("GLOBAL_STATE changed: grad_mode ")
    assert words == "the global setting grad_mode changed"


def test_no_address_and_no_path_in_a_guard():
    raw = "7/0: ___check_obj_id(L['fn'], 139871234567890)  # y = fn(x)  # a/b.py:3 in f"
    short = capture.short(raw)
    assert short == "___check_obj_id(L['fn'], …)"
    assert capture.in_words(short) == "fn is another object"
    assert capture.in_words("unheard of") == "unheard of"


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


# ------------------------------------------------ what is read in torch's own words


PAYLOAD = """Graph break in user code at /home/me/program.py:7
Graph Break Reason: Call to `torch._dynamo.graph_break()`
  Explanation: User-inserted graph break.
  Hint: Remove the call.

User code traceback:
  File "/home/me/program.py", line 12, in torch_dynamo_resume_in_outer_at_9
    return inner(x)
           ^^^^^^^^
  File "/home/me/other.py", line 7, in inner
    torch._dynamo.graph_break()
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""


def read(payload, *home):
    return capture._read_break(payload, [*home])


def test_a_break_is_read_from_its_innermost_frame_of_ones_own():
    stop, carets = read(PAYLOAD)
    assert (stop.file, stop.line, stop.function) == ("other.py", 7, "inner")
    assert stop.source == "torch._dynamo.graph_break()" and not stop.skipped
    assert stop.reason == "Call to `torch._dynamo.graph_break()`"
    assert carets == "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^"
    library = f'  File "{capture._LIBRARIES[0]}/os.py", line 3, in walk\n    x\n'
    assert read(PAYLOAD + library)[0] == stop
    frozen = '  File "<frozen os>", line 3, in walk\n    x\n'
    assert read(PAYLOAD + frozen)[0] == stop
    logged = 'Traceback (most recent call last):\n  File "/me/x.py", line 1, in y\n'
    assert read(PAYLOAD + logged)[0] == stop
    only, _ = read(PAYLOAD.partition("User code traceback:\n")[0] + library)
    assert (only.file, only.line) == ("program.py", 7)


def test_a_break_without_frames_is_where_torch_says():
    head = PAYLOAD.partition("User code traceback:")[0]
    stop, carets = read(head)
    assert (stop.file, stop.line, stop.function) == ("program.py", 7, "?")
    assert carets == "" and stop.reason.startswith("Call to")
    linecache.cache["/home/me/program.py"] = (1, None, ["a\n"] * 6 + ["  b()\n"], "")
    try:
        assert read(head)[0].source == "b()"
    finally:
        del linecache.cache["/home/me/program.py"]
    nowhere, _ = read("Graph Break Reason: why.")
    assert (nowhere.file, nowhere.line, nowhere.function) == ("?", 0, "?")
    assert (nowhere.reason, nowhere.source) == ("why", "")


def test_a_break_in_the_library_alone_is_told_where_it_is():
    library = f'  File "{capture._LIBRARIES[0]}/os.py", line 3, in walk\n    x = 1\n'
    stop, _ = read(f"Graph Break Reason: why\nUser code traceback:\n{library}")
    assert (stop.file, stop.line, stop.source) == ("os.py", 3, "x = 1")


def test_a_break_before_the_first_line_is_where_the_function_begins():
    home = ("/home/me/program.py", "4", "outer", "def outer(x):\n")
    library = f'  File "{capture._LIBRARIES[0]}/os.py", line 3, in walk\n    x = 1\n'
    stop, _ = read(f"Graph Break Reason: x\nUser code traceback:\n{library}", home)
    assert (stop.file, stop.line, stop.source) == ("program.py", 4, "def outer(x):")
    assert read(PAYLOAD, home)[0].line == 7
    ours = f'  File "{capture._HELPERS}isolate.py", line 3, in call\n    fn()\n'
    before, _ = read(PAYLOAD + ours, home)
    assert before.line == 4
    frame = PAYLOAD.partition("User code traceback:\n")[2]
    after, _ = read(PAYLOAD + ours + frame, home)
    assert (after.file, after.line) == ("other.py", 7)
    assert read(PAYLOAD.replace("  File", ours + "  File", 1), home)[0].line == 7


def test_a_function_that_is_skipped_is_said_on_the_first_line_only():
    skipped = "Graph Break Reason: Skipping the function: x\n  Reason in words\n"
    stop, _ = read(skipped)
    assert stop.skipped and stop.reason == "Skipping the function: x"
    assert "so the whole function runs eagerly" in str(stop)
    later = "Graph Break Reason: why\n  Skipping the function\n"
    assert not read(later)[0].skipped


def test_a_heading_is_no_reason():
    headed = "Graph Break Reason: Failed:\n\n  the real one.\n more\n"
    assert read(headed)[0].reason == "the real one"
    assert read("Graph Break Reason: only:\n")[0].reason == "only:"


def event(payload, kind="dynamo_graph_break_reason"):
    return types.SimpleNamespace(kind=kind, payload=payload)


def test_a_place_counts_once_and_as_skipped_if_it_is_skipped_in_the_end():
    plain = event(PAYLOAD)
    where = PAYLOAD.partition("User code traceback:")[2]
    why = "Graph Break Reason: Skipping the function: x\nUser code traceback:"
    skipped = event(why + where)
    other = event(PAYLOAD.replace("    ^^^^^^^^^^^^^^^^^^^^^^^^^^^\n", "      ^^^\n"))
    last = event(PAYLOAD, "inductor_output_code")
    found = capture._breaks([plain, plain, last], [])
    assert [(b.line, b.skipped) for b in found] == [(7, False)]
    assert len(capture._breaks([plain, other], [])) == 2
    assert [b.skipped for b in capture._breaks([plain, skipped], [])] == [False, True]
    assert capture._breaks([], []) == ()


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("/tmp/ipykernel_123/456.py", "the cell"),
        ("<ipython-input-3-abc>", "the cell"),
        ("/home/me/program.py", "program.py"),
        ("", ""),
    ],
)
def test_the_name_of_a_file_is_the_same_on_every_machine(file, name):
    assert capture._file_name(file) == name


def test_graphs_as_text():
    stop = GraphBreak("why", 3, "x.item()", "f", "the cell", "keep it a tensor")
    found = Graphs((Graph(("sin", "cos")), Graph(("add",))), (stop, stop))
    assert found.count == 2 and found.ops == ("sin", "cos", "add")
    place = "line 3 of the cell, in f: x.item()\n  why: why\n  fix: keep it a tensor"
    assert str(found) == (
        "2 graphs, 2 graph breaks\n"
        "graph 1: 2 ops: sin, cos\ngraph 2: 1 op: add\n"
        f"break 1: {place}\nbreak 2: {place}"
    )
    assert repr(found) == str(found) and repr(stop) == str(stop) == place
    assert Graphs.from_json(found.to_json()) == found
    none = Graphs((), (stop,))
    assert str(none).startswith(
        "0 graphs, 1 graph break: nothing was captured, all of it runs eagerly\nbreak 1"
    )
    assert found._repr_html_().startswith("<pre") and "graph 2" in found._repr_html_()


def test_recompiles_as_text():
    calls = (Call(1, ("first call",), ()), Call(0, (), ()), Call(2, ("a", "b"), ("g",)))
    found = Recompiles(calls, False)
    assert found.counts == (1, 0, 2) and found.total == 3
    assert found.table().headings == ("call", "compiles", "why")
    assert found.table().rows == (
        *(("1", "1", "first call"), ("2", "0", ""), ("3", "2", "a; b")),
    )
    assert str(found) == f"{found.table()}\n3 calls, 3 compiles" == repr(found)
    over = Recompiles(calls[:1], True)
    assert str(over).endswith(
        "1 call, 1 compile; the recompile limit was hit: new inputs run eagerly from "
        "then on"
    )
    shown = over._repr_html_()
    assert shown.startswith(over.table()._repr_html_()) and "limit was hit" in shown
    assert Recompiles.from_json(found.to_json()) == found


def test_the_names_of_operations_in_a_graph():
    class Linear:
        pass

    nodes = [
        types.SimpleNamespace(op=op, target=target)
        for op, target in (
            ("placeholder", "x"),
            ("call_function", torch.sin),
            ("call_method", "add_"),
            ("call_module", "layer"),
            ("call_function", torch.ops.aten.mul.Tensor),
            ("get_attr", "w"),
            ("output", "output"),
        )
    ]
    graph = types.SimpleNamespace(
        graph=types.SimpleNamespace(nodes=nodes),
        get_submodule={"layer": Linear()}.__getitem__,
    )
    assert capture._op_names(graph) == ["sin", "add", "Linear", "mul"]
