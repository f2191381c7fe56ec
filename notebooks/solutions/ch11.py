# Answers to the exercises of notebook 11.  Each cell replaces its stub.

# %% 11.1
def combine(early, late):
    (fade, added, first), (keep, new, second) = early, late
    state = torch.where(second > 0, new, keep * added + new)
    return fade * keep, state, torch.maximum(first, second)


# %% 11.2
def pairs(x):
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    rows, width = x.shape
    if statically_known_true(rows % 2 == 0):
        return x.view(-1, 2, width).sum(1)
    pair = torch.arange(rows, device=x.device) // 2
    return x.new_zeros((rows + 1) // 2, width).index_add_(0, pair, x)


# %% 11.3
def adopted(stranger, note, namespace):
    namespace["weigh"] = torch._dynamo.nonstrict_trace(namespace["weigh"])
    compiled = torch.compile(stranger, fullgraph=True)

    def call(*inputs):
        with torch._dynamo.config.patch(ignore_logging_functions={note}):
            return compiled(*inputs)

    return call
