# Wrong answers to the exercises of notebook 24, each with what it must be told.


# %% 24.1: opcheck finds
@torch.library.custom_op("mine::row_logsumexp", mutates_args=())
def logsumexp_op(x: torch.Tensor) -> torch.Tensor:
    import numpy as np

    y = np.logaddexp.reduce(x.cpu().numpy(), axis=-1)
    return torch.from_numpy(y).to(x.device)


@logsumexp_op.register_fake
def _(x):
    return torch.empty_like(x)


# %% 24.1: no autograd formula was registered
@torch.library.custom_op("mine::row_logsumexp", mutates_args=())
def logsumexp_op(x: torch.Tensor) -> torch.Tensor:
    import numpy as np

    y = np.logaddexp.reduce(x.cpu().numpy(), axis=-1)
    return torch.from_numpy(y).to(x.device)


logsumexp_op.register_fake(lambda x: x.new_empty(x.shape[:-1]))


# %% 24.1: the gradient is off
@torch.library.custom_op("mine::row_logsumexp", mutates_args=())
def logsumexp_op(x: torch.Tensor) -> torch.Tensor:
    import numpy as np

    y = np.logaddexp.reduce(x.cpu().numpy(), axis=-1)
    return torch.from_numpy(y).to(x.device)


logsumexp_op.register_fake(lambda x: x.new_empty(x.shape[:-1]))
logsumexp_op.register_autograd(
    lambda ctx, gradient: gradient[..., None] * ctx.saved_tensors[0].exp(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


# %% 24.1: that is no operator
def logsumexp_op(x):
    return x.logsumexp(-1)


# %% 24.2: not defined as mutable
@torch.library.custom_op("mine::mended", mutates_args=())
def mended(mean: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return (x - mean).contiguous()


mended.register_fake(lambda mean, x: x.new_empty(x.shape))


# %% 24.2: Stride mismatch
@torch.library.custom_op("mine::mended", mutates_args=("mean",))
def mended(mean: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return (x - mean).contiguous()


mended.register_fake(lambda mean, x: torch.empty_like(x))


# %% 24.2: is mean updated in place
@torch.library.custom_op("mine::mended", mutates_args=())
def mended(mean: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return (x - (mean * 0.9 + x.mean(0) * 0.1)).contiguous()


mended.register_fake(lambda mean, x: x.new_empty(x.shape))
