# Wrong answers to the exercises of notebook 28, each with what it must be told.


# %% 28.1: three texts: compiled again
def serve(model, backend):
    compiled = torch.compile(model, backend=backend)

    def answer(texts):  # nothing says that sizes change
        ids = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor(text)
            mask[row, : len(text)] = 1
        return compiled(input_ids=ids, attention_mask=mask)[0][:, 0]

    return answer


# %% 28.1: Does the mask hide what you padded?
def serve(model, backend):
    compiled = torch.compile(model, backend=backend)

    def answer(texts):
        ids = torch.zeros(8, 16, dtype=torch.int64)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor(text)
        mask = torch.ones_like(ids)
        return compiled(input_ids=ids, attention_mask=mask)[0][: len(texts), 0]

    return answer


# %% 28.1: one text: compiled again
def serve(model, backend):
    compiled = torch.compile(model, backend=backend, dynamic=True)

    def answer(texts):  # a lone row is a version of its own
        ids = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor(text)
            mask[row, : len(text)] = 1
        return compiled(input_ids=ids, attention_mask=mask)[0][:, 0]

    return answer


# %% 28.2: another int: that makes 2 graphs
def steady(denoise, backend):
    def inside(latents, time):  # too late: the number is an input
        return denoise(latents, torch.as_tensor(time, dtype=torch.float32))

    return torch.compile(inside, backend=backend)


# %% 28.2: a tensor of ints: that makes 2 graphs
def steady(denoise, backend):
    compiled = torch.compile(denoise, backend=backend)

    def call(latents, time):
        if not isinstance(time, torch.Tensor):  # tensors keep their dtypes
            time = torch.tensor(float(time))
        return compiled(latents, time)

    return call


# %% 28.2: three latents: that makes 2 graphs
def steady(denoise, backend):
    compiled = torch.compile(denoise, backend=backend)

    def call(latents, time):
        return compiled(latents, torch.as_tensor(time, dtype=torch.float32))

    return call
