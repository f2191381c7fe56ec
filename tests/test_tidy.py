"""A tidied kernel is easier to read, and the same to the compiler."""

from __future__ import annotations

import ast

import pytest

from helpers.gpu import compile
from helpers.gpu.gpus import find
from helpers.gpu.tidy import WIDTH, tidy
from tests.kinds import KINDS, dumped

SAME = (
    "pointwise chain, training",
    "two outputs",
    "softmax over 1024",
    "softmax over 4096, training",
    "LayerNorm, training",
    "mixed dtypes",
    "bfloat16 LayerNorm, training",
    "attention, training",
    "dynamic batch",
    "AdamW over several tensors",
    "sort and running sum",
)
KEPT = ("FlexAttention", "your own Triton kernel")  # written by hand


def sources(kind: str) -> list[str]:
    return [kernel.generated for kernel in dumped(kind).kernels if kernel.generated]


def again(source: str) -> str:
    """Return Inductor's module with the tidied kernel in it, under its decorator."""
    *helpers, kernel = tidy(source).split("@triton.jit\n")[1:]
    functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    lines, first = source.splitlines(), functions[0].decorator_list[0].lineno
    launch = functions[-1].decorator_list[0]
    parts = [
        "\n".join(lines[: first - 1]),
        *(f"@triton.jit\n{each}" for each in helpers),
    ]
    parts += ["\n".join(lines[launch.lineno - 1 : launch.end_lineno])]
    return "\n".join([*parts, f"@triton.jit\n{kernel}"])


@pytest.mark.parametrize("kind", SAME)
def test_the_compiler_makes_the_same_of_it(kind: str) -> None:
    for source in dict.fromkeys(sources(kind)):
        before = compile.compile_kernel(source, find("h100"))
        after = compile.compile_kernel(again(source), find("h100"))
        assert after.ptx == before.ptx


def test_the_check_above_sees_a_changed_constant() -> None:
    (source,) = sources("pointwise chain")
    changed = again(source).replace("+ 1.0", "+ 1.5").replace("* 2.0", "* 2.5")
    assert changed != again(source)
    code = compile.compile_kernel(changed, find("h100"))
    assert code.ptx != compile.compile_kernel(source, find("h100")).ptx


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_is_the_kernel_and_fits_a_page(kind: str) -> None:
    for source in sources(kind):
        text = tidy(source)
        assert "import" not in text and "triton_heuristics" not in text
        assert len(text) < len(source) and ast.parse(text)
        wide = [line for line in text.splitlines() if len(line) > WIDTH]
        if kind not in KEPT:  # a name with its bracket has no place to break
            assert all(line.endswith("(") for line in wide)
            assert "roffset" not in text and "rindex" not in text


HEAD = """
import triton
@triton_heuristics.pointwise(
    triton_meta={'signature': {'a': '*fp32', 'b': '*i64', 'o': '*fp32', 'n': 'i32'}},
)
@triton.jit
def kernel(a, b, o, n, XBLOCK : tl.constexpr):
    n = 512
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    x0 = i
"""


def body(*lines: str) -> str:
    """Return the tidied body of a kernel with these lines."""
    text = tidy(HEAD + "\n".join(f"    {line}" for line in lines) + "\n")
    return text.split("tl.arange(0, XBLOCK)\n")[1]


def test_constants_masks_aliases_and_the_dead_go() -> None:
    text = body(
        "t0 = tl.load(a + (x0), None)",
        "t1 = tl.full([1], 0.5, tl.float32)",
        "t2 = (t0 * t1)",
        "dead = tl.full([1], 7, tl.int32)",
        "t3 = t2.to(tl.float32)",
        "tl.store(o + (x0), t3, None)",
    )
    lines = [x.strip() for x in text.splitlines() if x.strip()]
    assert lines == [
        "# load and compute",
        "t0 = tl.load(a + i)",
        "t2 = t0 * 0.5",
        "# store",
        "tl.store(o + i, t2)",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "t2 = t0 * t1",  # an integer block: float32 would come out, not of 0.5
        "t2 = libdevice.pow(t0, t1)",  # an argument of a function
        "t2 = unknown(t0) * t1",
    ],
)
def test_a_constant_stays_where_its_type_matters(line: str) -> None:
    text = body(
        "t0 = tl.load(b + (x0), None)",
        "t1 = tl.full([1], 0.5, tl.float32)",
        line,
        "tl.store(o + (x0), t2, None)",
    )
    assert "t1 = tl.full([1], 0.5, tl.float32)" in text and line in text


def test_what_is_read_or_does_something_stays() -> None:
    text = body(
        "t0 = tl.load(b + (x0), x0 < n)",
        "tl.device_assert(t0 < 5, 'out of bounds')",
        "t1 = t0.to(tl.float32)",
        "unused = tl.atomic_add(o + (x0), t1)",
    )
    for kept in ("i < n", "device_assert", "t1 = t0.to(tl.float32)", "unused ="):
        assert kept in text


def test_a_second_name_stays_when_the_first_one_changes() -> None:
    text = body(
        "t0 = tl.load(a + (x0), None)",
        "t1 = t0",
        "t0 = t0 + 1.0",
        "tl.store(o + (x0), t1 * t0, None)",
    )
    assert "t1 = t0\n" in text and "t1 * t0" in text


def test_a_template_keeps_its_comments() -> None:
    text = tidy(sources("FlexAttention")[-1])
    assert text.startswith("@triton.jit\ndef triton_tem") and "# " in text


def test_no_triton_function_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no @triton\.jit"):
        tidy("x = 1")
