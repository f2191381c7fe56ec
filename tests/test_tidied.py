"""Each rewrite of a kernel, and where it must not happen: as text, never compiled."""
# ruff: noqa: E501 - a rewrite is read side by side

import ast

import pytest

from helpers.gpu import tidy as tidying
from helpers.gpu.tidy import WIDTH, tidy

TYPES = (
    "{'a': '*fp32', 'h': '*bf16', 'b': '*i64', 'o': '*fp32', 'n': 'i32', 's': 'fp32'}"
)
HEAD = f"""
import triton
@triton_heuristics.pointwise(
    triton_meta={{'signature': {TYPES}, 'device': None}},
)
@triton.jit
def kernel(a, h, b, o, n, s, XBLOCK : tl.constexpr, YBLOCK : tl.constexpr):
    x = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
"""
LOADS = (
    "t = tl.load(a + x, None)",
    "h0 = tl.load(h + x, None)",
    "i0 = tl.load(b + x, None)",
    "one = tl.load(a + 0)",
)


def lines(*given, store="tl.store(o + x, r, None)"):
    """Return the statements of a tidied kernel that ends with a store of r."""
    body = (*LOADS, *given, store)
    text = tidy(HEAD + "".join(f"    {line}\n" for line in body))
    inside = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    return [line for line in inside if not line.startswith(("#", " "))]


def result(*given):
    """Return what is tidied of the last statement before the store."""
    return lines(*given)[-2]


# --------------------------------------------------------------- casts and broadcasts


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("r = sin(t.to(tl.float32))", "r = sin(t)"),
        ("r = sin(t.to(tl.float64))", "r = sin(t.to(tl.float64))"),
        ("r = sin(h0.to(tl.float32))", "r = sin(h0.to(tl.float32))"),
        ("r = sin(h0.to(tl.bfloat16))", "r = sin(h0)"),
        ("r = sin(i0.to(tl.int64))", "r = sin(i0)"),
        ("r = sin(i0.to(tl.uint64))", "r = sin(i0.to(tl.uint64))"),
        ("r = sin(n.to(tl.int32))", "r = sin(n.to(tl.int32))"),  # not known
        ("r = sin(one.to(tl.float32))", "r = sin(one)"),
        ("r = sin((t + t).to(tl.float32))", "r = sin(t + t)"),
        ("r = sin((t + h0).to(tl.float32))", "r = sin((t + h0).to(tl.float32))"),
        ("r = sin((i0 + i0).to(tl.int64))", "r = sin((i0 + i0).to(tl.int64))"),
        ("r = sin((t * 2.0).to(tl.float32))", "r = sin(t * 2.0)"),
        ("r = sin((t * -2).to(tl.float32))", "r = sin(t * -2)"),
        ("r = sin((t + i0).to(tl.float32))", "r = sin(t + i0)"),
        ("r = sin(f(t).to(tl.float32))", "r = sin(f(t).to(tl.float32))"),
        ("r = g(libdevice.exp(t).to(tl.float32))", "r = g(libdevice.exp(t))"),
        ("r = g(tl_math.abs(h0).to(tl.bfloat16))", "r = g(tl_math.abs(h0))"),
        ("r = g(tl.where(x < n, t, 0.0).to(tl.float32))", "r = g(tl.where(x < n, t, 0.0))"),
        ("r = g(tl.sum(t, 0).to(tl.float32))", "r = g(tl.sum(t, 0))"),
        ("r = g(tl.sum(h0, 0).to(tl.bfloat16))", "r = g(tl.sum(h0, 0).to(tl.bfloat16))"),
        ("r = g(tl.rand(n, x).to(tl.float32))", "r = g(tl.rand(n, x))"),
        ("r = g(tl.full([1], 2, tl.int32).to(tl.int32))", "r = g(tl.full([1], 2, tl.int32))"),
        ("r = sin(t.to(tl.float32, bitcast=True))", "r = sin(t.to(tl.float32, bitcast=True))"),
        ("r = sin(t[None, :].to(tl.float32))", "r = sin(t[None, :])"),
        ("r = sin(tl.broadcast_to(t, [XBLOCK]))", "r = sin(tl.broadcast_to(t, [XBLOCK]))"),
        ("r = sin(tl.broadcast_to(one, [XBLOCK, YBLOCK]))",
         "r = sin(tl.broadcast_to(one, [XBLOCK, YBLOCK]))"),
    ],
)  # fmt: skip
def test_a_cast_goes_only_where_the_type_is_certain(given, left):
    assert result(given) == left


