"""What a dump says, from kernels that are written down here: nothing is compiled."""

from __future__ import annotations

import math
import types

import pytest
import torch

from helpers.codegen import Kernel
from helpers.gpu import dump as made
from helpers.gpu import dumped, machine_code
from helpers.gpu.capture import Lowered
from helpers.gpu.dumped import Dump, DumpedGraph, DumpedKernel

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def helper(x):
    return x

@triton_heuristics.pointwise(
    triton_meta={'signature': {'in_ptr0': '*fp32', 'out_ptr0': '*fp32'}},
)
@triton.jit
def triton_poi_fused_sin_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    x0 = tl.arange(0, XBLOCK)[:]
    tmp0 = tl.load(in_ptr0 + (x0), None)
    tl.store(out_ptr0 + (x0), tmp0, None)
"""
MODULE = f"""# AOT ID: ['0_inference']
# kernel path: /somewhere/else.py
# Original path: /home/me/program.py

triton_poi_fused_sin_0 = async_compile.triton('triton_poi_fused_sin_0', '''{KERNEL}''')

def call(args):
    triton_poi_fused_sin_0_xnumel = 4*s0
    triton_poi_fused_sin_0.run(arg0_1, buf0, triton_poi_fused_sin_0_xnumel, stream=s)
    extern_kernels.mm(buf0, arg1_1, out=buf1)
    triton_poi_fused_sin_0_xnumel = 128
    triton_poi_fused_sin_0.run(buf1, buf2, triton_poi_fused_sin_0_xnumel, stream=s)
    mine_0.run(buf2, 1.5, s0 + 1, stream=s)
    somebody.run(buf2)
