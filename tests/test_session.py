"""Nothing of the reader's session may change, whatever a helper is asked to do."""

import copy
import functools
import logging
import random
from collections import OrderedDict, deque

import numpy as np
import pytest
import torch

from helpers import compare, session
from helpers.capture import Watch, graphs, recompiles
from helpers.codegen import kernels, output_code
from helpers.errors import InputError
from helpers.session import restored
from helpers.traffic import eager_bytes

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def noisy(x):
    """Draws numbers, warns, breaks, and is compiled by the reader as well."""
    y = torch.dropout(x.sin(), 0.5, True) * torch.rand(3)
    random.random(), np.random.rand()
    return inner(y)


def inner(y):
    y = y + 1
    torch._dynamo.graph_break()
    return y * 2


def race(fn, x):
    return compare(fn, torch.compile(fn), x, budget=0.1)


def failing(x):
    torch.set_grad_enabled(not torch.is_grad_enabled())
    x.sin()
    raise ValueError("mine")


LOOKS = {
    "graphs": lambda fn, x: graphs(fn, x),
    "recompiles": lambda fn, x: recompiles(fn, [(x,), (x.double(),)]),
    "kernels": lambda fn, x: kernels(fn, x),
    "output_code": lambda fn, x: output_code(fn, x),
    "eager_bytes": lambda fn, x: eager_bytes(fn, x),
}


def noticed():
    """All that the reader could notice, in one comparable value."""
    names = [n for n in logging.root.manager.loggerDict if n.startswith("torch")]
    logs = [logging.getLogger(name) for name in names]
    return {
        "torch rng": torch.get_rng_state().tolist(),
        "python rng": random.getstate(),
        "numpy rng": str(np.random.get_state()),
        "grad": torch.is_grad_enabled(),
        "counters": copy.deepcopy(torch._dynamo.utils.counters),
        "history": [id(m) for m in torch._dynamo.utils.get_compilation_metrics()],
        "stance": torch._dynamo.eval_frame._stance,
        "dynamo": torch._dynamo.config.get_config_copy(),
        "inductor": torch._inductor.config.get_config_copy(),
        "functorch": torch._functorch.config.get_config_copy(),
        "logs": {log.name: (log.level, log.handlers[:]) for log in logs},
        "filters": {h: h.filters[:] for log in logs for h in log.handlers},
        "warned": set(torch._dynamo.utils.warn_once_cache),
        "shapes": copy.deepcopy(torch._dynamo.pgo._CODE_STATE),
    }


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize("fails", [False, True], ids=["runs", "raises"])
def test_the_session_is_as_before(look, fails):
    compiled = torch.compile(noisy, backend="eager")
    for _ in range(2):  # a graph break and its inner function, compiled by the reader
        compiled(torch.ones(3))
    x = torch.ones(3, requires_grad=True)
    before = noticed()
    if fails:
        with pytest.raises(InputError, match="mine"):
            look(failing, x)
    else:
        look(noisy, x)
    after = noticed()
    for name in after["logs"].keys() - before["logs"].keys():
        del after["logs"][name]  # of a module that was imported meanwhile
    for what in before:
        assert after[what] == before[what], what
    assert x.grad is None
    with Watch() as watch:
        compiled(torch.ones(3))
    assert watch.compiles == 0, "what was compiled must stay compiled"


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_bad_input_says_what_to_do(look):
    for fn in (lambda x: x.reshape(7, 7), lambda x: 1 / 0, lambda x, y: x):
        with pytest.raises(InputError, match="uncompiled") as caught:
            look(fn, X)
        assert caught.value.__cause__ is not None
    with pytest.raises(InputError, match=r"graphs\(f, x\), not the result"):
        look(X.sin(), X)
    if look is not LOOKS["recompiles"]:  # each of its calls has a device of its own
        with pytest.raises(InputError, match=r"cpu and meta.*to\(device\)"):
            look(lambda both: both[0] + both[1], (X, X.to("meta")))


