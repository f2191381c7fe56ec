# Wrong answers to the exercises of notebook 14, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch14.py.


# %% 14.1: and 1 was asked for. The last one compiled because self.step
Mended = Warmup


# %% 14.1: one graph was asked for
# - (self.step / 10).clamp(max=1)
# + min(self.step.item() / 10, 1.0)


# %% 14.1: the keys of the state_dict differ: step
# - torch.tensor(0), persistent=False
# + torch.tensor(0)


# %% 14.1: call 5 returns something else than Warmup does
# - self.step += 1
# + self.step += self.training


# %% 14.1: the layer gets no gradient
# - self.layer(x)
# + self.layer(x).detach()


# %% 14.1: and 1 was asked for. The last one compiled because self.step
# - self.register_buffer("step", torch.tensor(0), persistent=False)
# + self.step = 0.0
# - (self.step / 10).clamp(max=1)
# + min(self.step / 10, 1.0)


# %% 14.2: a full batch ran the version for any number of rows
def compile_step(step, backend):
    compiled = torch.compile(step, backend=backend)

    def call(x):
        torch._dynamo.mark_dynamic(x, 0, specialize_on=[lambda n: n == 64])
        return compiled(x)

    return call


# %% 14.2: the numbers are off
def compile_step(step, backend):
    compiled = torch.compile(step, backend=backend)

    def call(x):
        rows = torch.nn.functional.pad(x, (0, 0, 0, 64 - len(x)))
        return compiled(rows)[: len(x)]

    return call


# %% 14.2: in epoch 1, 64 rows ran no graph
def compile_step(step, backend):
    return step


# %% 14.2: in epoch 2, a full batch ran the version for any number of rows
def compile_step(step, backend):
    return torch.compile(step, backend=backend)


# %% 14.2: and 2 were asked for
def compile_step(step, backend):
    return torch.compile(step, backend=backend, dynamic=False)


# %% 14.1: as bfloat16, int(model.step) is 256 after 300 calls
# - torch.tensor(0), persistent=False
# + torch.zeros(()), persistent=False


# %% 14.1: a new model begins at step 14: it shares what counts with another
class Mended(torch.nn.Module):
    step = torch.tensor(0)

    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)

    def forward(self, x):
        self.step.add_(1)
        return x + (self.step / 10).clamp(max=1) * self.layer(x)


# %% 14.2: in epoch 1, 16 rows ran no graph
def compile_step(step, backend):
    exact = torch.compile(step, backend=backend, dynamic=False)
    return lambda x: exact(x) if len(x) == 64 else step(x)


# %% 14.2: x asks for a gradient, and the result has none
def compile_step(step, backend):
    exact = torch.compile(step, backend=backend, dynamic=False)
    open_ = torch.compile(step, backend=backend, dynamic=True)

    def call(x):
        x = x.detach()
        return exact(x) if len(x) == 64 else open_(x)

    return call
