# %% 21.1: on for everybody, off inside
def nll(logits, y):
    return -logits.log_softmax(-1).gather(1, y[:, None]).mean()


def make_loss(model, backend):
    @torch.compile(backend=backend, fullgraph=True)
    def inner(x, y):
        logits = model(x)
        with torch.autocast("cpu", enabled=False):
            return nll(logits.float(), y)

    def loss(x, y):
        with torch.autocast("cpu", torch.bfloat16):
            return inner(x, y)

    return loss
