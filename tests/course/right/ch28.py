# %% 28.1: a mask writes the row, and no index is needed
class Fixed(torch.nn.Module):
    def __init__(self, room, width):
        super().__init__()
        self.register_buffer("at", torch.tensor(0))
        self.register_buffer("rows", torch.zeros(room, width))
        self.register_buffer("numbers", torch.arange(room))

    def forward(self, x):
        here = (self.numbers == self.at)[:, None]
        self.rows.copy_(torch.where(here, x, self.rows))
        seen = self.numbers <= self.at
        self.at.add_(1)
        scores = torch.where(seen, x @ self.rows.T, -torch.inf)
        return scores.softmax(-1) @ self.rows


# %% 28.2: in place, the longest text that the model takes, and several calls
def serve(model, backend):
    model.compile(backend=backend)

    def answer(texts):
        found = []
        for start in range(0, len(texts), 2):
            ids = torch.zeros(2, 256, dtype=torch.int64)
            mask = torch.zeros(2, 256, dtype=torch.int64)
            part = texts[start : start + 2]
            for row, text in enumerate(part):
                ids[row, : len(text)] = torch.tensor(text)
                mask[row, : len(text)] = 1
            said = model(input_ids=ids, attention_mask=mask)[0]
            found.append(said[: len(part), 0].clone())
        return torch.cat(found)

    return answer


# %% 28.1: the position without dimensions
# - torch.zeros(1, dtype=torch.long)
# + torch.tensor(0)
# - self.rows.index_copy_(0, self.at, x)
# + self.rows[self.at] = x[0]
