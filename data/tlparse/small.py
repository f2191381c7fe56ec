"""A function with a graph break, compiled: what tlparse shows of it."""

import torch


def scale(x, gain):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * gain


def model(x, gain):
    y = scale(x, gain)
    print("half way")  # which breaks the graph
    return torch.nn.functional.gelu(y).sum()


x, gain = torch.randn(7, 33), torch.ones(33, requires_grad=True)
torch.compile(model)(x, gain).backward()
