"""Is my compiled code right?  A test to copy into your own project.

    pytest test_my_operators.py

Put your functions and modules into PROGRAMS, each with inputs of odd sizes.
Each is compiled in one graph, and held against float64, forward and backward.
Inputs and outputs may be nests of tensors, numbers and None; NaN and
infinity must be where eager has them.  What a module writes into its
buffers isn't compared.  A function that names a dtype, as
in torch.zeros(3, dtype=torch.float32), may fail in float64.  One that
draws random numbers needs torch._inductor.config.fallback_random = True.
"""

import copy

import pytest
import torch
from torch.utils import _pytree as pytree


def rms_norm(x, gain):
    size = x.square().mean(-1, keepdim=True)
    return x * torch.rsqrt(size + 1e-6) * gain


def rotate(x):
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack([-odd, even], -1).flatten(-2)


def look_up(index, table):
    return torch.nn.functional.embedding(index, table)


PROGRAMS = {
    "rms_norm": (rms_norm, lambda: (torch.randn(7, 33), torch.randn(33))),
    "rotate": (rotate, lambda: (torch.randn(5, 3, 14),)),
    # One row is looked up three times: its gradient is a sum.
    "look_up": (
        look_up,
        lambda: (torch.tensor([1, 1, 4, 1]), torch.randn(6, 5)),
    ),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_is_right(name, dynamic):
    torch.manual_seed(0)
    torch.compiler.reset()
    function, make = PROGRAMS[name]
    inputs = make()
    graphs = []

    def backend(graph, example):
        graphs.append(graph)
        return torch._dynamo.lookup_backend("inductor")(graph, example)

    compiled = torch.compile(
        function, fullgraph=True, dynamic=dynamic, backend=backend
    )
    precise = copy.deepcopy(function)
    if isinstance(function, torch.nn.Module):
        precise.double()  # what is no module has no weights to convert
    exact = results(precise, inputs, torch.float64)
    usual = results(copy.deepcopy(function), inputs)
    ours = results(compiled, inputs)
    assert graphs, "it was not captured: this tests eager"
    assert ours.keys() == usual.keys(), f"{name}: other results"
    for what in usual:
        good = as_near(exact[what], usual[what], ours[what])
        assert good, f"{name}: {what} is wrong"


def results(function, inputs, dtype=None):
    """Return outputs, inputs afterwards, and gradients, each by its name."""
    flat, form = pytree.tree_flatten(inputs)
    given = [ready(x, dtype) for x in flat]
    leaves = [x for x in given if getattr(x, "requires_grad", False)]
    if isinstance(function, torch.nn.Module):
        leaves += [w for w in function.parameters() if w.requires_grad]
    # A function may change its inputs, and a leaf must not change.
    call = [x.clone() if isinstance(x, torch.Tensor) else x for x in given]
    torch.manual_seed(0)
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype or usual)
    try:
        made = function(*pytree.tree_unflatten(call, form))
    finally:
        torch.set_default_dtype(usual)
    outputs = pytree.tree_leaves(made)
    found = {f"output {n}": y for n, y in enumerate(outputs)}
    found |= {f"input {n} afterwards": x for n, x in enumerate(call)}
    roots = [y for y in outputs if getattr(y, "requires_grad", False)]
    if roots and leaves:
        slopes = torch.autograd.grad(
            roots, leaves, [start(y) for y in roots], allow_unused=True
        )
        found |= {f"gradient {n}": slope for n, slope in enumerate(slopes)}
    return found


def ready(x, dtype):
    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        return x
    return x.detach().to(dtype or x.dtype, copy=True).requires_grad_()


def start(root):
    """Return the gradient to begin with: other numbers than those of a sum."""
    ramp = torch.linspace(-1, 2, root.numel(), dtype=torch.float32)
    return ramp.to(root).view_as(root)


def as_near(exact, usual, ours):
    """Off by four times what eager is off, and four roundings, at most."""
    if not isinstance(usual, torch.Tensor) or not isinstance(
        ours, torch.Tensor
    ):
        return type(usual) is type(ours) and usual == ours
    if usual.dtype != ours.dtype or usual.shape != ours.shape:
        return False
    if not ours.is_floating_point():
        return torch.equal(usual, ours)
    finite = usual.isfinite()
    if not torch.allclose(usual[~finite], ours[~finite], equal_nan=True):
        return False
    if not finite.any():
        return True
    exact, usual, ours = (x.detach()[finite] for x in (exact, usual, ours))
    rounding = torch.finfo(ours.dtype).eps * exact.abs().max()
    off, usually = ((x - exact).abs().max() for x in (ours, usual))
    return bool(off <= 4 * (usually + rounding))
