# Answers to the exercises of notebook 05. Try first: a hint costs nothing.


# %% 05.1
def repaired(logits, temperature, history):
    """Return what sampled returns, captured as one graph."""
    assert (~torch.isnan(logits)).all(), "the model has diverged"
    logits = torch.where(logits.max() > 5, logits / 2, logits)
    probs = torch.softmax(logits / temperature, dim=-1)
    likely = probs > 0.01
    logs = torch.where(likely, probs, 1).log()  # no log of 0: its slope is NaN
    entropy = -torch.where(likely, probs * logs, 0).sum()
    history.append(entropy.detach())  # a number, as .item() was
    three = probs.topk(3).values.sum()
    return probs, torch.where(entropy > 1, three, probs.max())


# %% 05.2
def adopted(stranger, note, namespace):
    namespace["weigh"] = torch._dynamo.nonstrict_trace(namespace["weigh"])
    compiled = torch.compile(stranger, fullgraph=True)

    def call(*inputs):
        with torch._dynamo.config.patch(ignore_logging_functions={note}):
            return compiled(*inputs)

    return call


# %% 05.3
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
