# Answers to the exercises of notebook 29. Try first: a hint costs nothing.


# %% 29.1
class Mended(torch.nn.Module):
    """What a new vector reads from all vectors so far."""

    def __init__(self, room, width):
        super().__init__()
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))
        self.register_buffer("rows", torch.zeros(room, width))

    def forward(self, x):
        self.rows.index_copy_(0, self.at, x)
        hidden = torch.arange(len(self.rows), device=x.device) > self.at
        self.at += 1
        scores = (x @ self.rows.T).masked_fill(hidden, -torch.inf)
        return scores.softmax(-1) @ self.rows


# %% 29.2
def serve(step, backend):
    """Return step compiled: two versions, for prompts and for one token."""
    return torch.compile(step, backend=backend, dynamic=True)
