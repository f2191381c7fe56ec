# Tricks that must not pass notebook 00, and other answers that must.


# %% 00.1: has a graph break
def compile_and_prove(model, *inputs):
    return torch.compile(model), isinstance(model, torch.nn.Module)


# %% 00.1: the numbers of eager's own generator
def compile_and_prove(model, *inputs):
    from helpers import graphs

    compiled = torch.compile(model, backend="eager")
    whole = graphs(model, *inputs).count == 1
    return compiled, whole and torch.allclose(compiled(*inputs), model(*inputs))


# %% 00.1 also: capture in one piece, or an error
def compile_and_prove(model, *inputs):
    compiled = torch.compile(model)
    try:
        torch.compile(model, fullgraph=True, backend="eager")(*inputs)
    except Exception:
        return compiled, False
    wanted = model(*inputs)
    limit = 1e-5 + 1e-4 * wanted.abs()
    return compiled, ((compiled(*inputs) - wanted).abs() <= limit).all()


# %% 00.2: that pays it back
def worth_it(result, calls):
    if result.matches is False:
        return False
    if result.verdict == "cannot tell":
        return None
    return result.verdict == "faster" and calls >= 999  # as the check had it


# %% 00.2: where True was wanted
def worth_it(result, calls):
    from unittest import mock

    return mock.ANY


# %% 00.2 also: counted by hand
def worth_it(result, calls):
    if result.matches is False:
        return False
    if result.verdict == "cannot tell":
        return None
    first, (eager, later) = result.cold_start_s, result.median_s
    if result.verdict != "faster":
        return False
    return bool(first + (calls - 1) * later <= calls * eager)


# %% 00.3: the library does the work
def gelu_gate(gate, value):
    gate = 0.5 * (gate + gate)  # nothing, in seven operations
    gate = 0.5 * (gate + gate)
    gate = 0.5 * (gate + gate) * 1
    return torch.nn.functional.gelu(gate, approximate="tanh") * value


times = 23 / 3


# %% 00.3: times is nan
def gelu_gate(gate, value):
    inner = (2 / torch.pi) ** 0.5 * (gate + 0.044715 * gate**3)
    return 0.5 * gate * (1 + torch.tanh(inner)) * value


times = float("nan")


# %% 00.3 also: factored out, and counted by the helpers
def gelu_gate(gate, value):
    inner = 0.7978845608 * gate * (1 + 0.044715 * gate * gate)
    return 0.5 * gate * (1 + inner.tanh()) * value


def _times():
    from helpers import eager_bytes, kernels

    inputs = torch.randn(100), torch.randn(100)
    eager = eager_bytes(gelu_gate, *inputs).bytes
    return torch.tensor(eager / kernels(gelu_gate, *inputs).bytes)


times = _times()
