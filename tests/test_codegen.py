"""kernels() and output_code(): real lowerings, also to Triton text."""

import importlib
import warnings
from unittest import mock

import pytest
import torch

from helpers.codegen import Code, kernels, output_code
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

    found = kernels(pointwise, X)
    (kernel,) = found.kernels
    assert found.bytes == 8 * N
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
        found = kernels(mixed, torch.randn(64, 64), torch.randn(64, 64))
    assert found.bytes == sum(counted) > 0


def test_a_kernel_is_found_also_when_the_graph_is_in_the_cache():
    torch.compile(chain)(X)
    assert kernels(chain, X) == kernels(chain, X)
    assert kernels(chain, X).bytes == 8 * N


def test_library_calls_are_listed_as_such_in_launch_order():
    found = kernels(matmul, torch.randn(64, 64), torch.randn(64, 64))
    product, rest = found.kernels
    assert found.library == (product,)
    assert found.generated == (rest,)
    assert product.language == "library"
    assert product.ops == ("matmul",)
    assert product.bytes == 3 * 64 * 64 * 4
    assert rest.ops == ("relu", "sum")
    assert (rest.loads, rest.stores, rest.reductions) == (1, 1, 1)
    assert rest.bytes == (64 * 64 + 64) * 4


@pytest.mark.parametrize(
    ("fn", "shapes", "library"),
    [
        (torch.nn.functional.conv2d, [(1, 3, 8, 8), (4, 3, 3, 3)], "convolution"),
        (lambda q: torch.nn.functional.scaled_dot_product_attention(q, q, q),
         [(1, 2, 8, 4)], "attention"),
        (lambda x: x.sort()[0] * 2, [(50,)], "sort"),
        (torch.nn.Linear(8, 8), [(4, 8)], "mm"),
    ],
    ids=["convolution", "attention", "sort", "linear"],
)  # fmt: skip
def test_other_library_calls(fn, shapes, library):
    found = kernels(fn, *(torch.randn(shape) for shape in shapes), backward=False)
    assert any(library in kernel.name for kernel in found.library)


def test_the_backward_runs_by_default_when_an_output_needs_it():
    x = X.clone().requires_grad_()
    found = kernels(gelu, x)
    assert [kernel.phase for kernel in found.kernels] == ["forward", "backward"]
    assert [kernel.bytes for kernel in found.kernels] == [8 * N, 12 * N]
    assert "gelu_backward" in found.kernels[1].ops
    assert x.grad is None
    only = kernels(gelu, x, backward=False)
    assert [kernel.phase for kernel in only.kernels] == ["forward"]
    with torch.no_grad():
        assert [k.phase for k in kernels(gelu, x).kernels] == ["inference"]
    assert eager_bytes(gelu, x).bytes == 8 * N + 12 * N


def test_reading_a_part_moves_a_part():
    x = torch.randn(100, 100)
    assert kernels(lambda x: x[:, :4] * 2, x).bytes == 2 * 400 * 4
    assert eager_bytes(lambda x: x[:, :4] * 2, x).bytes == 2 * 400 * 4


def test_text_is_the_same_twice_and_the_device_stands_in_marks():
    first, second = (str(kernels(chain, X)) for _ in range(2))
    assert first == second
    outside = "".join(part.split("⟩")[-1] for part in first.split("⟨"))
    assert "cpp" not in outside
    assert "C++" not in outside
    assert "sin, mul, add, relu" in outside
    assert "1 kernel, 0 library calls, 7.812 KiB" in outside
    found = kernels(chain, X)
    assert "sin, mul, add, relu" in found._repr_html_()
    assert ">C++: cpp_fused_" in found._repr_html_() or torch.cuda.is_available()


def test_modes_options_and_dynamic_shapes_are_used():
    with_mode = kernels(chain, X, mode="max-autotune")
    assert with_mode.bytes == 8 * N
    apart = kernels(
        lambda x: (x + 1, x * 2), X, options={"max_fusion_size": 1}, dynamic=True
    )
    assert apart.bytes == 16 * N
    assert "ks0" in output_code(chain, X, dynamic=True).text
    assert "ks0" not in output_code(chain, X).text


def test_partly_compiled_says_so():
    found = kernels(broken, X)
    assert len(found.kernels) == 2
    assert found.breaks == 1
    assert "only partly compiled" in str(found)
    assert kernels(lambda x: broken(x) + 1, X).breaks == 1


def test_a_backward_that_nothing_needs_says_what_to_do():
    for look in (kernels, output_code):  # eager_bytes: see test_traffic
        with pytest.raises(InputError, match="requires_grad_"):
            look(chain, X, backward=True)


