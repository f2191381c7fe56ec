# Wrong answers to the exercises of notebook 24, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch24.py.


# %% 24.1: 4 requests cost 2 compiles
# - near, early = torch.tensor(window), torch.tensor(first)
# + near, early = window, first


# %% 24.1: sees position
# - (i >= j) & ((i - j < near) | (j < early))
# + (i >= j) & (i - j < near) | (j < early)


# %% 24.1: does not see position 0
# - ((i - j < near) | (j < early))
# + (i - j < near)


# %% 24.1: sees position
# - i - j < near
# + i - j <= near


# %% 24.1: does not see position
# - j < early
# + i < early


# %% 24.2: is not the causal attention of its text
# - (i >= j) & (own[i] == own[j])
# + i >= j


# %% 24.2: is not the causal attention of its text
# - (i >= j) & (own[i] == own[j])
# + own[i] == own[j]


# %% 24.2: attend is called 3 times
# -     return attend(q, k, v, block_mask=blocks).split(lengths, -2)
# +     return [attend(*text) for text in texts]


# %% 24.2: positions are computed, of which 105 are texts
# -     lengths = [q.shape[-2] for q, _, _ in texts]
# -     own = torch.arange(len(texts)).repeat_interleave(torch.tensor(lengths))
# -     q, k, v = (torch.cat(parts, -2) for parts in zip(*texts, strict=True))
# -
# -     def rule(b, h, i, j):
# -         return (i >= j) & (own[i] == own[j])
# -
# -     n = len(own)
# -     blocks = create_block_mask(rule, None, None, n, n, device="cpu")
# -     return attend(q, k, v, block_mask=blocks).split(lengths, -2)
# +     n = max(q.shape[-2] for q, _, _ in texts)
# +     q, k, v = (
# +         torch.cat(
# +             [
# +                 torch.nn.functional.pad(x, (0, 0, 0, n - x.shape[-2]))
# +                 for x in parts
# +             ]
# +         )
# +         for parts in zip(*texts, strict=True)
# +     )
# +     blocks = create_block_mask(
# +         lambda b, h, i, j: i >= j, None, None, n, n, device="cpu"
# +     )
# +     out = attend(q, k, v, block_mask=blocks)
# +     return [out[b : b + 1, :, : t[0].shape[-2]] for b, t in enumerate(texts)]


# %% 24.2: output 0 has the shape
# - .split(lengths, -2)
# + .split(lengths[::-1], -2)


# %% 24.2: compiles, and 3 were allowed
# - own[i] == own[j])
# + own[i] == own[j]) & (i < len(texts) * 10**6 + lengths[0] * 10**6)


# %% 24.3: do not fit into one block
# - "num_stages": 1, "BLOCK_N": 32
# + "num_stages": 3


# %% 24.3: leave room for 1
# - , "BLOCK_N": 32
# +


# %% 24.3: leave room for 1
# - "num_stages": 1, "BLOCK_N": 32
# + "num_stages": 2, "BLOCK_N": 64


# %% 24.2: 1 outputs came back
# - .split(lengths, -2)
# +


# %% 24.1: 4 requests cost 2 compiles
# -     near, early = torch.tensor(window), torch.tensor(first)
# -
# -     def rule(b, h, i, j):
# -         return (i >= j) & ((i - j < near) | (j < early))
# +     def rule(b, h, i, j):
# +         near, early = torch.tensor(window), torch.tensor(first)
# +         return (i >= j) & ((i - j < near) | (j < early))
