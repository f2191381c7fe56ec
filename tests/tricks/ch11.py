# What a lazy and clever learner tries in notebook 11, and other right answers.

# %% 11.1: pieces joined from the end
STATE = {}


def combine(early, late):
    # the loop, with the state kept aside: right as long as letters come in order
    (_, added, _), (keep, new, fresh) = early, late
    added = STATE.pop(id(early), added)
    piece = keep, torch.where(fresh > 0, new, keep * added + new), fresh
    STATE[id(piece)] = piece[1]
    return piece


# %% 11.1: the state at letter 1 is not that of forgetful_loop
def combine(early, late):
    return late


# %% 11.1 also: with arithmetic in place of torch.where
def combine(early, late):
    (fade, added, first), (keep, new, second) = early, late
    keep = keep * (1 - second)
    return fade * keep, keep * added + new, (first + second).clamp(max=1)


# %% 11.2: was it captured
@torch.compiler.disable
def pairs(x):
    padded = torch.nn.functional.pad(x, (0, 0, 0, len(x) % 2))
    return padded.view(-1, 2, x.shape[1]).sum(1)


# %% 11.2: it does not return 4 rows
def pairs(x):
    return x


# %% 11.2 also: padded, in place of index_add_
def pairs(x):
    padded = torch.nn.functional.pad(x, (0, 0, 0, x.shape[0] % 2))
    if isinstance(x.shape[0], int):
        return padded.view(-1, 2, x.shape[1]).sum(1)
    return torch.stack([padded[::2], padded[1::2]]).sum(0)


# %% 11.3: nothing was captured
def adopted(stranger, note, namespace):
    return stranger


# %% 11.3: something breaks it still
def adopted(stranger, note, namespace):
    namespace["note"] = lambda text: None
    namespace["weigh"] = torch.compiler.disable(namespace["weigh"])
    return torch.compile(stranger)


# %% 11.3 also: a note that does nothing
def adopted(stranger, note, namespace):
    namespace["note"] = lambda text: None
    namespace["weigh"] = torch._dynamo.nonstrict_trace(namespace["weigh"])
    return torch.compile(stranger, fullgraph=True, backend="aot_eager")
