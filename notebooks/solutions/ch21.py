# Answers to the exercises of notebook 21.  Each cell replaces its stub.


# %% 21.1
def nll(logits, y):
    return -logits.log_softmax(-1).gather(1, y[:, None]).mean()


def make_loss(model, backend):
    def inner(x, y):
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(x)
        return nll(logits.float(), y)

    compiled = torch.compile(inner, backend=backend, fullgraph=True)

    def loss(x, y):
        with torch.autocast("cpu", enabled=False):
            return compiled(x, y)

    return loss
