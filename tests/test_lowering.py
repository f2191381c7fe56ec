"""What becomes a kernel's row, from nodes that are made up: nothing is compiled."""

import types

import pytest
import torch

from helpers import codegen
from helpers.codegen import Code, Kernel, Kernels, op_name, program_line


class Thing(types.SimpleNamespace):
    """A thing with these attributes, equal to none but itself."""

    __hash__, __eq__ = object.__hash__, object.__eq__


class Part:
    """A scheduler node: the program's nodes behind it, and whether it reduces."""

    def __init__(self, *origins, reduction=False, extern=False, own=None):
        self.node = types.SimpleNamespace(
            get_origins=lambda: set(origins), get_origin_node=lambda: own
        )
        self.is_reduction = lambda: reduction
        self.is_extern = lambda: extern


class Group:
    """A fused group: its parts, what it reads and writes, and how many bytes."""

    def __init__(self, *parts, reads=(), writes=(), nothing=(), moved=0):
        self.get_nodes = lambda: list(parts)
        self.get_read_write_buffers_sizes = lambda: moved
        sizes = (dict.fromkeys(reads, 4), dict.fromkeys(writes, 8))

        def accesses(include_reads, include_writes):
            assert include_reads is not include_writes
            empty = dict.fromkeys(nothing, 0)
            return {**sizes[bool(include_writes)], **empty}

        self.get_read_write_buffer_accesses = accesses


def node(name, graph, aten=None, **meta):
    made = Thing(name=name, graph=graph)
    made.meta = {"original_aten": aten, "seq_nr": name, **meta}
    graph.nodes.append(made)
    return made


@pytest.fixture
def graph(monkeypatch):
    """A graph that is lowered just now, for inference."""
    made = Thing(nodes=[], is_backward=False, is_inference=True)
    held = types.SimpleNamespace(graph=made)
    monkeypatch.setattr(codegen.compat, "private", lambda key: {"lowered": held}[key])
    return made


def test_a_kernel_counts_each_buffer_once_and_each_reduction(graph):
    a, b, c = (node(name, graph, f"aten.{name}") for name in ("sin", "sum", "mul"))
    one = Group(Part(a), Part(b, reduction=True), reads="xy", writes="z", moved=96)
    two = Group(
        Part(c), Part(b, reduction=True), reads="yw", writes="zv", nothing="n", moved=4
    )
    found = codegen._kernel("cpp_0", "C++", [one, two])
    assert found == Kernel(
        "cpp_0", "C++", "inference", found.ops, loads=3, stores=2, reductions=2,
        bytes=100,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("backward", "inference", "phase"),
    [
        (False, True, "inference"),
        (False, False, "forward"),
        (True, False, "backward"),
    ],
)
def test_the_phase_is_that_of_the_graph(graph, backward, inference, phase):
    graph.is_backward, graph.is_inference = backward, inference
    assert codegen._kernel("cpp_0", "C++", [Group(Part())]).phase == phase


def test_a_kernel_of_no_operation_has_its_own_name(graph):
    assert codegen._kernel("aten.mm", "library", [Group(Part())]).ops == ("mm",)


def test_operations_come_in_the_order_of_the_program_and_once_each(graph):
    first, second = node("sin", graph, "aten.sin"), node("cos", graph, "aten.cos")
    again = node("sin", graph, "aten.sin", seq_nr="sin")
    third = node("view", graph, "aten._unsafe_view")
    parts = [Part(third, again), Part(second, first)]
    assert codegen._origins(parts) == [first, second, again, third]
    assert codegen._ops([first, second, again, third]) == ("aten",) * 2
    names = [torch.ops.aten.sin.default, torch.ops.aten.cos.default]
    first.meta["original_aten"] = again.meta["original_aten"] = names[0]
    second.meta["original_aten"] = names[1]
    assert codegen._ops([first, second, again, third]) == ("sin", "cos")


def test_a_library_call_is_what_it_calls_and_not_what_feeds_it(graph):
    own, feeds = node("mm", graph), node("view", graph)
    assert codegen._origins([Part(own, feeds, extern=True, own=own)]) == [own]
    assert codegen._origins([Part(own, feeds, extern=True)]) == [own, feeds]
    assert codegen._origins([Part(own, feeds, own=own)]) == [own, feeds]
    both = [Part(own, feeds, extern=True, own=own), Part(feeds)]
    assert codegen._origins(both) == [own, feeds]
    assert codegen._origins([types.SimpleNamespace(node=None, is_extern=bool)]) == []


