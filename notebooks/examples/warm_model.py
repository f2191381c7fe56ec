"""A model to serve. make() returns it with inputs for its first call."""

import torch


def make():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layers = [torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 8))
    return model.eval().to(device), (torch.randn(16, 64, device=device),)
