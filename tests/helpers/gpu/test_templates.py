"""What would be timed for a matrix product is listed, compiled, and chosen untimed."""

import re
from dataclasses import replace

import pytest
import torch
from torch._inductor import config as inductor_config
from torch._inductor.select_algorithm import AlgorithmSelectorCache
from torch.nn import functional as F
from torch.nn.attention.flex_attention import flex_attention
from torch.utils._triton import has_triton

from helpers import dump_triton
from helpers.__main__ import main
from helpers.errors import InputError
from helpers.gpu import gpus
from helpers.gpu.compile import compile_ahead, compile_kernel
from helpers.gpu.dump import Dump
from helpers.gpu.gpus import find
from helpers.gpu.templates import Candidate, Candidates, candidates
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


def of(candidate, name):
    """Return a size that Inductor's description of a candidate names."""
    return int(re.search(rf"\b{name}=(\d+)", candidate.description)[1])


# --- what is listed -------------------------------------------------------------------


def test_all_that_would_be_timed_is_listed_and_the_library_is_shown():
    dump = dump_triton(gelu_linear, *layer(), mode=UNTIMED)
    first, *templates = dump.noted
    assert [each.number for each in dump.noted] == [*range(len(dump.noted))]
    assert (first.kind, first.name, first.generated) == ("library", "addmm", "")
    assert len(templates) > 15 and {each.kind for each in templates} == {"template"}
    assert len({each.description for each in templates}) == len(templates)
    for each in templates:
        rows, columns = 512 // of(each, "BLOCK_M"), 2048 // of(each, "BLOCK_N")
        assert each.programs == rows * columns and each.workspace == 0
        assert each.operation == "addmm of 512x2048, 512x1024, 1024x2048"
        assert each.line.endswith("return F.gelu(F.linear(x, weight, bias))")
        assert (each.name, each.product, each.registers) == ("mm", 0, None)
    assert [k.kind for k in dump.launches] == ["library", "pointwise"]
    assert Dump.from_json(dump.to_json()) == dump
    assert AlgorithmSelectorCache.__call__.__name__ == "__call__"
    assert dump_triton(torch.sin, randn(4), mode=UNTIMED).noted == ()


def test_products_of_both_phases_are_numbered_through():
    x, w = randn(64, 128, dtype=BF16), randn(128, 64, dtype=BF16)
    with only("BLOCK_M=64, BLOCK_N=64.*num_stages=2|^$"):
        dump = dump_triton(
            lambda x, w: F.gelu(x @ w), x, w, mode=UNTIMED, training=True
        )
        one = dump_triton(
            lambda x, w: F.gelu(x @ w), x, w, mode=UNTIMED, training=True, template=(1,)
        )
    assert {each.product for each in dump.noted} == {0, 1, 2}
    libraries = [each.number for each in dump.noted if each.kind == "library"]
    assert libraries[0] == 0 and len(libraries) == 3
    assert "; shown is the library mm" in dump.undecided[-2]
    assert [k.kind for k in one.launches if k.kind != "pointwise"] == [
        "template",
        "library",
        "library",
    ]
    with only("BLOCK_M=64, BLOCK_N=64.*num_stages=2|^$"):
        last = dump_triton(
            lambda x, w: F.gelu(x @ w),
            *(x, w),
            mode=UNTIMED,
            training=True,
            template=[libraries[1] + 1, libraries[2] + 1],
        )
    assert [(k.phase, k.kind) for k in last.launches if "mm" in k.name] == [
        ("forward", "library"),
        ("backward", "template"),
        ("backward", "template"),
    ]


# --- what each needs ------------------------------------------------------------------


@pytest.fixture(scope="module")
def three():
    """The library, a template that fits on an H100, and one that does not."""
    with only("BLOCK_K=128, BLOCK_M=128, BLOCK_N=128|BLOCK_K=32, BLOCK_M=64.*=8$|^$"):
        return dump_triton(gelu_linear, *layer(), mode=UNTIMED)


