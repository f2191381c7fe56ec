# Wrong answers to the exercises of notebook 29, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/old29.py.


# %% 29.1: and 1 was asked for. The last one compiled because self.at
Mended = Memory


# %% 29.1: one graph was asked for
class Mended(torch.nn.Module):
    def __init__(self, room, width):
        super().__init__()
        self.register_buffer("at", torch.tensor(0))
        self.register_buffer("rows", torch.zeros(room, width))

    def forward(self, x):
        self.rows[self.at] = x[0]
        self.at += 1
        seen = self.rows[: int(self.at)]
        return (x @ seen.T).softmax(-1) @ seen


# %% 29.1: call 1 returns something else than Memory does
# - .masked_fill(hidden, -torch.inf)


# %% 29.1: and 1 was asked for. The last one compiled because self._buffers['at'].item
class Mended(torch.nn.Module):
    def __init__(self, room, width):
        super().__init__()
        self.register_buffer("at", torch.tensor(0))
        self.register_buffer("rows", torch.zeros(room, width))

    def forward(self, x):
        self.rows[self.at] = x[0]
        hidden = torch.arange(len(self.rows)) > self.at
        self.at += 1
        return (x @ self.rows.T).masked_fill(hidden, -torch.inf).softmax(-1) @ self.rows


# %% 29.1: and 1 was asked for. The last one compiled because self.at
# -         self.register_buffer("at", torch.zeros(1, dtype=torch.long))
# +         self.at = 0

# -         self.rows.index_copy_(0, self.at, x)
# +         self.rows.index_copy_(0, torch.tensor([self.at]), x)


# %% 29.1: one graph was asked for
# -     def forward(self, x):
# +     @torch.compiler.disable
# +     def forward(self, x):


# %% 29.1: int(model.at) is not 32
# -         self.at += 1
# -         scores
# +         self.at.add_(1).remainder_(32)
# +         scores


# %% 29.2: it ran no graph
def serve(step, backend):
    return step


# %% 29.2: call with 1 token: it ran no graph
def serve(step, backend):
    many = torch.compile(step, backend=backend, dynamic=True)
    return lambda tokens, *rest: (step if len(tokens) == 1 else many)(tokens, *rest)


# %% 29.2: the result is wrong
def serve(step, backend):
    many = torch.compile(step, backend=backend)

    def call(tokens, *rest):
        padded = torch.nn.functional.pad(tokens, (0, 0, 0, 8 - len(tokens)))
        return many(padded, *rest)

    return call


# %% 29.2: 3 versions for 3 prompts, not 2
def serve(step, backend):
    return torch.compile(step, backend=backend)


# %% 29.2: 4 versions for 3 prompts, not 2
def serve(step, backend):
    return torch.compile(step, backend=backend, dynamic=False)


# %% 29.1: call 1 returns something else than Memory does
# -         hidden = torch.arange(len(self.rows), device=x.device) > self.at
# -         self.at += 1
# +         self.at += 1
# +         hidden = torch.arange(len(self.rows), device=x.device) > self.at


# %% 29.1: one graph was asked for
# -         self.rows.index_copy_(0, self.at, x)
# +         self.rows[self.at.item()] = x[0]


# %% 29.2: 3 versions for 3 prompts, not 2
def serve(step, backend):
    one = torch.compile(step, backend=backend)
    many = torch.compile(step, backend=backend)
    return lambda tokens, *rest: (one if len(tokens) == 1 else many)(tokens, *rest)


# %% 29.2: prompt of 5, call with 5 tokens: it ran 5 graphs, and a call is one
def serve(step, backend):
    one = torch.compile(step, backend=backend)

    def call(tokens, rows, at):
        for n in range(len(tokens)):
            found = one(tokens[n : n + 1], rows, at + n)
        return found

    return call
