# %% 25.1: on a copy, which has the same code
import copy


def warm(compiled, make, sizes):
    copied = copy.deepcopy(compiled)
    for wanted in (False, True):
        torch._dynamo.mark_dynamic(x := make(sizes[0]), 0)
        with torch.set_grad_enabled(wanted):
            result = copied(x)
    result.sum().backward()


# %% 25.1: gradients that go nowhere
def warm(compiled, make, sizes):
    for wanted in (False, True):
        x = make(sizes[-1])
        torch._dynamo.maybe_mark_dynamic(x, 0)
        with torch.set_grad_enabled(wanted):
            y = compiled(x).sum()
        if wanted:
            torch.autograd.grad(y, list(compiled.parameters()))


# %% 25.2: compiled in place
def ship(model, x, path):
    model.compile()
    model(x)
    with open(path, "wb") as file:
        file.write(torch.compiler.save_cache_artifacts()[0])


def start_warm(model, path):
    with open(path, "rb") as file:
        info = torch.compiler.load_cache_artifacts(file.read())
    if not info or not info.inductor_artifacts:
        raise ValueError("no compiled graph in this file")
    model.compile()
    return model
