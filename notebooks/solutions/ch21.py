# Answers to the exercises of notebook 21.  Each cell replaces its stub.


# %% 21.1
def nearer(programs, x):
    verdicts = {}
    for name, program in programs.items():
        truth = program(x.double())
        results = program(x), torch.compile(program)(x)
        e, c = (float((r.double() - truth).abs().max()) for r in results)
        if e == c or abs(e - c) < 0.1 * max(e, c):
            verdicts[name] = "same"
        else:
            verdicts[name] = "eager" if e < c else "compiled"
    return verdicts


# %% 21.2
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
