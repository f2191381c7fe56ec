"""A dump shows what a GPU would run, for every kind of program, and says its limits."""

import dataclasses
from pathlib import Path

import pytest
import torch
from torch._inductor import config as inductor_config
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from helpers import dump_triton, load
from helpers.__main__ import main
from helpers.errors import InputError
from helpers.gpu import gpus
from helpers.gpu.dump import Dump
from helpers.text import plain
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


def test_a_program_without_tensor_operations_has_no_kernels():
    dump = dumped("no tensor operation")
    assert dump.launches == () and dump.graphs == () and dump.undecided == ()
    nothing = "no kernels: no graph was captured, or none computes anything"
    assert str(dump) == nothing and f">{nothing}</pre>" in dump._repr_html_()


def test_a_dynamic_size_is_an_argument_of_the_kernel():
    (kernel,) = dumped("dynamic batch").kernels
    assert "xmask = xindex < xnumel" in kernel.source  # the mask cannot vanish
    assert "xnumel" in kernel.grid


@pytest.mark.parametrize(("begin", "promises"), [(0, 3), (1, 2), (4, 3)])
def test_an_input_that_begins_elsewhere_is_promised_to_nobody(begin, promises):
    x = torch.randn(4096 + begin)[begin:]
    [kernel] = dump_triton(torch.sin, x).kernels
    assert kernel.generated.count("tt.divisibility") == promises


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
    assert (kernel.chosen, code.gpu, code.config) == (0, "h100", kernel.configs[0])
    assert kernel.on("a100").gpu == "a100"
    with pytest.raises(InputError, match="no configuration 1:"):
        kernel.on(config=1)
    table = dump_triton(two_lines, randn(64)).table()
    headings = ("graph", "kind", "ops", "loads", "stores", "bytes", "name")
    assert table.headings == headings
    row = ("0 inference", "pointwise", "sin, mul", "1", "1", "512 B", kernel.name)
    assert table.rows == (row,)


def test_the_text_of_a_dump():
    dump = dumped("GELU MLP, training")
    table, *rest = str(dump).split("\nNVIDIA H100 80GB HBM3: ")
    assert table == str(dump.table()) and len(table.splitlines()) == 2 + 8
    assert rest[0].splitlines()[0].startswith("3 kernels, 5 library calls, ")
    assert rest[0].count("\nnot decided here: ") == len(dump.undecided) == 2
    assert dump.undecided == (
        "block sizes and warps, timed where kernel.configs has several",
        "which kernel a library picks for a matrix product or convolution",
    )
    parts = [f"# {graph}\n{graph.source}" for graph in dump.graphs]
    assert [part.splitlines()[0] for part in parts] == [
        "# graph 0 forward",
        "# graph 0 backward",
    ]
    assert dump.source == "\n".join(parts)
    assert dump.bytes == sum(launch.bytes for launch in dump.launches)
    shown = "".join(kernel._repr_html_() for kernel in dump.kernels)
    assert dump._repr_html_().endswith(f"</pre>{shown}")
    call, kernel = dump.library[0], dump.kernels[0]
    assert str(call) == f"{call.name}: a call into a library, not generated"
    assert f"<summary>{kernel.name}: pointwise</summary>" in kernel._repr_html_()
    assert dumped("Conv, BatchNorm, ReLU, training").undecided == dump.undecided


# --- inputs, and odd programs ---------------------------------------------------------


def test_keyword_arguments_and_nested_inputs():
    def scaled(batch, *, by):
        return {"out": batch["x"] * by[0] + by[1], "more": (batch["x"].sin(),)}

    batch, by = {"x": randn(64).half()}, [randn(64).half(), randn(64).half()]
    dump = dump_triton(scaled, batch, kwargs={"by": by}, training=True)
    assert dump.kernels[0].loads == 3
    assert {graph.phase for graph in dump.graphs} == {"forward", "backward"}
    assert not batch["x"].requires_grad and not by[0].requires_grad