def test_fused_groups_once_each_without_markers():
    group = object()
    table = types.SimpleNamespace(name_to_fused_node={"a": group, "b": group})

    def scheduled(name):
        return Thing(scheduler=table, get_name=lambda: name)

    alone = scheduled("c")
    marker = types.SimpleNamespace(get_name=lambda: "a")
    other = types.SimpleNamespace(scheduler=table)
    found = codegen._fused([scheduled("a"), marker, alone, scheduled("b"), other])
    assert found == [group, alone]


class UserDefinedTritonKernel:
    python_kernel_name = "triton_0"


@pytest.mark.parametrize(
    ("node", "name"),
    [
        (UserDefinedTritonKernel(), "your Triton kernel"),
        (types.SimpleNamespace(python_kernel_name="extern_kernels.mm"),
         "extern_kernels.mm"),
        (types.SimpleNamespace(python_kernel_name="torch.ops.aten.sort.default"),
         "aten.sort"),
        (types.SimpleNamespace(python_kernel_name=None), ""),
        (object(), ""),
    ],
)  # fmt: skip
def test_the_name_of_a_library_call(node, name):
    assert codegen._library_name(node) == name


TRACE = """  File "/home/me/program.py", line 3, in outer
    return inner(x)
  File "/home/me/program.py", line 12, in inner
    h = torch.sin(x)
"""
IN_TORCH = f'  File "{torch.__file__}", line 7, in forward\n    return F.linear(x)\n'


def of(**meta):
    return types.SimpleNamespace(meta=meta)


def test_the_line_of_the_program_is_the_callers_innermost():
    assert program_line(of(stack_trace=TRACE)) == "12: h = torch.sin(x)"
    assert program_line(of(stack_trace=TRACE + IN_TORCH)) == "12: h = torch.sin(x)"


def test_a_module_called_from_no_line_gives_its_name_and_kind():
    stack = {"0": ("self", torch.nn.Sequential), "1": ("self.net.0", torch.nn.Linear)}
    assert program_line(of(nn_module_stack=stack)) == "0: Linear"
    assert program_line(of(stack_trace=IN_TORCH, fwd_nn_module_stack=stack)) == (
        "0: Linear"
    )
    assert program_line(of(nn_module_stack={"0": ("", "Net")})) == "self: Net"
    assert program_line(of(stack_trace=None, nn_module_stack={})) == ""
    later = {"2": ("self.last", torch.nn.ReLU)}
    found = of(nn_module_stack=stack, fwd_nn_module_stack=later)
    assert program_line(found) == "last: ReLU"


def test_what_identifies_an_operation():
    aten, views = torch.ops.aten.sin.default, torch.ops.aten.view.default
    assert codegen._op(of(original_aten=aten, seq_nr=3)) == ((str(aten), 3), "sin")
    assert codegen._op(of(original_aten=views)) == (None, "")
    unsafe = torch.ops.aten._unsafe_view.default
    assert codegen._op(of(original_aten=unsafe)) == (None, "")
    called = of(original_aten=aten, source_fn_stack=[("a", max), ("b", torch.cos)])
    assert codegen._op(called) == ("b", "cos")
    module = of(original_aten=aten, seq_nr=1, source_fn_stack=[("a", torch.nn.ReLU)])
    assert codegen._op(module) == ((str(aten), 1), "sin")
    assert codegen._op(of()) == (("None", None), "")


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (torch.sin, "sin"),
        ("aten.add_.Tensor", "aten"),
        (torch.ops.aten.add_.Tensor, "add"),
        (torch.ops.aten.native_layer_norm.default, "layer_norm"),
        (torch.ops.aten._softmax.default, "softmax"),
        ("_safe_softmax", "softmax"),
        ("relu_", "relu"),
        ("triton_kernel_wrapper_mutation", "your kernel"),
        ("", ""),
    ],
)
def test_names_of_operations(target, name):
    assert op_name(target) == name


# -------------------------------------------------------- what a list of them says


def kernel(name="cpp_0", language="C++", moved=2048, **more):
    usual = {"phase": "forward", "ops": ("sin", "mul"), "loads": 1, "stores": 2}
    return Kernel(name, language, bytes=moved, reductions=3, **usual | more)


def test_a_row_marks_what_the_machine_decides():
    assert kernel().row() == (
        *("forward", "sin, mul", "1", "2", "3", "2 KiB", "⟨C++: cpp_0⟩"),
    )


