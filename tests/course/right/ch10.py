# Other right answers to the exercises of notebook 10.


# %% 10.1: by asking each result for its base
def excess(function, *inputs):
    from helpers import kernels

    results = function(*inputs)
    if torch.is_tensor(results):
        results = [results]
    read = set(inputs)
    bases = {tensor._base for tensor in inputs} | read
    made = {t for t in results if t not in bases and t._base not in bases - {None}}
    least = sum(tensor.nbytes for tensor in read | made)
    return torch.tensor(kernels(function, *inputs).bytes / least, dtype=torch.double)


# %% 10.2: with the time of both ceilings
def waits_for(function, inputs, balance):
    from torch.utils.flop_counter import FlopCounterMode

    from helpers import eager_bytes, kernels

    with FlopCounterMode(display=False) as flops:
        function(*inputs)
    calls = eager_bytes(function, *inputs).calls
    pointwise = sum(name != "mm" for name, _ in calls) * inputs[0].numel()
    arithmetic = (flops.get_total_flops() + pointwise) / balance
    memory = kernels(function, *inputs).bytes
    return max(("memory", memory), ("arithmetic", arithmetic), key=lambda p: p[1])[0]
