# Wrong answers to the exercises of notebook 25, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch25.py.


# %% 25.1: nobody compiles twice: you say [(0, 0, '')
def compiled_apart(records):
    return [
        (step["step"], rank, (step["why"] or [""])[0])
        for rank, steps in enumerate(records)
        for step in steps
        if step["compiles"]
    ]


# %% 25.1: rank 1 meets a new size in step 2: you say [(2, 0
def compiled_apart(records):
    apart = []
    for steps in zip(*records, strict=True):
        busy = [bool(step["compiles"]) for step in steps]
        if any(busy) and not all(busy):
            slow = [step["waits"][0][1] - step["waits"][0][0] for step in steps]
            late = slow.index(max(slow))  # who takes longest is not who compiled
            apart.append((steps[0]["step"], late, steps[busy.index(True)]["why"][0]))
    return apart


# %% 25.1: two of three ranks meet a new size in step 1
# -                 if step["compiles"]
# -             ]
# +                 if step["compiles"]
# +             ][:1]


# %% 25.2: rank 0 ran 8 forward graphs, and 4 were asked for
# -     torch._dynamo.config.optimize_ddp = False


# %% 25.2: the gradients of the two ranks differ
# - torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=2)
# + model


# %% 25.2: rank 0 ran 1 forward graph, and 4 were asked for
def wrap(model):
    torch._dynamo.config.optimize_ddp = False
    return torch.compile(
        torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=2)
    )