LIKE = (
    "abs ceil cos erf exp exp2 expm1 floor log log1p log2 maximum minimum pow rsqrt "
    "sigmoid sin sqrt sqrt_rn tan tanh"
)


@pytest.mark.parametrize("name", LIKE.split())
def test_functions_that_give_back_the_type_and_shape_of_their_arguments(name):
    assert result(f"r = g(libdevice.{name}(h0).to(tl.bfloat16))") == (
        f"r = g(libdevice.{name}(h0))"
    )
    cast = f"r = g(libdevice.{name}(h0).to(tl.float32))"
    assert result(cast) == cast
    wide = f"r = g(tl.broadcast_to(libdevice.{name}(w), [XBLOCK, YBLOCK]))"
    both = "w = x + tl.arange(0, YBLOCK)[None, :]"
    assert result(both, wide) == f"r = g(libdevice.{name}(w))"


@pytest.mark.parametrize("name", ["max2", "min2", "sum"])
def test_reductions_keep_wide_types_only(name):
    assert result(f"r = g(h.{name}(t, 0).to(tl.float32))") == f"r = g(h.{name}(t, 0))"
    narrow = f"r = g(h.{name}(h0, 0).to(tl.bfloat16))"
    assert result(narrow) == narrow


@pytest.mark.parametrize(
    ("sides", "certain"),
    [("t, i0", True), ("i0, t", True), ("t, u", False), ("i0, u", False),
     ("t, h0", False), ("t, t", True), ("t, 2", True)],
)  # fmt: skip
def test_floats_beat_integers_where_all_types_are_certain(sides, certain):
    given = f"r = g(tl_math.maximum({sides}).to(tl.float32))"
    left = f"r = g(tl_math.maximum({sides}))"
    assert result("u = unknown(t)", given) == (left if certain else given)


def test_what_is_pure_goes_when_it_is_not_read():
    for call in (
        *("tl.arange(0, 4)", "tl.broadcast_to(t, [XBLOCK])", "tl.cdiv(n, 4)"),
        *("float('inf')", "tl.full([1], 7, tl.int32)", "tl.program_id(1)"),
        *("t.to(tl.int32)", "tl.where(x < n, t, 0.0)", "t + 1.0", "n"),
    ):
        assert not any(
            "dead" in line for line in lines(f"dead = {call}", "r = t * 2.0")
        )
    for call in ("tl.load(a)", "tl.sum(t, 0)", "tl.atomic_add(o, t)", "f(t)"):
        assert f"dead = {call}" in lines(f"dead = {call}", "r = t * 2.0")


def test_each_kind_of_store_has_its_title():
    for store in ("store", "atomic_add", "atomic_max", "atomic_min"):
        text = tidy(HEAD + f"    t = tl.load(a + x)\n    tl.{store}(o + x, t)\n")
        assert f"\n\n    # store\n    tl.{store}(" in text


def test_a_broadcast_goes_only_where_both_sizes_are_there():
    y = "y = tl.arange(0, YBLOCK)[None, :]"
    both = "w = x + y"
    for given, left in (
        ("r = sin(tl.broadcast_to(w, [XBLOCK, YBLOCK]))", "r = sin(w)"),
        ("r = sin(tl.broadcast_to(w + 1, [XBLOCK, YBLOCK]))", "r = sin(w + 1)"),
        (
            "r = sin(tl.broadcast_to(y, [XBLOCK, YBLOCK]))",
            "r = sin(tl.broadcast_to(y, [XBLOCK, YBLOCK]))",
        ),
        (
            "r = sin(tl.broadcast_to(w, shape))",
            "r = sin(tl.broadcast_to(w, shape))",
        ),
        (
            "r = sin(tl.broadcast_to(tl.load(a + w), [XBLOCK, YBLOCK]))",
            "r = sin(tl.load(a + w))",
        ),
        (
            "r = sin(tl.broadcast_to(f(w), [XBLOCK, YBLOCK]))",
            "r = sin(tl.broadcast_to(f(w), [XBLOCK, YBLOCK]))",
        ),
        (
            "r = sin(tl.broadcast_to(libdevice.exp(w), [XBLOCK, YBLOCK]))",
            "r = sin(libdevice.exp(w))",
        ),
    ):
        assert result(y, both, given) == left


def test_a_name_with_two_types_keeps_its_casts():
    found = lines("u = t", "u = h0", "r = sin(u.to(tl.float32))")
    assert found[-2] == "r = sin(u.to(tl.float32))"
    found = lines("u = t * 1.5", "u = t * 2.5", "r = sin(u.to(tl.float32))")
    assert found[-2] == "r = sin(u)"