def test_what_each_needs_is_what_its_compiled_code_says(three):
    library, *templates = three.candidates
    assert library.registers is library.occupancy is library.waves is None
    assert "5 stages" in str(templates[0].config) and len(templates) == 3
    for each in templates:
        code = compile_kernel(each.generated, find("h100"))
        known = each.registers, each.spills, each.shared, each.occupancy, each.config
        assert known == (
            *(code.registers, code.spills, code.shared),
            *(code.occupancy, code.config),
        )
        tile = of(each, "BLOCK_K") * (of(each, "BLOCK_M") + of(each, "BLOCK_N")) * 2
        assert each.shared == of(each, "num_stages") * tile
        assert each.on() == code and "wgmma" in code.ptx
        rows = min(64, of(each, "BLOCK_M"))
        assert re.fullmatch(rf"wgmma m{rows}n\d+k16", each.instruction)
        assert each.source.startswith("@triton.jit\ndef triton_mm(")
    middle, last = templates[1:]
    assert middle.fits and not last.fits and last.waves is None
    assert middle.waves == middle.programs / (132 * middle.occupancy.blocks) < 1


def test_older_tensor_cores_hold_a_stage_less_in_shared_memory(three):
    for each in three.candidates.templates:
        tile = of(each, "BLOCK_K") * (of(each, "BLOCK_M") + of(each, "BLOCK_N")) * 2
        code = each.on("a100")
        assert code.shared == (of(each, "num_stages") - 1) * tile
        assert "mma.sync" in code.ptx and "wgmma" not in code.ptx


def test_the_text_and_the_file_of_candidates(three):
    found = three.candidates
    assert found is three.candidates and isinstance(found, Candidates)
    last = found[-1]
    problem = "it needs 256 KiB of shared memory a block, of 227 KiB"
    assert last.problem == problem and len(found) == 4
    line = last.line
    assert str(found).splitlines()[-3:] == [
        f"product 0, {last.operation}, line {line}: 3 templates, of which 2 can run",
        f"number 3 cannot: {problem}",
        "which is the fastest, only the device can tell",
    ]
    table = found.table()
    heads = "number product candidate sizes registers spilled shared by blocks"
    assert table.headings == (*heads.split(), "programs", "waves")
    rows = table.rows
    assert rows[0] == ("0", "0", "library addmm", *[""] * 8)
    assert rows[-1][:4] == (
        *("3", "0", "template mm"),
        "M 128, N 128, K 128, 8 warps, 4 stages",
    )
    assert rows[-1][-3:] == ("0", "64", "does not fit")
    fits = found[2]
    assert rows[2][-1] == f"{fits.waves:.2f}" and rows[2][6] == "48 KiB"
    assert Candidates.from_json(found.to_json()) == found
    assert Candidate.from_json(fits.to_json()) == fits
    assert f"128 programs on {find('h100')}: {fits.waves:.2f} waves" in str(fits)
    assert str(last).endswith(problem)
    assert str(found[0]) == f"candidate 0 for {last.operation}: addmm"
    assert "triton_mm" in fits._repr_html_() and "<pre" in found[0]._repr_html_()
    assert "<summary>candidate 2 for addmm of 512x2048" in fits._repr_html_()
    with pytest.raises(InputError, match="candidate 0 is no template: addmm"):
        found[0].on()
    none = "no candidates: nothing here would be timed for a matrix product"
    assert str(Candidates(())) == none


def test_one_that_cannot_be_compiled_does_not_hide_the_others(three):
    good = three.noted[2].generated
    broken = good.replace("tl.zeros(", "tl.nothing(")
    gpu = find("h100")
    assert [*compile_ahead([broken, good], gpu)] == [1, 2]
    noted = tuple(
        Candidate(**{**vars(three.noted[2]), "number": n, "generated": code})
        for n, code in enumerate((broken, good))
    )
    first, second = Dump("h100", (), (), noted=noted).candidates
    assert first.problem.startswith("no machine code for NVIDIA H100")
    assert not first.fits and second.fits and second.registers > 0


