"""Checks and hints of notebook 06."""

import re
from functools import partial

import torch
from torch.nn import functional as F

from helpers import dump_triton
from helpers.errors import InputError
from helpers.exercises import exercise
from helpers.gpu import interpreter
from helpers.text import count


def _normal(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# --- 06.1 ----------------------------------------------------------------------


@exercise(
    "06.1",
    hints=(
        "Copy `double`. Two tensors come in, so there are two loads.",
        "The pieces: i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), the mask "
        "i < n in all three accesses, and gelu(h) = h * 0.5 * (1 + erf(h / sqrt(2))). "
        "bfloat16 becomes float32 with .to(tl.float32).",
        "a = tl.load(h + i, mask=i < n).to(tl.float32), b likewise from x, then "
        "tl.store(out + i, b + a * 0.5 * (1 + tl.erf(a * 0.7071067811865476)), "
        "mask=i < n).",
    ),
    passed="It agrees with eager in every element, touches nothing else, and reads as "
    "many bytes, as wide, as the kernel that Inductor generated.",
)
def add_gelu(kernel):
    if fault := _not_a_kernel(kernel, ["h", "x", "out", "n", "BLOCK"]):
        return fault

    def launch(h, x):
        out = torch.empty_like(h)
        kernel[((h.numel() + 255) // 256,)](h, x, out, h.numel(), BLOCK=256)
        return out

    def generated(h, x):
        return x + F.gelu(h)

    cases = {}
    for n, dtype in (
        (1024, torch.float32),
        (1000, torch.float32),
        (999, torch.bfloat16),
    ):
        h, x = (_normal(n, seed=seed).to(dtype) for seed in (1, 2))
        cases[f"n = {n} in {_short(dtype)}"] = ((n + 255) // 256, (h, x), (n,), 256)
    for (what, case), result in zip(
        cases.items(), _interpreted(kernel, cases.values()), strict=True
    ):
        h, x = (tensor.double() for tensor in case[1])
        wanted = generated(h, x).to(case[1][0].dtype)
        if fault := _fault(result, wanted):
            tanh_form = x + F.gelu(h, approximate="tanh")
            if torch.is_tensor(result) and torch.allclose(
                result.double(), tanh_form, rtol=1e-5, atol=1e-5
            ):
                fault += "\n  that is GELU's tanh form: F.gelu means the one with erf"
            if "get_bf16" in fault:
                fault += (
                    "\n  bfloat16 has no such arithmetic. Do as the generated kernel "
                    "does: tl.load(...).to(tl.float32)"
                )
            return f"{what}: {fault}"
    return _traffic(launch, generated, _normal(4096, seed=1), _normal(4096, seed=2))


# --- 06.2 ----------------------------------------------------------------------


def _softmax(x):
    return F.softmax(x, -1)


@exercise(
    "06.2",
    hints=(
        "A load is wide when every row begins at a multiple of 16 bytes, and when "
        "the mask changes at such a place only. How many numbers are 16 bytes?",
        "Add columns, do not cut them off again. What must a logit be so that its "
        "probability is zero, and the others do not change?",
        "extra = -logits.shape[1] % (16 // logits.element_size()), and then "
        "F.pad(logits, (0, extra), value=float('-inf')).",
    ),
    passed="The same probabilities, and as few load instructions as there can be. "
    "GPT-2's vocabulary of 50257 is padded to 50304 in practice, for this reason.",
)
def padded(pad):
    for seed, (rows, columns, dtype) in enumerate(
        (
            (8, 1001, torch.float32),
            (8, 1002, torch.float32),
            (4, 4004, torch.bfloat16),
            (8, 1024, torch.float32),
        )
    ):
        logits = (_normal(rows, columns, seed=seed) - 3).to(dtype)
        what = f"{rows} rows of {columns} columns in {_short(dtype)}"
        if fault := _padding_fault(logits, pad(logits.clone())):
            return f"{what}: {fault}"
    return None


def _padding_fault(logits, wider):
    rows, columns = logits.shape
    if type(wider) is not torch.Tensor or wider.ndim != 2 or len(wider) != rows:
        return f"a tensor of {rows} rows was wanted"
    if wider.dtype is not logits.dtype:
        return f"the dtype became {_short(wider.dtype)}"
    added = wider.shape[1] - columns
    if added < 0 or not torch.equal(wider[:, :columns], logits):
        return f"the first {columns} columns are no longer the logits"
    if added > 64:
        return f"{added} columns were added, and 16 bytes need fewer"
    probabilities = _softmax(wider)
    first = probabilities[:, :columns]
    if not torch.allclose(first, _softmax(logits), rtol=1e-3, atol=1e-6):
        lost = float(probabilities[:, columns:].sum(-1).max())
        return (
            f"the probabilities change; the added columns take up to {lost:.0%} of a "
            "row. Which logit has probability 0?"
        )
    full = torch.empty(rows, -(-columns // 64) * 64, dtype=logits.dtype)
    own, best = (_loads(dump_triton(_softmax, x, dynamic=False)) for x in (wider, full))
    if len(own) > len(best):
        return (
            f"padded to {wider.shape[1]} with strides {wider.stride()}, a thread "
            f"loads {len(own)} times, {min(own)} bytes and more, and {len(best)} times "
            f"{min(best)} bytes would do"
        )
    return None


# --- 06.3 ----------------------------------------------------------------------


@exercise(
    "06.3",
    hints=(
        "One program takes one row, so it needs no loop: program_id says which row. "
        "Where does row 3 begin?",
        "Load once, with a mask, and with other=float('-inf') for what lies past the "
        "row: neither the maximum nor the sum then sees it. tl.max(v, 0) and "
        "tl.sum(v, 0) reduce a block.",
        "i = tl.arange(0, BLOCK), at = tl.program_id(0) * columns + i, then v = "
        "tl.load(x + at, mask=i < columns, other=float('-inf')), e = tl.exp(v - "
        "tl.max(v, 0)), and store e / tl.sum(e, 0) under the same mask.",
    ),
    passed="A persistent reduction by hand: one load and one store for each number, "
    "and safe for large and for very negative rows.",
)
def softmax_rows(kernel):
    if fault := _not_a_kernel(kernel, ["x", "out", "columns", "BLOCK"]):
        return fault

    def launch(x):
        out = torch.empty_like(x)
        block = 1 << (x.shape[1] - 1).bit_length()
        kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=block)
        return out

    cases = {
        "4 rows of 128 columns": (4, (_normal(4, 128, seed=1),), (128,), 128),
        "5 rows of 100 columns": (5, (_normal(5, 100, seed=2),), (100,), 128),
        "rows around 1000": (3, (_normal(3, 100, seed=4) + 1000,), (100,), 128),
        "rows around -500": (3, (_normal(3, 100, seed=3) - 500,), (100,), 128),
    }
    advice = {
        "rows around -500": "\n  What is loaded past the row? The maximum sees it.",
        "rows around 1000": "\n  exp(1000) is inf: subtract the row's maximum first",
    }
    for (what, case), result in zip(
        cases.items(), _interpreted(kernel, cases.values()), strict=True
    ):
        if fault := _fault(result, _softmax(*case[1])):
            if torch.is_tensor(result) and not result.isnan().any():
                fault += f"\n  a row sums to {float(result[0].sum()):.4g}, not to 1"
            return f"{what}: {fault}{advice.get(what, '')}"
    return _traffic(launch, _softmax, _normal(4, 1024, seed=5))


# --- what both kernels need --------------------------------------------------------


def _short(dtype):
    return str(dtype).removeprefix("torch.")


def _not_a_kernel(kernel, names):
    from triton.runtime import JITFunction

    if not isinstance(kernel, JITFunction):
        return "that is no Triton kernel: put @triton.jit above it"
    if list(kernel.arg_names) != names:
        return f"its parameters are {kernel.arg_names}, and {names} were wanted"
    return None


def _interpreted(kernel, cases):
    """Return what each launch leaves in a last tensor, or what went wrong, as text.

    A case is (programs, tensors, numbers, BLOCK).  The tensor for the results is
    added here, full of NaN: what is never written is seen.
    """

    def launch(*tensors, programs, numbers, block):
        out = torch.full_like(tensors[0], float("nan"))
        kernel[(programs,)](*tensors, out, *numbers, BLOCK=block)
        return out

    results = []
    for programs, tensors, numbers, block in cases:
        case = partial(launch, programs=programs, numbers=numbers, block=block)
        try:
            [graph] = dump_triton(case, *tensors, dynamic=False).graphs
            [result] = interpreter.run(graph.source, tensors)
        except InputError as error:
            result = str(error)
        results.append(result)
    return results


def _fault(result, wanted):
    """Return what is wrong with what a kernel stored, or None."""
    if isinstance(result, str):
        if "outside its buffers" in result:
            result += (
                "\n  On a GPU that belongs to somebody else: is there a mask, and does "
                "each program begin where it should?"
            )
        return result
    missing = result.isnan().flatten().nonzero().flatten().tolist()
    if len(missing) == result.numel():
        return "every number is NaN, or was never written"
    if missing:
        where = f"{missing[0]} to {missing[-1]}"
        return f"{len(missing)} of {result.numel()} were never written, {where}"
    tolerance = 1e-2 if wanted.dtype is torch.bfloat16 else 1e-5
    wrong = ~torch.isclose(result, wanted, rtol=tolerance, atol=tolerance)
    if not bool(wrong.any()):
        return None
    first = int(wrong.flatten().nonzero()[0])
    pair = [float(tensor.flatten()[first]) for tensor in (result, wanted)]
    return (
        f"{int(wrong.sum())} of {result.numel()} numbers are wrong; number {first} is "
        f"{pair[0]:.5g}, and eager has {pair[1]:.5g}"
    )


def _loads(dump):
    """Return the bytes of each load instruction of the only kernel of a dump."""
    [kernel] = dump.kernels
    pattern = r"\bld\.global\S*?(?:\.v(\d))?\.b(\d+) "
    found = re.findall(pattern, kernel.ptx)
    return [int(vector or 1) * int(bits) // 8 for vector, bits in found]


def _traffic(launch, generated, *inputs):
    """Hold the loads and stores of a kernel against those of the generated one."""
    own, best = (dump_triton(fn, *inputs, dynamic=False) for fn in (launch, generated))
    for kind in ("load", "store"):
        many, few = (
            len(re.findall(rf"\btt\.{kind}\b", dump.kernels[0].ttir))
            for dump in (own, best)
        )
        if many > few:
            return (
                f"the numbers are right, with {count(many, kind)} where the generated "
                f"kernel has {few}: keep what you have in a variable"
            )
    if min(_loads(own)) < min(_loads(best)):
        return (
            f"the numbers are right, but a thread loads {min(_loads(own))} bytes at a "
            f"time, and {min(_loads(best))} in the generated kernel: a program's "
            "numbers must be neighbours"
        )
    return None
