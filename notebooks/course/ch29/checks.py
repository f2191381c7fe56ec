"""Checks and hints of notebook 29."""

import torch
from torch import nn

from course.exercises import asked_about, exercise


class _Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x)


class _Net(nn.Module):
    """Two blocks, and parts with a wrapper's name."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([_Block(), _Block()])
        self.module = nn.Sequential()
        self.module.add_module("module", nn.Linear(4, 4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.module(x)


def _add_scale(module, state, prefix, local_metadata):
    state[prefix + "scale"] = module.steps


class _Odd(nn.Module):
    """A part that has the name of the compiler's wrapper, and two buffers."""

    def __init__(self):
        super().__init__()
        self._orig_mod = _Block()
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("scratch", torch.zeros(()), persistent=False)
        self.register_state_dict_post_hook(_add_scale)

    def get_extra_state(self):
        return "odd"

    def forward(self, x):
        return self._orig_mod(x)


def _modes(model):
    return [
        (m.training, *(p.requires_grad for p in m.parameters()))
        for m in model.modules()
    ]


def _placed(module):
    module.compile(backend="eager")
    return module


def _wrapped(module):
    return torch.compile(module, backend="eager")


def _with(part, value, net=None):
    net = net or _Net()
    *path, last = part.split(".")
    setattr(net.get_submodule(".".join(path)), last, value)
    return net


# --- 29.1 ----------------------------------------------------------------------


def _two_blocks():
    net = _Net()
    net.blocks[0] = _wrapped(net.blocks[0])
    _placed(net.blocks[1])
    return net


def _placed_inside():
    return _with("inner", _placed(nn.Linear(4, 4)), _Block())


def _forward_compiled():
    net = _Net()
    net.forward = torch.compile(net.forward, backend="eager")
    net.register_module("none", None)  # as a block of a ResNet has
    return net


MODELS = {  # how the model is made, and what of it is compiled
    "a bare model": (_Net, {}),
    "torch.compile(net)": (lambda: _wrapped(_Net()), {"": "wrapper"}),
    "net.compile()": (lambda: _placed(_Net()), {"": "in place"}),
    "net.compile(), then torch.compile(net)": (
        lambda: _wrapped(_placed(_Net())),
        {"": "both"},
    ),
    "one block wrapped, the other in place": (
        _two_blocks,
        {"blocks.0": "wrapper", "blocks.1": "in place"},
    ),
    "the same, and wrapped as a whole": (
        lambda: _wrapped(_two_blocks()),
        {"": "wrapper", "blocks.0": "wrapper", "blocks.1": "in place"},
    ),
    "a part in place inside a wrapped block": (
        lambda: _with("blocks.0", _wrapped(_placed_inside())),
        {"blocks.0": "wrapper", "blocks.0.inner": "in place"},
    ),
    "a block in place, then wrapped": (
        lambda: _with("blocks.0", _wrapped(_placed(_Block()))),
        {"blocks.0": "both"},
    ),
    "a forward that is compiled": (_forward_compiled, {}),
    "a wrapped model with a part called _orig_mod": (
        lambda: _wrapped(_with("blocks.0._orig_mod", _placed(_placed_inside()))),
        {
            "": "wrapper",
            "blocks.0._orig_mod": "in place",
            "blocks.0._orig_mod.inner": "in place",
        },
    ),
}


@exercise(
    "29.1",
    hints=(
        "Two questions for each part: what class is it, and what did compile() leave "
        "in it? Print vars(part) before and after.",
        "torch.compile(part) is a torch._dynamo.OptimizedModule, whose one child is "
        "the part. part.compile() sets part._compiled_call_impl.",
        "Walk by yourself: def walk(part, name, wrapped): if it is an OptimizedModule, "
        "walk(part._orig_mod, name, True); else note it, and walk each of "
        "part.named_children() with its name added.",
    ),
    passed="You can say what is compiled in a model that somebody else made.",
)
def compiled_parts(answer):
    calls = []
    for name, (make, wanted) in MODELS.items():
        model = make()
        for part in model.modules():
            part.register_forward_pre_hook(lambda *_: calls.append(1))
        modes = _modes(model)
        with asked_about(name):
            found = answer(model)
        if found != wanted:
            return f"{name}: what is compiled is {wanted}, and you found {found}"
        if _modes(model) != modes or answer(model) != wanted:
            return f"{name}: the model has changed, or you find something else"
    return "the model was called" if calls else None


# --- 29.2 ----------------------------------------------------------------------


def _parallel(module):
    return nn.DataParallel(module)


STATES = {  # what is put around the model, or around a part of it
    "a bare model": lambda net: net,
    "torch.compile(net)": _wrapped,
    "net.compile()": _placed,
    "DataParallel(torch.compile(net))": lambda net: _parallel(_wrapped(net)),
    "torch.compile(DataParallel(net))": lambda net: _wrapped(_parallel(net)),
    "torch.compile(DataParallel(torch.compile(net)))": lambda net: _wrapped(
        _parallel(_wrapped(net))
    ),
    "DataParallel(torch.compile(DataParallel(net)))": lambda net: _parallel(
        _wrapped(_parallel(net))
    ),
    "a wrapped block": lambda net: _with("blocks", _blocks(net, _wrapped), net),
    "wrapped blocks in a wrapper": lambda net: _wrapped(
        _with("blocks", _blocks(net, _wrapped), net)
    ),
    "parallel, wrapped blocks": lambda net: _with(
        "blocks", _blocks(net, lambda b: _parallel(_wrapped(b))), net
    ),
}


def _blocks(net, around):
    made = {block: around(block) for block in net.blocks}
    return nn.ModuleList(made[block] for block in net.blocks)


def _place(item):
    is_tensor = isinstance(item, torch.Tensor)
    return (item.data_ptr(), item.shape) if is_tensor else item


def _shared():
    """Return a net whose two blocks are one, and whose last weight is theirs."""
    net = _Net()
    net.blocks[1] = net.blocks[0]
    net.module.module.weight = net.blocks[0].inner.weight
    return net


@exercise(
    "29.2",
    hints=(
        "Replacing text in the names cannot tell a wrapper from a part that has its "
        "name. What in the model tells?",
        "The names come from the walk over the parts. Walk yourself: a wrapper adds "
        "nothing to the name, any other part its own.",
        "Note for each part, wrapped or not, the name that state_dict gives its "
        "tensors, and yours. model.named_modules(remove_duplicate=False) lists each "
        "name with its part: drop the last piece of it where the part's parent is a "
        "wrapper.",
    ),
    passed="Whoever loads it needs to know nothing of your wrappers.",
)
def portable(answer):
    for kind in (_Net, _Odd, _shared):
        for name, around in STATES.items():
            if kind is _Odd and "block" in name:
                continue
            net = kind()
            wanted, model = dict(net.state_dict()), around(net)
            before, modes = list(model.state_dict()), _modes(model)
            with asked_about(name):
                found = answer(model)
            name += ", one block at two places" if kind is _shared else ""
            name += ", whose part saves more than tensors" if kind is _Odd else ""
            if strange := sorted(set(found) ^ set(wanted)):
                odd, of = strange[0], "bare state_dict"
                said = (
                    "is missing from yours" if odd in wanted else f"is not in the {of}"
                )
                return f"{name}: {odd!r} {said}"
            if any(_place(found[key]) != _place(x) for key, x in wanted.items()):
                return f"{name}: a tensor isn't the model's own"
            if (list(model.state_dict()), _modes(model)) != (before, modes):
                return f"{name}: the model has changed"
    return None