def test_kernels_are_parted_from_library_calls_and_their_bytes_added_up():
    one, mm = kernel(), kernel("extern_kernels.mm", "library", 1024)
    found = Kernels((one, mm))
    assert found.generated == (one,) and found.library == (mm,)
    assert found.bytes == 3072
    headings = ("phase", "ops", "loads", "stores", "reductions", "bytes", "kernel")
    assert found.table().headings == headings
    assert found.table().rows == (one.row(), mm.row())
    assert str(found) == f"{found.table()}\n1 kernel, 1 library call, 3 KiB"
    partly = Kernels((one,), 2)
    assert str(partly).endswith(
        "1 kernel, 0 library calls, 2 KiB; only partly compiled, graphs(f, x) says "
        "where it stops"
    )
    assert repr(partly) == str(partly)
    shown = partly._repr_html_()
    assert shown.startswith(partly.table()._repr_html_()) and "only partly" in shown
    none = Kernels(())
    assert str(none).startswith("no kernels: nothing was captured")
    assert none.bytes == 0 and none._repr_html_().startswith("<pre")


CPP = "cpp_fused_sin_0 = async_compile.cpp_pybinding(['float*'], r'''\nint main\n''')\n"
TRITON = "triton_poi_1 = async_compile.triton('triton_poi_1', '''\nimport tl\n''')\n"


@pytest.mark.parametrize(
    ("texts", "language", "names"),
    [
        ((CPP,), "C++", ("cpp_fused_sin_0",)),
        ((TRITON,), "Triton", ("triton_poi_1",)),
        ((CPP, TRITON), "Triton and C++", ("cpp_fused_sin_0", "triton_poi_1")),
        ((CPP, CPP), "C++", ("cpp_fused_sin_0",)),
        (("x = 1",), "no kernels", ()),
    ],
)
def test_the_language_and_the_kernels_of_generated_code(texts, language, names):
    code = Code(tuple(("forward", text) for text in texts))
    assert code.language == language and code.names == names
    assert code.text == "\n".join(texts)
    lines = len(code.text.splitlines())
    said = f"⟨{language}, {lines} line{'s' * (lines > 1)}: {', '.join(names)}⟩"
    assert (
        str(code) == f"Generated code ({', '.join(['forward'] * len(texts))}): {said}"
    )
    assert repr(code) == str(code)


def test_one_kernel_of_generated_code():
    code = Code((("forward", CPP + TRITON), ("backward", "")))
    assert code.kernel("cpp_fused_sin_0") == "int main"
    assert code.kernel("triton_poi_1") == "import tl"
    for name in ("nope", None):
        with pytest.raises(KeyError, match="there are: cpp_fused_sin_0, triton_poi_1"):
            code.kernel(name)
    assert Code((("forward", CPP),)).kernel() == "int main"
    with pytest.raises(KeyError, match="there are: none"):
        Code(()).kernel()
    assert str(Code(())) == "no generated code: nothing was captured"


def test_generated_code_is_shown_in_the_colours_of_its_languages(monkeypatch):
    from helpers import codegen

    seen = []
    monkeypatch.setattr(codegen, "folded", lambda *given: seen.append(given) or "html")
    assert Code((("forward", CPP + TRITON + "end"),))._repr_html_() == "html"
    title, parts = seen[0]
    assert title == "Generated code (forward): C++, 7 lines: x".replace(
        "C++, 7 lines: x", "Triton and C++, 7 lines: cpp_fused_sin_0, triton_poi_1"
    )
    assert [language for language, _ in parts] == [
        *("python", "cpp", "python", "python", "python")
    ]
    assert "".join(text for _, text in parts) == CPP + TRITON + "end"
    assert parts[1][1] == "\nint main\n" and parts[3][1] == "\nimport tl\n"


def test_what_is_folded_is_escaped_and_coloured():
    from helpers.codegen import folded

    shown = folded("a < b", [("python", "x = 1"), ("cpp", "int y;")])
    assert shown.startswith("<details open><summary>a &lt; b</summary>")
    assert shown.endswith("</details>") and "<span style=" in shown
    assert shown.index("x") < shown.index("int")


def test_generated_code_is_saved_whole(tmp_path):
    code = Code((("forward", CPP), ("backward", TRITON)))
    code.save(tmp_path / "new" / "code.py")
    assert (tmp_path / "new" / "code.py").read_text() == code.text


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("# AOT ID: ['0_inference']", "inference"),
        ("# AOT ID: ['13_backward']", "backward"),
        ("# AOT ID: ['1_forward']", "forward"),
        ("no header", "inference"),
    ],
)
def test_the_phase_of_generated_code(text, phase):
    from helpers.codegen import _phase

    assert _phase(text) == phase


