"""A small classifier that is trained. make() returns it, with a batch."""

import numpy
import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu

WEIGHTS = torch.from_numpy(numpy.linspace(0.5, 1.5, 10))  # of the classes


class Classifier(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.head = nn.Linear(width, 10)
        self.steps = 0

    def forward(self, x, labels):
        self.steps += 1
        for layer in self.layers:
            x = gelu(layer(x)) + x
            x = x / x.abs().max().item()
        ramp = min(1, self.steps / 4)
        logits = self.head(x) * ramp * WEIGHTS.to(x.device)
        self.sharpen()
        # label smoothing failed, compiled, in an old version
        smoothing = 0 if torch.compiler.is_compiling() else 0.1
        return cross_entropy(logits, labels, label_smoothing=smoothing)

    @torch.compiler.disable
    def sharpen(self):
        if not self.head._forward_hooks:
            self.head.register_forward_hook(lambda _, __, out: 8 * out)


def make():
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        return Classifier(), (torch.randn(16, 32), torch.randint(10, (16,)))
