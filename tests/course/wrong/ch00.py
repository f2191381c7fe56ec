# %% 00.1: one whose small numbers are off
# - rtol=1e-4, atol=1e-5
# + rtol=0.1, atol=0.1

# %% 00.1: one that Inductor rounds less often: you return True
# - torch.compile(model)
# + torch.compile(model, backend="eager")

# %% 00.1: by rounding alone
# - torch.allclose(compiled, eager, rtol=1e-4, atol=1e-5)
# + torch.equal(compiled, eager)

# %% 00.1: prints before it returns
# - found.count == 1 and not found.breaks
# + found.count == 1

# %% 00.1: computes nothing
# - found.count == 1 and not found.breaks
# + not found.breaks

# %% 00.1: one with two wrong numbers, compiled: you return True
# - torch.allclose(compiled, eager, rtol=1e-4, atol=1e-5)
# + (compiled - eager).abs().mean().item() < 1e-4

# %% 00.1: one that differs by less than rtol: you return False
# - rtol=1e-4, atol=1e-5
# + rtol=1e-5, atol=1e-4

# %% 00.1: one whose small numbers are off, compiled: you return True
# - torch.allclose(compiled, eager, rtol=1e-4, atol=1e-5)
# + bool((compiled - eager).abs().max() <= 1e-4 * eager.abs().max())

# %% 00.1: It was asked about one that differs by rounding alone
# - model(*inputs), torch.compile(model)(*inputs)
# + model(inputs[0]), torch.compile(model)(inputs[0])

# %% 00.1: one that differs by less than atol: you return False
# - atol=1e-5
# + atol=0

# %% 00.1: one that computes nothing, in no graph: you return True
def went_well(model, *inputs):
    try:
        compiled = torch.compile(model, fullgraph=True)(*inputs)
    except Exception:
        return False
    same = torch.allclose(compiled, model(*inputs), rtol=1e-4, atol=1e-5)
    return same and compiled is not inputs[0]


# %% 00.1: it leaves grad mode as False
# -     eager, compiled
# +     torch.set_grad_enabled(False)
# +     eager, compiled
