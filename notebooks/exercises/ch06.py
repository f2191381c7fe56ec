"""The exercises of notebook 06."""

import re

import torch
from torch.nn import functional as F

from helpers.exercises import exercise
from helpers.text import count


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
    names = ["h", "x", "out", "n", "BLOCK"]
    if problem := _not_a_kernel(kernel, names):
        return problem

    def launch(h, x):
        out = torch.empty_like(h)
        programs = (h.numel() + 255) // 256
        kernel[(programs,)](h, x, out, h.numel(), BLOCK=256)
        return out

    def generated(h, x):
        return x + F.gelu(h)

    cases = []
    for n, dtype in (
        (1024, torch.float32),
        (1000, torch.float32),
        (999, torch.bfloat16),
    ):
        h, x = (_normal(n, seed=seed).to(dtype) for seed in (1, 2))
        cases.append((f"n = {n} in {_short(dtype)}", launch, (h, x)))
    for what, (h, x), got in _interpreted(cases):
        if isinstance(got, str):
            return _raised(what, got)
        wide = x.double() + F.gelu(h.double())
        if problem := _difference(what, got, wide.to(h.dtype)):
            return problem + _why_off(got, h, x)
    inputs = _normal(4096, seed=1), _normal(4096, seed=2)
    return _traffic(launch, generated, inputs)


def _why_off(got, h, x):
    """Name the usual slip behind wrong numbers, if it is one."""
    got, h, x = got.double(), h.double(), x.double()
    slips = {
        "that is gelu(h) alone: x is not added": F.gelu(h),
        "that is h + gelu(x): h and x are swapped": h + F.gelu(x),
        "that is GELU's tanh form, and F.gelu means the exact one, with erf": x
        + F.gelu(h, approximate="tanh"),
    }
    for text, values in slips.items():
        if torch.allclose(got, values, rtol=1e-5, atol=1e-5):
            return f"\n  {text}"
    return ""


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
    cases = (
        ((8, 1001), torch.float32),
        ((4, 1101), torch.float32),
        ((8, 1002), torch.float32),
        ((4, 4004), torch.bfloat16),
        ((8, 1024), torch.float32),
    )
    for seed, ((rows, columns), dtype) in enumerate(cases):
        logits = (_normal(rows, columns, seed=seed) - 3).to(dtype)
        what = f"{rows} rows of {columns} columns in {_short(dtype)}"
        if problem := _padding(what, logits, pad(logits.clone())):
            return problem
    return None


