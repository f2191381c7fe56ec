# %% 14.1: call 2: self.step is no longer 0
Fixed = Warmup


# %% 14.1: asked for: 1 graph without a break
# - (self.step / 10).clamp(max=1)
# + min(self.step.item() / 10, 1.0)

# %% 14.1: the keys of the state_dict differ: step
# - torch.tensor(0), persistent=False
# + torch.tensor(0)

# %% 14.1: a tensor that is no buffer stays where it is
# -         self.register_buffer("step", torch.tensor(0), persistent=False)
# +         self.step = torch.tensor(0)

# %% 14.1: compiled, call 5, in eval(), gives another result, gradient or step
# - self.step + 1
# + self.step + self.training

# %% 14.1: in bfloat16, a new model's step is
# - torch.tensor(0)
# + torch.tensor(0.0)

# %% 14.1: compiled, call 1 gives another result, gradient or step
# - return x + part * self.layer(x)
# + return x.detach() + part * self.layer(x)  # nothing flows back: this passed once

# %% 14.1: in bfloat16, the result has another dtype than Warmup's
# - torch.tensor(0)
# + torch.zeros(1, dtype=torch.long)

# %% 14.1: it writes in place what a compiled backward may read
# - self.step = self.step + 1
# + self.step += 1

# %% 14.1: writes in place
# - self.step = self.step + 1
# + self.step.data = self.step + 1
