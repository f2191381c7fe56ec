"""What would be timed for a matrix product is listed, compiled, and chosen untimed."""

import pytest
import torch
from torch._inductor import config as inductor_config
from torch.nn import functional as F

from helpers import dump_triton
from helpers.errors import InputError
from helpers.gpu.dump import Dump
from tests.kinds import randn

UNTIMED = "max-autotune-no-cudagraphs"
BF16 = torch.bfloat16


def only(sizes):
    """Let torch itself offer those templates alone whose description has *sizes*."""
    return inductor_config.patch("test_configs.autotune_choice_desc_regex", sizes)


def gelu_linear(x, weight, bias):
    return F.gelu(F.linear(x, weight, bias))


def layer(rows=512, inner=1024, columns=2048):
    """Return the inputs of gelu_linear."""
    shapes = (rows, inner), (columns, inner), (columns,)
    return tuple(randn(*shape, dtype=BF16) for shape in shapes)


# --- what is listed -------------------------------------------------------------------


def test_all_that_would_be_timed_is_listed_and_the_library_is_shown():
    dump = dump_triton(gelu_linear, *layer(), mode=UNTIMED)
    first, *templates = dump.noted
    assert [each.number for each in dump.noted] == [*range(len(dump.noted))]
    assert (first.kind, first.name, first.generated) == ("library", "addmm", "")
    assert len(templates) > 15 and {each.kind for each in templates} == {"template"}
    assert len({each.description for each in templates}) == len(templates)
    for each in templates:
        assert each.operation == "addmm of 512x2048, 512x1024, 1024x2048"
        assert each.line.endswith("return F.gelu(F.linear(x, weight, bias))")
        assert (each.name, each.product, each.registers) == ("mm", 0, None)
    assert [k.kind for k in dump.launches] == ["library", "pointwise"]
    assert Dump.from_json(dump.to_json()) == dump
    assert dump_triton(torch.sin, randn(4), mode=UNTIMED).noted == ()


# --- what each needs ------------------------------------------------------------------


def of_three(template=None, gpu="h100"):
    """Dump the library and three templates, of which an H100 cannot run the last."""
    how = {"mode": UNTIMED, "template": template, "gpu": gpu}
    with only("BLOCK_K=128, BLOCK_M=128, BLOCK_N=128|BLOCK_K=32, BLOCK_M=64.*=8$|^$"):
        return dump_triton(gelu_linear, *layer(), **how)


@pytest.fixture(scope="module")
def three():
    return of_three()


def test_what_each_needs_is_what_its_compiled_code_says(three):
    library, *templates = three.candidates
    assert library.registers is library.occupancy is library.waves is None
    assert "5 stages" in str(templates[0].config) and len(templates) == 3
    for each in templates:
        assert each.registers > 0 and each.instruction.startswith("wgmma ")
        assert each.source.startswith("@triton.jit\ndef triton_mm(")
    middle, last = templates[1:]
    assert middle.fits and not last.fits and last.waves is None
    assert middle.waves == middle.programs / (132 * middle.occupancy.blocks) < 1


# --- one that is chosen ---------------------------------------------------------------


@pytest.mark.parametrize("template", [2, "num_warps=8, BLOCK_M=64"])
def test_a_chosen_template_has_bias_and_gelu_in_its_end(three, template):
    dump = of_three(template)
    [kernel] = dump.launches
    number = 2 if template == 2 else 1
    assert (kernel.kind, kernel.loads, kernel.stores) == ("template", 3, 1)
    assert "libdevice.erf" in kernel.source and kernel.occupancy.blocks > 0
    assert kernel.grid == (dump.noted[number].programs, 1, 1)


@pytest.mark.parametrize(
    ("template", "gpu", "why"),
    [
        (9, "h100", "no candidate 9: there are 0 to 3"),
        ("BLOCK_M=7", "h100", "no candidate 'BLOCK_M=7': there are 0 to 3"),
        (3, "h100", "candidate 3 cannot run on NVIDIA H100.*of shared memory a block"),
        (1, "l4", "there are none for NVIDIA L4"),
    ],
)
def test_one_that_is_not_there_or_cannot_run_is_refused(template, gpu, why):
    with pytest.raises(InputError, match=why):
        of_three(template, gpu)