def test_tensors_that_require_gradients_keep_theirs():
    w, x = randn(8, 8).requires_grad_(), randn(4, 8)
    w.grad = torch.ones(8, 8)
    dump = dump_triton(lambda x, w: (x @ w).relu(), x, w, training=True)
    assert {g.phase for g in dump.graphs} == {"forward", "backward"}
    products = [k for k in dump.library if k.phase == "backward"]
    assert len(products) == 1  # of w alone: x needs none
    assert torch.equal(w.grad, torch.ones(8, 8)) and not x.requires_grad


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


def test_kernels_of_ones_own_with_helpers_and_quotes():
    from tests.helpers.gpu.triton_kernel import quoted

    def twice(x):
        out = torch.empty_like(x)
        quoted[(4, 2)](x, out, x.numel(), 2.5, BLOCK=128)
        quoted[(8,)](x, out, x.numel(), 1.5, BLOCK=128)
        return out

    first, second = dump_triton(twice, randn(1000)).kernels
    assert (first.grid, second.grid) == ((4, 2, 1), (8, 1, 1))
    assert "'''" in first.source and first.registers > 0
    # In a region, too, where it cannot run without a GPU.
    around = dump_triton(
        lambda x: checkpoint(twice, x, use_reentrant=False), randn(1000)
    )
    assert {kernel.grid for kernel in around.kernels} >= {first.grid, second.grid}
    later = "what comes after your own Triton kernel, which needs a GPU to run"
    assert later in around.undecided
    assert "\n# Original path: triton_kernel.py:" in around.source


def test_sizes_that_only_the_data_knows():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        dump = dump_triton(lambda x: x[x > 0].sin(), randn(8))
    unknown = "the bytes of tensors whose sizes depend on data, counted as 0"
    assert unknown in dump.undecided


def test_a_ragged_tensor_is_stored(tmp_path):
    rows = [randn(2, 3), randn(4, 3)]
    ragged = torch.nested.nested_tensor(rows, layout=torch.jagged)
    dump = dump_triton(torch.sin, ragged)
    dump.save(tmp_path / "dump.json")
    assert load(tmp_path / "dump.json") == dump


def test_autocast_is_not_passed_over():
    def inside(x):
        with torch.autocast("cpu", torch.bfloat16):
            return x @ x

    def in_a_region(x):
        return checkpoint(inside, x, use_reentrant=False)

    x = randn(4, 4)
    said = (
        "what autocast casts on a GPU: here it follows the CPU's rules, and "
        "autocast('cuda') does nothing"
    )
    assert said in dump_triton(inside, x).undecided
    assert said in dump_triton(in_a_region, x, training=True).undecided
    with torch.autocast("cpu", torch.bfloat16):
        assert said in dump_triton(torch.mm, x, x).undecided


def test_a_gpu_without_bfloat16():
    message = r"cannot lower this for Tesla T4: .*BF16 is not supported"
    with pytest.raises(InputError, match=message) as error:
        dump_triton(torch.sin, randn(4).bfloat16(), gpu="t4")
    # It is no missing compiler.
    assert "doctor" not in str(error.value) and "part by part" in str(error.value)
    # What fails without Inductor, too, is not said of it.
    with pytest.raises(InputError, match="Call it yourself"):
        dump_triton(torch.mm, randn(3, 4), randn(3, 4))


def test_in_inference_mode_one_may_ask_for_training():
    with torch.inference_mode():
        dump = dump_triton(torch.nn.Linear(4, 4), randn(2, 4), training=True)
    assert {graph.phase for graph in dump.graphs} == {"forward", "backward"}


def test_the_same_call_gives_the_same_dump():
    fn, inputs = KINDS["softmax over 1024"].make()
    with inductor_config.patch(cpp_wrapper=True):  # a wrapper in C++ changes nothing
        first = dump_triton(fn, *inputs)
    assert first == dump_triton(fn, *inputs)
    assert first.check_numerics().checked == len(first.kernels) == 1
    assert first.source.startswith("# graph 0 inference\nfrom ")  # no count before


