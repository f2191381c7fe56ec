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
