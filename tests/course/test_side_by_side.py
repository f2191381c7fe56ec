"""stages(): the same operation found in each text, and nothing guessed."""

import re
from dataclasses import replace

import pytest
import torch

from course.ch08.side_by_side import NONE, Flow, Stages, Step, stages
from helpers.errors import InputError
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
    c = b.maximum(x) + x.reciprocal().clamp(min=-0.5) + x.log() * y.exp()
    return c.clamp(max=0.25).minimum(y)


def cut(x, y):
    return torch.softmax(x.sin() @ y.t(), -1)


@pytest.fixture(scope="module")
def shown():
    return stages(chain, X, Y)


def text_of(text, numbers):
    lines = text.splitlines()
    return [lines[n - 1].strip() for n in numbers]


def test_each_operation_is_found_in_every_text(shown):
    wanted = {  # by its line of the graph: that of the program, and of Triton
        "sin = sin(arg0_1)": (1, "sin(tmp0)"),
        "mul = mul(sin, 2)": (1, "tmp3 = tmp1 * 2.0"),
        "add = add(mul, 1)": (1, "tmp3 + 1.0"),
        "sub = sub(add, arg1_1)": (2, "tmp5 - tmp6"),
        "sigmoid = sigmoid(sub)": (2, "tl.sigmoid(tmp7)"),
        "mul_1 = mul(add, sigmoid)": (3, "tmp9 = tmp5 * tmp8"),
        "relu = relu(mul_1)": (3, "maximum(tmp10, tmp9)"),
        "sum_1 = sum(relu, [-1])": (3, "tl.sum(tmp14, 1)"),
    }
    at = chain.__code__.co_firstlineno
    assert shown.program.splitlines() == [
        f"{at + 1}: h = torch.sin(x) * 2 + 1",
        f"{at + 2}: g = torch.sigmoid(h - y)",
        f"{at + 3}: return torch.relu(h * g).sum(-1)",
    ]
    assert shown.fx.splitlines() == [*wanted]
    load, *others, store = (s for s in shown.steps if not s.fx)
    assert [load.op, *(s.op for s in others)] == ["load arg0_1", "load arg1_1"]
    assert store is shown.steps[-1] and store.op == "store sum_1"
    assert text_of(shown.triton, load.triton)[-1].endswith("other=0.0)")
    for number, (text, (line, triton)) in enumerate(wanted.items(), 1):
        step = shown.steps[number + 1]
        assert (step.program, step.fx) == ((line,), (number,))
        assert f" {step.op}(" in text
        [statement] = text_of(shown.triton, step.triton)
        assert triton in statement


def test_ptx_comes_from_the_line_that_is_shown(shown):
    ptx = {step.op: text_of(shown.ptx, step.ptx) for step in shown.steps}
    assert any("ld.global" in line for line in ptx["load arg0_1"])
    assert any("st.global" in line for line in ptx["store sum_1"])
    assert any("shfl.sync" in line for line in ptx["sum"])
    # The product and the sum are one fma, which the compiler files under the sum.
    assert any("fma" in line for line in ptx["add"])
    assert next(step.ptx for step in shown.steps if step.op == "mul") == ()
    assert not any("shfl.sync" in line for line in ptx["sin"])
    assert not re.search(r"\.loc\s|//|\$L__(tmp|func)|<generated|XX|\n\n", shown.ptx)
    numbered = [n for step in shown.steps for n in step.ptx]
    for line in (shown.ptx.splitlines()[n - 1] for n in numbered):
        assert re.match(r"    \S.*;$", line)


def test_a_program_of_many_operations_is_followed_to_the_end():
    assert [s.op for s in stages(wide, X.abs(), Y).steps if not s.triton] == []
    cast = stages(lambda x: x.float() * 2, X.bfloat16())
    steps = {step.op: text_of(cast.triton, step.triton) for step in cast.steps}
    assert ".to(tl.float32)" in steps["convert_element_type"][0]
    first, *_, last = steps
    assert all(steps.values())
    assert first.startswith("load ") and last.startswith("store ")