def test_several_names_at_once_have_no_type():
    assert result("u, v = pair(t)", "r = sin(u.to(tl.float32)) + v").endswith(
        "sin(u.to(tl.float32)) + v"
    )


# ------------------------------------------------------- constants, aliases, the dead


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (("c = tl.full([1], 2.5, tl.float32)", "r = t * c"), "r = t * 2.5"),
        (("c = tl.full([1], 2.5, tl.float32)", "r = c - t"), "r = 2.5 - t"),
        (("c = tl.full([1], -2.5, tl.float32)", "r = t * c"), "r = t * -2.5"),
        (("c = tl.full([1], float('inf'), tl.float32)", "r = t + c"),
         "r = t + float('inf')"),
        (("c = tl.full([1], 2.5, tl.float32)", "r = t < c"), "r = t < 2.5"),
        (("c = tl.full([1], 2.5, tl.float32)", "r = n < t < c"), "r = n < t < c"),
        (("c = tl.full([1], 2.5, tl.float32)", "r = tl.where(m, t, c)"),
         "r = tl.where(m, t, 2.5)"),
        (("c = tl.full([1], 2.5, tl.float32)", "r = h0 * c"), "r = h0 * c"),
        (("c = tl.full([1], 2.5, tl.float32)", "r = c * c"), "r = c * c"),
        (("c = tl.full([1], 2.5, tl.float32)", "r = f(t, c)"), "r = f(t, c)"),
        (("c = tl.full([1], s, tl.float32)", "r = t * c"), "r = t * c"),
        (("c = tl.full([1], 2, tl.int64)", "r = i0 * c"), "r = i0 * 2"),
        (("c = tl.full([1], 2, tl.int64)", "r = t * c.to(tl.float32)"),
         "r = t * c.to(tl.float32)"),
        (("c = tl.full([1], 2, tl.int64).to(tl.float32)", "r = t * c"), "r = t * 2.0"),
        (("c = tl.full([1], 2, tl.int64)", "r = t * c.to(tl.float64)"),
         "r = t * c.to(tl.float64)"),
        (("c = tl.full([1], 2, tl.int32)", "c = c + 1", "r = i0 * c"), "r = i0 * c"),
    ],
)  # fmt: skip
def test_a_constant_stands_where_its_type_does_not_matter(given, left):
    assert result(*given) == left


def test_a_second_name_is_replaced_by_the_first():
    assert lines("u = t", "r = u * 2.0")[-2:] == ["r = t * 2.0", "tl.store(o + x, r)"]
    assert lines("u = n", "r = t * u")[-2] == "r = t * n"
    found = lines("u = t", "v = u", "r = u + v")
    assert found[-2] == "r = t + t" and not [x for x in found if x.startswith("u")]


def test_a_second_name_stays_where_the_first_changes():
    found = lines("v = t * 2.0", "u = v", "v = v + 1.0", "r = u * v")
    assert found[-4:-1] == ["u = v", "v = v + 1.0", "r = u * v"]
    found = lines("v = t * 2.0", "u = v", "v = v + 1.0", "u = v", "r = u * v")
    assert found[-2] == "r = v * v"


def test_what_is_not_read_goes_unless_it_does_something():
    found = lines(
        "d = tl.full([1], 7, tl.int32)",
        "e = tl.where(x < n, t, 0.0)",
        "f: tl.constexpr = 3",
        "g = tl.atomic_add(o + x, t)",
        "h1 = tl.load(a + 3)",
        "i, j = tl.arange(0, 2), 3",
        "k = tl.broadcast_to(t, [XBLOCK]).to(tl.float64)",
        "r = t",
    )
    assert found[-5:] == [
        "one = tl.load(a + 0)",
        "g = tl.atomic_add(o + x, t)",
        "h1 = tl.load(a + 3)",
        "i, j = (tl.arange(0, 2), 3)",
        "tl.store(o + x, t)",
    ]


def test_masks_of_none_go_and_others_stay():
    assert lines("r = t", store="tl.store(o + x, r, x < n)")[-1] == (
        "tl.store(o + x, t, x < n)"
    )
    assert result("r = tl.load(a + x, x < n, other=0.0)") == (
        "r = tl.load(a + x, x < n, other=0.0)"
    )
    assert result("r = tl.load(a + x, None, eviction_policy='evict_last')") == (
        "r = tl.load(a + x, eviction_policy='evict_last')"
    )
    assert result("r = f(t, None)") == "r = f(t, None)"


def test_an_index_that_changes_nothing_goes():
    assert lines("r = t")[0] == "x = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)"
    assert result("r = t + tl.arange(0, XBLOCK)[:, None]").endswith("XBLOCK)[:, None]")
    assert result("r = t[:] + 1.0") == "r = t[:] + 1.0"
    assert result("r = f(tl.full([XBLOCK], 1, tl.int1)[:])").endswith("tl.int1))")


