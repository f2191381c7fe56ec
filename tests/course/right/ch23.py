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
