# Wrong answers to the exercises of notebook 28, each with what it must be told.
# Lines with - and + change the answer in notebooks/solutions/ch28.py.


# %% 28.1: three texts: compiled again
# -         for x in (ids, mask):
# -             torch._dynamo.mark_dynamic(x, [0, 1])


# %% 28.1: Does the mask hide what you padded?
# - torch.zeros_like(ids)
# + torch.ones_like(ids)


# %% 28.1: one text: compiled again
# -         rows, length = max(2, len(texts)), max(2, *map(len, texts))
# +         rows, length = len(texts), max(map(len, texts))

# - torch._dynamo.mark_dynamic(x, [0, 1])
# + torch._dynamo.maybe_mark_dynamic(x, [0, 1])


# %% 28.2: another int: that makes 2 graphs
def steady(denoise, backend):
    def inside(latents, time):  # too late: the number is an input
        return denoise(latents, torch.as_tensor(time, dtype=torch.float32))

    return torch.compile(inside, backend=backend)


# %% 28.2: a float: that makes 2 graphs
# -         time = torch.as_tensor(
# -             time, dtype=torch.float32, device=latents.device
# -         )
# +         time = torch.as_tensor(time, device=latents.device)


# %% 28.2: three latents: that makes 2 graphs
# -         torch._dynamo.mark_dynamic(latents, 0)


# %% 28.1: nothing ran that your backend compiled
# - return compiled(input_ids
# + return model(input_ids


# %% 28.1: one token: compiled again
# -         rows, length = max(2, len(texts)), max(2, *map(len, texts))
# +         rows, length = max(2, len(texts)), max(map(len, texts))

# - torch._dynamo.mark_dynamic(x, [0, 1])
# + torch._dynamo.maybe_mark_dynamic(x, [0, 1])


# %% 28.2: nothing ran that your backend compiled
def steady(denoise, backend):
    return denoise


# %% 28.2: the result is not that of denoise
# - return compiled(latents, time)
# + return compiled(latents, time.round())


# %% 28.1: index 8 is out of bounds
# - max(2, len(texts)), max(2, *map(len, texts))
# + 8, 8


# %% 28.2: a tensor of float64: that makes 2 graphs
# -         time = torch.as_tensor(
# -             time, dtype=torch.float32, device=latents.device
# -         )
# +         time = torch.as_tensor(time, device=latents.device)
# +         if time.dtype != torch.float64:
# +             time = time.float()


# %% 28.1: your answer raised
# - max(2, len(texts)), max(2, *map(len, texts))
# + 64, 64


# %% 28.1: index 128 is out of bounds
# - max(2, len(texts)), max(2, *map(len, texts))
# + 128, 128


# %% 28.1: must match the existing size
# - max(2, len(texts)), max(2, *map(len, texts))
# + max(2, len(texts)), 128
