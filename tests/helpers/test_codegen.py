"""kernels() and output_code(): real lowerings, also to Triton text."""

import importlib
import re
from types import SimpleNamespace
from unittest import mock

import pytest
import torch

from helpers.codegen import Code, folded, kernels, output_code, program_line
from helpers.errors import InputError
from helpers.traffic import eager_bytes

N = 1000
X = torch.randn(N)


def chain(x):
    return (x.sin() * 2 + 1).relu()


def matmul(x, w):
    return (x @ w).relu().sum(-1)


def gelu(x):
    return torch.nn.functional.gelu(x)


def broken(x):
    y = x.sin()
    print(end="")
    return y.cos()


def test_a_chain_is_one_read_and_one_write():
    ops = 3

    def pointwise(x):
        for _ in range(ops):
            x = x * 2 + 1
        return x

    lowered = kernels(pointwise, X)
    (kernel,) = lowered.kernels
    assert lowered.bytes == 8 * N
    assert (kernel.loads, kernel.stores, kernel.reductions) == (1, 1, 0)
    assert kernel.ops == ("mul", "add") * ops
    assert kernel.phase == "inference"
    assert eager_bytes(pointwise, X).bytes == 2 * ops * 8 * N


def test_bytes_agree_with_inductor_for_a_whole_graph():
    counted = []
    lowering = importlib.import_module("torch._inductor.graph").GraphLowering
    compile_to_module = lowering.compile_to_module

    def spy(self):
        module = compile_to_module(self)
        counted.append(self.count_bytes()[0])
        return module

    def mixed(x, w):
        y = torch.softmax(x @ w, -1)
        return y.sum(0), torch.nn.functional.layer_norm(y, (64,))

    with mock.patch.object(lowering, "compile_to_module", spy):
        lowered = kernels(mixed, torch.randn(64, 64), torch.randn(64, 64))
    assert lowered.bytes == sum(counted) > 0


def test_a_graph_in_the_cache_is_lowered_anew_and_reads_the_same():
    torch.compile(chain)(X)
    lowered = kernels(chain, X)
    assert lowered == kernels(chain, X)
    assert lowered.bytes == 8 * N
    outside = "".join(part.split("⟩")[-1] for part in str(lowered).split("⟨"))
    assert "cpp" not in outside and "C++" not in outside, "the device is marked"
    assert "sin, mul, add, relu" in outside
    assert "1 kernel, 0 library calls, 7.812 KiB" in outside
    assert "sin, mul, add, relu" in lowered._repr_html_()
    assert ">C++: cpp_fused_" in lowered._repr_html_()
    (kernel,) = lowered.kernels
    headings = "phase", "ops", "loads", "stores", "reductions", "bytes", "kernel"
    assert lowered.table().headings == headings
    row = "inference", "sin, mul, add, relu", "1", "1", "0", "7.812 KiB"
    assert lowered.table().rows == ((*row, f"⟨C++: {kernel.name}⟩"),)
    line = chain.__code__.co_firstlineno + 1
    assert kernel.lines == (f"{line}: return (x.sin() * 2 + 1).relu()",)
    assert kernels(lambda x: chain(x), X).kernels[0].lines == kernel.lines


def test_library_calls_are_listed_as_such_in_launch_order():
    lowered = kernels(matmul, torch.randn(1, 64, 64), torch.randn(64, 64))
    product, rest = lowered.kernels
    assert lowered.library == (product,)
    assert lowered.generated == (rest,)
    assert (product.language, product.name) == ("library", "extern_kernels.mm")
    assert (product.loads, product.stores, product.reductions) == (2, 1, 0)
    assert product.ops == ("matmul",)
    assert product.bytes == 3 * 64 * 64 * 4
    assert rest.ops == ("relu", "sum")
    assert (rest.loads, rest.stores, rest.reductions) == (1, 1, 1)
    assert rest.bytes == (64 * 64 + 64) * 4


def test_other_library_calls():
    linear = torch.nn.Linear(8, 8)

    def calls(image, weights, queries, x):
        image = torch.nn.functional.conv2d(image, weights)
        attention = torch.nn.functional.scaled_dot_product_attention
        attended = attention(queries.sin(), queries, queries)
        return image, attended, x.cos().sort()[0] * 2, linear(x.cos())

    shapes = [(1, 3, 8, 8), (4, 3, 3, 3), (1, 2, 8, 4), (4, 8)]
    lowered = kernels(calls, *map(torch.randn, shapes), backward=False)
    ops = [kernel.ops for kernel in lowered.library]
    own = [("addmm",), ("conv2d",), ("scaled_dot_product_attention",), ("sort",)]
    assert sorted(ops) == own, "and not what only feeds them"
    names = [kernel.name for kernel in lowered.library]
    for name in ("convolution", "attention", "sort", "mm"):
        assert any(name in called for called in names), names


