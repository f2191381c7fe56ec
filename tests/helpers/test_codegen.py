"""kernels() and output_code(): real lowerings, also to Triton text."""

import re
from types import SimpleNamespace

import pytest
import torch

from helpers.codegen import kernels, output_code, program_line
from helpers.traffic import eager_bytes

N = 1000
X = torch.randn(N)


def chain(x):
    return (x.sin() * 2 + 1).relu()


def gelu(x):
    return torch.nn.functional.gelu(x)


def test_what_orders_nodes_moves_nothing():
    """The write into x waits for its sum: x is read, and the step, its copy written."""

    def step(x):
        total = x.sum(0)
        x.add_(1)
        return total

    assert kernels(step, torch.randn(64, 8)).bytes == 4 * (3 * 64 * 8 + 8)


def test_a_library_call_moves_the_part_that_it_is_given():
    found = kernels(lambda x, w: (x @ x)[:, :8] @ w, torch.eye(64), torch.eye(8))
    assert found.kernels[1].bytes == 4 * (2 * 64 * 8 + 8 * 8)


def test_a_graph_in_the_cache_is_lowered_anew_and_reads_the_same():
    torch.compile(chain)(X)
    lowered = kernels(chain, X)
    assert lowered == kernels(chain, X)
    assert lowered.bytes == 8 * N
    (kernel,) = lowered.kernels
    line = chain.__code__.co_firstlineno + 1
    assert kernel.lines == (f"{line}: return (x.sin() * 2 + 1).relu()",)
    assert kernels(lambda x: chain(x), X).kernels[0].lines == kernel.lines


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


def test_modes_options_and_dynamic_shapes_are_used():
    with_mode = kernels(chain, X, mode="max-autotune")
    assert with_mode.bytes == 8 * N
    apart = kernels(
        lambda x: (x + 1, x * 2), X, options={"max_fusion_size": 1}, dynamic=True
    )
    assert apart.bytes == 16 * N
    assert "ks0" in output_code(chain, X, dynamic=True).text


def test_output_code_has_the_source_by_kernel():
    code = output_code(gelu, torch.randn(N, requires_grad=True))
    forward, backward = code.kernels.values()
    assert forward.startswith("#include") and "erf" in forward and backward in code.text
    assert re.fullmatch(
        rf"Generated code: ⟨\d+ lines: {', '.join(code.kernels)}⟩", str(code)
    )


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