# ---------------------------------------------------------------------- the whole text


def test_the_parts_of_a_kernel_have_titles():
    text = tidy(HEAD + "    t = tl.load(a + x, None)\n    tl.store(o + x, t, None)\n")
    assert text == (
        "@triton.jit\n"
        "def kernel(a, h, b, o, n, s, XBLOCK: tl.constexpr, YBLOCK: tl.constexpr):\n"
        "    # the elements of this program\n"
        "    x = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)\n"
        "\n    # load and compute\n    t = tl.load(a + x)\n"
        "\n    # store\n    tl.store(o + x, t)\n"
    )


def test_a_loop_that_loads_and_stores_has_one_title():
    loop = (
        "    for i in range(0, n, 4):\n        t = tl.load(a + i)\n"
        "        tl.store(o + i, t)\n    u = tl.load(b + x)\n"
        "    tl.atomic_add(o + x, u)\n    tl.store(o + x, u)\n"
    )
    text = tidy(HEAD + loop)
    assert "\n\n    # load, compute and store\n    for i in range" in text
    assert text.count("    # ") == 3 and "\n\n    # store\n    tl.atomic_add" in text


def test_functions_that_a_kernel_calls_come_first_as_they_are():
    helper = "\n@triton.jit\ndef helper(x):\n    # a comment\n    return x\n"
    text = tidy(helper + HEAD + "    tl.store(o + x, helper(x), None)\n")
    assert text.startswith(
        "@triton.jit\ndef helper(x):\n    # a comment\n    return x\n\n"
    )
    assert text.count("@triton.jit") == 2 and "def other" not in text
    by_hand = HEAD.replace("pointwise", "user_autotune") + "    y = x  # mine\n"
    assert "    y = x  # mine\n" in tidy(by_hand)


def test_without_a_signature_nothing_is_known():
    bare = HEAD.replace("'signature'", "'other'") + (
        "    t = tl.load(a + x, None)\n    tl.store(o + x, t.to(tl.float32), None)\n"
    )
    assert "t.to(tl.float32)" in tidy(bare)
    assert tidying._signature(HEAD) == ast.literal_eval(TYPES)
    assert tidying._signature("") == {}


def test_long_lines_are_broken_at_their_last_comma_that_fits():
    line = "    r = f(" + ", ".join(f"argument_{i}" for i in range(9)) + ")"
    parts = tidying._folded(line).split("\n")
    assert len(parts) == 2 and len(parts[0]) <= WIDTH and parts[0].endswith(",")
    assert parts[1].startswith("        argument_")
    assert " ".join(part.strip() for part in parts) == line.strip()
    assert len(parts[0]) + len(parts[1].strip().split(",")[0]) + 2 > WIDTH


def test_where_there_is_no_comma_a_line_is_broken_at_a_bracket():
    long = "a_very_long_name_of_a_value_that_fills_the_line"
    line = f"    r = (({long} + {long}) * 2)"
    parts = tidying._folded(line).split("\n")
    assert parts[0] == "    r = (("[: len(parts[0])] and parts[1].startswith("        ")
    assert "".join(part.strip() for part in parts) == line.strip()
    short = "    r = f(a, b)"
    assert tidying._folded(short) == short
    assert tidying._folded("    " + 90 * "x") == "    " + 90 * "x"
    fits = "    r = f(a, " + (WIDTH - 14) * "b" + ")"
    assert len(fits) == WIDTH and tidying._folded(fits) == fits
    assert tidying._folded(fits.replace("b)", "bb)")).count("\n") == 1


def test_a_comma_outside_brackets_is_no_place_to_break():
    names = ", ".join(f"a_rather_long_name_{i}" for i in range(4))
    line = f"    {names} = f(x)"
    assert len(line) > WIDTH and tidying._folded(line).startswith(f"    {names} = f(")


def test_the_width_of_a_page():
    assert WIDTH == 79


def test_brackets_are_counted_over_the_lines():
    """In the second line a bracket closes that the first has opened."""
    first = ", ".join(f"first_{i}" for i in range(8))
    second = ", ".join(f"second_{i}" for i in range(8))
    line = f"    r = f(g({first}), h({second}), {first})"
    parts = tidying._folded(line).split("\n")
    assert all(len(part) <= WIDTH for part in parts) and len(parts) == 4
    assert all(part.endswith(",") for part in parts[:-1])
    assert " ".join(part.strip() for part in parts) == line.strip()
