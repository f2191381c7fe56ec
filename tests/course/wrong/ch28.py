# %% 28.1: call 2: self.at is no longer 0
Fixed = Memory


# %% 28.1: asked for: 1 graph without a break
# - device=x.device) > self.at
# + device=x.device) > int(self.at)

# %% 28.1: call 1 returns something else than Memory does
# - .masked_fill(hidden, -torch.inf)

# %% 28.1: compiled, call 1 returns something else than Memory does
# -     def forward(self, x):
# +     def forward(self, x):
# +         if torch.compiler.is_compiling():
# +             return x.sin()

# %% 28.1: must match the size of tensor
# - torch.arange(len(self.rows), device=x.device)
# + torch.arange(32, device=x.device)

# %% 28.2: Is just what you padded hidden?
# - torch.zeros_like(ids)
# + torch.ones_like(ids)

# %% 28.2: eight texts: the model was called in eager mode
# - return compiled(input_ids
# + compiled(input_ids=ids, attention_mask=mask)
# +         return model(input_ids

# %% 28.2: nothing ran that your backend compiled
# - torch.compile(model, backend=backend)
# + torch.compile(model, backend="eager")

# %% 28.2: index 1000 is out of bounds
# - max(2, len(texts)), max(2, *map(len, texts))
# + 1000, 256

# %% 28.1: a saved model forgets its rows
# -         self.register_buffer("rows", torch.zeros(room, width))
# +         self.rows = torch.zeros(room, width)

# %% 28.2: two texts: it changes the texts
# -         for row, text in enumerate(texts):
# +         for text in texts:
# +             text += [0] * (length - len(text))
# +         for row, text in enumerate(texts):

# %% 28.1: a saved model forgets its rows or its at
# - self.register_buffer("at", torch.zeros(1, dtype=torch.long))
# + self.at = torch.zeros(1, dtype=torch.long)

# %% 28.1: must have same slice shapes
# - torch.zeros(room, width)
# + torch.zeros(40, 6)

# %% 28.1: call 2 returns something else than Memory does
# - torch.arange(len(self.rows), device=x.device) > self.at
# + (self.rows == 0).all(-1)

# %% 28.2: two texts: compiled again
# - torch.compile(model, backend=backend)
# + torch.compile(model, backend=backend, dynamic=True)
# -         for x in (ids, mask):
# -             torch._dynamo.mark_dynamic(x, [0, 1])

# %% 28.1: int(model.at) is 2 after 1 calls
# - self.at + 1
# + self.at + 2

# %% 28.1: on another device: Tensor on device
# - torch.arange(len(self.rows), device=x.device)
# + torch.arange(len(self.rows))

# %% 28.1: at is a float
# - torch.zeros(1, dtype=torch.long)
# + torch.zeros(1)
# - self.rows.index_copy_(0, self.at, x)
# + self.rows.index_copy_(0, self.at.long(), x)

# %% 28.1: a leaf Variable that requires grad
# - self.register_buffer("rows", torch.zeros(room, width))
# + self.rows = torch.nn.Parameter(torch.zeros(room, width))

# %% 28.1: self and source expected to have the same dtype
# - self.rows.index_copy_(0, self.at, x)
# + self.rows.index_copy_(0, self.at, x.float())

# %% 28.2: a later request overwrites
# - compiled = torch.compile(model, backend=backend)
# + compiled, kept = torch.compile(model, backend=backend), torch.zeros(3000, 8)
# -         return compiled(input_ids=ids, attention_mask=mask)[0][: len(texts), 0]
# +         n = len(texts)
# +         kept[:n] = compiled(input_ids=ids, attention_mask=mask)[0][:n, 0]
# +         return kept[:n]