"""


def kernel(name="triton_poi_fused_sin_0", **more):
    usual = {
        "name": name,
        "kind": "pointwise",
        "graph": 2,
        "phase": "forward",
        "ops": ("sin", "mul"),
        "lines": ("3: y = x.sin()",),
        "loads": 1,
        "stores": 2,
        "bytes": 2048,
        "arguments": ("arg0_1", "buf0", "4096"),
        "hints": (("s0", 5),),
        "gpu": "h100",
        "generated": KERNEL,
        "chosen": 1,
    }
    return DumpedKernel(**usual | more)


def library(name="extern_kernels.mm", **more):
    return kernel(name, kind="library", generated="", bytes=1024, **more)


NEEDS = ("registers", "spills", "shared", "occupancy")


@pytest.fixture
def asked(monkeypatch):
    """What was asked of the compiler, which is not there."""
    said = []

    def compiled(source, gpu, config):
        said.append(("compile", source, gpu.name, config))
        names = (*machine_code.STAGES, "sass", *NEEDS)
        return types.SimpleNamespace(**{name: f"the {name}" for name in names})

    def configs(source, gpu):
        said.append(("configs", source, gpu.name))
        return ("first", "second")

    def grid(source, gpu, config, numels):
        said.append(("grid", source, gpu.name, config, numels))
        return (8, 1, 1)

    monkeypatch.setattr(machine_code, "compile_kernel", compiled)
    monkeypatch.setattr(machine_code, "configs", configs)
    monkeypatch.setattr(machine_code, "grid", grid)
    return said


def test_machine_code_is_made_once_for_each_gpu_and_configuration(asked):
    one = kernel()
    assert asked == []
    for stage in ("ttir", "ttgir", "llir", "ptx", "sass"):
        assert getattr(one, stage) == f"the {stage}"
    for need in NEEDS:
        assert getattr(one, need) == f"the {need}"
    assert one.on() is one.on("H100", 1) is one.on(config=1)
    assert asked == [("compile", KERNEL, "h100", 1)]
    one.on("a100")
    one.on(config=0)
    assert asked[1:] == [("compile", KERNEL, "a100", 1), ("compile", KERNEL, "h100", 0)]


def test_the_grid_is_that_of_the_chosen_configuration_and_the_numbers(asked):
    one = kernel(arguments=("buf0", "buf1", "4096", "7", "-3"))
    assert one.configs == ("first", "second")
    assert one.grid == (8, 1, 1)
    numels = {"xnumel": 4096, "_grid_0": 7, "_grid_1": -3}
    assert asked == [
        ("configs", KERNEL, "h100"),
        ("grid", KERNEL, "h100", "second", numels),
    ]


def test_what_a_launch_gives():
    assert dumped._parameters(KERNEL) == [
        *("in_ptr0", "out_ptr0", "xnumel", "_grid_0", "_grid_1", "_grid_2")
    ]
    assert dumped._parameters("x = 1") == ["_grid_0", "_grid_1", "_grid_2"]
    assert [dumped._number(a) for a in ("12", "-3", "buf0", "1.5", "")] == [
        *(12, -3, None, None, None)
    ]


def test_a_kernel_shows_its_tidied_source_and_a_library_call_its_name():
    one = kernel()
    assert one.source.startswith("@triton.jit\ndef helper(x):")
    assert "tl.load(in_ptr0 + x0)" in one.source
    assert str(one) == repr(one) == one.source
    shown = one._repr_html_()
    assert "triton_poi_fused_sin_0: pointwise" in shown and "<details" in shown
    call = library()
    assert call.source == ""
    assert str(call) == "extern_kernels.mm: a call into a library, not generated"
    assert call._repr_html_().startswith("<pre") and str(call) in call._repr_html_()


def test_a_row_holds_the_counts():
    name = "triton_poi_fused_sin_0"
    row = ("2 forward", "pointwise", "sin, mul", "1", "2", "2 KiB", name)
    assert kernel().row() == row


def whole(*launches, undecided=("block sizes",)):
    graphs = (DumpedGraph(0, "forward", "a = 1"), DumpedGraph(0, "backward", "b = 2"))
    return Dump("h100", launches, graphs, undecided)


def test_a_dump_parts_kernels_from_library_calls_and_adds_up_their_bytes():
    one, two, call = kernel(), kernel("triton_red_1"), library()
    found = whole(one, call, two)
    assert found.kernels == (one, two) and found.library == (call,)
    assert found.bytes == 2048 + 1024 + 2048
    assert found.source == "# graph 0 forward\na = 1\n# graph 0 backward\nb = 2"
    assert found.kernel("red") is two and found.kernel("triton") is one
    assert found.kernel("mm") is call
    said = "no kernel 'nope'; there are: triton_poi_fused_sin_0, extern_kernels\\.mm"
    with pytest.raises(KeyError, match=said):
        whole(one, call, one).kernel("nope")
    with pytest.raises(KeyError, match="there are: none"):
        whole().kernel("nope")


def test_a_dump_as_text_and_html():
    found = whole(kernel(), library())
    table = found.table()
    assert table.headings == (
        *("graph", "kind", "ops", "loads", "stores", "bytes", "name"),
    )
    assert table.rows == (kernel().row(), library().row())
    last = "NVIDIA H100 80GB HBM3: 1 kernel, 1 library call, 3 KiB"
    assert str(found) == f"{table}\n{last}\nnot decided here: block sizes"
    assert repr(found) == str(found)
    shown = found._repr_html_()
    assert shown.startswith(table._repr_html_())
    assert f">{last}\nnot decided here: block sizes</pre>" in shown
    assert shown.endswith(kernel()._repr_html_())
    none = whole(undecided=())
    assert str(none) == "no kernels: no graph was captured, or none computes anything"
    assert none._repr_html_().startswith("<pre")


def test_a_dump_is_written_and_checked_as_a_whole(monkeypatch):
    from helpers.gpu import folders, interpret

    seen, found = [], whole(kernel())
    monkeypatch.setattr(folders, "write_dump", lambda *given: seen.append(given))
    monkeypatch.setattr(interpret, "check_numerics", lambda dump: ("checked", dump))
    found.write("folder")
    assert seen == [(found, "folder")] and found.check_numerics() == ("checked", found)


def test_a_dump_comes_back_from_its_json():
    found = whole(kernel(), library())
    assert Dump.from_json(found.to_json()) == found
    assert str(DumpedGraph(1, "inference", "x")) == "graph 1 inference"


# ------------------------------------------------- a generated module becomes launches


def launch(name, language="Triton", loads=1, stores=1, ops=("sin",)):
    return Kernel(name, language, "forward", ops, loads, stores, 0, 64, ("1: x",))


def graph(*nodes):
    """A graph whose nodes call these targets on tensors of these shapes and types."""
    held = [
        types.SimpleNamespace(
            target=target,
            args=[types.SimpleNamespace(meta={"val": torch.empty(s, dtype=d)})
                  for s, d in shapes] + [3],
        )
        for target, shapes in nodes
    ]  # fmt: skip
    return types.SimpleNamespace(graph=types.SimpleNamespace(nodes=held))


def lowered(*launches, source=MODULE, nodes=(), chosen=(), index=3):
    return Lowered(
        index, "forward", source, launches, graph(*nodes), {"s0": 5}, [], dict(chosen)
    )


def test_launches_come_in_their_order_with_their_arguments():
    poi, mm = "triton_poi_fused_sin_0", "extern_kernels.mm"
    mine = launch("your Triton kernel", ops=("your kernel",))
    found = made._launches(
        lowered(
            launch(poi),
            launch(mm, "library"),
            launch(poi),
            mine,
            chosen={poi: 2}.items(),
        ),
        "a100",
    )
    assert [(k.name, k.kind) for k in found] == [
        (poi, "pointwise"),
        (mm, "library"),
        (poi, "pointwise"),
        ("mine_0", "yours"),
    ]
    assert [k.arguments for k in found] == [
        ("arg0_1", "buf0", "20"),  # 4 * s0, and s0 was 5
        (),
        ("buf1", "buf2", "128"),
        ("buf2", "1.5", "6"),
    ]
    assert [k.chosen for k in found] == [2, 0, 2, 0]
    assert found[0].generated == KERNEL.strip() + "\n"
    assert found[1].generated == found[3].generated == ""
    first = found[0]
    assert (first.graph, first.phase, first.gpu) == (3, "forward", "a100")
    assert (first.ops, first.lines, first.bytes) == (("sin",), ("1: x",), 64)
    assert (first.loads, first.stores, first.hints) == (1, 1, (("s0", 5),))


def test_a_launch_that_is_written_nowhere_has_no_arguments():
    (found,) = made._launches(lowered(launch("triton_red_9")), "h100")
    assert (found.name, found.kind, found.arguments) == ("triton_red_9", "library", ())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("triton_red_0", "reduction"), ("triton_per_0", "persistent reduction")),
        *(("triton_tem_0", "template"), ("triton_for_0", "foreach")),
        *(("triton_spl_0", "split scan"), ("triton_new_0", "other")),
    ],
)
def test_the_kind_is_in_the_name(name, kind):
    source = f"{name} = async_compile.triton('{name}', '''x''')"
    (found,) = made._launches(lowered(launch(name), source=source), "h100")
    assert found.kind == kind and found.generated == "x\n"


def test_paths_and_counts_are_left_out():
    assert made._reproducible(MODULE).startswith("# Original path: program.py\n")
    assert "async_compile.triton" in made._reproducible(MODULE)


def test_an_argument_becomes_a_number_only_where_all_of_it_is_known():
    values, hints = {"xnumel": "3*s0 + 1", "far": "s9", "s1": "x.y"}, {"s0": 5, "s2": 2}
    for argument, found in {
        "xnumel": "16",
        "s0": "5",
        "(s0 - s2) // 2": "1",
        "512": "512",
        "far": "s9",
        "s1": "x.y",
        "buf0": "buf0",
        "s0 ** 'x'": "s0 ** 'x'",
    }.items():
        expected = argument if found in ("s9", "x.y") else found
        assert made._value(argument, values, hints) == expected


def undecided(*launches, nodes=(), mode=None, **more):
    usual = {"attention": set(), "autocast": False, "eager": "", "stopped": ""}
    found = [lowered(*launches, nodes=nodes)]
    return made._undecided(types.SimpleNamespace(found=found, **usual | more), mode)


def test_nothing_is_open_where_nothing_runs():
    assert undecided() == []
    assert undecided(launch("cpp_0", "C++")) == []


def of(*launches, **more):
    return launches, more


@pytest.mark.parametrize(
    ("said", "given"),
    [
        (("block sizes and warps",), of(launch("triton_poi_0"))),
        (("which kernel a library",), of(launch("kernels.mm", "library"))),
        (
            ("which kernel a library",),
            of(launch("aten.convolution", "library")),
        ),
        ((), of(launch("aten.sort", "library"))),
        (("which attention", ), of(attention={"b", "a"})),
        (("whether a Triton template", "whether the launches"),
         of(mode="max-autotune")),
        (("whether a Triton template",), of(mode="max-autotune-no-cudagraphs")),
        (("whether the launches",), of(mode="reduce-overhead")),
        ((), of(mode="default")),
        (("what autocast casts",), of(autocast=True)),
        (("which branch",), of(nodes=[("cond", [])])),
        (("which branch",), of(nodes=[("while_loop", [])])),
        (("which branch",), of(nodes=[("invoke_subgraph", [])])),
        ((), of(nodes=[("aten.sin.default", [])])),
        (("the bytes of tensors",), of(launch("x", "C++", 0, 0))),
        ((), of(launch("x", "C++", 0, 1))),
        (("a graph that torch.compile leaves to eager: why",), of(eager="why")),
        (("what comes after it, which",), of(stopped="it")),
    ],
)  # fmt: skip
def test_what_only_the_device_can_decide_is_said(said, given):
    found = undecided(*given[0], **given[1])
    assert len(found) == len(said)
    assert all(text.startswith(start) for text, start in zip(found, said, strict=True))
    if said == ("which attention",):
        assert found[0].endswith("shown is a and b")


@pytest.mark.parametrize(
    ("target", "shapes", "dtype", "odd"),
    [
        ("aten.mm.default", [(8, 8), (8, 12)], torch.float32, False),
        ("aten.mm.default", [(8, 8), (8, 13)], torch.float32, True),
        ("aten.mm.default", [(6, 8), (8, 8)], torch.float32, True),
        ("aten.addmm.default", [(8,), (6, 8), (8, 8)], torch.float32, True),
        ("aten.addmm.default", [(3,), (4, 8), (8, 4)], torch.float32, False),
        ("aten.bmm.default", [(8, 8, 12), (8, 12, 8)], torch.float16, True),
        ("aten.bmm.default", [(8, 8, 12), (8, 12, 8)], torch.bfloat16, True),
        ("aten.bmm.default", [(3, 8, 16), (3, 16, 8)], torch.float16, False),
        ("aten.mm.default", [(3, 3), (3, 3)], torch.float64, False),
        ("aten.sin.default", [(3, 3)], torch.float32, False),
    ],
)
def test_a_product_is_odd_where_a_side_is_no_multiple_of_16_bytes(
    target, shapes, dtype, odd
):
    (node,) = graph((target, [(shape, dtype) for shape in shapes])).graph.nodes
    assert made._odd_product(node) is odd
    said = undecided(nodes=[(target, [(shape, dtype) for shape in shapes])])
    assert any("padded" in each for each in said) is odd


def test_a_dump_of_a_captured_program_keeps_its_graphs():
    found = [lowered(launch("triton_poi_fused_sin_0"), index=n) for n in (0, 1)]
    held = types.SimpleNamespace(
        found=found, attention=set(), autocast=False, eager="", stopped=""
    )
    dump = made._dump(held, "h100", None)
    assert dump.gpu == "h100" and dump._captured == tuple(found)
    assert [k.graph for k in dump.launches] == [0, 1]
    assert [(g.index, g.phase) for g in dump.graphs] == [(0, "forward"), (1, "forward")]
    assert dump.graphs[0].source == made._reproducible(MODULE)
    assert len(dump.undecided) == 1 and math.isclose(dump.bytes, 128)
