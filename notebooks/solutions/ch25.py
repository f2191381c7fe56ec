# Answers to the exercises of notebook 25.  Each cell replaces its stub.


# %% 25.1
def warm(compiled, make, sizes):
    def general():
        x = make(sizes[0])
        torch._dynamo.mark_dynamic(x, 0)
        return x

    with torch.no_grad():
        compiled(general())
    loss = compiled(general()).sum()
    torch.autograd.grad(loss, list(compiled.parameters()))


# %% 25.2
def ship(model, x, path):
    from pathlib import Path

    torch.compile(model)(x)
    data, _ = torch.compiler.save_cache_artifacts()
    Path(path).write_bytes(data)


def start_warm(model, path):
    from pathlib import Path

    data = Path(path).read_bytes()
    if torch.compiler.load_cache_artifacts(data) is None:
        raise ValueError(
            "torch does not take this file: the start would be cold"
        )
    return torch.compile(model)