@pytest.mark.parametrize(
    ("op", "call"),
    [("sum", "tl.sum("), ("amax", "triton_helpers.max2("), ("amin", ".min2(")],
)
def test_a_reduction_in_a_loop_is_followed(op, call):
    def reduced(x):
        return getattr(x.exp(), op)(-1)

    looped = stages(reduced, torch.randn(16, 8192))
    (step,) = (step for step in looped.steps if step.op == op)
    lines = text_of(looped.triton, step.triton)
    assert call in lines[-1] and len(lines) > 1, lines  # and in the loop


def test_another_kernel_is_shown_when_asked_for():
    second = stages(cut, X[:, :64], X[:, :64], kernel=1, gpu="a100")
    assert second.gpu == "a100" and ".target sm_80" in second.ptx
    assert second.others == ("triton_poi_fused_sin_0",) and second.kernel not in (
        second.others
    )
    first = stages(cut, X[:, :64], X[:, :64]).steps
    assert [s.op for s in first if s.triton] == ["load arg0_1", "sin", "store sin"]
    title = f"\nNVIDIA A100-SXM4-80GB: {second.kernel}; not shown: "
    assert str(second).endswith(title + second.others[0])
    assert all(step.op != "sin" for step in second.steps)
    names = f"0: {second.others[0]}, 1: {second.kernel}"
    with pytest.raises(InputError, match=f"^no kernel 'nowhere': there are {names}$"):
        stages(cut, X[:, :64], X[:, :64], kernel="nowhere")
    with pytest.raises(InputError, match="there are none"):
        stages(lambda x: x @ x, torch.randn(8, 8))


def test_one_operation_of_two_parts_of_a_tensor_has_no_line_of_its_own():
    """Which of both a line is cannot be known, and nothing is guessed."""
    for twice in (
        lambda x: x[:, :8].sin() + x[:, 8:].sin(),
        lambda x: x.sin() + x.t().sin(),
    ):
        steps = stages(twice, torch.randn(16, 16)).steps
        assert [step.triton for step in steps if step.op == "sin"] == [(), ()]


def test_a_kernel_launched_twice_shows_the_operations_of_that_launch():
    w = torch.randn(64, 64)
    second = stages(lambda x: ((x @ w).sin() @ w).sin() @ w, w, kernel=1)
    assert "sin(mm)" not in second.fx  # that of the first launch


def test_text_html_and_json_agree(shown):
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


def test_every_part_of_a_row_and_of_a_column():
    ptx = ("ret;", "mov.u32 %a, 0;", "@%p ld.global.b32 { %b }, [ %c ];")
    ptx += ("mov.u32 %d, 1;", "st.global.b32 [ %c ], %b;")
    texts = ("f" * 48, "o\n" + "g" * 49, f"head\n{' ' * 20}x < y", "\n".join(ptx))
    both = Step("sin", (1,), (2,), (2,), (1, 2, 3, 4, 5))
    steps = (both, Step("cos", (), (), (2,), (1, 2, 3)))
    result = Stages("h100", "k", ("i", "j"), *texts, steps)
    some = "⟨1 ld.global.b32, 1 st.global.b32, 2 mov.u32, …⟩"
    three = "⟨1 ld.global.b32, 1 ret, 1 mov.u32⟩"
    table = result.table()
    assert table.headings == ("op", "program", "FX graph", "Triton", "PTX")
    assert table.rows == (
        ("sin", "f" * 48, "g" * 47 + "…", "x < y", some),
        ("cos", NONE, NONE, "x < y", three),
    )
    alone = replace(result, others=())
    assert str(alone).endswith("\nNVIDIA H100 80GB HBM3: k")
    page = result._repr_html_()
    assert page.endswith("NVIDIA H100 80GB HBM3: k; not shown: i, j</pre>")
    look = "border-left:6px solid #E69F00;background:#E69F0044"
    assert f'<div style="{look}"><b>[1, 2]</b>      x &lt; y&nbsp;</div></div>' in page
    assert '<div style="">head&nbsp;</div><div' in page
    heads = "<th>program</th><th>FX graph</th><th>Triton</th><th>PTX</th></tr><tr "
    assert heads in page and page.count("</td><td>") == 3


