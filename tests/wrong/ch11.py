# Wrong answers to the exercises of notebook 11, each with what it must be told.


# %% 11.1: books begin at letters 4; pieces joined letter by letter
def combine(early, late):
    (fade, added, first), (keep, new, second) = early, late
    return fade * keep, keep * added + new, torch.maximum(first, second) * 0 - 1


# %% 11.1: pieces joined from the end
def combine(early, late):
    (fade, added, _), (keep, new, second) = early, late
    return fade * keep, torch.where(second > 0, new, keep * added + new), second


# %% 11.1: associative_scan cannot capture it
def combine(early, late):
    (fade, added, first), (keep, new, second) = early, late
    if second.max() > 0:
        return keep, new, second
    return fade * keep, keep * added + new, first


# %% 11.2: a view was wanted
def pairs(x):
    pair = torch.arange(x.shape[0], device=x.device) // 2
    return x.new_zeros((x.shape[0] + 1) // 2, x.shape[1]).index_add_(0, pair, x)


# %% 11.2: some branch asked for its value
def pairs(x):
    if x.shape[0] % 2 == 0:
        return x.view(-1, 2, x.shape[1]).sum(1)
    pair = torch.arange(x.shape[0], device=x.device) // 2
    return x.new_zeros((x.shape[0] + 1) // 2, x.shape[1]).index_add_(0, pair, x)


# %% 11.2: dynamic=True, 8, 7 and 6 rows cost 2 compiles
def pairs(x):
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    if guard_or_false(x.shape[0] % 2 == 0):
        return x.view(-1, 2, x.shape[1]).sum(1)
    pair = torch.arange(x.shape[0], device=x.device) // 2
    return x.new_zeros((x.shape[0] + 1) // 2, x.shape[1]).index_add_(0, pair, x)


# %% 11.3: something breaks it still
def adopted(stranger, note, namespace):
    namespace["weigh"] = torch._dynamo.nonstrict_trace(namespace["weigh"])
    with torch._dynamo.config.patch(ignore_logging_functions={note}):
        return torch.compile(stranger)


# %% 11.3: leaves a setting of torch._dynamo.config changed
def adopted(stranger, note, namespace):
    namespace["weigh"] = torch._dynamo.nonstrict_trace(namespace["weigh"])
    torch._dynamo.config.ignore_logging_functions.add(note)
    return torch.compile(stranger)
