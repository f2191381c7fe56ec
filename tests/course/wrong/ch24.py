# Wrong answers to the exercises of notebook 24, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch24.py.


# %% 24.1: opcheck finds
# - x.new_empty(x.shape[:-1])
# + torch.empty_like(x)


# %% 24.1: no autograd formula was registered
# - logsumexp_op.register_autograd(softmax_of, setup_context=keep_both)


# %% 24.1: the gradient is off
# - (x - y[..., None]).exp()
# + x.exp()


# %% 24.2: not defined as mutable
# - mutates_args=("mean",)
# + mutates_args=()


# %% 24.2: Stride mismatch
# - x.new_empty(x.shape)
# + torch.empty_like(x)


# %% 24.2: is mean updated in place
# -     mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
# +     mean = mean * 0.9 + x.mean(0) * 0.1
