# Other right answers to the exercises of notebook 21.


# %% 21.1: a share of the larger, by norms
def nearer(programs, x):
    def far(result, truth):
        return torch.linalg.vector_norm(result.double() - truth, ord=float("inf"))

    found = {}
    for name, program in programs.items():
        truth = program(x.to(torch.float64))
        e, c = far(program(x), truth), far(torch.compile(program)(x), truth)
        if bool((e - c).abs() <= 0.1 * torch.maximum(e, c)):
            found[name] = "same"
        else:
            found[name] = "compiled" if bool(c < e) else "eager"
    return found


# %% 21.2: on for everybody, off inside
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