def test_both_kernels_of_attention_are_said():
    def attend(q):
        narrow = q.half()
        wide = F.scaled_dot_product_attention(q, q, q)
        return wide + F.scaled_dot_product_attention(narrow, narrow, narrow)

    dump = dump_triton(attend, randn(1, 2, 16, 32))
    assert dump.undecided[-1] == (
        "which attention kernel PyTorch prefers; shown is flash attention and "
        "memory-efficient attention"
    )
    for kind in ("flash", "efficient"):
        assert any(kind in call.name for call in dump.library)
    assert not any("for_cpu" in call.name for call in dump.library)


# --- modes ----------------------------------------------------------------------------


TIMED = "block sizes and warps, timed where kernel.configs has several"
DESCENT = "how far coordinate descent goes on: kernel.neighbours come next"
LIBRARY = "which kernel a library picks for a matrix product or convolution"
PADDED = "whether to pad a matrix product, which shape_padding would time"
PERSISTENT = (
    "whether persistent templates are faster, which "
    "triton.enable_persistent_tma_matmul would add"
)
RECORDED = "whether what runs can be recorded, as 1 CUDA graph"


@pytest.mark.parametrize(
    ("mode", "timed", "more"),
    [
        (None, False, ()),
        ("reduce-overhead", False, (RECORDED,)),
        ("max-autotune-no-cudagraphs", True, ()),
        ("max-autotune", True, (RECORDED,)),
    ],
)
def test_what_a_mode_and_an_odd_size_leave_open_is_said(mode, timed, more):
    odd, even = (
        dump_triton(torch.mm, randn(64, n), randn(n, 64), mode=mode) for n in (61, 64)
    )
    for dump, padded in (odd, (PADDED,)), (even, ()):
        assert (len(dump.noted) > 10) == timed
        fastest = "which of dump.candidates is the fastest; shown is the library mm"
        open_ = (fastest, PERSISTENT) if timed else ()
        assert dump.undecided == (LIBRARY, *padded, *open_, *more)


@pytest.mark.parametrize(
    ("product", "shapes", "padded"),
    [
        (torch.bmm, [(2, 8, 12), (2, 12, 10)], True),
        (torch.bmm, [(3, 8, 12), (3, 12, 16)], False),
        (torch.addmm, [(10,), (8, 12), (12, 10)], True),
        (torch.mm, [(1, 12), (12, 16)], False),  # a row is never padded
    ],
)
def test_each_product_that_could_be_padded_is_named(product, shapes, padded):
    undecided = dump_triton(product, *(randn(*shape) for shape in shapes)).undecided
    assert (PADDED in undecided) == padded
    double = dump_triton(product, *(randn(*shape).double() for shape in shapes))
    assert PADDED not in double.undecided


def test_a_mode_that_descends_says_so_where_there_is_a_kernel():
    alone = dump_triton(torch.sin, randn(8), mode="max-autotune")
    assert alone.undecided == (TIMED, DESCENT, RECORDED)
    [kernel] = alone.kernels
    assert kernel.neighbours and not {*map(str, kernel.neighbours)} & {
        *map(str, kernel.configs)
    }
    [plain] = dump_triton(torch.sin, randn(8)).kernels
    assert plain.neighbours == ()


