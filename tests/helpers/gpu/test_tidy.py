"""A tidied kernel is easier to read, and the same to the compiler."""

import pytest

from helpers.gpu.compile import compile_kernel
from helpers.gpu.gpus import find
from helpers.gpu.tidy import tidy
from tests.kinds import KINDS, dumped

HEAD = """
import triton
@triton.jit
def helper(x):
    # a comment
    return x

@triton_heuristics.pointwise(triton_meta={})
@triton.jit
def kernel(a, b, o, n, XBLOCK : tl.constexpr):
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    x0 = i
"""


def body(*lines):
    """Return the statements of a tidied kernel with these lines, and its titles."""
    text = tidy(HEAD + "\n".join(f"    {line}" for line in lines) + "\n")
    rest = text.split("tl.arange(0, XBLOCK)\n")[1]
    return [line.strip() for line in rest.splitlines() if line.strip()]


WHOLE = [kind for kind in KINDS if f"{kind}, training" not in KINDS]


@pytest.mark.parametrize(
    "kind",
    [*WHOLE[::2], *(pytest.param(k, marks=pytest.mark.weekly) for k in WHOLE[1::2])],
)
def test_the_compiler_makes_the_same_of_it(kind):
    """Equal to the instruction, for one kernel of each kind of reduction and so on."""
    kinds = {kernel.kind: kernel for kernel in dumped(kind).kernels}
    for kernel in kinds.values():
        if kernel.kind not in ("template", "yours"):
            assert len(kernel.source) < 0.6 * len(kernel.generated)
            assert ", None)" not in kernel.source, "a mask that masks nothing"
        # Only the kernel is replaced: what it calls is in the head.
        head, jit, _ = kernel.generated.rpartition("@triton.jit\n")
        module = head + jit + kernel.source.rpartition(jit)[2]
        again = compile_kernel(module, find("h100"))
        assert again.ptx == kernel.ptx


def test_what_does_something_stays():
    text = body(
        "t0 = tl.load(b + (x0), x0 < n)",
        "tl.device_assert(t0 < 5, 'out of bounds')",
        "unused = tl.atomic_add(o + (x0), t0.to(tl.float32))",
    )
    assert "t0 = tl.load(b + i, i < n)" in text
    assert "unused = tl.atomic_add(o + i, t0.to(tl.float32))" in text
    assert any("device_assert" in line for line in text)


def test_functions_that_a_kernel_calls_come_first_and_keep_their_comments():
    text = tidy(HEAD + "    tl.store(o + i, helper(i), None)\n")
    assert text.startswith(
        "@triton.jit\ndef helper(x):\n    # a comment\n    return x\n"
    )
    template = dumped("FlexAttention").kernels[-1].source
    assert "\ndef triton_tem" in template and "    # " in template
    assert "# the elements of this program" not in template
