# %% 10.1: by blocks in order, as a tensor
def excess(function, *inputs):
    from helpers import kernels

    results = function(*inputs)
    if torch.is_tensor(results):
        results = (results,)
    blocks = [(t.data_ptr(), t.data_ptr() + t.nbytes) for t in (*inputs, *results)]
    least = end = 0
    for first, last in sorted(blocks):
        least += max(0, last - max(first, end))
        end = max(end, last)
    return torch.tensor(kernels(function, *inputs).bytes / least, dtype=torch.double)