def test_what_keeps_every_block_out_is_named(three, monkeypatch):
    noted, gpu = three.noted[1], find("h100")
    code = compile_kernel(noted.generated, gpu)
    none = replace(code.occupancy, blocks=0, limit="registers")
    full = replace(code, occupancy=none)
    monkeypatch.setattr("helpers.gpu.compile.compile_kernel", lambda *_: full)
    [found] = candidates([noted], gpu)
    assert found.problem == "not one block fits on a multiprocessor, by its registers"
    assert not found.fits and found.waves is None


def test_many_are_compiled_side_by_side_and_found_again(three, monkeypatch):
    sources = [each.generated for each in three.noted[1:]]
    assert [*compile_ahead(sources, find("h100"))] == [1, 2, 3]
    import triton

    def compiled_anew(*_, **__):
        raise AssertionError("it was not in the cache")

    monkeypatch.setattr(
        triton.backends.nvidia.compiler.CUDABackend, "make_ptx", compiled_anew
    )
    for source in sources:
        assert compile_kernel(source, find("h100")).registers > 0


# --- one that is chosen ---------------------------------------------------------------


@pytest.mark.parametrize("template", [2, "num_warps=8, BLOCK_M=64"])
def test_a_chosen_template_has_bias_and_gelu_in_its_end(three, template):
    with only("BLOCK_K=128, BLOCK_M=128, BLOCK_N=128|BLOCK_K=32, BLOCK_M=64.*=8$|^$"):
        dump = dump_triton(gelu_linear, *layer(), mode=UNTIMED, template=template)
    [kernel] = dump.launches
    number = 2 if template == 2 else 1
    assert (kernel.kind, kernel.loads, kernel.stores) == ("template", 3, 1)
    assert kernel.bytes == 2 * (512 * 1024 + 1024 * 2048 + 2048 + 512 * 2048)
    assert "libdevice.erf" in kernel.source and kernel.source.count("tl.dot(") == 1
    assert "wgmma.mma_async" in kernel.ptx and kernel.occupancy.blocks > 0
    assert kernel.grid == (dump.noted[number].programs, 1, 1)
    assert dump.undecided == (
        "which of dump.candidates is the fastest; shown is the template mm",
        "whether a template with all that is fused to it beats two launches",
        *three.undecided[-1:],
    )
    assert "persistent" in three.undecided[-1]


def test_a_chosen_template_computes_what_eager_does():
    inputs = layer(32, 64, 64)
    with only("BLOCK_M=32, BLOCK_N=32"):
        dump = dump_triton(gelu_linear, *inputs, mode=UNTIMED, template="BLOCK_N=32")
    assert [k.kind for k in dump.launches] == ["template"]
    checked = dump.check_numerics()
    assert checked.checked == 1 and "agrees" in str(checked)


@pytest.mark.parametrize(
    ("template", "more", "message"),
    [
        ("BLOCK_M=64, BLOCK_M=7", {}, "^no candidate 'BLOCK_M=64, BLOCK_M=7'"),
        (99, {}, "^no candidate 99: there are 0 to 3; without template=, the dump's"),
        ("BLOCK_M=7", {}, "^no candidate 'BLOCK_M=7': there are 0 to 3"),
        ((1, 77), {}, "^no candidate 77: "),
        (3, {}, r"candidate 3 cannot run on NVIDIA H100.*it needs 256 KiB"),
        (1, {"mode": None}, "in mode 'max-autotune', and here are none$"),
        (1, {"gpu": "l4"}, "none: NVIDIA L4 is too small for them$"),
    ],
)
def test_one_that_is_not_there_or_does_not_fit(template, more, message):
    settings = {"mode": UNTIMED, "template": template, **more}
    with (
        only("BLOCK_K=128, BLOCK_M=128, BLOCK_N=128|BLOCK_K=32, BLOCK_M=64.*=8$|^$"),
        pytest.raises(InputError, match=message),
    ):
        dump_triton(gelu_linear, *layer(), **settings)


def test_on_this_machine_torch_itself_chooses(monkeypatch):
    monkeypatch.setattr(gpus, "here", lambda: find("h100"))
    with pytest.raises(InputError, match="leave template= out"):
        dump_triton(torch.add, 1, 2, gpu="this", template=1)


# --- other products, other GPUs -------------------------------------------------------


