# Tricks that must not pass notebook 08, and other answers that must.


# %% 08.1: one graph was asked for
class Mended(Warmup):
    @torch.compiler.disable
    def forward(self, x):
        return super().forward(x)


# %% 08.1: compiled, call
class Mended(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.step = 0

    def forward(self, x):
        if torch.compiler.is_compiling():
            return x + self.layer(x)  # nothing to count, nothing to compile again
        self.step += 1
        return x + min(self.step / 10, 1.0) * self.layer(x)


# %% 08.1: and a module class was asked for
from unittest import mock

Mended = mock.ANY


# %% 08.1 also: a table of parts, and an integer
class Mended(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        for name, made in (
            ("step", torch.tensor(0)),
            ("parts", torch.arange(11) / 10),
        ):
            self.register_buffer(name, made, persistent=False)

    def forward(self, x):
        self.step.add_(1)
        part = torch.where(self.step < 10, self.step / 10, 1.0)
        return torch.addcmul(x, part.expand_as(x), self.layer(x))


# %% 08.2: hides in an operator
@torch.library.custom_op("course::distances", mutates_args=())
def mended(x: torch.Tensor) -> torch.Tensor:
    return distances(x)


@mended.register_fake
def _(x):
    return x.new_empty(x.shape[0])


# %% 08.2: the promise is broken
@torch.compiler.disable
def mended(x):
    return distances(x)


# %% 08.2: rows give something else
def mended(x):
    if torch.compiler.is_compiling():
        return x.norm(dim=1)
    return distances(x)


# %% 08.2 also: by hand
def mended(x):
    centred = x - x.sum(0, keepdim=True) / x.shape[0]
    return torch.linalg.vector_norm(centred, dim=-1)


# %% 08.3: runs eagerly
def warm_up(compiled, make, sizes):
    torch._dynamo.config.recompile_limit = 1  # and the next size gives up for all
    compiled(make(sizes[0]))
    compiled(make(sizes[-1]))
    torch._dynamo.config.recompile_limit = 8


# %% 08.3: still needs a compile
def warm_up(compiled, make, sizes):
    torch.compiler.set_stance("force_eager")
    for n in sizes[:4]:
        compiled(make(n))
    torch.compiler.set_stance("default")


# %% 08.3 also: the mark that must hold, where it holds
def warm_up(compiled, make, sizes):
    seen = set()
    for n in sorted(sizes, reverse=True):
        kind = ("small", n) if n < 2 else ("open", n % 2)
        if kind not in seen:
            seen.add(kind)
            x = make(n)
            if n > 1:
                torch._dynamo.maybe_mark_dynamic(x, 0)
            compiled(x)