@torch.library.custom_op("course::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


twice.register_fake(torch.empty_like)


def test_an_operation_of_the_callers_is_a_library_call_of_its_name():
    (kernel,) = kernels(twice, X).library
    assert (kernel.name, kernel.ops) == ("course.twice", ("twice",))
    assert (kernel.phase, kernel.bytes) == ("inference", 8 * N)


def test_the_backward_runs_by_default_when_an_output_needs_it():
    x = X.clone().requires_grad_()
    lowered = kernels(gelu, x)
    assert [kernel.phase for kernel in lowered.kernels] == ["forward", "backward"]
    assert [kernel.bytes for kernel in lowered.kernels] == [8 * N, 12 * N]
    assert "gelu_backward" in lowered.kernels[1].ops
    twice = kernels(lambda x: x.sin().sin(), x).kernels
    assert twice[1].ops[-4:] == ("cos", "mul") * 2
    assert x.grad is None
    only = kernels(gelu, x, backward=False)
    assert [kernel.phase for kernel in only.kernels] == ["forward"]
    with torch.no_grad():
        assert [k.phase for k in kernels(gelu, x).kernels] == ["inference"]
    assert eager_bytes(gelu, x).bytes == 8 * N + 12 * N


def test_reading_a_part_moves_a_part():
    x = torch.randn(100, 100)
    (kernel,) = kernels(lambda x: x[:, :4] * 2, x).kernels
    assert (kernel.bytes, kernel.ops) == (2 * 400 * 4, ("mul",))
    assert eager_bytes(lambda x: x[:, :4] * 2, x).bytes == 2 * 400 * 4


def test_modes_options_and_dynamic_shapes_are_used():
    with_mode = kernels(chain, X, mode="max-autotune")
    assert with_mode.bytes == 8 * N
    apart = kernels(
        lambda x: (x + 1, x * 2), X, options={"max_fusion_size": 1}, dynamic=True
    )
    assert apart.bytes == 16 * N
    assert "ks0" in output_code(chain, X, dynamic=True).text


def test_partly_compiled_says_so():
    lowered = kernels(lambda x: broken(x) + 1, X)
    assert [kernel.ops for kernel in lowered.kernels] == [("sin",), ("cos",), ("add",)]
    assert lowered.breaks == 1
    last = str(lowered).splitlines()[-1]
    assert last.startswith("3 kernels, 0 library calls, 23.44 KiB; only partly")
    assert "graphs(f, x)" in last


def test_a_backward_that_nothing_needs_says_what_to_do():
    for look in (kernels, output_code):  # eager_bytes: see test_traffic
        with pytest.raises(InputError, match="requires_grad_"):
            look(chain, X, backward=True)
        with pytest.raises(InputError, match="cpu and meta"):
            look(torch.add, X, X.to("meta"))


def test_what_returns_a_number_or_nothing_still_has_its_kernels():
    x = torch.ones(N)
    assert kernels(lambda x: x.add_(1) is None, x).bytes == 8 * N
    (kernel,) = kernels(lambda x: float(x.sin().sum()), x).kernels
    assert (kernel.ops, kernel.reductions) == (("sin", "sum"), 1)


def named(x, *, scale):
    return {"y": x["x"] * scale}


def test_inputs_may_be_nested_and_named():
    inputs, kwargs = {"x": X}, {"scale": torch.tensor(2.0)}
    lowered = kernels(named, inputs, kwargs=kwargs)
    assert [kernel.ops for kernel in lowered.kernels] == [("mul",)]
    code = output_code(named, inputs, kwargs=kwargs)
    assert len(code.names) == 1


def test_dropout_in_training():
    lowered = kernels(torch.nn.Dropout(0.5), X.clone().requires_grad_())
    assert {kernel.phase for kernel in lowered.kernels} == {"forward", "backward"}
    (seed,) = lowered.library
    assert (seed.ops, seed.lines) == (("randint",), ())
    assert any("dropout" in k.ops or "rand" in k.ops for k in lowered.kernels)


def test_what_is_not_captured_says_so():
    lowered = kernels(torch.compiler.disable(chain), X)
    assert lowered.kernels == ()
    assert "nothing was captured" in str(lowered) and "graphs(f, x)" in str(lowered)
    code = output_code(torch.compiler.disable(chain), X)
    assert "nothing was captured" in str(code)


def test_output_code_has_the_source_by_phase_and_by_kernel():
    x = torch.randn(N, requires_grad=True)
    code = output_code(gelu, x)
    assert [phase for phase, _ in code.sections] == ["forward", "backward"]
    assert code.language == "C++"
    assert len(code.names) == 2
    source = code.kernel(code.names[0])
    assert source.startswith("#include")
    assert "erf" in source
    for asked in ("nope", None):
        with pytest.raises(KeyError, match=f"{asked!r}; .*{', '.join(code.names)}"):
            code.kernel(asked)
    with pytest.raises(KeyError, match="no kernel None; there are: none"):
        Code(()).kernel()
    assert "Generated code (forward, backward): ⟨C++, " in str(code)
    assert f" lines: {', '.join(code.names)}⟩" in str(code)


def test_two_graphs_may_have_a_kernel_of_one_name():
    def cut(x, y):
        x = x.sin()
        torch._dynamo.graph_break()
        return x, y.sin()

    code = output_code(cut, X, X[:9])
    first, second = code.names
    assert second == f"{first} (2)" and code.kernel(first) != code.kernel(second)


def test_output_code_of_one_kernel_is_highlighted():
    code = output_code(chain, X)
    assert code.kernel().startswith("#include") and "ks0" not in code.text
    shown = code._repr_html_()
    assert ">#include</span>" in shown and "color: #" in shown
    assert "⟨" not in shown and shown.count("#include") == 1
    assert str(code).startswith("Generated code (inference): ⟨C++, ")


TRITON = """# AOT ID: ['3_forward']
triton_poi_fused_sin_0 = async_compile.triton('triton_poi_fused_sin_0', '''
@triton.jit
def triton_poi_fused_sin_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    tl.store(out_ptr0 + (x0), tl_math.sin(tl.load(in_ptr0 + (x0), xmask)), xmask)
''', device_str='cuda')
"""


def test_triton_text_is_read():
    code = Code((("forward", TRITON),))
    assert code.language == "Triton"
    assert code.names == ("triton_poi_fused_sin_0",)
    assert code.kernel().startswith("@triton.jit") and code.kernel().endswith("xmask)")
    assert str(code) == f"Generated code (forward): ⟨Triton, 6 lines: {code.names[0]}⟩"
    shown = code._repr_html_()
    title = f"Generated code (forward): Triton, 6 lines: {code.names[0]}"
    assert f"<summary>{title}</summary>" in shown
    assert ">@triton</span>" in shown and shown.count("tl_math") == 1
    assert f"\n{code.names[0]} = ...  # above, device" in re.sub("<[^>]*>", "", shown)
    with pytest.raises(KeyError, match="no kernel 'nope'"):
        code.kernel("nope")
    two = Code((("forward", TRITON), ("backward", "async_compile.cpp")))
    assert two.text == f"{TRITON}\nasync_compile.cpp"
    assert (two.language, Code(()).language) == ("Triton and C++", "no kernels")
    assert "<summary>a &lt; b</summary>" in folded("a < b", [])
    assert folded("a", []).startswith("<details open>")
    assert folded("a", [], shut=True).startswith("<details><summary>")
    paper = 'style="background:#F8F8F8; color:black'  # or it is dark on a dark page
    assert paper in folded("a", [("python", "x = 1")])


MINE = 'File "/home/me/mine.py", line {}, in f\n    {}\n'
TORCHS = f'File "{torch.__file__}", line 7, in g\n    return h(x)\n'


@pytest.mark.parametrize(
    ("meta", "line"),
    [
        (
            {"stack_trace": MINE.format(3, "f(x)") + MINE.format(12, "y = x.sin()")},
            "12: y = x.sin()",
        ),
        ({"stack_trace": MINE.format(12, "y = g(x)") + TORCHS}, "12: y = g(x)"),
        (
            {
                "stack_trace": TORCHS,
                "nn_module_stack": {"a": ("L['self'].layers", list), "b": ("m.0", int)},
            },
            "0: int",
        ),
        ({"fwd_nn_module_stack": {"a": ("L['self']", int)}}, "self: int"),
        ({"nn_module_stack": {"a": ("", "Layer")}}, "self: Layer"),
        ({"stack_trace": TORCHS}, ""),
        ({"stack_trace": None, "nn_module_stack": None}, ""),
    ],
)
def test_an_operation_has_the_line_of_its_caller_or_the_name_of_its_module(meta, line):
    assert program_line(SimpleNamespace(meta=meta)) == line


def test_a_bare_module_has_a_plain_name_for_its_line():
    lowered = kernels(torch.nn.Linear(4, 4), torch.randn(2, 4), backward=False)
    assert [kernel.lines for kernel in lowered.kernels] == [("self: Linear",)]
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    lowered = kernels(net, torch.randn(2, 4, requires_grad=True)).kernels
    for way in ("forward", "backward"):
        lines = {line for k in lowered if k.phase == way for line in k.lines}
        assert lines == {"0: Linear", "1: ReLU"}
