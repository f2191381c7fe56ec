# Answers to the exercises of lesson 07. Try first: a hint costs nothing.


# %% 07.1
def joined(x, weight):
    """Return what scaled returns, in two launches."""
    size = x.square().mean(-1, keepdim=True)
    h = (x @ weight) * torch.rsqrt(size + 1e-6)  # a row's factor may wait
    return x + torch.nn.functional.gelu(h)
