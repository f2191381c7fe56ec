"""Checks and hints of notebook 10."""

import torch

from course.exercises import exercise, number

# --- 10.1 ----------------------------------------------------------------------


def _product(x, w):
    return torch.relu(torch.relu(x) @ w)


def _twice(x):
    y = x * 0.9
    return y, y


def _cases():
    """A name, a function, its inputs, and what excess has to return."""
    torch.manual_seed(0)
    x, w = torch.randn(64, 96), torch.randn(96, 96)
    moved, least = 6 * x.nbytes + w.nbytes, 2 * x.nbytes + w.nbytes
    return (
        ("a chain of three", lambda x: torch.relu(x * 0.9) + 1, (x,), 1.0),
        ("x given twice", lambda a, b: torch.relu(a) * b, (x, x), 1.0),
        ("a view that is returned", lambda x: (x.t(), x * 0.9), (x,), 1.0),
        ("a slice of a larger array", torch.relu, (x[:, :32],), 1.0),
        ("two halves of one array", torch.add, (x[:32], x[32:]), 1.0),
        ("a returned view of some rows", lambda x: (x[1:], x * 0.9), (x,), 1.0),
        ("one result, returned twice", _twice, (x,), 1.0),
        ("a product in the middle", _product, (x, w), moved / least),
    )


@exercise(
    "10.1",
    hints=(
        "The bytes of the compiled program: kernels(function, *inputs).bytes. Run "
        "the function once to get its results.",
        "Make a tuple of the results if there is only one. Collect the inputs by where "
        "they begin, t.data_ptr(). A result is a view of one if it lies in the same "
        "memory: t.untyped_storage().data_ptr().",
        "memory = {t.data_ptr(): t.nbytes for t in inputs}; to it, add each result "
        "whose storage is not that of an input; divide the bytes of the kernels by "
        "sum(memory.values()).",
    ),
    passed="The tool tells 1.0 from what is left to win, before anything is timed.",
)
def how_far(excess):
    for name, function, inputs, wanted in _cases():
        answer = number(excess(function, *inputs))
        if answer is None or abs(answer - wanted) > 1e-6:
            return f"{name}: it is {wanted:.4g}, and you say {answer}"
    return None


# --- 10.2 ----------------------------------------------------------------------


def _times(n):
    def run(x):
        for _ in range(n):
            x = x * 0.9
        return x

    return run


def _product_and_chain(x):
    return _times(100)(x @ x)


def _programs():
    """A name, a function, its inputs, a balance, and what it waits for."""
    torch.manual_seed(0)
    x = torch.randn(128, 128)
    row, weight = torch.randn(1, 256), torch.randn(256, 256)
    return (
        ("a chain of 8", _times(8), (x,), 4, "memory"),
        ("a product, 128 wide", torch.mm, (x, x), 10, "arithmetic"),
        ("a chain of 100, fused", _times(100), (x,), 4, "arithmetic"),
        ("one row times a matrix", torch.mm, (row, weight), 4, "memory"),
        ("a chain of 8, on a slow processor", _times(8), (x,), 0.5, "arithmetic"),
        ("a product, on a fast one", torch.mm, (x, x), 40, "memory"),
        ("a product and a chain", _product_and_chain, (x,), 19, "arithmetic"),
        ("a view and a product with 0.9", lambda x: x.t() * 0.9, (x,), 0.2, "memory"),
    )


@exercise(
    "10.2",
    hints=(
        "It waits for arithmetic if its operations, divided by its bytes when "
        "compiled, are more than the balance. kernels(...) has the bytes.",
        "Operations are a sum: get_total_flops() of FlopCounterMode(display=False), "
        "and the pointwise ones, which it takes as nothing. A TorchDispatchMode "
        "(torch.utils._python_dispatch) sees each of them.",
        "In its __torch_dispatch__(self, operation, types, given=(), named=None): "
        "result = operation(*given, **(named or {})); if torch.Tag.pointwise is in "
        "operation.tags, add result.numel(); return result.",
    ),
    passed="Products, chains and single rows: you place them without a clock.",
)
def which_ceiling(waits_for):
    for name, function, inputs, balance, wanted in _programs():
        answer = waits_for(function, inputs, balance)
        if answer != wanted:
            return (
                f"{name}, balance {balance}: it waits for {wanted}, and you say "
                f"{answer!r}"
            )
    return None
