"""Checks and hints of notebook 01."""

import copy
import itertools
import random
from collections import Counter

import torch
from torch import nn

from helpers.exercises import exercise
from helpers.exercises import number, same
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

    def forward(self, x):
        return torch.tanh(self.parts["inner"](self.turn(x))) / 2

    def generate(self, x, steps):
        for _ in range(steps):
            x = self.forward(x)
        return x


def _backend():
    """Return a backend, and the list of what it runs."""
    ran = []

    def backend(graph, inputs):
        def run(*tensors):
            ran.append(graph)
            return graph(*tensors)

        return run

    return backend, ran


# --- 01.1 ----------------------------------------------------------------------


def _plain(x):
    return torch.sin(x) + 1


def _broken(x):
    x = torch.sin(x)
    print(end="")
    return torch.cos(x)


def _hidden(x):
    return torch.compiler.disable(_plain)(x)


def _listed(x):
    return max(x.tolist())


def _warm(backend):
    compiled = torch.compile(lambda x: torch.cos(x) - 1, backend=backend)
    compiled(torch.ones(4))
    return compiled


def _three_times(backend):
    step = torch.compile(lambda x: torch.cos(x) / 2, backend=backend)
    return lambda x: step(step(step(x)))


def _in_place(backend):
    model = Speaker()
    model.compile(backend=backend)
    return model


def _checked(backend):
    """Return a compiled function that notices a backend which alters results."""
    compiled = torch.compile(_plain, backend=backend)

    def call(x):
        result = compiled(x)
        assert torch.is_tensor(result) and torch.allclose(result, _plain(x)), (
            "with your backend, a function no longer returns what it did: what runs "
            "in place of the graph must return what the graph returns"
        )
        return result

    return call


def _compiled(fn, **options):
    return lambda backend: torch.compile(fn, backend=backend, **options)


def _generates(backend):
    wrapper = torch.compile(Speaker(), backend=backend)
    return lambda x: wrapper.generate(x, 2)


CASES = (  # what it is, the graphs that run in the second call, how to make it
    ("an ordinary compiled function", 1, _compiled(_plain)),
    ("an eager function", 0, lambda backend: _plain),
    ("a model compiled in place", 1, _in_place),
    ("a model in a wrapper", 1, _compiled(Speaker())),
    ("the generate of a wrapper", 0, _generates),
    ("a function that calls a compiled one", 1, _checked),
    ("a function that was called before you got it", 1, _warm),
    ("a call that runs one compiled function three times", 3, _three_times),
    ("a function with a graph break in the middle", 2, _compiled(_broken)),
    ("a function with disable=True", 0, _compiled(_plain, disable=True)),
    ("a function that leaves its work to a disabled one", 0, _compiled(_hidden)),
    ("a function that works on a list", 0, _compiled(_listed)),
)


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
    again = [(f"asked once more, {name}", *rest) for name, *rest in CASES]
    for name, wanted, make in (*CASES, *random.sample(again, len(again))):
        found = answer(make, x)
        if number(found) is None:
            return f"it returned {found!r}, and a number of runs was asked for"
        if not same(found, wanted):
            return (
                f"{name}: in the second call, graphs run {count(wanted, 'time')}, "
                f"and you counted {found}"
            )
    return None


# --- 01.2 ----------------------------------------------------------------------

STEPS = 5


@exercise(
    "01.2",
    hints=(
        "Which method do self(x) and self.forward(x) both reach in the end?",
        "Look at the last row of the table: a decorator in the class, on a method "
        "that the subclass defines anew.",
        "class Mended(cls): with one line in it, forward = torch.compile(...) of "
        "the forward that cls has, with backend=backend. Return Mended.",
    ),
    passed="Every step is compiled, for the model and for its copies.",
)
def mended(answer):
    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    made = []
    for cls, calls in ((Speaker, "self(x)"), (ForwardSpeaker, "self.forward(x)")):
        before = cls.forward, cls.__call__
        backend, ran = _backend()
        subclass = answer(cls, backend)
        if subclass is cls or before != (cls.forward, cls.__call__):
            return "it changed the class that it was given: make a subclass"
        if not (isinstance(subclass, type) and issubclass(subclass, cls)):
            return "it returned no subclass of the class that it was given"
        model, fault = _made(cls, subclass, calls, ran, x)
        if fault:
            return fault
        made.append((model, ran))
    return next(filter(None, (_copy_fault(*each, x) for each in made)), None)


