# Wrong answers to the exercises of notebook 04, each with what it must be told.


# %% 04.1: The first:
def repaired(logits, temperature, history):
    if torch.isnan(logits).any():
        raise ValueError("the model has diverged")
    if logits.max().item() > 5:
        logits = logits / 2
    probs = torch.softmax(logits / temperature, dim=-1)
    likely = probs[probs > 0.01]
    entropy = -(likely * likely.log()).sum()
    history.append(entropy.item())
    if entropy > 1:
        return probs, probs.topk(3).values.sum()
    return probs, probs.max()


# %% 04.1: logits with a NaN in them raise no error
def repaired(logits, temperature, history):
    logits = torch.where(logits.max() > 5, logits / 2, logits)
    probs = torch.softmax(logits / temperature, dim=-1)
    entropy = -torch.where(probs > 0.01, probs * probs.log(), 0).sum()
    history.append(entropy)
    three = probs.topk(3).values.sum()
    return probs, torch.where(entropy > 1, three, probs.max())


# %% 04.1: sure differs from what sampled returns
def repaired(logits, temperature, history):
    assert (~torch.isnan(logits)).all()
    logits = torch.where(logits.max() > 5, logits / 2, logits)
    probs = torch.softmax(logits / temperature, dim=-1)
    entropy = -torch.where(probs > 0.01, probs * probs.log(), 0).sum()
    history.append(entropy)
    return probs, probs.topk(3).values.sum()  # one branch only


# %% 04.1: infinity is no NaN
def repaired(logits, temperature, history):
    assert torch.isfinite(logits).all()  # refuses infinity, too
    logits = torch.where(logits.max() > 5, logits / 2, logits)
    probs = torch.softmax(logits / temperature, dim=-1)
    entropy = -torch.where(probs > 0.01, probs * probs.log(), 0).sum()
    history.append(entropy)
    three = probs.topk(3).values.sum()
    return probs, torch.where(entropy > 1, three, probs.max())


# %% 04.2: something breaks it still
def adopted(stranger, note, namespace):
    namespace["weigh"] = torch._dynamo.nonstrict_trace(namespace["weigh"])
    with torch._dynamo.config.patch(ignore_logging_functions={note}):
        return torch.compile(stranger)


# %% 04.2: leaves a setting of torch._dynamo.config changed
def adopted(stranger, note, namespace):
    namespace["weigh"] = torch._dynamo.nonstrict_trace(namespace["weigh"])
    torch._dynamo.config.ignore_logging_functions.add(note)
    return torch.compile(stranger)


# %% 04.2: weigh still breaks the graph
def adopted(stranger, note, namespace):
    compiled = torch.compile(stranger, fullgraph=True)

    def call(*inputs):
        with torch._dynamo.config.patch(ignore_logging_functions={note}):
            return compiled(*inputs)

    return call


# %% 04.3: in the middle of a function:
def longest_run_op(bits):
    import itertools

    runs = [max(sum(g) for _, g in itertools.groupby(row)) for row in bits.tolist()]
    return torch.tensor(runs)


# %% 04.3: register_fake is missing
@torch.library.custom_op("course::longest_run", mutates_args=())
def longest_run_op(bits: torch.Tensor) -> torch.Tensor:
    import itertools

    runs = [max(sum(g) for _, g in itertools.groupby(row)) for row in bits.tolist()]
    return torch.tensor(runs)


# %% 04.3: opcheck finds
@torch.library.custom_op("course::longest_run", mutates_args=())
def longest_run_op(bits: torch.Tensor) -> torch.Tensor:
    import itertools

    runs = [max(sum(g) for _, g in itertools.groupby(row)) for row in bits.tolist()]
    return torch.tensor(runs)


@longest_run_op.register_fake
def _(bits):
    return bits.new_empty(bits.shape[0], dtype=torch.float32)
