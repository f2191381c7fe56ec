# Wrong answers to the exercises of notebook 05, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch05.py.


# %% 05.1: one graph was asked for
# -     assert (~torch.isnan(logits)).all(), "the model has diverged"
# +     if torch.isnan(logits).any():
# +         raise ValueError("the model has diverged")


# %% 05.1: logits with a NaN in them raise no error
# - assert (~torch.isnan(logits)).all(), "the model has diverged"


# %% 05.1: sure is not what sampled returns
# - torch.where(entropy > 1, three, probs.max())
# + three  # one branch only


# %% 05.1: raises AssertionError the model has diverged: infinity is no NaN
# - (~torch.isnan(logits)).all()
# + torch.isfinite(logits).all()


# %% 05.1: raises AssertionError : infinity is no NaN
# - (~torch.isnan(logits)).all(), "the model has diverged"
# + torch.isfinite(logits).all()


# %% 05.1: a logit of infinity raises an error, and sampled raises none
# - (~torch.isnan(logits)).all()
# + (logits < torch.inf).all()


# %% 05.1: history holds a tensor that requires a gradient
# - entropy.detach()
# + entropy


# %% 05.1: the gradient is not that of sampled
# - logits.max() > 5, logits / 2, logits)
# + logits.max() > 5, logits.detach() / 2, logits)


# %% 05.1: the gradient is not that of sampled
# -     probs = torch.softmax(logits / temperature, dim=-1)
# +     with torch.no_grad():
# +         off = logits.isinf()
# +     spread = (logits / temperature).exp() * torch.where(off, 0, 1)
# +     spread = spread + (logits - logits.detach()).nan_to_num()
# +     probs = spread / spread.sum()


# %% 05.2: fullgraph=True says what
def adopted(stranger, note, namespace):
    namespace["weigh"] = torch._dynamo.nonstrict_trace(namespace["weigh"])
    with torch._dynamo.config.patch(ignore_logging_functions={note}):
        return torch.compile(stranger)


# %% 05.2: leaves a setting of torch._dynamo.config changed
def adopted(stranger, note, namespace):
    namespace["weigh"] = torch._dynamo.nonstrict_trace(namespace["weigh"])
    torch._dynamo.config.ignore_logging_functions.add(note)
    return torch.compile(stranger)


# %% 05.2: in weigh
# - namespace["weigh"] = torch._dynamo.nonstrict_trace(namespace["weigh"])


# %% 05.2: namespace has another note now
def adopted(stranger, note, namespace):
    namespace["weigh"] = torch._dynamo.nonstrict_trace(namespace["weigh"])
    namespace["note"] = lambda text: None
    return torch.compile(stranger)


# %% 05.3: got <class 'function'>
def longest_run_op(bits):
    import itertools

    runs = [max(sum(g) for _, g in itertools.groupby(row)) for row in bits.tolist()]
    return torch.tensor(runs)


# %% 05.3: There was no fake impl registered
# - @longest_run_op.register_fake
# - def _(bits):
# -     return bits.new_empty(bits.shape[0], dtype=torch.int64)


# %% 05.3: opcheck finds: opcheck(op, ...): test_faketensor failed
# - , dtype=torch.int64)
# + )


# %% 05.3: opcheck finds: opcheck(op, ...): test_faketensor failed
# - dtype=torch.int64
# + dtype=torch.float32


# %% 05.2: result or gradient is not that of stranger
# -     namespace["weigh"] = torch._dynamo.nonstrict_trace(namespace["weigh"])
# +     weigh = namespace["weigh"]
# +     alone = torch._dynamo.nonstrict_trace(lambda x: weigh(x.detach()))
# +     namespace["weigh"] = alone


# %% 05.2: one call runs 0 graphs
def adopted(stranger, note, namespace):
    return torch.compiler.disable(stranger)


# %% 05.3: called by itself, it does not return what longest_run does
# - torch.tensor(runs, device=bits.device)
# + torch.tensor(runs, device=bits.device).float()


# %% 05.1: default settings were asked for, and capture_scalar_outputs is set
# - history.append(entropy.detach())
# + torch._dynamo.config.capture_scalar_outputs = True
# +     history.append(entropy.item())


# %% 05.1: no operator of your own was asked for: the graph calls wrong04.finite
@torch.library.custom_op("wrong04::finite", mutates_args=())
def finite(logits: torch.Tensor) -> torch.Tensor:
    if torch.isnan(logits).any():
        raise ValueError("the model has diverged")
    return logits.clone()


finite.register_fake(torch.empty_like)
finite.register_autograd(lambda ctx, grad: grad)


def repaired(logits, temperature, history):
    logits = finite(logits)
    logits = torch.where(logits.max() > 5, logits / 2, logits)
    probs = torch.softmax(logits / temperature, dim=-1)
    entropy = torch.special.entr(probs).masked_fill(probs <= 0.01, 0).sum()
    history.append(entropy.detach())
    three = probs.topk(3).values.sum()
    return probs, torch.where(entropy > 1, three, probs.max())


# %% 05.3: opcheck finds: opcheck(op, ...): test_faketensor failed
# - bits.shape[0]
# + 5
