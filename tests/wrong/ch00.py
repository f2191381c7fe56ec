# Wrong answers to the exercises of notebook 00, each with what it must be told.


# %% 00.1: what you return first runs eagerly
def compile_and_prove(model, *inputs):
    torch.compile(model)
    return model, True


# %% 00.1: adds 1 once it is compiled
def compile_and_prove(model, *inputs):
    from helpers import graphs

    found = graphs(model, *inputs)
    return torch.compile(model), found.count == 1 and not found.breaks


# %% 00.1: has a graph break
def compile_and_prove(model, *inputs):
    compiled = torch.compile(model)
    return compiled, torch.allclose(compiled(*inputs), model(*inputs), atol=1e-5)


# %% 00.1: differs from eager by rounding alone
def compile_and_prove(model, *inputs):
    from helpers import graphs

    compiled = torch.compile(model)
    found = graphs(model, *inputs)
    same = torch.equal(compiled(*inputs), model(*inputs))
    return compiled, found.count == 1 and not found.breaks and same


# %% 00.1: no longer what it was
def compile_and_prove(model, *inputs):
    from helpers import graphs

    before = model(*inputs)
    if isinstance(model, torch.nn.Module):
        model = model.to(torch.bfloat16)
        inputs = [x.to(torch.bfloat16) for x in inputs]
    compiled = torch.compile(model)
    same = torch.allclose(compiled(*inputs).float(), before, atol=0.1)
    return compiled, graphs(model, *inputs).count == 1 and same


# %% 00.1: the compiled answers are torch.bfloat16
def compile_and_prove(model, *inputs):
    def halved(*inputs):
        return model(*inputs).to(torch.bfloat16)

    compiled = torch.compile(halved)
    return compiled, torch.allclose(compiled(*inputs).float(), model(*inputs), atol=0.1)


# %% 00.1: something else than a pair
def compile_and_prove(model, *inputs):
    return torch.compile(model)


# %% 00.2: nobody can tell
def worth_it(result, calls):
    return result.speedup > 1 and calls >= result.calls_to_pay_back


# %% 00.2: mind calls_to_pay_back
def worth_it(result, calls):
    if result.verdict == "cannot tell":
        return None
    return result.verdict == "faster"


# %% 00.2: exactly as many calls as pay it back
def worth_it(result, calls):
    if result.verdict == "cannot tell":
        return None
    return result.verdict == "faster" and calls > result.calls_to_pay_back


# %% 00.2: the verdict is 'same'
def worth_it(result, calls):
    if result.verdict in ("cannot tell", "same"):
        return None
    return result.verdict == "faster" and calls >= result.calls_to_pay_back


# %% 00.2: the answers differ: however fast
def worth_it(result, calls):
    if result.verdict == "cannot tell":
        return None
    return result.verdict == "faster" and calls >= result.calls_to_pay_back


# %% 00.2: that settles it before the clock is asked
def worth_it(result, calls):
    if result.verdict == "cannot tell":
        return None
    pays = result.verdict == "faster" and calls >= result.calls_to_pay_back
    return pays and result.matches is not False


# %% 00.2: they do not differ
def worth_it(result, calls):
    if not result.matches:
        return False
    if result.verdict == "cannot tell":
        return None
    return result.verdict == "faster" and calls >= result.calls_to_pay_back


# %% 00.3: so the library does the work
def gelu_gate(gate, value):
    return torch.nn.functional.gelu(gate, approximate="tanh") * value


times = 5 / 3


# %% 00.3: check the formula term by term
def gelu_gate(gate, value):
    inner = (2 / torch.pi) ** 0.5 * (gate + 0.044715 * gate**2)
    return 0.5 * gate * (1 + torch.tanh(inner)) * value


times = 7


# %% 00.3: what each of your 9 operations
def gelu_gate(gate, value):
    inner = (2 / torch.pi) ** 0.5 * (gate + 0.044715 * gate**3)
    return 0.5 * gate * (1 + torch.tanh(inner)) * value


times = 9  # the number of operations


# %% 00.3: times is '7x'
def gelu_gate(gate, value):
    inner = (2 / torch.pi) ** 0.5 * (gate + 0.044715 * gate**3)
    return 0.5 * gate * (1 + torch.tanh(inner)) * value


times = "7x"


# %% 00.3: compiled, it is 2 kernels
def gelu_gate(gate, value):
    inner = (2 / torch.pi) ** 0.5 * (gate + 0.044715 * gate**3)
    print(end="")
    return 0.5 * gate * (1 + torch.tanh(inner)) * value


times = 7
