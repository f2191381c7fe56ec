"""Is my compiled code right?  A test to copy into your own project.

    pytest test_my_operators.py

Put your functions into PROGRAMS, each with inputs of odd sizes.  Each is
compiled in one graph, and held against float64, forward and backward.
"""

import pytest
import torch


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
    exact = outputs_and_gradients(function, inputs, torch.float64)
    usual = outputs_and_gradients(function, inputs)
    ours = outputs_and_gradients(compiled, inputs)
    assert len(graphs) == 1, "it was not captured: this tests eager"
    for number, three in enumerate(zip(exact, usual, ours, strict=True)):
        assert as_near(*three), f"{name}: result {number} is wrong"


def outputs_and_gradients(function, inputs, dtype=None):
    given = [x.detach().clone() for x in inputs]
    given = [
        x.to(dtype or x.dtype).requires_grad_() if x.is_floating_point() else x
        for x in given
    ]
    made = function(*given)
    weights = torch.linspace(-1, 2, made.numel()).to(made).view_as(made)
    leaves = [x for x in given if x.requires_grad]
    return made, *torch.autograd.grad(made, leaves, weights)


def as_near(exact, usual, ours):
    """Off by four times what eager is off, and four roundings, at most."""
    if usual.dtype != ours.dtype or usual.shape != ours.shape:
        return False
    size = exact.abs().max()
    rounding = torch.finfo(ours.dtype).eps * size
    off, usually = ((x - exact).abs().max() for x in (ours, usual))
    return bool(off <= 4 * (usually + rounding))  # with NaN: False
