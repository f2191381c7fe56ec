# Other right answers to the exercises of notebook 23.

# %% 23.1: with torch in the backward, and a schema in words
import numpy as np


def _values(x):
    y = x.detach().cpu().numpy()
    most = y.max(-1)
    return torch.from_numpy(most + np.log(np.exp(y - most[:, None]).sum(-1)))


logsumexp_op = torch.library.custom_op(
    "mine::row_logsumexp", mutates_args=(), schema="(Tensor x) -> Tensor"
)(_values)
logsumexp_op.register_fake(lambda x: x.new_empty(x.shape[0]))


def _softmax(ctx, gradient):
    return gradient.unsqueeze(-1) * ctx.saved_tensors[0].softmax(-1)


logsumexp_op.register_autograd(
    _softmax,
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)


# %% 23.2: the strides of x are kept
@torch.library.custom_op("mine::mended", mutates_args={"mean"})
def mended(mean: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    mean.copy_(0.9 * mean + 0.1 * x.mean(0))
    return torch.empty_like(x).copy_(x - mean)


mended.register_fake(lambda mean, x: torch.empty_like(x))


# %% 23.2: strides in words, and the name that torch.ops gives
@torch.library.custom_op("mine::mended", mutates_args=["mean"])
def _mended(mean: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    mean.lerp_(x.mean(0), 0.1)
    return (x - mean).contiguous()


@_mended.register_fake
def _(mean, x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


mended = torch.ops.mine.mended
