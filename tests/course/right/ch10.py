# %% 10.1: by asking each result for its base
def excess(function, *inputs):
    from helpers import kernels

    results = function(*inputs)
    if torch.is_tensor(results):
        results = [results]
    read = {t for t in inputs if not any(t._base is x for x in inputs)}
    given, made = (
        {t if t._base is None else t._base for t in tensors}
        for tensors in (inputs, results)
    )
    least = sum(tensor.nbytes for tensor in read | made - given)
    return torch.tensor(kernels(function, *inputs).bytes / least, dtype=torch.double)
