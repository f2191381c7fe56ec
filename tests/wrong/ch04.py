# Wrong answers to the exercises of notebook 04, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch04.py.


# %% 04.1: one graph was asked for
# -     assert (~torch.isnan(logits)).all(), "the model has diverged"
# +     if torch.isnan(logits).any():
# +         raise ValueError("the model has diverged")


# %% 04.1: logits with a NaN in them raise no error
# - assert (~torch.isnan(logits)).all(), "the model has diverged"


# %% 04.1: sure differs from what sampled returns
# - torch.where(entropy > 1, three, probs.max())
# + three  # one branch only


# %% 04.1: infinity is no NaN
# - (~torch.isnan(logits)).all()
# + torch.isfinite(logits).all()


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
# - namespace["weigh"] = torch._dynamo.nonstrict_trace(namespace["weigh"])


# %% 04.3: in the middle of a function:
def longest_run_op(bits):
    import itertools

    runs = [max(sum(g) for _, g in itertools.groupby(row)) for row in bits.tolist()]
    return torch.tensor(runs)


# %% 04.3: register_fake is missing
# - @longest_run_op.register_fake
# - def _(bits):
# -     return bits.new_empty(bits.shape[0], dtype=torch.int64)


# %% 04.3: opcheck finds
# - dtype=torch.int64
# + dtype=torch.float32
