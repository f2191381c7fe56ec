# %% 04.1: made anew
def fail_guard(kind, x):
    rows, columns = x.shape
    if kind == "stride":
        return torch.empty_strided((rows, columns), (columns + 1, 1)).fill_(2)
    return {
        "nothing": torch.rand_like(x) + 5,
        "size": torch.zeros(rows, columns + 2),
        "rank": torch.zeros(rows, columns, 1),
        "dtype": torch.zeros(rows, columns, dtype=torch.float16),
        "requires_grad": torch.zeros(rows, columns, requires_grad=True),
    }[kind]


# %% 04.2: forward itself is replaced, which is guarded
def listen(compiled, model, name, x):
    kept = []
    layer = model.get_submodule(name)
    forward = layer.forward

    def keeping(x):
        kept.append(forward(x))
        return kept[-1]

    layer.forward = keeping
    try:
        compiled(x)
    finally:
        del layer.forward
    return kept[0]
