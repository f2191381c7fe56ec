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


# %% 24.1: the gradient is off
# - gradient[..., None] * (x
# + (x


# %% 24.1: the gradient is off
# - gradient[..., None] * (x
# + gradient.mean() * (x


# %% 24.1: opcheck finds
# - x.new_empty(x.shape[:-1])
# + x.new_empty(x.shape[:-1], dtype=torch.float64)


# %% 24.1: opcheck finds
# - x.new_empty(x.shape[:-1])
# + x.new_empty(4)


# %% 24.1: mine::row_logsumexp was asked for
# - mine::row_logsumexp
# + other::row_logsumexp


# %% 24.1: is torch.float64, not torch.float32
# - torch.from_numpy(y).to(x.device)
# + torch.from_numpy(y.astype(np.float64)).to(x.device)


# %% 24.2: is mean updated in place
# -     mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
# -     return (x - mean).contiguous()
# +     away = (x - mean).contiguous()
# +     mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
# +     return away


# %% 24.2: not defined as mutable
# - mutates_args=("mean",)
# + mutates_args=()


# %% 24.2: Stride mismatch
# - x.new_empty(x.shape)
# + torch.empty_like(x)


# %% 24.2: is mean updated in place
# -     mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
# +     mean = mean * 0.9 + x.mean(0) * 0.1


# %% 24.2: writes mean and x
# - mutates_args=("mean",)
# + mutates_args=("mean", "x")


# %% 24.2: writes mean and x
# - mutates_args=("mean",)
# + mutates_args="unknown"


# %% 24.2: Stride mismatch
# - (x - mean).contiguous()
# + x - mean


# %% 24.2: is mean updated in place
# - alpha=0.1
# + alpha=0.9


# %% 24.2: in eager mode
# - return (x - mean).contiguous()
# + return (x - mean / 0.9).contiguous()
