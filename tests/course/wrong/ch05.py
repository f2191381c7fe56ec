# %% 05.1: asked for: 1 graph without a break
# -     assert (~torch.isnan(logits)).all(), "the model has diverged"
# +     if torch.isnan(logits).any():
# +         raise ValueError("the model has diverged")

# %% 05.1: logits with infinities raise AssertionError
# - (~torch.isnan(logits)).all()
# + (logits < torch.inf).all()

# %% 05.1: number that requires no gradient
# - entropy.detach()
# + entropy

# %% 05.1: history grows by 0, and sampled's by
# - entropy.detach()
# + (0 * entropy.detach())

# %% 05.1: asked for: 1 graph without a break. Found: 2 graphs, 1 graph break
# - history.append(entropy.detach().clone())
# + torch._dynamo.config.capture_scalar_outputs = True
# +     history.append(entropy.item())

# %% 05.1: a leaf Variable that requires grad is being used in an in-place
# - logits.max() > 5
# + logits.clamp_(min=-99).max() > 5

# %% 05.1: keep those that it has
# - history.append(entropy.detach().clone())
# + history[:] = [entropy.detach()]

# %% 05.1: compiled, given [12], output[1] has shape
# -     assert (~torch.isnan(logits)).all(), "the model has diverged"
# +     assert (~torch.isnan(logits)).all(), "the model has diverged"
# +     if torch.compiler.is_compiling():
# +         return logits, logits, logits

# %% 05.1: logits with a NaN at [0] raise no error
# -     assert (~torch.isnan(logits)).all(), "the model has diverged"
# +     if not torch.compiler.is_compiling() and torch.isnan(logits).any():
# +         raise ValueError("the model has diverged")

# %% 05.1: history must grow by one number
# -     history.append(entropy.detach().clone())  # a number, as .item() was
# +     if not torch.compiler.is_compiling():
# +         history.append(entropy.item())

# %% 05.1: given [12], output[0] is
# - logits.max() > 5
# + logits.max() >= 5

# %% 05.1: history grows by
# - entropy.detach()
# + torch.special.entr(probs).sum().detach()

# %% 05.1: given [12], output[1] is
# - entropy > 1, three
# + entropy > 1.1, three

# %% 05.1: history grows by the entropy of a model that diverged
# -     assert (~torch.isnan(logits)).all(), "the model has diverged"
# +     diverged = torch.isnan(logits).any()
# - # a number, as .item() was
# +
# +     assert ~diverged

# %% 05.1: given [12], output[0] has dtype float32
# - logits / 2, logits)
# + logits / 2, logits).float()

# %% 05.1: history grows by 0, and sampled's by
# - entropy.detach().clone())
# + entropy.detach())
