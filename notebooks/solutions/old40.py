# Answers to the exercises of notebook 40. Try first: a hint costs nothing.


# %% 40.1
def advantages(values, rewards):
    """Return the advantages, of shape (steps,), as the loop does."""
    after = torch.cat([values[1:], values.new_zeros(1)])
    surprise = rewards + 0.9 * after - values
    steps = torch.arange(len(rewards), device=rewards.device)
    gap = steps[None] - steps[:, None]
    weight = torch.where(gap < 0, 0.0, 0.81 ** gap.clamp(0))
    return weight @ surprise


# %% 40.2
def listener(conv, backend):
    """Return listen(piece, past=None), which gives (result, new past)."""
    room = conv.dilation[0] * (conv.kernel_size[0] - 1)

    def step(piece, past):
        heard = torch.cat([past, piece], -1)
        # A view has the strides of all that was heard, and they are guarded.
        return conv(heard), heard[..., -room:].clone()

    compiled = torch.compile(step, backend=backend)

    def listen(piece, past=None):
        if past is None:
            past = piece.new_zeros(*piece.shape[:-1], room)
        return compiled(piece, past)

    return listen
