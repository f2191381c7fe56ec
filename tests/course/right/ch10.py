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
