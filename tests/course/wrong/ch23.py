# Wrong answers to the exercises of notebook 23, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch23.py.


# %% 23.1: opcheck finds
# - x.new_empty(x.shape[:-1])
# + torch.empty_like(x)


# %% 23.1: no autograd formula was registered
# - logsumexp_op.register_autograd(softmax_of, setup_context=keep_both)


# %% 23.1: the gradient is off
# - (x - y[..., None]).exp()
# + x.exp()


# %% 23.1: the gradient is off
# - gradient[..., None] * (x
# + (x


# %% 23.1: the gradient is off
# - gradient[..., None] * (x
# + gradient.mean() * (x


# %% 23.1: opcheck finds
# - x.new_empty(x.shape[:-1])
# + x.new_empty(x.shape[:-1], dtype=torch.float64)


# %% 23.1: opcheck finds
# - x.new_empty(x.shape[:-1])
# + x.new_empty(4)


# %% 23.1: the operator mine::row_logsumexp was asked for
# - mine::row_logsumexp
# + other::row_logsumexp


# %% 23.1: the operator mine::row_logsumexp was asked for
# - mine::row_logsumexp
# + mine::row_logsumexp_v2


# %% 23.1: 3 graphs were compiled with dynamic=True
# - x.new_empty(x.shape[:-1])
# + x.new_empty(int(x.shape[0]))


# %% 23.1: with numbers up to 250, where exp is inf
# - np.logaddexp.reduce(x.cpu().numpy(), axis=-1)
# + np.log(np.exp(x.cpu().numpy()).sum(-1))


# %% 23.1: off with numbers up to 500
# - (x - y[..., None]).exp()
# + x.exp() / x.exp().sum(-1, keepdim=True)


# %% 23.1: is torch.float64, not torch.float32
# - torch.from_numpy(y).to(x.device)
# + torch.from_numpy(y.astype(np.float64)).to(x.device)


# %% 23.2: is mean updated in place
# -     mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
# -     return (x - mean).contiguous()
# +     away = (x - mean).contiguous()
# +     mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
# +     return away


# %% 23.2: not defined as mutable
# - mutates_args=("mean",)
# + mutates_args=()


# %% 23.2: Stride mismatch
# - x.new_empty(x.shape)
# + torch.empty_like(x)


# %% 23.2: is mean updated in place
# -     mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
# +     mean = mean * 0.9 + x.mean(0) * 0.1


# %% 23.2: writes mean and x
# - mutates_args=("mean",)
# + mutates_args=("mean", "x")


# %% 23.2: writes mean and x
# - mutates_args=("mean",)
# + mutates_args="unknown"


# %% 23.2: Stride mismatch
# - (x - mean).contiguous()
# + x - mean


# %% 23.2: is mean updated in place
# - alpha=0.1
# + alpha=0.9


# %% 23.2: in eager mode
# - return (x - mean).contiguous()
# + return (x - mean / 0.9).contiguous()


# %% 23.2: the operator mine::mended was asked for
# - mine::mended
# + mine::mended2


# %% 23.2: Dtypes torch.float64 and torch.float32 are not equal
# - x.new_empty(x.shape)
# + torch.empty(x.shape)


# %% 23.2: the second call writes over what the first one returned
# - return (x - mean).contiguous()
# + made = globals().setdefault("made", {})
# +     like = torch.empty_like(x, memory_format=torch.contiguous_format)
# +     return torch.sub(x, mean, out=made.setdefault((x.shape, x.dtype), like))