def test_recordings_end_where_an_operation_cannot_be_recorded():
    @torch.library.custom_op(
        "dump::unsafe", mutates_args=(), tags=(torch._C.Tag.cudagraph_unsafe,)
    )
    def unsafe(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    unsafe.register_fake(torch.empty_like)

    def around(x):
        return unsafe(x.sin()).cos()

    cut = dump_triton(around, randn(8), mode="reduce-overhead")
    assert cut.undecided[-1] == "whether what runs can be recorded, as 2 CUDA graphs"
    plain = dump_triton(around, randn(8))
    assert "def partition_" not in plain.source
    assert [k.generated for k in cut.kernels] == [k.generated for k in plain.kernels]


# --- reductions along rows and down columns at once -----------------------------------

SMALL = inductor_config.patch("triton.mix_order_reduction_non_strict_mode", True)


def rows_and_columns(x):
    return x.sum(-1), x.amax(-1), x.sum(0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_pieces_of_a_mix_order_reduction_are_counted(dtype):
    x = randn(64, 32).to(dtype)
    with SMALL:
        dump = dump_triton(rows_and_columns, x)
    [kernel], [join] = dump.kernels, dump.library
    pieces = 4 * 32 * 4  # by programs, columns, and float32 for each of them
    assert kernel.grid == (4, 1, 1) and kernel.arguments[3] == "workspace_0"
    assert (kernel.loads, kernel.stores) == (1, 3)
    assert kernel.bytes == (64 * 32 + 2 * 64) * x.itemsize + pieces
    assert (join.name, join.ops, join.loads, join.stores) == (
        "aten.sum",
        ("sum",),
        1,
        1,
    )
    assert join.bytes == pieces + 32 * x.itemsize
    assert dump.check_numerics().checked == 1
    apart = dump_triton(rows_and_columns, x)
    assert len(apart.kernels) == 2 and not apart.library


def test_what_follows_a_mix_order_reduction_is_a_launch_of_its_own():
    def followed(x):
        return x.sum(-1), (x.sum(0) + 1).sin(), x.prod(0)

    with SMALL:
        dump = dump_triton(followed, randn(64, 32))
    names = [launch.name for launch in dump.launches]
    both, last = dump.kernels
    assert names == [both.name, "aten.sum", "aten.prod", last.name]
    assert both.stores == 3 and last.bytes == 2 * 32 * 4
    assert last.arguments[0].startswith("buf")
    assert dump.check_numerics().checked == 2


def test_how_a_mix_order_reduction_is_cut_would_be_timed():
    with SMALL:
        dump = dump_triton(rows_and_columns, randn(64, 32), mode="max-autotune")
        plain = dump_triton(rows_and_columns, randn(64, 32))
    cut = "in how many pieces a mix-order reduction leaves its columns"
    assert dump.undecided == (TIMED, DESCENT, cut, RECORDED)
    assert plain.undecided == (TIMED,)
    assert dump.kernels[0].grid == plain.kernels[0].grid


# --- what is wrong is said ------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"gpu": "voodoo"}, "h100"),
        ({"mode": "turbo"}, "max-autotune"),
        pytest.param(
            {"gpu": "this"},
            "^PyTorch has no GPU here",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="here is one"),
        ),
    ],
)
def test_wrong_arguments(more, message):
    with pytest.raises(InputError, match=message):
        dump_triton(torch.sin, randn(4), **more)


def test_what_runs_here_wants_inputs_on_the_gpu(monkeypatch):
    monkeypatch.setattr(gpus, "here", lambda: gpus.find("h100"))
    with pytest.raises(InputError, match=r"move them by \.to\('cuda'\)"):
        dump_triton(torch.add, randn(4), gpu="this", kwargs={"other": randn(4)})


def test_what_a_kernel_of_ones_own_cannot_call_is_said():
    from tests.helpers.gpu.triton_kernel import sine

    def launch(x):
        out = torch.empty_like(x)
        sine[(1,)](x, out, BLOCK=4)
        return out

    with pytest.raises(InputError, match=r"kernel cannot call sin: it has tl"):
        dump_triton(launch, randn(4))


# --- files ----------------------------------------------------------------------------


