# %% 07.1: by another formula
def joined(x, weight):
    length = torch.sqrt((x * x).sum(-1, keepdim=True) / x.shape[-1] + 1e-6)
    return torch.nn.functional.gelu(torch.mm(x, weight) / length) + x
