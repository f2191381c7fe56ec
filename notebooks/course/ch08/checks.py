"""Checks and hints of lesson 08."""

import torch

from course.exercises import exercise
from helpers import dump_triton
from helpers.errors import InputError
from helpers.gpu import interpreter


def normal(*shape, seed):
    """Return normal numbers, the same each time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# --- 08.1 ----------------------------------------------------------------------


def _lost(a, b, c):
    h = a * b
    return torch.where(h > 0, h, 0.1 * a) + c[:, None]


def _tensors():
    b = normal(96, seed=2)
    b[7] = 0.0  # so that some products are neither above nor below 0
    return [(normal(50, 96, seed=1), b, normal(50, seed=3))]


lost = exercise(
    "08.1",
    hints=(
        "Which elements of b and c does one element of a meet? x0 counts 0 to 95 and "
        "begins again, x1 stays the same for 96 elements.",
        "b goes along the columns and c along the rows, so c needs a second dimension. "
        "tmp2 is a * b; tmp7 chooses between tmp2 and tmp6, which is 0.1 * a.",
        "h = a * b; then torch.where(h > 0, h, 0.1 * a) + c[:, None].",
    ),
    passed="You read a kernel, index arithmetic included. b is read once for each row, "
    "from the cache: evict_last asks to keep it there.",
    like=_lost,
    inputs=_tensors,
)

# --- 08.2 ----------------------------------------------------------------------


def _standardised(x):
    d = x - x.mean(-1, keepdim=True)
    return d * torch.rsqrt(d.square().mean(-1, keepdim=True) + 1e-6)


ADVICE = {  # rows, columns, BLOCK, mean: what is wrong where those before are right
    (1, 128, 128, 3): "columns is an argument; the kernel above gets these right, with "
    "the mean of d * d and 1e-6 under the root",
    (1, 100, 128, 3): "a row has only `columns` numbers to load, to divide by and to "
    "store, and past them d must be 0",
    (5, 100, 128, 3): "one row alone is right: rows are `columns` apart, not BLOCK, "
    "and none reads the next",
    (3, 37, 64, 0): "columns, BLOCK and 1e-6 count: this row's numbers are small",
    (2, 90, 128, 3): "columns is an argument, and any number may come, 0 too",
    (4, 90, 128, 30): "squares of v are large where the mean is: subtract it first",
}


def _stored(kernel, x, block):
    """Return what *kernel* stores for the rows of *x*, or what went wrong."""
    rows, columns = x.shape

    def launch(x):
        out = torch.full_like(x, float("nan"))  # so that what isn't written is seen
        kernel[(rows,)](x, out, columns, BLOCK=block)
        return out

    try:
        [graph] = dump_triton(launch, x, dynamic=False).graphs
        [result] = interpreter.run(graph.source, (x,))
    except InputError as error:
        return str(error)
    return result


@exercise(
    "08.2",
    hints=(
        "Where does row 1 begin, with 100 columns and a BLOCK of 128? And by how many "
        "numbers is a row's sum divided?",
        "After the mean is subtracted, what is in the places past the row? The second "
        "sum must not see them: tl.where(i < columns, ..., 0.0).",
        "at = tl.program_id(0) * columns + i; d = tl.where(i < columns, v - "
        "tl.sum(v, 0) / columns, 0.0); the rest stays as it was.",
    ),
    passed="128 columns had hidden all three, because BLOCK and columns are equal "
    "there. Test kernels at odd sizes.",
)
def standardise(kernel):
    if getattr(kernel, "arg_names", None) != ["x", "out", "columns", "BLOCK"]:
        return "a Triton kernel with the parameters x, out, columns and BLOCK is wanted"
    for (rows, columns, block, mean), advice in ADVICE.items():
        x = normal(rows, columns, seed=rows)
        x = x + mean if mean else x * 1e-3
        x[-1, 5] *= rows != 2
        result = _stored(kernel, x, block)
        if isinstance(result, str):
            return f"with {rows} x {columns} numbers: {result}\n  {advice}"
        right = torch.isclose(result, _standardised(x), rtol=1e-5, atol=1e-5)
        if not right.all():
            many = f"{int((~right).sum())} of {x.numel()} numbers are wrong"
            return f"with {rows} x {columns} numbers, {many}: {advice}"
    return None
