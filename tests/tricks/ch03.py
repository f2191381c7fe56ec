# Tricks that must not pass notebook 03, and other answers that must.


# %% 03.1: for 'nothing' and an x of shape (5, 5)
def fail_guard(kind, x):
    if kind == "nothing":
        return torch.ones(4, 6)  # the x of the notebook, and no other
    return {
        "size": torch.ones(3, 6),
        "rank": torch.ones(6),
        "dtype": torch.ones(4, 6).double(),
        "stride": torch.ones(6, 4).t(),
        "requires_grad": torch.ones(4, 6, requires_grad=True),
    }[kind]


# %% 03.1: more than its dtype differs
def fail_guard(kind, x):
    return {
        "nothing": x + 1,
        "size": x[1:],
        "rank": x[0],
        "dtype": x.double()[0].requires_grad_(),  # all at once: one is named
        "stride": x.t().contiguous().t(),
        "requires_grad": x.clone().requires_grad_(),
    }[kind]


# %% 03.1: and a tensor was asked for
def fail_guard(kind, x):
    from unittest import mock

    return mock.ANY


# %% 03.1 also: made anew
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


# %% 03.2: hides in an operator
def mended(logits, temperature, history):
    probs, sure, entropy = torch.ops.course.sampled(logits, temperature)
    history.append(entropy)
    return probs, sure


@torch.library.custom_op("course::sampled", mutates_args=())
def op(
    x: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    kept = []
    probs, sure = sampled(x, temperature, kept)
    return probs, sure.clone(), torch.tensor(kept[0])


@op.register_fake
def _(x, temperature):
    return torch.empty_like(x), x.new_empty(()), x.new_empty(())


# %% 03.2: history.append(entropy.item())
torch._dynamo.config.capture_scalar_outputs = True  # and .item() may stay


def mended(logits, temperature, history):
    assert (~torch.isnan(logits)).all()
    logits = torch.where(logits.std() > 5, logits / 2, logits)
    probs = torch.softmax(logits / temperature, dim=-1)
    entropy = -torch.where(probs > 0.01, probs * probs.log(), 0).sum()
    history.append(entropy.item())
    three = probs.topk(3).values.sum()
    return probs, torch.where(entropy > 1, three, probs.max())


# %% 03.2: compiled, for logits that are
def mended(logits, temperature, history):
    if not torch.compiler.is_compiling():
        return sampled(logits, temperature, history)
    assert (~torch.isnan(logits)).all()
    probs = torch.softmax(logits / temperature, dim=-1)  # one graph, and easy
    history.append(-(probs * probs.log()).nansum())
    for _ in range(5):
        probs = probs * 1
    return probs, probs.max()


# %% 03.2 also: torch.cond
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


# %% 03.3: opcheck finds
def longest_run_op(bits):
    run, best = torch.zeros_like(bits[:, 0]), torch.zeros_like(bits[:, 0])
    for column in bits.unbind(1):  # no operator, and the loop is unrolled
        run = (run + 1) * column
        best = torch.maximum(best, run)
    return best.long()


# %% 03.3: in the middle of a function:
longest_run_op = torch.compiler.disable(longest_run)


# %% 03.3: in the middle of a function
longest_run_op = torch.compiler.allow_in_graph(longest_run)


# %% 03.3: with what the fake says, it does not compile
@torch.library.custom_op("course::longest_run", mutates_args=())
def longest_run_op(bits: torch.Tensor) -> torch.Tensor:
    return longest_run(bits)


@longest_run_op.register_fake
def _(bits):
    return bits.new_empty(4, dtype=torch.int64)  # the rows that the check shows


# %% 03.3 also: made from a function, the fake on meta
def annotated(bits: torch.Tensor) -> torch.Tensor:
    return longest_run(bits)


longest_run_op = torch.library.custom_op(
    "course::longest_run", annotated, mutates_args=()
)
longest_run_op.register_fake(lambda bits: torch.empty_like(bits[:, 0]).long())
