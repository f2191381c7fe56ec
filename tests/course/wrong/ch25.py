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
