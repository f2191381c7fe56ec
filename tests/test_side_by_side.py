"""stages(): the same operation found in each text, and nothing guessed."""

import dataclasses
import re

import pytest
import torch

from helpers import stages
from helpers.errors import InputError
from helpers.gpu.side_by_side import Flow
from helpers.gpu.side_by_side import cpp_lines, fragments, located, triton_lines
from helpers.gpu.side_by_side import NONE, Stages

pytest.importorskip("triton")
X, Y = torch.randn(64, 1003), torch.randn(64, 1003)


def chain(x, y):
    h = torch.sin(x) * 2 + 1
    g = torch.sigmoid(h - y)
    return torch.relu(h * g).sum(-1)


def wide(x, y):
    a = torch.relu(x) / (y.neg() + 3) - x.sqrt()
    b = torch.where(x > y, a.rsqrt(), a.tanh().erf()).abs() ** 2
    return b.maximum(x) + x.reciprocal().clamp(min=0.5) + x.log() * y.exp()


def cut(x, y):
    return torch.softmax(x.sin() @ y.t(), -1)


@pytest.fixture(scope="module")
def shown():
    return stages(chain, X, Y)


def text_of(text, numbers):
    lines = text.splitlines()
    return [lines[n - 1].strip() for n in numbers]


def test_each_operation_is_found_in_every_text(shown):
    wanted = {  # what its statement says, in the program, C++ and Triton
        "sin": ("torch.sin(x) * 2", "tmp0.sin()", "sin(tmp0)"),
        "sub": ("sigmoid(h - y)", "tmp7 - tmp8", "tmp5 - tmp6"),
        "sigmoid": ("sigmoid(h - y)", "neg().exp()", "tl.sigmoid(tmp7)"),
        "relu": ("torch.relu(h * g)", "clamp_min(tmp11", "maximum(tmp10, tmp9)"),
        "sum": (".sum(-1)", "tmp_acc0_vec + tmp12", "tl.sum(tmp14, 1)"),
    }
    steps = {step.op: step for step in shown.steps}
    for op, texts in wanted.items():
        places = steps[op].program, steps[op].cpp, steps[op].triton
        columns = shown.program, shown.cpp, shown.triton
        for said, column, at in zip(texts, columns, places, strict=True):
            assert any(said in line for line in text_of(column, at)), (op, said)


def test_two_uses_of_one_operation_are_told_apart(shown):
    first, second = (step for step in shown.steps if step.op == "mul")
    assert text_of(shown.triton, first.triton) == ["tmp3 = tmp1 * 2.0"]
    assert text_of(shown.triton, second.triton) == ["tmp9 = tmp5 * tmp8"]
    assert text_of(shown.program, second.program) == [
        "return torch.relu(h * g).sum(-1)"
    ]


def test_ptx_comes_from_the_line_that_is_shown(shown):
    steps = {step.op: step for step in shown.steps}
    loads = text_of(shown.ptx, steps["load arg0_1"].ptx)
    assert sum("ld.global" in line for line in loads) >= 1
    assert any("st.global" in x for x in text_of(shown.ptx, steps["store sum_1"].ptx))
    assert any("shfl.sync" in x for x in text_of(shown.ptx, steps["sum"].ptx))
    # The product and the sum are one fma, which the compiler files under the sum.
    assert any("fma" in line for line in text_of(shown.ptx, steps["add"].ptx))
    assert next(step.ptx for step in shown.steps if step.op == "mul") == ()
    assert not any("shfl.sync" in x for x in text_of(shown.ptx, steps["sin"].ptx))


def test_a_program_of_many_operations_is_followed_to_the_end():
    found = stages(wide, X.abs(), Y)
    assert [s.op for s in found.steps if not s.triton] == []
    assert [s.op for s in found.steps if not s.cpp] == []


def test_another_kernel_is_shown_when_asked_for():
    found = stages(cut, X[:, :64], X[:, :64], kernel=1)
    assert found.others and found.others[0] in str(found)
    assert all(step.op != "sin" for step in found.steps)
    with pytest.raises(InputError, match="there are 0: triton_poi_fused_sin_0"):
        stages(cut, X[:, :64], X[:, :64], kernel="nowhere")


def test_it_says_so_where_there_is_no_kernel():
    with pytest.raises(InputError, match="there are none"):
        stages(lambda x: x @ x, torch.randn(8, 8))


