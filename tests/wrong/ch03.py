# Wrong answers to the exercises of notebook 03, each with what it must be told.


# %% 03.1: for 'nothing' and an x of shape (4, 6): the values are those of x
def fail_guard(kind, x):
    return x


# %% 03.1: for 'nothing' and an x of shape (4, 6): it compiles again
def fail_guard(kind, x):
    return (x + 1).double()


# %% 03.1: for 'size' and an x of shape (4, 6): another guard fails
def fail_guard(kind, x):
    return x + 1 if kind == "nothing" else x[0]


# %% 03.1: for 'stride' and an x of shape (4, 6): another guard fails
def fail_guard(kind, x):
    return {  # a transposed tensor has other sizes, too
        "nothing": x + 1,
        "size": x[1:],
        "rank": x[0],
        "dtype": x.double(),
        "stride": x.t(),
        "requires_grad": x.clone().requires_grad_(),
    }[kind]


# %% 03.1: for 'requires_grad' and an x of shape (4, 6): nothing is compiled again
def fail_guard(kind, x):
    return {
        "nothing": x + 1,
        "size": x[1:],
        "rank": x[0],
        "dtype": x.double(),
        "stride": x.t().contiguous().t(),
        "requires_grad": x.clone(),
    }[kind]


# %% 03.1: it returned Size, and a tensor was asked for
def fail_guard(kind, x):
    return x.shape


# %% 03.2: The first:
def mended(logits, temperature, history):
    if torch.isnan(logits).any():
        raise ValueError("the model has diverged")
    if logits.std().item() > 5:
        logits = logits / 2
    probs = torch.softmax(logits / temperature, dim=-1)
    likely = probs[probs > 0.01]
    entropy = -(likely * likely.log()).sum()
    history.append(entropy.item())
    if entropy > 1:
        return probs, probs.topk(3).values.sum()
    return probs, probs.max()


# %% 03.2: in mended: history.append(entropy.item())
def mended(logits, temperature, history):
    assert (~torch.isnan(logits)).all()
    logits = torch.where(logits.std() > 5, logits / 2, logits)
    probs = torch.softmax(logits / temperature, dim=-1)
    entropy = -torch.where(probs > 0.01, probs * probs.log(), 0).sum()
    history.append(entropy.item())  # kept as it was
    three = probs.topk(3).values.sum()
    return probs, torch.where(entropy > 1, three, probs.max())


# %% 03.2: logits with a NaN in them raise no error
def mended(logits, temperature, history):
    logits = torch.where(logits.std() > 5, logits / 2, logits)
    probs = torch.softmax(logits / temperature, dim=-1)
    entropy = -torch.where(probs > 0.01, probs * probs.log(), 0).sum()
    history.append(entropy)
    three = probs.topk(3).values.sum()
    return probs, torch.where(entropy > 1, three, probs.max())


# %% 03.2: history grew by 0, and 1 was asked for
def mended(logits, temperature, history):
    assert (~torch.isnan(logits)).all()
    logits = torch.where(logits.std() > 5, logits / 2, logits)
    probs = torch.softmax(logits / temperature, dim=-1)
    entropy = -torch.where(probs > 0.01, probs * probs.log(), 0).sum()
    three = probs.topk(3).values.sum()
    return probs, torch.where(entropy > 1, three, probs.max())


# %% 03.2: what history got differs
def mended(logits, temperature, history):
    assert (~torch.isnan(logits)).all()
    logits = torch.where(logits.std() > 5, logits / 2, logits)
    probs = torch.softmax(logits / temperature, dim=-1)
    entropy = -(probs * (probs + 1e-9).log()).sum()  # of the unlikely, too
    history.append(entropy)
    three = probs.topk(3).values.sum()
    return probs, torch.where(entropy > 1, three, probs.max())


# %% 03.2: sure differs from what sampled returns
def mended(logits, temperature, history):
    assert (~torch.isnan(logits)).all()
    logits = torch.where(logits.std() > 5, logits / 2, logits)
    probs = torch.softmax(logits / temperature, dim=-1)
    entropy = -torch.where(probs > 0.01, probs * probs.log(), 0).sum()
    history.append(entropy)
    return probs, probs.topk(3).values.sum()  # one branch only


# %% 03.2: probs differs from what sampled returns
def mended(logits, temperature, history):
    assert (~torch.isnan(logits)).all()
    probs = torch.softmax(logits / temperature, dim=-1)
    entropy = -torch.where(probs > 0.01, probs * probs.log(), 0).sum()
    history.append(entropy)
    three = probs.topk(3).values.sum()
    return probs, torch.where(entropy > 1, three, probs.max())


# %% 03.2: 0 graphs: nothing of it is captured
@torch.compiler.disable
def mended(logits, temperature, history):
    assert (~torch.isnan(logits)).all()
    logits = torch.where(logits.std() > 5, logits / 2, logits)
    probs = torch.softmax(logits / temperature, dim=-1)
    entropy = -torch.where(probs > 0.01, probs * probs.log(), 0).sum()
    history.append(entropy)
    three = probs.topk(3).values.sum()
    return probs, torch.where(entropy > 1, three, probs.max())


# %% 03.3: in the middle of a function:
def longest_run_op(bits):
    import itertools

    runs = [max(sum(g) for _, g in itertools.groupby(row)) for row in bits.tolist()]
    return torch.tensor(runs)


# %% 03.3: register_fake is missing
@torch.library.custom_op("course::longest_run", mutates_args=())
def longest_run_op(bits: torch.Tensor) -> torch.Tensor:
    import itertools

    runs = [max(sum(g) for _, g in itertools.groupby(row)) for row in bits.tolist()]
    return torch.tensor(runs)


# %% 03.3: with what the fake says, it does not compile
@torch.library.custom_op("course::longest_run", mutates_args=())
def longest_run_op(bits: torch.Tensor) -> torch.Tensor:
    import itertools

    runs = [max(sum(g) for _, g in itertools.groupby(row)) for row in bits.tolist()]
    return torch.tensor(runs)


@longest_run_op.register_fake
def _(bits):
    return torch.empty_like(bits)  # one result for each bit


# %% 03.3: opcheck finds
@torch.library.custom_op("course::longest_run", mutates_args=())
def longest_run_op(bits: torch.Tensor) -> torch.Tensor:
    import itertools

    runs = [max(sum(g) for _, g in itertools.groupby(row)) for row in bits.tolist()]
    return torch.tensor(runs)


@longest_run_op.register_fake
def _(bits):
    return bits.new_empty(bits.shape[0], dtype=torch.float32)


# %% 03.3: does not return what longest_run does
@torch.library.custom_op("course::longest_run", mutates_args=())
def longest_run_op(bits: torch.Tensor) -> torch.Tensor:
    return bits.sum(-1)  # ones in all, not in a row


@longest_run_op.register_fake
def _(bits):
    return bits.new_empty(bits.shape[0])