# ------------------------------------------------------- what is asked of the compiler


@pytest.fixture
def compiled(monkeypatch):
    """What the compiler is asked for; it writes two kernels and breaks twice."""
    import contextlib

    from helpers import codegen

    asked = []
    events = [
        types.SimpleNamespace(kind=kind, payload=payload)
        for kind, payload in (
            ("inductor_output_code", "# AOT ID: ['0_forward']"),
            ("dynamo_graph_break_reason", "why"),
            ("inductor_output_code", "# AOT ID: ['0_backward']"),
            ("dynamo_graph_break_reason", "why"),
        )
    ]
    found = [kernel(), kernel("cpp_1")]

    def note(name, answer=None):
        return lambda *given, **more: asked.append((name, given, more)) or answer

    def held(name, value):
        note_ = note(name, contextlib.nullcontext(value))
        return lambda *given: note_(*given)

    isolate = types.SimpleNamespace(
        check_callable=note("check"),
        inductor=note("inductor", "backend"),
        undisturbed=held("undisturbed", None),
        compile_apart=note("compile", "apart"),
        call=note("call"),
    )
    monkeypatch.setattr(codegen, "isolate", isolate)
    monkeypatch.setattr(codegen.compat, "trace", held("trace", events))
    monkeypatch.setattr(codegen, "lowered", held("lowered", found))
    monkeypatch.setattr(codegen, "both_ways", lambda *given: ("both", *given))
    return asked, found


SETTINGS = {"backward": True, "mode": "m", "options": {"o": 1}, "dynamic": False}
ASKED = [
    ("check", ("fn", ("x", "y")), {}),
    ("inductor", ("m", {"o": 1}, False), {}),
    ("undisturbed", ("fn",), {}),
    ("trace", (), {}),
    ("lowered", (), {}),
    ("compile", ("fn",), {"backend": "backend", "dynamic": False}),
    ("call", (("both", "apart", True), ("x", "y"), {}), {}),
]


def test_kernels_asks_for_what_it_was_told(compiled):
    from helpers.codegen import kernels

    asked, found = compiled
    assert kernels("fn", "x", "y", **SETTINGS) == Kernels(tuple(found), 2)
    assert asked == ASKED


def test_output_code_asks_for_what_it_was_told(compiled, tmp_path):
    from helpers.codegen import output_code

    asked, _ = compiled
    code = output_code("fn", "x", "y", **SETTINGS, to=tmp_path / "code.py")
    assert asked == ASKED
    assert [phase for phase, _ in code.sections] == ["forward", "backward"]
    assert code.sections[1][1] == "# AOT ID: ['0_backward']"
    assert (tmp_path / "code.py").read_text() == code.text


def test_each_launch_is_noted_while_it_is_written_and_no_longer(monkeypatch):
    class Backend:
        def define_kernel(self, source, nodes, *rest, **more):
            return "written", self, source, nodes, rest, more

    class Other(Backend):
        def define_kernel(self, source, nodes, *rest, **more):
            return "triton", self

    class Scheduler:
        def codegen_extern_call(self, node):
            called.append((self, node))

    called = []
    private = {"C++": Backend, "Triton": Other, "scheduler": Scheduler}
    monkeypatch.setattr(codegen.compat, "private", private.__getitem__)
    monkeypatch.setattr(codegen, "_kernel", lambda *given: given)
    monkeypatch.setattr(codegen, "_fused", lambda nodes: ["fused", nodes])
    one, two, scheduler = Backend(), Other(), Scheduler()
    mm = Thing(node=Thing(python_kernel_name="extern_kernels.mm"))
    view = Thing(node=Thing(python_kernel_name=""))
    with codegen.lowered() as found:
        name = one.define_kernel("source", "nodes", 1, x=2)
        assert name == ("written", one, "source", "nodes", (1,), {"x": 2})
        scheduler.codegen_extern_call(mm)
        scheduler.codegen_extern_call(view)
        assert two.define_kernel("source", "nodes") == ("triton", two)
    assert called == [(scheduler, mm), (scheduler, view)]
    assert found == [
        (name, "C++", ["fused", "nodes"]),
        ("extern_kernels.mm", "library", [mm]),
        (("triton", two), "Triton", ["fused", "nodes"]),
    ]
    one.define_kernel("source", "nodes")
    scheduler.codegen_extern_call(mm)
    assert len(found) == 3
