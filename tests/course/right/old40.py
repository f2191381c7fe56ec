# Other right answers to the exercises of notebook 40.


# %% 40.1: the triangle, by tril
def advantages(values, rewards):
    later = torch.nn.functional.pad(values[1:], (0, 1))
    surprise = rewards + 0.9 * later - values
    count = torch.arange(len(rewards)).float()
    weight = torch.exp(torch.tensor(0.81).log() * (count - count[:, None]).clamp(0))
    return weight.triu() @ surprise


# %% 40.2: narrow, and a state made anew
def listener(conv, backend):
    room = conv.dilation[0] * (conv.kernel_size[0] - 1)

    @torch.compile(backend=backend)
    def step(past, piece):
        heard = torch.cat((past, piece), dim=2)
        return conv(heard), heard.narrow(2, piece.shape[2], room) + 0

    def listen(piece, past=None):
        nothing = torch.zeros(1, conv.in_channels, room)
        return step(nothing if past is None else past, piece)

    return listen
