# Other right answers to the exercises of notebook 22.


# %% 22.2: wrapped first, and the setting by its name
def wrap(model):
    torch._dynamo.config.optimize_ddp = "no_optimization"
    wrapped = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=2)
    for number, block in enumerate(model.blocks):
        model.blocks[number] = torch.compile(block, fullgraph=True)
    return wrapped


# %% 22.2: with a graph that DDP knows not to change
def wrap(model):
    torch._dynamo.config.optimize_ddp = False
    for block in model.blocks:
        block.compile(fullgraph=True)
    return torch.nn.parallel.DistributedDataParallel(
        model, bucket_cap_mb=2, static_graph=True
    )


# %% 22.2: the setting above the function, and each forward compiled
torch._dynamo.config.optimize_ddp = False


def wrap(model):
    for block in model.blocks:
        block.forward = torch.compile(block.forward)
    return torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=2)
