# Tricks that must not pass notebook 01, and other answers that must.


# %% 01.1: once more
def graph_runs(make, *inputs):
    return next(told)  # what the messages said, by heart


told = iter([1, 0, 1, 1, 0, 1, 1, 3, 2, 0, 0, 0, *[1] * 99])


# %% 01.1: a number of runs was asked for
def graph_runs(make, *inputs):
    from unittest import mock

    return mock.ANY


# %% 01.1: and you counted 7
def graph_runs(make, *inputs):
    class Any(int):
        def __eq__(self, other):
            return True

        def __ne__(self, other):
            return False

        __hash__ = int.__hash__

    return Any(7)


# %% 01.1 also: the difference of two counts
def graph_runs(make, *inputs):
    import collections

    runs = collections.Counter()

    class Counted:
        def __init__(self, graph):
            self.graph = graph

        def __call__(self, *tensors):
            runs["all"] += 1
            return self.graph(*tensors)

    thing = make(lambda graph, _: Counted(graph))
    thing(*inputs)
    before = runs["all"]
    thing(*inputs)
    return runs["all"] - before


# %% 01.2: but the work is not in them
def mended(cls, backend):
    idle = torch.compile(lambda x: x + 0, backend=backend)

    class Mended(cls):
        def forward(self, x):
            return super().forward(idle(x))

    return Mended


# %% 01.2: generate no longer returns what it did
def mended(cls, backend):
    class Mended(cls):
        @torch.compile(backend=backend)
        def step(self, x):  # the forward that the notebook shows, and no other
            return torch.tanh(self.parts["inner"](self.turn(x)))

        def generate(self, x, steps):
            for _ in range(steps):
                x = self.step(x)
            return x

    return Mended


# %% 01.2 also: a forward that calls a compiled one
def mended(cls, backend):
    step = torch.compile(cls.forward, backend=backend)

    class Mended(cls):
        def forward(self, *args, **kwargs):
            return step(self, *args, **kwargs)

    return Mended


# %% 01.3: under another name
def load_anywhere(model, state):
    def plain(key):
        return key.replace("_orig_mod.", "")

    own = model.state_dict()
    if len(own) != len(state):  # the number of tensors, and not which
        raise RuntimeError("missing or unexpected keys")
    given = {plain(key): tensor for key, tensor in state.items()}
    model.load_state_dict({k: given.get(plain(k), v) for k, v in own.items()})


# %% 01.3: some weights are not those
def load_anywhere(model, state):
    try:
        model.load_state_dict(state)
    except RuntimeError:
        if len(state) != len(model.state_dict()):
            raise


# %% 01.3 also: unwrap the model, then load by plain keys
def load_anywhere(model, state):
    own = model.state_dict()
    plain = {key.replace("_orig_mod.", ""): tensor for key, tensor in own.items()}
    given = {key.replace("_orig_mod.", ""): tensor for key, tensor in state.items()}
    if plain.keys() != given.keys():
        raise RuntimeError(f"not the same: {plain.keys() ^ given.keys()}")
    with torch.no_grad():
        for key, tensor in plain.items():
            tensor.copy_(given[key])