def test_a_folder_to_browse_holds_one_dump(tmp_path):
    (tmp_path / "kernels.txt").write_text("mine")
    (tmp_path / "dump.json").touch()  # of a dump that was not finished
    dump_triton(torch.sin, randn(4), to=tmp_path)
    fn, inputs = KINDS["pointwise chain, training"].make()
    dump = dump_triton(fn, *inputs, training=True, to=tmp_path)
    readme = (tmp_path / "README.md").read_text()
    assert plain(dump) in readme
    for kernel in dump.kernels:
        folder, code = tmp_path / "kernels" / kernel.name, kernel.on()
        assert f"(kernels/{kernel.name}/source.py)" in readme and str(code) in readme
        assert {path.name: path.read_text() for path in folder.iterdir()} == {
            "source.py": kernel.source,
            "generated.py": kernel.generated,
            "kernel.ttir": code.ttir,
            "kernel.ttgir": code.ttgir,
            "kernel.ll": code.llir,
            "kernel.ptx": code.ptx,
            "kernel.sass": code.sass,
        }
        assert f".entry {kernel.name}" in code.ptx and "sm_90" in code.ptx
        assert "EXIT" in code.sass
    folders = {folder.name for folder in (tmp_path / "kernels").iterdir()}
    assert folders == {kernel.name for kernel in dump.kernels}
    modules = {path.name for path in tmp_path.glob("*.py")}
    assert modules == {"graph-0-forward.py", "graph-0-backward.py"}
    again = load(tmp_path / "dump.json")
    assert again == dump and again.kernels[0].source == dump.kernels[0].source
    with pytest.raises(InputError, match="dump again"):
        again.check_numerics()
    assert (tmp_path / "kernels.txt").exists()
    lost = dataclasses.replace(dump.kernels[0], generated="def (")
    with pytest.raises(InputError):
        dataclasses.replace(dump, launches=(lost,)).write(tmp_path)
    assert not (tmp_path / "README.md").exists()


def test_the_command_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "doubled.py").write_text(
        "import torch\n"
        "def f(x):\n    return torch.relu(x) * 2\n"
        "def inputs():\n    return (torch.ones(1000),)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as ``python -m`` does
    monkeypatch.setenv("HELPERS_QUIET", "0")
    assert main(["dump", "doubled:f", "--gpu", "a100", "--to", "out"]) == 0
    told = capsys.readouterr()
    printed = told.out
    assert told.err == "dump: f is compiled for a100\n"  # where no bar says it
    assert "pointwise" in printed and "A100" in printed
    assert (tmp_path / "out" / "README.md").exists()
    monkeypatch.chdir(tmp_path.parent)
    assert main(["dump", str(tmp_path / "doubled.py:f"), "--train"]) == 0
    assert "0 backward" in capsys.readouterr().out
    wrong = {"nowhere:f": "nowhere", "math:sin": "inputs", "nowhere.py:f": "nowhere.py"}
    wrong["math"] = "'math' names no function. Give module:function"
    for target, message in wrong.items():
        assert main(["dump", target]) == 2
        assert message in capsys.readouterr().err


def test_two_graphs_may_give_two_kernels_one_name(tmp_path):
    def broken(x, w):
        y = x.sin()
        torch._dynamo.graph_break()
        return y, w.sin()

    dump = dump_triton(broken, torch.ones(64), torch.ones(100_000), to=tmp_path)
    one, other = dump.kernels
    assert one.name == other.name and one.generated != other.generated
    sources = {path.read_text() for path in tmp_path.glob("kernels/*/generated.py")}
    assert sources == {one.generated, other.generated}


def test_a_dump_for_a_gpu_of_another_machine_is_shown(monkeypatch):
    other = dataclasses.replace(gpus.find("rtx3090"), name="rtx3070")
    with monkeypatch.context() as there:
        there.setitem(gpus.GPUS, "rtx3070", other)
        text = dump_triton(torch.sin, torch.ones(8), gpu="rtx3070").to_json()
    assert "rtx3070" in str(Dump.from_json(text))
