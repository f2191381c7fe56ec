# Wrong answers to the exercises of notebook 21, each with what it must be told.


# %% 21.1: you say "eager", it is "compiled"
def nearer(programs, x):
    found = {}
    for name, program in programs.items():
        off = (torch.compile(program)(x) - program(x)).abs().max()
        found[name] = "same" if off < 1e-6 else "eager"
    return found


# %% 21.1: one number far off
def nearer(programs, x):
    found = {}
    for name, program in programs.items():
        truth = program(x.double())
        results = program(x), torch.compile(program)(x)
        e, c = (float((r.double() - truth).abs().mean()) for r in results)
        close = e == c or abs(e - c) < 0.1 * max(e, c)
        found[name] = "same" if close else "eager" if e < c else "compiled"
    return found


# %% 21.2: called within autocast of float16, it is at 2 graphs
def nll(logits, y):
    return -logits.log_softmax(-1).gather(1, y[:, None]).mean()


def make_loss(model, backend):
    @torch.compile(backend=backend, fullgraph=True)
    def loss(x, y):
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(x)
        with torch.autocast("cpu", enabled=False):
            return nll(logits.float(), y)

    return loss


# %% 21.2: a log_softmax in float32
def nll(logits, y):
    return -logits.log_softmax(-1).gather(1, y[:, None]).mean()


def make_loss(model, backend):
    @torch.compile(backend=backend, fullgraph=True)
    def inner(x, y):
        return nll(model(x), y).float()

    def loss(x, y):
        with torch.autocast("cpu", torch.bfloat16):
            return inner(x, y)

    return loss


# %% 21.2: no longer float32
def nll(logits, y):
    return -logits.log_softmax(-1).gather(1, y[:, None]).mean()


def make_loss(model, backend):
    model.to(torch.bfloat16)

    @torch.compile(backend=backend, fullgraph=True)
    def inner(x, y):
        logits = model(x.bfloat16())
        return nll(logits.float(), y)

    return inner