def test_no_recompile_limit_is_used_up():
    def f(x):
        return x + 1

    limit = torch._dynamo.config.recompile_limit
    for _ in range(limit + 2):
        graphs(f, torch.ones(3))
    recompiles(f, [(torch.ones(n),) for n in range(2, limit + 4)], dynamic=False)
    compiled = torch.compile(f, backend="eager")
    with Watch() as watch:
        compiled(torch.ones(3))
        compiled(torch.ones(4))
    assert watch.compiles == 2
    assert not watch.limit_hit


def looped(y):
    for _ in range(2):
        y = y + 1
        print(end="")
    return y


def test_functions_that_are_called_are_forgotten_too():
    """Neither their cache entries stay, nor the mark that they cannot be compiled."""

    def outer(x):
        return inner(looped(x.cos())).sin()

    limit = torch._dynamo.config.recompile_limit
    texts = {str(graphs(outer, torch.ones(3))) for _ in range(limit + 2)}
    assert len(texts) == 1
    assert len(torch._dynamo.eval_frame._debug_get_cache_entry_list(inner)) == 0
    compiled = torch.compile(outer, backend="eager")
    with Watch() as watch:
        compiled(torch.ones(3))
    assert not watch.limit_hit
    history = torch._dynamo.utils.get_compilation_metrics()
    assert "looped" in [m.co_name for m in history if m.fail_type], "looked at"


def test_shapes_seen_by_a_helper_do_not_make_the_reader_dynamic():
    def f(x):
        return x * 3

    graphs(f, torch.ones(8))
    seen = []

    def backend(graph, inputs):
        seen.append([type(i).__name__ for i in inputs])
        return graph

    torch.compile(f, backend=backend)(torch.ones(9))
    assert seen == [["Tensor"]], "a SymInt input would mean a dynamic graph"


def test_a_stance_of_the_reader_neither_blocks_nor_changes():
    with torch.compiler.set_stance("force_eager"):
        assert graphs(lambda x: x.sin(), torch.ones(3)).count == 1
        assert torch._dynamo.eval_frame._stance.stance == "force_eager"


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_inputs_that_are_mutated_stay_as_they_were(look):
    def f(x):
        x.add_(1)
        return x * 2

    x = torch.zeros(4)
    look(f, x)
    assert x.tolist() == [0, 0, 0, 0]


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.last = x
        return self.norm(x)


HELD = {
    "given": lambda module: module,
    "closure": lambda module: lambda x: module(x),
    "compiled": lambda module: torch.compile(module, backend="eager"),
    "in place": lambda module: (module.compile(backend="eager"), module)[1],
}
# Each way with one helper, and each helper with one way.
PAIRS = [(held, "graphs") for held in HELD]
PAIRS += [("given", look) for look in LOOKS if look != "graphs"]
PAIRS += [("closure", "recompiles"), ("compiled", "kernels")]


@pytest.mark.parametrize(("held", "look"), PAIRS)
def test_a_module_keeps_its_buffers_and_attributes(held, look):
    module = Counting()
    before = copy.deepcopy(module.state_dict())
    fn, look = HELD[held](module), LOOKS[look]
    x = torch.randn(8, 4)
    recompiles(fn, [(x,), (x,)]) if look is LOOKS["recompiles"] else look(fn, x)
    assert module.calls == 0
    assert not hasattr(module, "last")
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert module.norm.weight.grad is None


def test_fresh_code_keeps_defaults_closure_and_method():
    n = 5

    def f(x, k=2, *, m=3):
        return x + n + k + m

    new = session.fresh_code(f)
    assert new(1) == 11
    assert new.__code__ is not f.__code__
    bound = session.fresh_code(Counting().forward)
    assert bound.__func__.__code__ is not Counting.forward.__code__


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"mode": "fast"}, "mode=fast"),
        ({"options": {"faster": True}}, "faster"),
        ({"options": {"max_autotune": 3}}, "max_autotune"),
        ({"mode": "default", "options": {"max_autotune": True}}, "not both"),
    ],
)
def test_an_unknown_mode_or_option_names_what_there_is(setting, said):
    with pytest.raises(ValueError, match=said) as caught:
        kernels(lambda x: x, torch.ones(3), **setting)
    assert len(str(caught.value)) < 400
    if "mode" not in said and "both" not in said:
        assert "max-autotune" in str(caught.value)


