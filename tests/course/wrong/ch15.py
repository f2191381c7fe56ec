# Wrong answers to the exercises of notebook 15, each with what it must be told.


# %% 15.1: raised ConstraintViolationError
def mended(x):
    mean = x.mean(0)
    return torch.stack([(row - mean).norm() for row in x])


# %% 15.1: given [7, 5], the numbers are off
def mended(x):
    return (x - x.sum(0) / 32).norm(dim=1)  # the number of rows, typed in


# %% 15.1: and one was asked for
def mended(x):
    if x.shape[0] > 10:
        return (x - x.mean(0)).norm(dim=1)
    return (x - x.mean(0)).square().sum(1).sqrt()


# %% 15.1: is an operator of your own
@torch.library.custom_op("reader::distances", mutates_args=())
def whole(x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(0)).norm(dim=1)


@whole.register_fake
def _(x):
    return x.new_empty(x.shape[0])


def mended(x):
    return whole(x)


# %% 15.1: no gradient reaches x
def mended(x):
    return (x.detach() - x.detach().mean(0)).norm(dim=1)


# %% 15.1: the gradient of x is not that of distances: given [32, 5], the numbers
def mended(x):
    return (x - x.mean(0).detach()).norm(dim=1)


# %% 15.1: in-place operation
def mended(x):
    x -= x.mean(0)
    return x.norm(dim=1)


# %% 15.2: still needs a compile
def warm_up(compiled, make, sizes):
    compiled(make(sizes[0]))


# %% 15.2: and at most 4 were asked for
def warm_up(compiled, make, sizes):
    for n in sizes:
        compiled(make(n))


# %% 15.2: were compiled, and 1 would do
def warm_up(compiled, make, sizes):
    compiled(make(sizes[0]))  # exact
    compiled(make(sizes[-1]))  # open


# %% 15.1: it does not return what distances returns: given [32, 5], the result has
def mended(x):
    return (x - x.mean(0)).norm()


# %% 15.1: it does not return what distances returns: given [32, 5], the numbers
def mended(x):
    return (x - x.median(0).values).norm(dim=1)


# %% 15.2: still needs a compile
def warm_up(compiled, make, sizes):
    with torch.compiler.set_stance("force_eager"):
        compiled(make(sizes[0]))


# %% 15.2: Could not guard on data-dependent expression
def warm_up(compiled, make, sizes):
    from torch._dynamo.decorators import mark_unbacked

    x = make(sizes[-1])
    mark_unbacked(x, 0)
    compiled(x)