# --- the alignment can fail -----------------------------------------------------------

GRAPH, ATEN = torch.fx.Graph(), torch.ops.aten
INPUTS = map(GRAPH.placeholder, "xy")
A = GRAPH.create_node("call_function", ATEN.sub.Tensor, tuple(INPUTS), name="a")
B = GRAPH.create_node("call_function", ATEN.mul.Tensor, (A, 2.0), name="b")
C = GRAPH.create_node("call_function", ATEN.add.Tensor, (B, A), name="c")
D = GRAPH.create_node("call_function", ATEN.maximum.default, (C, A), name="d")
E = GRAPH.create_node("call_function", ATEN.minimum.default, (D, A), name="e")


def followed(*body):
    """Return the lines of a = x - y, b = a * 2 and so on in a kernel with this body."""
    head = "@triton_heuristics.pointwise()\n@triton.jit\ndef k(in_ptr0, in_ptr1):\n"
    loads = ("t0 = tl.load(in_ptr0 + i, m)", "t1 = tl.load(in_ptr1 + i, m)")
    text = head + "".join(f"    {line}\n" for line in (*loads, *body))
    kernel = dumped("pointwise chain").kernels[0]
    kernel = replace(kernel, generated=text, arguments=("x", "y"))
    lines = Flow(GRAPH).follow(kernel)
    found = {n: tuple(sorted(lines[n])) for n in "abcde" if n in lines}
    return {n: text_of(kernel.source, at) for n, at in found.items()}


def test_a_line_is_found_by_its_values_not_by_its_place():
    first, second = "t2 = t0 - t1", "t3 = g(t2 * 2.0)"
    assert followed(first, second) == {"a": [first], "b": [second]}
    assert followed("t8 = g(t1 * 2.0)", first, second) == {"a": [first], "b": [second]}
    assert followed(first, "t3 = g(t2 * 3.0)") == {"a": [first]}
    turned = ("t3 = 2.0 * t2", "t4 = t2 + t3", "t5 = h.maximum(t2, t4)")
    # What may stand in any order, and as torch 2.15 writes it.
    turned += ("t6 = g(tl.minimum(t2, t5, tl.PropagateNan.ALL))",)
    assert [*followed(first, *turned).values()] == [[x] for x in (first, *turned)]


@pytest.mark.parametrize("wrong", ["t1 - t0", "t0 + t1", "t0 - t0", "t0 - 1.0"])
def test_another_operation_or_other_values_are_no_line(wrong):
    assert followed(f"t2 = {wrong}", "t3 = g(t2 * 2.0)") == {}


def test_a_mask_and_a_cast_pass_a_value_on():
    body = ("t2 = t0 - t1", "t3 = tl.where(m, t2, 0)", "t4 = t3.to(tl.float32)")
    lines = followed(*body, "t5 = g(t4 * 2.0)")
    assert lines == {"a": ["t2 = t0 - t1"], "b": ["t5 = g(t4 * 2.0)"]}


def test_a_kernel_that_adds_to_memory_has_a_step_for_it():
    def add(index, x):
        return torch.zeros(8).index_add(0, index, x.sin())

    found = stages(add, torch.arange(8), torch.ones(8), kernel=1)
    assert found.steps[-1].op == "atomic_add sin"
    assert re.search(r"^atomic_add sin .* tl\.atomic_add\(out_ptr0 ", str(found), re.M)