def test_a_parametrized_module_can_be_looked_at():
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 4))
    assert graphs(layer, torch.ones(2, 4)).count == 1
    assert layer(torch.ones(2, 4)).shape == (2, 4)


def narrow(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(4, 3)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({}, r"your code specialized it to be a constant \(4\)"),
        ({"min": 2, "max": 3}, "4 not in"),
    ],
)
@pytest.mark.parametrize("look", [graphs, kernels, race])
def test_a_promise_that_a_size_breaks_is_not_blamed_on_the_function(look, bounds, said):
    x = torch.ones(4, 3)
    torch._dynamo.mark_dynamic(x, 0, **bounds)
    with pytest.raises(InputError, match=said) as raised:
        look(narrow, x)
    assert "does not keep its promise" in str(raised.value)
    assert "mark_dynamic" in str(raised.value)
    assert "raised" not in str(raised.value)


# ------------------------------------------------- what functions hold is put back


def training(kind=torch.optim.SGD, **settings):
    """A model with gradients, its optimizer after a step, and what a step returns."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = kind(model.parameters(), **settings)
    model(X).sum().backward()
    optimizer.step()
    return model, optimizer


def state(model, optimizer):
    """All numbers of a training, as one flat list of tensors."""
    inner = torch.utils._pytree.tree_leaves(optimizer.state_dict())
    tensors = [
        torch.as_tensor(v) for v in inner if isinstance(v, (float, torch.Tensor))
    ]
    parameters = [*model.parameters()]
    grads = [p.grad for p in parameters if p.grad is not None]
    return [t.detach().clone() for t in (*tensors, *parameters, *grads)]


def same(a, b):
    return len(a) == len(b) and all(map(torch.equal, a, b))


OPTIMIZERS = [(torch.optim.SGD, {"momentum": 0.9}), (torch.optim.AdamW, {"lr": 0.1})]
RUNS = {
    "graphs": graphs,
    "recompiles": lambda fn: recompiles(fn, [(), ()]),
    "kernels": kernels,
    "eager_bytes": eager_bytes,
}


@pytest.mark.parametrize("look", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize(("kind", "settings"), OPTIMIZERS, ids=["SGD", "AdamW"])
def test_a_step_of_an_optimizer_in_a_closure_changes_nothing(look, kind, settings):
    model, optimizer = training(kind, **settings)
    first = model.weight
    before = state(model, optimizer)
    look(lambda: (optimizer.step(), first)[1].sum())
    assert same(state(model, optimizer), before)
    look(lambda: (optimizer.step(), torch.ones(1))[1] + 1)  # only the optimizer
    assert same(state(model, optimizer), before)


class Trainer:
    """Holds a tensor as people's own objects do."""

    def __init__(self):
        self.seen, self.calls = torch.zeros(4), 0

    def step(self, x):
        self.calls += 1
        self.seen += x.sum(0)
        return x * self.seen


class Cache:
    """Holds what was computed, as the key-value caches of models do."""

    def __init__(self):
        self.layers = [Trainer()]
        self.keys, self.length, self.last = None, 0, deque([0])

    def update(self, x):
        self.keys = x if self.keys is None else torch.cat([self.keys, x])
        self.length += len(x)
        self.last.append(self.length)
        return self.layers[0].step(self.keys)


total, count = torch.zeros(4), 0
trainer, cache, generator = Trainer(), Cache(), torch.Generator()


def adds_up(x):
    total.add_(x.sum(0))
    return x + total


def calls_inner(x):
    return adds_up(x) * 2


def counts(x):
    global count
    count += 1
    return x * count


class CountsUp(torch.nn.Module):
    def forward(self, x):
        return counts(x)


def draws(x):
    return x + torch.rand(4, generator=generator)


def closure():
    number, seen = 0, [torch.zeros(4)]

    def run(x):
        nonlocal number
        number += 1
        seen[0] += 1
        seen.append(x)
        return x * number + seen[0]

    return run


