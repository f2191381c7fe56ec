# Answers to the exercises of notebook 23.  Each cell replaces its stub.


# %% 23.1
import numpy as np


@torch.library.custom_op("mine::row_logsumexp", mutates_args=())
def logsumexp_op(x: torch.Tensor) -> torch.Tensor:
    y = np.logaddexp.reduce(x.cpu().numpy(), axis=-1)
    return torch.from_numpy(y).to(x.device)


@logsumexp_op.register_fake
def _(x):
    return x.new_empty(x.shape[:-1])


def keep_both(ctx, inputs, output):
    ctx.save_for_backward(*inputs, output)


def softmax_of(ctx, gradient):
    x, y = ctx.saved_tensors
    return gradient[..., None] * (x - y[..., None]).exp()


logsumexp_op.register_autograd(softmax_of, setup_context=keep_both)