def _padding(what, logits, wider):
    """Return what is wrong with *wider*, which *logits* was padded to."""
    rows, columns = logits.shape
    if type(wider) is not torch.Tensor or wider.ndim != 2 or len(wider) != rows:
        return f"{what}: a tensor of {rows} rows was wanted"
    if wider.dtype is not logits.dtype:
        return f"{what}: the dtype became {_short(wider.dtype)}"
    added = wider.shape[1] - columns
    if added < 0 or not torch.equal(wider[:, :columns], logits):
        return f"{what}: the first {columns} columns are no longer the logits"
    if added > 64:
        return f"{what}: {added} columns were added, and 16 bytes need fewer"
    found, wanted = (F.softmax(v, -1)[:, :columns] for v in (wider, logits))
    if not torch.allclose(found, wanted, rtol=1e-3, atol=1e-6):
        sums = F.softmax(wider, -1)[:, columns:].sum(-1).max()
        return (
            f"{what}: the probabilities change; the added columns take up to "
            f"{float(sums):.0%} of a row. Which logit has probability 0?"
        )
    full = torch.empty(rows, -(-columns // 64) * 64, dtype=logits.dtype)
    mine, best = (_accesses(_softmax, (v,), "ld") for v in (wider, full))
    if sum(mine.values()) > sum(best.values()):
        return (
            f"{what}, padded to {wider.shape[1]} with strides {wider.stride()}: a "
            f"thread loads {_said(mine)}, and {_said(best)} would do"
        )
    return None


def _softmax(x):
    return F.softmax(x, -1)


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
    names = ["x", "out", "columns", "BLOCK"]
    if problem := _not_a_kernel(kernel, names):
        return problem

    def launch(x):
        out = torch.empty_like(x)
        block = 1 << (x.shape[1] - 1).bit_length()
        kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=block)
        return out

    small = _normal(4, 128, seed=1)
    cases = [
        ("4 rows of 128 columns", launch, (small,)),
        ("5 rows of 100 columns", launch, (_normal(5, 100, seed=2),)),
        ("rows around 1000", launch, (_normal(3, 100, seed=4) + 1000,)),
        ("rows around -500", launch, (_normal(3, 100, seed=3) - 500,)),
    ]
    advice = {
        "rows around -500": "\n  What is loaded past the row? The maximum sees it.",
        "rows around 1000": "\n  exp(1000) is inf: subtract the row's maximum first",
    }
    for what, (x,), got in _interpreted(cases):
        if isinstance(got, str):
            return _raised(what, got)
        if problem := _difference(what, got, F.softmax(x, -1)):
            sums = got.sum(-1)
            if "never written" not in problem and not (sums - 1).abs().max() < 1e-3:
                problem += f"\n  a row sums to {float(sums[0]):.4g}, not to 1"
            return problem + advice.get(what, "")
    return _traffic(launch, _softmax, (_normal(4, 1024, seed=5),))


# --- what several of them need ------------------------------------------------------


def _normal(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _short(dtype):
    return str(dtype).removeprefix("torch.")


def _not_a_kernel(kernel, names):
    """Return what is wrong with a kernel before it is run, or None."""
    from triton.runtime import JITFunction

    if not isinstance(kernel, JITFunction):
        return "that is no Triton kernel: put @triton.jit above it"
    if list(kernel.arg_names) != names:
        return f"its parameters are {kernel.arg_names}, and {names} were wanted"
    return None


def _interpreted(cases):
    """Yield each case's name, inputs, and output in the interpreter, or an error."""
    from helpers import dump_triton
    from helpers.errors import InputError
    from helpers.gpu import interpreter

    for what, launch, inputs in cases:
        [graph] = dump_triton(launch, *inputs, dynamic=False).graphs
        try:
            [got] = interpreter.run(graph.source, inputs)
        except InputError as error:
            got = str(error)
        yield what, inputs, got


def _raised(what, error):
    """Say in words what went wrong in the interpreter."""
    if "outside its buffers" in error:
        did = "stores to" if "stores" in error else "loads from"
        return (
            f"{what}: a program {did} memory past the tensors. On a GPU that belongs "
            "to somebody else: is there a mask, and does each program begin where "
            "it should?\n" + error.partition("\n")[2]
        )
    if "bfloat16" in what and "get_bf16" in error:
        return (
            f"{what}: there is no such arithmetic. Do as the generated kernel does: "
            "tl.load(...).to(tl.float32)"
        )
    return f"{what}: in the interpreter, the kernel raised {error}"


def _difference(what, got, wanted):
    """Return where *got* is not what was *wanted*, which has the same dtype."""
    got, wanted = got.reshape(-1), wanted.reshape(-1)
    missing = got.isnan().nonzero().flatten().tolist()
    if missing and not bool(wanted.isnan().any()):
        if len(missing) == len(got):
            return f"{what}: every number is NaN, or was never written"
        where = f"{missing[0]}" + (f" to {missing[-1]}" if missing[1:] else "")
        return f"{what}: {len(missing)} of {len(got)} were never written, {where}"
    close = 1e-2 if wanted.dtype is torch.bfloat16 else 1e-5
    bad = ~torch.isclose(got.double(), wanted.double(), rtol=close, atol=close)
    if not bool(bad.any()):
        return ""
    first = int(bad.nonzero()[0])
    return (
        f"{what}: {int(bad.sum())} of {len(got)} numbers are wrong; number {first} "
        f"is {float(got[first]):.5g}, and eager has {float(wanted[first]):.5g}"
    )


def _accesses(fn, inputs, kind):
    """Return how many PTX instructions of a kind move how many bytes."""
    from helpers import dump_triton

    [kernel] = dump_triton(fn, *inputs, dynamic=False).kernels
    return _widths(kernel.ptx, kind)


def _widths(ptx, kind):
    found = {}
    pattern = rf"\b{kind}\.global\S*?(?:\.v(\d))?\.b(\d+) "
    for vector, bits in re.findall(pattern, ptx):
        width = int(vector or 1) * int(bits) // 8
        found[width] = found.get(width, 0) + 1
    return found


def _said(widths):
    return " and ".join(f"{n} times {width} bytes" for width, n in widths.items())


def _traffic(launch, generated, inputs):
    """Compare what a kernel moves with what the generated one does."""
    from helpers import dump_triton

    mine = dump_triton(launch, *inputs, dynamic=False).kernels[0]
    theirs = dump_triton(generated, *inputs, dynamic=False).kernels[0]
    for kind in ("load", "store"):
        counts = [len(re.findall(rf"\btt\.{kind}\b", k.ttir)) for k in (mine, theirs)]
        if counts[0] > counts[1]:
            return (
                f"the numbers are right, with {count(counts[0], kind)} where the "
                f"generated kernel has {counts[1]}: keep what you have in a variable"
            )
    narrow, wide = (min(_widths(k.ptx, "ld")) for k in (mine, theirs))
    if narrow < wide:
        return (
            f"the numbers are right, but a thread loads {narrow} bytes at a time, and "
            f"{wide} in the generated kernel: a program's numbers must be neighbours"
        )
    return None
