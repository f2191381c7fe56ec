"""A dump shows what a GPU would run, for every kind of program, and says its limits."""

from pathlib import Path

import pytest
import torch

from helpers import dump_triton
from helpers.errors import InputError
from helpers.results import load
from tests.kinds import KINDS, dumped, randn
from tests.refresh import ROOT

# --- every kind -----------------------------------------------------------------------


@pytest.mark.parametrize("name", KINDS)
def test_the_launches_of_each_kind(name):
    dump = dumped(name)
    if "Transformer" not in name:
        assert KINDS[name].shown(dump) == KINDS[name].expected
    for kernel in dump.kernels:
        assert f"def {kernel.name}(" in kernel.generated or kernel.kind == "yours"
        assert kernel.loads + kernel.stores > 0 and kernel.bytes > 0
        assert all(kernel.grid), kernel.grid
        assert kernel.source.startswith("@triton.jit")
    for call in dump.library:
        assert not call.generated and call.bytes > 0
    folders = ("/tmp", str(Path.home()), str(ROOT))
    assert not any(folder in dump.source for folder in folders)


def test_a_transformer_layer_in_training():
    dump = dumped("Transformer layer with dropout, training")
    forward = [k.name for k in dump.launches if k.phase == "forward"]
    attention = "aten._scaled_dot_product_efficient_attention"
    products = ("extern_kernels.mm", "extern_kernels.addmm")
    assert forward.count(attention) == 1
    assert sum(name in products for name in forward) == 4
    assert [k.name for k in dump.launches].count(f"{attention}_backward") == 1
    assert any("dropout" in k.ops for k in dump.kernels)
    assert any("which attention kernel" in line for line in dump.undecided)


def test_a_dynamic_size_is_an_argument_of_the_kernel():
    (kernel,) = dumped("dynamic batch").kernels
    assert "xmask = xindex < xnumel" in kernel.source  # the mask cannot vanish
    assert "xnumel" in kernel.grid


def test_lines_and_counts_of_the_program():
    def two_lines(x):
        y = x.sin()
        return y * 2

    (kernel,) = dump_triton(two_lines, randn(64)).kernels
    first = two_lines.__code__.co_firstlineno
    assert kernel.lines == (f"{first + 1}: y = x.sin()", f"{first + 2}: return y * 2")
    assert kernel.ops == ("sin", "mul")
    assert (kernel.loads, kernel.stores, kernel.bytes) == (1, 1, 512)
    assert (kernel.kind, kernel.graph, kernel.phase) == ("pointwise", 0, "inference")
    code = kernel.on()
    assert (code.gpu, code.config) == ("h100", kernel.configs[0])
    assert kernel.on("a100").gpu == "a100"


# --- inputs, and odd programs ---------------------------------------------------------


def test_branches_and_regions_have_their_own_kernels():
    def either(x):
        return torch.cond(x.sum() > 0, torch.sin, torch.exp, (x,))

    dump = dump_triton(either, randn(64))
    for kernel in dump.kernels:
        (op,) = {"sin", "exp", "sum"} & set(kernel.ops)
        assert f"_{op}_" in kernel.name and f"{op}(" in kernel.source
    branch = "which branch of a cond runs, and how often a body: each is shown once"
    assert branch in dump.undecided

    @torch.compiler.nested_compile_region
    def layer(x, w):
        return (x @ w).relu()

    nested = dump_triton(
        lambda x, w: layer(layer(x, w), w).sin(),
        randn(16, 16),
        randn(16, 16),
        training=True,
    )
    assert not any("cpp" in launch.name for launch in nested.launches)
    assert branch in nested.undecided
    assert {k.phase for k in nested.kernels} == {"forward", "backward"}


def test_a_program_of_which_nothing_is_captured_says_so():
    def eager(x):
        torch._dynamo.graph_break()
        return x.item()

    dump = dump_triton(eager, torch.ones(()))
    assert not dump.launches and "no graph was captured" in dump.undecided[0]


# --- files ----------------------------------------------------------------------------


def test_a_dump_is_read_back_from_a_file(tmp_path):
    dump = dumped("pointwise chain, training")
    dump.save(tmp_path / "dump.json")
    again = load(tmp_path / "dump.json")
    assert again == dump and again.kernels[0].source == dump.kernels[0].source
    with pytest.raises(InputError, match="dump again"):
        again.check_numerics()


def test_what_goes_into_your_kernel_is_no_launch_of_its_own():
    fn, inputs = KINDS["your own Triton kernel"].make()
    option = {"epilogue_fusion_user_defined_triton_kernel": True}
    with torch._inductor.config.patch(option):
        dump = dump_triton(fn, *inputs)
    assert [k.kind for k in dump.launches] == ["pointwise", "yours"]
