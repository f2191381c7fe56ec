"""stages(): the same operation found in each text, and nothing guessed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from helpers import stages
from helpers.errors import InputError
from helpers.gpu.side_by_side import NONE, Flow, Stages
from tests.kinds import dumped

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
def shown() -> Stages:
    return stages(chain, X, Y)


def text_of(text: str, numbers: tuple[int, ...]) -> list[str]:
    lines = text.splitlines()
    return [lines[n - 1].strip() for n in numbers]


def test_each_operation_is_found_in_every_text(shown: Stages) -> None:
    wanted = {  # what its statement says, in the program and in Triton
        "sin": ("torch.sin(x) * 2", "sin(tmp0)"),
        "sub": ("sigmoid(h - y)", "tmp5 - tmp6"),
        "sigmoid": ("sigmoid(h - y)", "tl.sigmoid(tmp7)"),
        "relu": ("torch.relu(h * g)", "maximum(tmp10, tmp9)"),
        "sum": (".sum(-1)", "tl.sum(tmp14, 1)"),
    }
    steps = {step.op: step for step in shown.steps}
    for op, (program, triton) in wanted.items():
        assert any(program in x for x in text_of(shown.program, steps[op].program)), op
        assert any(triton in x for x in text_of(shown.triton, steps[op].triton)), op


def test_two_uses_of_one_operation_are_told_apart(shown: Stages) -> None:
    first, second = (step for step in shown.steps if step.op == "mul")
    assert text_of(shown.triton, first.triton) == ["tmp3 = tmp1 * 2.0"]
    assert text_of(shown.triton, second.triton) == ["tmp9 = tmp5 * tmp8"]
    (last,) = text_of(shown.program, second.program)
    assert last.endswith(": return torch.relu(h * g).sum(-1)")


def test_ptx_comes_from_the_line_that_is_shown(shown: Stages) -> None:
    ptx = {step.op: text_of(shown.ptx, step.ptx) for step in shown.steps}
    assert any("ld.global" in line for line in ptx["load arg0_1"])
    assert any("st.global" in line for line in ptx["store sum_1"])
    assert any("shfl.sync" in line for line in ptx["sum"])
    # The product and the sum are one fma, which the compiler files under the sum.
    assert any("fma" in line for line in ptx["add"])
    assert next(step.ptx for step in shown.steps if step.op == "mul") == ()
    assert not any("shfl.sync" in line for line in ptx["sin"])
    assert ".loc\t" not in shown.ptx and "<generated kernel>" not in shown.ptx


def test_a_program_of_many_operations_is_followed_to_the_end() -> None:
    assert [s.op for s in stages(wide, X.abs(), Y).steps if not s.triton] == []


def test_a_reduction_in_a_loop_is_followed() -> None:
    looped = stages(lambda x: x.exp().sum(-1), torch.randn(16, 8192))
    (step,) = (step for step in looped.steps if step.op == "sum")
    lines = text_of(looped.triton, step.triton)
    assert any("tl.sum(" in line for line in lines), lines


def test_another_kernel_is_shown_when_asked_for() -> None:
    second = stages(cut, X[:, :64], X[:, :64], kernel=1)
    assert second.others and second.others[0] in str(second)
    assert all(step.op != "sin" for step in second.steps)
    with pytest.raises(InputError, match="there are 0: triton_poi_fused_sin_0"):
        stages(cut, X[:, :64], X[:, :64], kernel="nowhere")
    with pytest.raises(InputError, match="there are none"):
        stages(lambda x: x @ x, torch.randn(8, 8))


def test_one_operation_of_two_parts_of_a_tensor_has_no_line_of_its_own() -> None:
    """Which of both a line is cannot be known, and nothing is guessed."""
    for twice in (
        lambda x: x[:, :8].sin() + x[:, 8:].sin(),
        lambda x: x.sin() + x.t().sin(),
    ):
        steps = stages(twice, torch.randn(16, 16)).steps
        assert [step.triton for step in steps if step.op == "sin"] == [(), ()]


def test_a_kernel_launched_twice_shows_the_operations_of_that_launch() -> None:
    w = torch.randn(64, 64)
    second = stages(lambda x: ((x @ w).sin() @ w).sin() @ w, w, kernel=1)
    assert "sin(mm)" not in second.fx  # that of the first launch


def test_text_html_and_json_agree(shown: Stages) -> None:
    assert Stages.from_json(shown.to_json()) == shown
    row = next(r for r in shown.table().rows if r[0] == "mul")
    assert row[2:4] == ("mul = mul(sin, 2)", "tmp3 = tmp1 * 2.0")
    assert row[4] == f"⟨{NONE}⟩"
    marks = re.findall(r"<b>\[([\d, ]+)\]</b>", shown._repr_html_())
    numbers = [int(number) for mark in marks for number in mark.split(", ")]
    step = shown.steps[2]
    assert repr(step).startswith(f"Step(op={step.op!r}, ")
    places = (step.program, step.fx, step.triton, step.ptx)
    assert numbers.count(3) == sum(map(len, places))


# --- the alignment can fail -----------------------------------------------------------

GRAPH, ATEN = torch.fx.Graph(), torch.ops.aten
INPUTS = map(GRAPH.placeholder, "xy")
A = GRAPH.create_node("call_function", ATEN.sub.Tensor, tuple(INPUTS), name="a")
B = GRAPH.create_node("call_function", ATEN.mul.Tensor, (A, 2.0), name="b")


def followed(*body: str) -> dict[str, list[str]]:
    """Return the lines of a = x - y and b = a * 2 in a kernel with this body."""
    head = "@triton_heuristics.pointwise()\n@triton.jit\ndef k(in_ptr0, in_ptr1):\n"
    loads = ("t0 = tl.load(in_ptr0 + i, m)", "t1 = tl.load(in_ptr1 + i, m)")
    text = head + "".join(f"    {line}\n" for line in (*loads, *body))
    kernel = dumped("pointwise chain").kernels[0]
    kernel = replace(kernel, generated=text, arguments=("x", "y"))
    lines = Flow(GRAPH).follow(kernel)
    return {n: text_of(kernel.source, tuple(sorted(lines.get(n, ())))) for n in "ab"}


def test_a_line_is_found_by_its_values_not_by_its_place() -> None:
    first, second = "t2 = t0 - t1", "t3 = g(t2 * 2.0)"
    assert followed(first, second) == {"a": [first], "b": [second]}
    assert followed("t8 = g(t1 * 2.0)", first, second) == {"a": [first], "b": [second]}
    assert followed(first, "t3 = g(t2 * 3.0)") == {"a": [first], "b": []}


@pytest.mark.parametrize("wrong", ["t1 - t0", "t0 + t1", "t0 - t0", "t0 - 1.0"])
def test_another_operation_or_other_values_are_no_line(wrong: str) -> None:
    assert followed(f"t2 = {wrong}", "t3 = g(t2 * 2.0)") == {"a": [], "b": []}


def test_a_mask_and_a_cast_pass_a_value_on() -> None:
    body = ("t2 = t0 - t1", "t3 = tl.where(m, t2, 0)", "t4 = t3.to(tl.float32)")
    lines = followed(*body, "t5 = g(t4 * 2.0)")
    assert lines == {"a": ["t2 = t0 - t1"], "b": ["t5 = g(t4 * 2.0)"]}