def test_text_html_and_json_agree(shown):
    assert Stages.from_json(shown.to_json()) == shown
    row = next(r for r in shown.table().rows if r[0] == "mul")
    assert row[2:4] == ("mul = mul(sin, 2)", "tmp3 = tmp1 * 2.0")
    assert row[5] == f"⟨{NONE}⟩"
    marks = re.findall(r"<b>\[([-\d, ]+)\]</b>", shown._repr_html_())
    runs = [[*map(int, run.split("-"))] for mark in marks for run in mark.split(", ")]
    thirds = sum(run[0] <= 3 <= run[-1] for run in runs)
    assert thirds == sum(len(p) for p in shown.steps[2].places)


# --- the alignment can fail -------------------------------------------------------

NODES = """
#   %a : Tensor "f32[8]" = call_function[target=torch.ops.aten.sub.Tensor](args = (%x, %y), kwargs = {})
#   %b : Tensor "f32[8]" = call_function[target=torch.ops.aten.mul.Tensor](args = (%a, 2), kwargs = {})
k = async_compile.triton('k', '''
"""  # noqa: E501


def followed(*body):
    (nodes,) = fragments(NODES).values()
    loads = ["t0 = tl.load(in_ptr0 + i)", "t1 = tl.load(in_ptr1 + i)"]
    text = re.sub(r"\bt(?=\d)", "tmp", "\n".join([*loads, *body]))
    found = Flow(nodes, {"x": {"x"}, "y": {"y"}}).follow(
        triton_lines(text), {"in_ptr0": "x", "in_ptr1": "y"}
    )
    return {name: [line.first for line in found.get(name, ())] for name in "ab"}


def test_a_line_is_found_by_its_values_not_by_its_place():
    assert followed("t2 = t0 - t1", "t3 = t2 * 2.0") == {"a": [3], "b": [4]}
    apart = ("t8 = t1 * 2.0", "t9 = t0 - t1", "t3 = t9 * 2.0")
    assert followed(*apart) == {"a": [4], "b": [5]}


@pytest.mark.parametrize(
    "wrong",
    ["t2 = t1 - t0", "t2 = t0 + t1", "t2 = t0 - t0", "t2 = t0 - 1.0"],
)
def test_another_operation_or_other_values_are_no_line(wrong):
    assert followed(wrong, "t3 = t2 * 2.0") == {"a": [], "b": []}


def test_another_number_is_no_line():
    assert followed("t2 = t0 - t1", "t3 = t2 * 3.0") == {"a": [3], "b": []}


def test_a_mask_and_a_cast_pass_a_value_on():
    body = ("t2 = t0 - t1", "t3 = tl.where(m, t2, 0)", "t4 = t3.to(tl.float32)")
    assert followed(*body, "t5 = t4 * 2.0") == {"a": [3], "b": [6]}


def test_cpp_is_read_by_definition():
    text = "auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + x0, 16);\n"
    text += "auto tmp1 = tmp0.sin();\ntmp1.store(out_ptr0 + x0);\ntmp_acc0 = tmp1;"
    lines = cpp_lines(text)
    assert [(x.target, x.new) for x in lines] == [
        *(("tmp0", True), ("tmp1", True), ("", True), ("tmp_acc0", False))
    ]


def test_ptx_lines_follow_inlining():
    place = "\t.loc\t2 50 30    // standard.py:50:30 @[ <generated kernel>:12:22 ]\n"
    ptx = f"\t.loc\t1 11 3   // <generated kernel>:11:3\n\tmov.b32 %r1, 0;\n{place}"
    ptx += (
        "\tadd.f32 %r2, %r1, %r1;\n\t.loc\t1 0 3   // <generated kernel>:0:3\n\tret;\n"
    )
    text, places = located(ptx, 10)
    assert places == {2: [1], 3: [2]}
    assert ".loc" not in text and text.count("\n") == 3


def test_missing_triton_is_said(monkeypatch):
    from helpers.gpu import fake_gpu

    def missing():
        raise fake_gpu.Missing("no triton")

    monkeypatch.setattr(fake_gpu, "require_triton", missing)
    with pytest.raises(fake_gpu.Missing):
        stages(chain, X, Y)


def test_fields_are_plain(shown):
    assert all(
        isinstance(getattr(shown, f.name), (str, int, tuple))
        for f in dataclasses.fields(shown)
    )