@torch.no_grad()
def _made(cls, subclass, calls, ran, x):
    """Return a model of *subclass*, and what is wrong with it, or None."""
    torch.manual_seed(0)
    eager = cls()
    torch.manual_seed(0)
    model = subclass()
    strange = [key for key in model.state_dict() if key not in eager.state_dict()]
    if strange:
        return model, f"the keys of the checkpoint changed: there is {strange[0]!r}"
    if not torch.allclose(model.generate(x, STEPS), eager.generate(x, STEPS)):
        return model, "generate no longer returns what it did"
    ran.clear()
    model.generate(x, STEPS)
    fault = (
        f"where generate calls {calls}, {STEPS} steps run {count(len(ran), 'graph')}, "
        "and each step was to run one"
    )
    if len(ran) < STEPS:
        return model, fault
    ops = Counter(
        getattr(node.target, "__name__", str(node.target))
        for graph in ran
        for node in graph.graph.nodes
        if node.op.startswith("call")
    )
    if ops["linear"] < 2 * STEPS:
        held = ", ".join(ops)
        return model, f"graphs run, but the work is not in them: they hold {held}"
    return model, None


@torch.no_grad()
def _copy_fault(model, ran, x):
    other = copy.deepcopy(model)
    for weight in other.parameters():
        weight.zero_()
    ran.clear()
    if other.generate(x, STEPS).any():
        return "a deep copy computes with the weights of the original"
    return "a deep copy runs eagerly" if len(ran) < STEPS else None


# --- 01.3 ----------------------------------------------------------------------


def _parts():
    """Yield ways to wrap a model: not, whole, a part, a part of the whole."""

    def part(model):
        model.parts["inner"] = torch.compile(model.parts["inner"], backend="eager")
        return model

    yield "an eager model", lambda model: model
    yield "a model compiled as a whole", lambda m: torch.compile(m, backend="eager")
    yield "a model with one compiled part", part
    yield (
        "a model compiled as a whole and in a part",
        lambda m: torch.compile(part(m), backend="eager"),
    )


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
    ways = dict(_parts())
    for source, target in itertools.product(ways, ways):
        torch.manual_seed(1)
        saved = ways[source](Speaker()).state_dict()
        state = dict(reversed(saved.items()))  # files may have any order
        torch.manual_seed(2)
        model = ways[target](Speaker())
        kept = {key: tensor.clone() for key, tensor in state.items()}
        where = f"from {source} into {target}"
        try:
            answer(model, state)
        except (RuntimeError, KeyError) as error:
            if isinstance(error, NotImplementedError):
                raise
            return f"{where}: it raised {type(error).__name__}, and was to load"
        if list(state) != list(kept):
            return f"{where}: the checkpoint itself was changed"
        loaded = model.state_dict().values()
        if not all(map(torch.equal, loaded, saved.values())):
            return f"{where}: some weights are not those of the checkpoint"
    return _too_lax(answer, ways)


def _too_lax(answer, ways):
    whole = ways["a model compiled as a whole"](Speaker()).state_dict()
    short = dict(list(whole.items())[1:])
    for name, state in (
        ("with a missing tensor", short),
        ("with a tensor under another name", {**short, "tail.bias": torch.ones(4)}),
        ("with a tensor too many", {**whole, "_orig_mod.tail.bias": torch.ones(4)}),
    ):
        try:
            answer(Speaker(), state)
        except (RuntimeError, KeyError):
            continue
        return f"a checkpoint {name} was loaded without an error"
    return None