def test_a_scripted_module_or_one_without_memory_says_what_to_do():
    x, layer = torch.ones(2, 4), torch.nn.Linear(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is on its way out
        scripted = torch.jit.script(layer)
    for look in (kernels, eager_bytes):
        with pytest.raises(InputError, match=r"torch\.jit compiled this already"):
            look(scripted, x)
        assert look(lambda x, s=scripted: x.sin() + s(x).sum(), x)
        with pytest.raises(InputError, match=r"meta hold no numbers.*to_empty"):
            look(layer.to("meta"), x.to("meta"))
        layer = torch.nn.Linear(4, 4)


def test_what_returns_a_number_or_nothing_still_has_its_kernels():
    x = torch.ones(N)
    assert kernels(lambda x: x.add_(1) is None, x).bytes == 8 * N
    assert kernels(lambda x: float(x.sin().sum()), x).kernels
    assert kernels(lambda x: x.sin() and None, torch.ones(1)).kernels


def named(x, *, scale):
    return {"y": x["x"] * scale}


def test_inputs_may_be_nested_and_named():
    made = kernels(named, {"x": X}, kwargs={"scale": torch.tensor(2.0)})
    assert [kernel.ops for kernel in made.kernels] == [("mul",)]
    code = output_code(named, {"x": X}, kwargs={"scale": torch.tensor(2.0)})
    assert len(code.names) == 1


def test_half_precision_and_dropout_in_training():
    layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5)).train()
    made = kernels(layer.to(torch.bfloat16), torch.ones(4, 8, dtype=torch.bfloat16))
    assert {kernel.phase for kernel in made.kernels} == {"forward", "backward"}
    assert any("dropout" in k.ops or "rand" in k.ops for k in made.kernels)


def test_what_is_not_captured_says_so():
    found = kernels(torch.compiler.disable(chain), X)
    assert found.kernels == ()
    assert "no kernels: nothing was captured" in str(found)
    assert "nothing was captured" in str(output_code(torch.compiler.disable(chain), X))


def test_no_cpp_compiler_says_so():
    from torch._inductor import config, cpp_builder

    cpp_builder.cpp_compiler_search.cache_clear()
    with (
        torch._inductor.utils.fresh_cache(),
        config.patch({"cpp.cxx": ("no-such-compiler",)}),
        pytest.raises(InputError, match=r"no C\+\+ compiler.*doctor"),
    ):
        kernels(lambda x: x.sin() * 1234.5, X)
    cpp_builder.cpp_compiler_search.cache_clear()


def test_a_compiler_that_fails_is_told_from_a_function_that_raises():
    with (
        mock.patch.object(
            torch._inductor.graph.GraphLowering,
            "compile_to_module",
            side_effect=OSError,
        ),
        pytest.raises(InputError, match="compiler failed, not your function"),
    ):
        kernels(chain, X)
    assert kernels(chain, X).bytes == 8 * N, "the hooks are gone"


def test_output_code_has_the_source_by_phase_and_by_kernel():
    x = torch.randn(N, requires_grad=True)
    code = output_code(gelu, x)
    assert [phase for phase, _ in code.sections] == ["forward", "backward"]
    assert code.language == "C++"
    assert len(code.names) == 2
    source = code.kernel(code.names[0])
    assert source.startswith("#include")
    assert "erf" in source
    with pytest.raises(KeyError, match=code.names[0]):
        code.kernel("nope")
    assert output_code(chain, X).kernel().startswith("#include")
    assert "Generated code (forward, backward): ⟨C++, " in str(code)


def test_two_graphs_may_have_a_kernel_of_one_name():
    def cut(x, y):
        x = x.sin()
        torch._dynamo.graph_break()
        return x, y.sin()

    code = output_code(cut, X, X[:9])
    first, second = code.names
    assert second == f"{first} (2)" and code.kernel(first) != code.kernel(second)


def test_output_code_is_highlighted():
    shown = output_code(chain, X)._repr_html_()
    assert "<span" in shown and "background:#F8F8F8" in shown
    assert "⟨" not in shown


TRITON = """# AOT ID: ['3_forward']
async_compile = AsyncCompile()

triton_poi_fused_add_sin_0 = async_compile.triton('triton_poi_fused_add_sin_0', '''
import triton
import triton.language as tl

@triton.jit
def triton_poi_fused_add_sin_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    tmp0 = tl.load(in_ptr0 + (x0), xmask)
    tl.store(out_ptr0 + (x0), tmp0 + tl_math.sin(tmp0), xmask)
''', device_str='cuda')

triton_red_fused_sum_1 = async_compile.triton('triton_red_fused_sum_1', '''
@triton.jit
def triton_red_fused_sum_1(in_ptr0, out_ptr0):
    pass
''', device_str='cuda')

def call(args):
    triton_poi_fused_add_sin_0.run(arg0_1, buf0, 1000, stream=stream0)
"""


def test_triton_text_is_read():
    code = Code((("forward", TRITON),))
    assert code.language == "Triton"
    assert code.names == ("triton_poi_fused_add_sin_0", "triton_red_fused_sum_1")
    assert "tl.load(in_ptr0" in code.kernel("triton_poi_fused_add_sin_0")
    assert code.kernel("triton_red_fused_sum_1").endswith("pass")
    assert "tl" in code._repr_html_()


def test_a_bare_module_has_a_plain_name_for_its_line():
    found = kernels(torch.nn.Linear(4, 4), torch.randn(2, 4), backward=False)
    assert [kernel.lines for kernel in found.kernels] == [("self: Linear",)]
