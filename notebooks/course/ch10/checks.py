"""Checks and hints of lesson 10."""

import torch

from course.exercises import asked_about, exercise, near

# --- 10.1 ----------------------------------------------------------------------


def _product(x, w):
    return torch.relu(torch.relu(x) @ w)


def _programs():
    """A name, a function, its inputs, and what excess has to return."""
    x, w = torch.ones(64, 96), torch.ones(96, 96)
    moved, least = 6 * x.nbytes + w.nbytes, 2 * x.nbytes + w.nbytes
    return (
        ("a chain of three", lambda x: torch.relu(x * 0.9) + 1, (x,), 1.0),
        ("x given twice", lambda a, b: torch.relu(a) * b, (x, x), 1.0),
        ("x and one of its 64 rows", torch.mul, (x, x[:1]), 1 + 1 / 128),
        ("a result's row, and it", lambda x: ((y := x * 0.9)[:1], y), (x,), 1.0),
        ("two parts of one array", torch.add, (x[:16], x[48:]), 1.0),
        ("a returned view of some rows", lambda x: (x[1:], x * 0.9), (x,), 1.0),
        ("a result and its rows", lambda x: ((y := x * 0.9), y[2:3], y[3:]), (x,), 1.0),
        ("a result that is transposed", lambda x: (x * 0.9).t(), (x,), 1.0),
        ("a cast to bfloat16", lambda x: x.bfloat16(), (x,), 1.0),
        ("views of a part", lambda part: (part.t(), part * 0.9), (x[:32],), 1.0),
        ("rows that overlap", torch.add, (x[:40], x[24:]), 120 / 104),
        (
            "the same bytes in two dtypes",
            lambda half, x: (x * 0.9, half * 0.9),
            (x.view(torch.bfloat16), x),
            4 / 3,
        ),
        ("one row of 64", lambda x: x[:1] * 0.9, (x,), 2 / 65),
        ("x given three times", lambda a, b, c: a * b + c, (x, x, x), 1.0),
        ("a result of one byte a number", lambda x: x > 0, (x,), 1.0),
        ("a product in the middle", _product, (x, w), moved / least),
    )


@exercise(
    "10.1",
    hints=(
        "The bytes of the compiled program: kernels(function, *inputs).bytes. Run "
        "the function once to get its results.",
        "Make a tuple of the results if there is only one. A set of addresses holds "
        "each byte once, whichever tensors share it. A tensor's begin at t.data_ptr().",
        "memory = set(); for t in (*inputs, *results): memory.update(range("
        "t.data_ptr(), t.data_ptr() + t.nbytes)). Divide the bytes of the kernels by "
        "len(memory).",
    ),
    passed="The tool tells 1.0 from what is left to win, before anything is timed.",
)
def how_far(excess):
    for name, function, inputs, wanted in _programs():
        with asked_about(name):
            found = float(excess(function, *inputs))
        if not near(torch.tensor(found), torch.tensor(wanted)):
            return f"{name}: it is {wanted:.4g}, and you say {found}"
    return None


# --- 10.2 ----------------------------------------------------------------------


def _times(n):
    def run(x):
        for _ in range(n):
            x = x * 0.9
        return x

    return run


def _matmul(a, b):
    return a @ b


def _times_and_product(x, w):
    return _times(100)(x) @ w


def _on_one_row(x):
    return _times(8)(x[:1])


X, ROW, WEIGHT = torch.ones(128, 128), torch.ones(1, 256), torch.ones(256, 256)
COLUMN, HALF = torch.ones(256, 1), X.bfloat16()

which_ceiling = exercise(
    "10.2",
    hints=(
        "How many operations does it do for each byte that it moves, once compiled?",
        "Divide operations(function, *inputs) by kernels(function, *inputs).bytes, and "
        "hold it against the balance.",
        "intensity = operations(function, *inputs) / kernels(function, *inputs).bytes; "
        'it is "arithmetic" if intensity > balance.',
    ),
    passed="You place products, chains and single rows without a clock.",
    cases=[
        ("a chain of 8, balance 4", (_times(8), (X,), 4), "memory"),
        ("a chain of 8, balance 0.5", (_times(8), (X,), 0.5), "arithmetic"),
        ("a chain of 100, balance 4", (_times(100), (X,), 4), "arithmetic"),
        ("a product, balance 10", (_matmul, (X, X), 10), "arithmetic"),
        ("a product, balance 40", (_matmul, (X, X), 40), "memory"),
        ("a product between two loops, 15", (_product, (X, X), 15), "memory"),
        (
            "a chain of 100, then a product, 4",
            (_times_and_product, (X, torch.ones(128, 8)), 4),
            "arithmetic",
        ),
        ("a product in bfloat16, 40", (_matmul, (HALF, HALF), 40), "arithmetic"),
        ("one row times a matrix, 4", (_matmul, (ROW, WEIGHT), 4), "memory"),
        ("a column times a row, 0.2", (torch.mul, (COLUMN, ROW), 0.2), "arithmetic"),
        ("a chain on one row of many, 0.5", (_on_one_row, (X,), 0.5), "arithmetic"),
    ],
)