def shown(fn, *inputs, **settings):
    """Return a dump with the first template or graph chosen, and that candidate."""
    plain = dump_triton(fn, *inputs, mode=UNTIMED, **settings)
    number = next(each.number for each in plain.noted if each.kind != "library")
    dump = dump_triton(fn, *inputs, mode=UNTIMED, template=number, **settings)
    return dump, plain.noted[number]


def test_batches_convolutions_and_sums_of_two_products():
    a, b = randn(4, 32, 32, dtype=BF16), randn(4, 32, 32, dtype=BF16)
    dump, candidate = shown(lambda a, b: (a @ b).relu(), a, b)
    assert candidate.name == "bmm" and candidate.operation.startswith("bmm of 4x32x32")
    assert [k.kind for k in dump.launches] == ["template"]

    image, weight = randn(2, 32, 16, 16, dtype=BF16), randn(32, 32, 3, 3, dtype=BF16)
    dump, candidate = shown(lambda x, w: F.conv2d(x, w).relu(), image, weight)
    assert candidate.name == "convolution2d" and dump.launches[-1].kind == "template"
    assert "relu" in dump.launches[-1].ops

    c = randn(64, 64, dtype=BF16)
    dump, candidate = shown(lambda c: c @ c + c.t() @ c, c)
    assert candidate.name == "mm_plus_mm" and len(dump.launches) == 1


def test_float8_with_a_scale_is_multiplied_by_tensor_cores():
    def scaled(a, b, scale):
        product = torch._scaled_mm(a, b.t(), scale, scale, out_dtype=BF16)
        return product.relu()

    eight = torch.float8_e4m3fn
    a, b = randn(64, 256).to(eight), randn(64, 256).to(eight)
    given = scaled, a, b, torch.tensor(1.0)
    dump = dump_triton(*given, mode=UNTIMED, template="BLOCK_M=64")
    [kernel] = dump.kernels
    assert len(dump.launches) == 1 and "relu" in kernel.ops
    assert "e4m3.e4m3" in kernel.on().ptx


@pytest.mark.parametrize(("gpu", "templates"), [("h100", True), ("a100", False)])
def test_a_product_of_groups_has_templates_from_an_h100_on(gpu, templates):
    has_triton()  # torch remembers what it found out without the GPU
    ends = torch.tensor([16, 40], dtype=torch.int32)
    rows, weights = randn(40, 64, dtype=BF16), randn(2, 64, 64, dtype=BF16)

    def grouped(rows, weights, ends):
        return F.grouped_mm(rows, weights, offs=ends)

    dump = dump_triton(grouped, rows, weights, ends, gpu=gpu, mode=UNTIMED)
    assert ("grouped_mm" in {e.name for e in dump.noted}) is templates
    assert [k.kind for k in dump.launches] == ["library"]
    if templates:
        dump = dump_triton(grouped, rows, weights, ends, mode=UNTIMED, template=1)
        assert [k.kind for k in dump.launches] == ["template"]
        assert dump.kernels[0].on().registers > 0


def test_what_is_read_may_be_fused_to_the_front():
    def widen(a, w):
        return a @ w.to(BF16)

    a, w = randn(64, 64, dtype=BF16), torch.ones(64, 64, dtype=torch.int8)
    dump, _ = shown(widen, a, w)
    [kernel] = dump.launches
    assert kernel.ops == ("to", "matmul") and kernel.loads == 2


def test_a_long_sum_may_be_split_and_what_follows_is_counted():
    a, b = randn(16, 8192, dtype=BF16), randn(8192, 16, dtype=BF16)
    dump, candidate = shown(lambda a, b: (a @ b).relu(), a, b)
    assert candidate.kind == "graph" and candidate.name.startswith("decompose_k_mm_")
    pieces = int(re.search(r"k_split=(\d+)", candidate.description)[1])
    first, *sums = dump.launches
    assert (first.kind, first.ops) == ("library", ("bmm_dtype",))
    written = pieces * 16 * 16 * 4
    assert first.bytes == 2 * 2 * 16 * 8192 + written
    assert sums and sums[0].bytes >= written and any("relu" in k.ops for k in sums)
    rows = dump.candidates.table().rows
    assert rows[candidate.number][2:5] == (
        f"graph {candidate.name}",
        f"k_split={pieces}",
        "",
    )


