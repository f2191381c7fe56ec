# Other right answers to the exercises of notebook 11.


# %% 11.1: with arithmetic in place of torch.where
def combine(early, late):
    (fade, added, first), (keep, new, second) = early, late
    keep = keep * (1 - second)
    return fade * keep, keep * added + new, (first + second).clamp(max=1)


# %% 11.2: padded, in place of index_add_
def pairs(x):
    padded = torch.nn.functional.pad(x, (0, 0, 0, x.shape[0] % 2))
    if isinstance(x.shape[0], int):
        return padded.view(-1, 2, x.shape[1]).sum(1)
    return torch.stack([padded[::2], padded[1::2]]).sum(0)


# %% 11.3: a note that does nothing
def adopted(stranger, note, namespace):
    namespace["note"] = lambda text: None
    namespace["weigh"] = torch._dynamo.nonstrict_trace(namespace["weigh"])
    return torch.compile(stranger, fullgraph=True, backend="aot_eager")
