# Other right answers to the exercises of notebook 03.


# %% 03.1: made anew
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


# %% 03.2: torch.cond
def mended(logits, temperature, history):
    assert (logits == logits).all(), "the model has diverged"
    large = (logits.std() > 5).to(logits.dtype)
    probs = torch.softmax(logits / (1 + large) / temperature, dim=-1)
    likely = probs > 0.01
    entropy = torch.special.entr(probs).masked_fill(~likely, 0).sum()
    history.append(entropy)
    first = probs.sort(descending=True).values
    sure = torch.cond(
        entropy > 1, lambda p: p[:3].sum(), lambda p: p[0].clone(), (first,)
    )
    return probs, sure


# %% 03.3: made from a function, the fake on meta
def annotated(bits: torch.Tensor) -> torch.Tensor:
    return longest_run(bits)


longest_run_op = torch.library.custom_op(
    "course::longest_run", annotated, mutates_args=()
)
longest_run_op.register_fake(lambda bits: torch.empty_like(bits[:, 0]).long())