@pytest.mark.parametrize(
    ("gpu", "instruction"), [("h100", "wgmma m64n128k16"), ("b200", "tcgen05")]
)
def test_persistent_templates_copy_tiles_by_tma_where_torch_is_asked(gpu, instruction):
    a, b = randn(256, 128, dtype=BF16), randn(128, 256, dtype=BF16)
    with inductor_config.patch("triton.enable_persistent_tma_matmul", True):
        dump = dump_triton(torch.mm, a, b, mode=UNTIMED, gpu=gpu)
        old = dump_triton(torch.mm, a, b, mode=UNTIMED, gpu="a100")
    assert {each.name for each in old.noted} == {"mm"}
    assert not any("persistent" in line for line in dump.undecided)
    persistent = [each for each in dump.noted if each.workspace]
    assert persistent and all("tma" in each.name for each in persistent)
    one = next(e for e in persistent if "BLOCK_M=128, BLOCK_N=128" in e.description)
    assert one.workspace % find(gpu).multiprocessors == 0 and one.programs == 4
    found = Dump(gpu, (), (), noted=(one,)).candidates[0]
    assert found.fits and found.instruction == instruction


def test_float32_is_multiplied_without_tensor_cores():
    with only("BLOCK_M=32, BLOCK_N=32.*num_stages=1"):
        dump = dump_triton(torch.mm, randn(64, 64), randn(64, 64), mode=UNTIMED)
        assert dump.noted == ()  # one candidate is no choice
    with only("BLOCK_M=32, BLOCK_N=32"):
        dump = dump_triton(torch.mm, randn(64, 64), randn(64, 64), mode=UNTIMED)
    assert {each.instruction for each in dump.candidates} == {"fma"}


@pytest.mark.parametrize(
    ("gpu", "dtype", "said"),
    [
        (
            "l4",
            torch.float32,
            "nothing among templates: torch has none for 58 multiproc",
        ),
        (
            "h100",
            torch.float64,
            "nothing among templates: torch offers none for these pr",
        ),
    ],
)
def test_where_there_is_no_template_it_is_said(gpu, dtype, said):
    x = randn(64, 64, dtype=dtype)
    dump = dump_triton(torch.mm, x, x, mode=UNTIMED, gpu=gpu)
    assert dump.noted == () and len(dump.candidates) == 0
    assert any(line.startswith(said) for line in dump.undecided)
    assert not any("fastest" in line for line in dump.undecided)


def test_attention_of_ones_own_has_candidates_and_no_library():
    q = randn(1, 1, 128, 64, dtype=BF16)
    dump = dump_triton(lambda q: flex_attention(q, q, q), q, mode=UNTIMED)
    assert {each.kind for each in dump.noted} == {"template"} and len(dump.noted) > 1
    assert any(k.kind == "template" for k in dump.launches)


def test_the_command_line_lists_them_and_takes_one(tmp_path, capsys):
    program = tmp_path / "product.py"
    program.write_text(
        "import torch\n"
        "def f(a, b):\n    return (a @ b).relu()\n"
        "def inputs():\n"
        "    return tuple(torch.ones(64, 64, dtype=torch.bfloat16) for _ in 'ab')\n"
    )
    words = ["dump", f"{program}:f", "--mode", UNTIMED, "--to", str(tmp_path / "out")]
    with only("BLOCK_M=32, BLOCK_N=32|^$"):
        assert main([*words, "--template", "1"]) == 0
        printed = capsys.readouterr().out
        assert main([*words[:4], "--template", "BLOCK_M=32"]) == 0
        assert "library" not in capsys.readouterr().out.split("\nNVIDIA")[0]
        assert main([*words, "--template", "50"]) == 2
    assert "no candidate 50" in capsys.readouterr().err
    assert "template mm" in printed and "only the device can tell" in printed
    assert "triton_tem_fused" in printed
    assert "## Candidates" in (tmp_path / "out" / "README.md").read_text()
