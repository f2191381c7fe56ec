"""Checks and hints of notebook 01."""

import copy
import itertools

import torch
from torch import nn

from course.backend import CountingBackend
from course.exercises import exercise, same
from helpers.text import count


class Speaker(nn.Module):
    """A model whose generate calls itself, as most do."""

    def __init__(self, width=4):
        super().__init__()
        self.turn = nn.Linear(width, width)
        self.parts = nn.ModuleDict({"inner": nn.Linear(width, width)})

    def forward(self, x):
        return torch.tanh(self.parts["inner"](self.turn(x)))

    def generate(self, x, steps):
        for _ in range(steps):
            x = self(x)
        return x


class ForwardSpeaker(Speaker):
    """One whose generate calls forward, past the module's own call."""

    def generate(self, x, steps):
        for _ in range(steps):
            x = self.forward(x)
        return x


# --- 01.1 ----------------------------------------------------------------------


def _wave(x):
    return torch.sin(x) + 1


def _broken(x):
    x = torch.sin(x)
    print(end="")
    return torch.cos(x)


def _three_times(backend):
    step = torch.compile(_wave, backend=backend)
    return lambda x: step(step(step(x)))


def _keeps_its_first_result(backend):
    step, kept = torch.compile(_wave, backend=backend), []

    def call(x):
        if not kept:
            kept.append(step(x))
        return step(kept[0])

    return call


CASES = {  # the graphs that run in the second call, and how to make it
    "an ordinary compiled function": (1, lambda b: torch.compile(_wave, backend=b)),
    "an eager function": (0, lambda b: _wave),
    "a call that runs one compiled function three times": (3, _three_times),
    "two graphs": (2, lambda b: torch.compile(_broken, backend=b)),
    "a first call that runs one more": (1, _keeps_its_first_result),
}


@exercise(
    "01.1",
    hints=(
        "What does a backend return, and how often is that called?",
        "Inside graph_runs, define a backend like `counting`, with a list of its "
        "own. Call what make returns once, then look at the list around a second "
        "call.",
        "thing = make(backend); thing(*inputs); ran.clear(); thing(*inputs); and the "
        "answer is len(ran). The backend returns a function that appends to ran and "
        "returns graph(*tensors).",
    ),
    passed="It counts what runs, whoever captured it and when.",
)
def graph_runs(answer):
    x = torch.linspace(0.1, 1, 4)
    for name, (wanted, make) in CASES.items():
        runs = answer(make, x)
        if not same(runs, wanted):
            return (
                f"{name}: in the second call, graphs run {count(wanted, 'time')}, "
                f"and you counted {runs}"
            )
    return None


# --- 01.2 ----------------------------------------------------------------------

STEPS = 5


def _methods():
    """Return what stands in the classes of the exercise."""
    return [dict(vars(cls)) for cls in (Speaker, ForwardSpeaker)]


@exercise(
    "01.2",
    hints=(
        "Which method do self(x) and self.forward(x) both reach in the end?",
        "Look at the last row of the figure: a decorator in the class, on a method "
        "that the subclass defines anew.",
        "class Repaired(cls): with one line in it, forward = torch.compile(...) of "
        "the forward that cls has, with backend=backend. Return Repaired.",
    ),
    passed="Every step is compiled, for the model and for its copies.",
)
@torch.no_grad()
def repaired(answer):
    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    for cls, call in ((Speaker, "self(x)"), (ForwardSpeaker, "self.forward(x)")):
        backend, before = CountingBackend(), _methods()
        subclass = answer(cls, backend)
        if subclass is cls or _methods() != before:
            return "it changed the class that it was given: make a subclass"
        model = subclass()
        if strange := model.state_dict().keys() - cls().state_dict().keys():
            return f"the keys of the checkpoint changed: there is {min(strange)!r}"
        model.generate(x, STEPS)
        if len(backend.ran) < STEPS:
            return (
                f"where generate calls {call}, {STEPS} steps run "
                f"{count(len(backend.ran), 'graph')}, and each step was to run one"
            )
        duplicate = copy.deepcopy(model)
        for weight in duplicate.parameters():
            weight.zero_()
        backend.ran.clear()
        if duplicate.generate(x, STEPS).any():
            return "a deep copy computes with the weights of the original"
        if len(backend.ran) < STEPS:
            return (
                f"in a deep copy, {STEPS} steps run "
                f"{count(len(backend.ran), 'graph')}, and each step was to run one"
            )
    return None


# --- 01.3 ----------------------------------------------------------------------


def _whole(model):
    return torch.compile(model, backend="eager")


def _part(model):
    model.parts["inner"] = _whole(model.parts["inner"])
    return model


WAYS = {  # to wrap a model
    "an eager model": lambda model: model,
    "a model with one compiled part": _part,
    "a model compiled as a whole and in a part": lambda model: _whole(_part(model)),
}


@exercise(
    "01.3",
    hints=(
        "Which keys would the model want if nothing were compiled on either side?",
        "Make a dict from each plain key to the key that this model has for it, "
        "from model.state_dict().",
        "plain(key) is key.replace('_orig_mod.', ''). With names = {plain(key): "
        "key for each key of the model}, give load_state_dict a new dict whose "
        "keys are names.get(plain(key), key), strictly.",
    ),
    passed="Any checkpoint goes into any model, and a wrong one is still refused.",
)
def load_anywhere(answer):
    for source, target in itertools.product(WAYS, WAYS):
        state = WAYS[source](Speaker()).state_dict()
        given, model = dict(state), WAYS[target](Speaker())
        where = f"from {source} into {target}"
        answer(model, state)
        if list(state) != list(given):
            return f"{where}: the checkpoint itself was changed"
        if not all(map(torch.equal, model.state_dict().values(), given.values())):
            return f"{where}: some weights are not those of the checkpoint"
    whole = _whole(Speaker()).state_dict()
    for name, state in (
        ("with a missing tensor", dict(list(whole.items())[1:])),
        ("with a tensor too many", {**whole, "_orig_mod.tail.bias": torch.ones(4)}),
    ):
        try:
            answer(Speaker(), state)
        except (RuntimeError, KeyError):
            continue
        return f"a checkpoint {name} was loaded without an error"
    return None