def default(x, seen=[]):  # noqa: B006
    seen.append(1)
    return x * len(seen)


def attribute(x):
    attribute.calls += 1
    return x * attribute.calls


attribute.calls = 0


def rebinds(x):
    trainer.seen.data = trainer.seen.data + x.sum(0)
    return x + trainer.seen


HOLDERS = {
    "closure": closure(),
    "method": trainer.step,
    "called": calls_inner,
    "partial": functools.partial(adds_up),
    "compiled, in a partial": functools.partial(
        torch.compile(CountsUp(), backend="eager")
    ),
    "decorated": torch.no_grad()(adds_up),
    "global number": counts,
    "object": lambda x: cache.update(x),
    "generator": draws,
    "new memory": rebinds,
    "default argument": default,
    "attribute": attribute,
    "builtin": total.copy_,
}


@pytest.mark.parametrize("fn", HOLDERS.values(), ids=HOLDERS)
def test_what_a_function_holds_is_put_back(fn):
    x = X[0] if fn == total.copy_ else X
    expected, memory = None, trainer.seen.data_ptr()
    state = restored(fn)
    for _ in range(3):
        with state:
            result = fn(x).clone()
        expected = result if expected is None else expected
        assert torch.equal(result, expected)
        assert not total.any() and not trainer.seen.any()
        assert (count, trainer.calls, cache.length, cache.keys) == (0, 0, 0, None)
        assert trainer.seen.data_ptr() == memory
    with pytest.raises(TypeError), restored(fn):
        [].append(fn(x), 1)
    with restored(fn):
        assert torch.equal(fn(x), expected)


def test_an_input_is_put_back_as_well():
    given, x = Cache(), X.clone()
    with restored(given, [x]):
        given.update(x)
        x.add_(1)
    assert given.keys is None and [*given.last] == [0] and torch.equal(x, X)


@pytest.mark.parametrize(("kind", "settings"), OPTIMIZERS, ids=["SGD", "AdamW"])
def test_a_training_step_can_be_repeated_from_the_same_state(kind, settings):
    model, optimizer = training(kind, **settings)

    def step():
        optimizer.zero_grad()
        loss = model(X).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    before, gradients = state(model, optimizer), [p.grad for p in model.parameters()]
    again, losses = restored(step), []
    for _ in range(3):
        with again:
            losses.append(step().item())
    assert losses[0] == losses[1] == losses[2] == step().item() > step().item()
    with again:
        pass
    assert same(state(model, optimizer), before)
    assert all(p.grad is g for p, g in zip(model.parameters(), gradients, strict=True))


def test_what_did_not_change_is_not_written():
    model, optimizer = training()
    compiled = torch.compile(lambda x: model(x) * len(optimizer.param_groups))
    versions = [p._version for p in model.parameters()]
    again = restored(compiled, model, optimizer)
    with again:
        compiled(X)
    with Watch() as watch, again:
        compiled(X)
    assert watch.compiles == 0
    assert [p._version for p in model.parameters()] == versions


class Registry(OrderedDict):
    """Builds what it is asked for, as the activations of transformers do."""

    def __getitem__(self, name):
        return super().__getitem__(name)()


registry = Registry(gelu=torch.nn.GELU)


def test_a_registry_keeps_the_classes_that_it_builds_from():
    def looks_up(x):
        return registry["gelu"](x)

    with restored(looks_up):
        looks_up(X)
    assert [*registry.values()] == [torch.nn.GELU]


def test_tools_behind_an_object_are_not_touched():
    log = logging.getLogger("course")

    def logs(x):
        log.propagate = False
        return x

    with restored(logs):
        logs(X)
    assert log.propagate is False
    log.propagate = True


def test_a_compiled_module_stays_compiled_after_compare():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.last = torch.nn.BatchNorm1d(4), None

        def forward(self, x):
            self.last = self.norm(x)
            return self.last

    module, x = Counting(), torch.randn(8, 4)
    compiled = torch.compile(module, backend="eager")
    compare(module, compiled, x, budget=0.05)
    assert module.last is None
    with Watch() as watch:
        compiled(x)
    assert watch.compiles == 0
