# %% 23.1: opcheck finds
# - x.new_empty(x.shape[:-1])
# + torch.empty_like(x)

# %% 23.1: Argument x is not defined as mutable but was mutated
# -     y = np.logaddexp.reduce(x.cpu().numpy(), axis=-1)
# +     most = x.amax(-1, keepdim=True)
# +     x -= most
# +     y = np.logaddexp.reduce(x.cpu().numpy(), axis=-1) + most.cpu().numpy()[:, 0]
# +     x += most

# %% 23.1: its fake forgets the device
# - x.new_empty(x.shape[:-1])
# + torch.empty(x.shape[:-1])

# %% 23.1: no autograd formula was registered
# - logsumexp_op.register_autograd(softmax_of, setup_context=keep_both)

# %% 23.1: given [4, 3], gradient of
# - gradient[..., None] * (x
# + (x

# %% 23.1: and mine::row_logsumexp was asked for
# - mine::row_logsumexp
# + other::row_logsumexp

# %% 23.1: 6 calls cost 6 compiles
# - x.new_empty(x.shape[:-1])
# + x.new_empty(int(x.shape[0]))

# %% 23.1: given [9, 3], output is
# - np.logaddexp.reduce(x.cpu().numpy(), axis=-1)
# + np.log(np.exp(x.cpu().double().numpy()).sum(-1)).astype(np.float32)

# %% 23.1: has dtype float64
# - torch.from_numpy(y).to(x.device)
# + torch.from_numpy(y.astype(np.float64)).to(x.device)

# %% 23.1: given [9, 12], output is
# - np.logaddexp.reduce(x.cpu().numpy(), axis=-1)
# + np.logaddexp.reduce(x.as_strided(x.shape, (x.shape[1], 1)).numpy(), axis=-1)

# %% 23.1: given [4, 3], raises RuntimeError: one of the variables
# - @torch.library.custom_op("mine::row_logsumexp", mutates_args=())
# + _KEPT = {}
# +
# +
# + @torch.library.custom_op("mine::row_logsumexp", mutates_args=())
# -     return torch.from_numpy(y).to(x.device)
# +     kept = _KEPT.setdefault(len(y), torch.zeros(len(y), device=x.device))
# +     return kept.copy_(torch.from_numpy(y)).detach()

# %% 23.1: There was no fake impl registered for
# - @logsumexp_op.register_fake
# +

# %% 23.1: a write into its input changes the gradient
# -     ctx.save_for_backward(*inputs, output)
# +     (ctx.x,) = inputs
# -     x, y = ctx.saved_tensors
# -     return gradient[..., None] * (x - y[..., None]).exp()
# +     return gradient[..., None] * ctx.x.softmax(-1)

# %% 23.1: gradient of input
# -     x, y = ctx.saved_tensors
# -     return gradient[..., None] * (x - y[..., None]).exp()
# +     x, y = ctx.saved_tensors
# +     rows = gradient.as_strided(gradient.shape, (1,))  # as if it lay in a row
# +     return rows[..., None] * (x - y[..., None]).exp()
