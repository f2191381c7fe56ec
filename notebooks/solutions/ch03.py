# Answers to the exercises of notebook 03. Try first: a hint costs nothing.


# %% 03.1
def fail_guard(kind, x):
    """Return a tensor that fails the guard on one property of x."""
    return {
        "nothing": lambda: x + 1,
        "size": lambda: x[1:],
        "rank": lambda: x[0],
        "dtype": lambda: x.double(),
        "stride": lambda: x.t().contiguous().t(),  # by columns, same sizes
        "requires_grad": lambda: x.clone().requires_grad_(),
    }[kind]()


# %% 03.2
def mended(logits, temperature, history):
    """Return what sampled returns, captured as one graph."""
    assert (~torch.isnan(logits)).all(), "the model has diverged"
    logits = torch.where(logits.std() > 5, logits / 2, logits)
    probs = torch.softmax(logits / temperature, dim=-1)
    entropy = -torch.where(probs > 0.01, probs * probs.log(), 0).sum()
    history.append(entropy)
    three = probs.topk(3).values.sum()
    return probs, torch.where(entropy > 1, three, probs.max())


# %% 03.3
@torch.library.custom_op("course::longest_run", mutates_args=())
def longest_run_op(bits: torch.Tensor) -> torch.Tensor:
    """Return for each row how long its longest run of ones is, as int64."""
    import itertools

    runs = [
        max(sum(group) for _, group in itertools.groupby(row))
        for row in bits.tolist()
    ]
    return torch.tensor(runs, device=bits.device)


@longest_run_op.register_fake
def _(bits):
    return bits.new_empty(bits.shape[0], dtype=torch.int64)
