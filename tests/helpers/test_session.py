"""Nothing of the caller's session may change, whatever a helper is asked to do."""

import copy
import functools
import logging
import random
from collections import deque
from typing import ClassVar
from unittest import mock

import numpy as np
import pytest
import torch

from helpers import session
from helpers.capture import Watch, graphs, recompiles
from helpers.codegen import kernels, output_code
from helpers.errors import CompiledRaises, InputError
from helpers.session import restored
from helpers.traffic import eager_bytes
from tests.kinds import broken

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Noisy(torch.nn.Module):
    """Draws numbers, warns, breaks, overwrites its input, keeps its last result."""

    def __init__(self):
        super().__init__()
        self.norm, self.last = torch.nn.BatchNorm1d(4), None

    def forward(self, x):
        x.detach().add_(1)
        self.last = self.norm(x)
        y = torch.dropout(self.last.sin(), 0.5, True) * torch.rand(4)
        random.random(), np.random.rand()
        return broken(y)


def failing(x):
    torch.set_grad_enabled(not torch.is_grad_enabled())
    x.detach().add_(1)
    raise ValueError("mine")


LOOKS = {
    "graphs": graphs,
    "recompiles": lambda fn, x: recompiles(fn, [(x,), (x.double().float(),)]),
    "kernels": kernels,
    "output_code": output_code,
    "eager_bytes": eager_bytes,
}


def noticed():
    """All that the caller could notice, in one comparable value."""
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
def test_the_session_is_as_before(look):
    module = Noisy()
    compiled = torch.compile(module, backend="eager")
    for _ in range(2):  # a graph break and its inner function, compiled by the caller
        compiled(torch.ones(3, 4))
    module.last = None
    x = torch.zeros(5, 4, requires_grad=True)  # another size than the caller has had
    before, numbers = noticed(), copy.deepcopy(module.state_dict())
    look(module, x)
    with pytest.raises(InputError, match="mine"):
        look(failing, x)
    after = noticed()
    for name in after["logs"].keys() - before["logs"].keys():
        del after["logs"][name]  # of a module that was imported meanwhile
    for what in before:
        assert after[what] == before[what], what
    assert not x.any() and x.grad is module.norm.weight.grad is module.last is None
    torch.testing.assert_close(module.state_dict(), numbers, rtol=0, atol=0)
    with Watch() as watch:
        compiled(torch.ones(3, 4))
    assert watch.compiles == 0, "what was compiled must stay compiled"


@torch._dynamo.allow_in_graph
def checked(x):
    """Refuse what is no plain tensor, as a check of types does while it is traced."""
    if type(x) is not torch.Tensor:
        raise TypeError(f"want a Tensor, got {type(x).__name__}")
    return x * 2


def test_what_raises_only_when_compiled_is_not_its_owner_s_fault():
    with pytest.raises(CompiledRaises, match=r"^it runs eagerly, and ") as it:
        graphs(lambda x: checked(x) + 1, X)
    assert "Call it yourself" not in str(it.value)


def test_a_break_that_a_function_inside_forbids_has_its_line():
    @torch.compile(fullgraph=True)
    def inside(x):
        print("here")
        return x.sin()

    told = r'fullgraph=True, line \d+ of test_session\.py, in inside: print\("here"\): '
    with pytest.raises(CompiledRaises, match=told):
        kernels(lambda x: inside(x) + 1, X)


def test_a_compiler_that_fails_is_told_from_a_function_that_raises():
    lowering = "torch._inductor.graph.GraphLowering.compile_to_module"
    told = r"^the compiler failed, .*OSError: no space\. .* doctor"
    failure = pytest.raises(CompiledRaises, match=told)
    with mock.patch(lowering, side_effect=OSError("no space")), failure:
        kernels(torch.sin, X)
    for _ in range(2):  # the hooks are gone, and no graph comes from a cache
        assert kernels(torch.sin, X).kernels


def looped(y):
    for _ in range(2):
        y = y + 1
        print(end="")
    return y


def test_no_recompile_limit_is_used_up():
    """Neither of a function nor of those it calls, which are forgotten as well."""

    def outer(x):
        return broken(looped(x.cos())).sin()

    with torch._dynamo.config.patch(recompile_limit=2):
        texts = {str(graphs(outer, torch.ones(3))) for _ in range(4)}
        assert len(texts) == 1
        recompiles(outer, [(torch.ones(n),) for n in range(2, 6)], dynamic=False)
        assert torch._dynamo.eval_frame._debug_get_cache_entry_list(broken) == []
        compiled = torch.compile(outer, backend="eager")
        with Watch() as watch:
            compiled(torch.ones(3))
            assert {graphs(outer, torch.ones(3)).count for _ in range(4)} == {4}
            compiled(torch.ones(4))
        assert not watch.limit_hit
    history = torch._dynamo.utils.get_compilation_metrics()
    assert "looped" in [m.co_name for m in history if m.fail_type], "looked at"


def test_fresh_code_keeps_defaults_closure_and_method():
    n = 5

    def f(x, k=2, *, m=3):
        return x + n + k + m

    f.__name__ = "g"
    new = session.fresh_code(f)
    assert (new(1), new.__name__) == (11, "g")
    assert new.__code__ is not f.__code__
    module = Noisy()
    module.compile()
    new = session.fresh_code(module)
    assert new._compiled_call_impl is None is not module._compiled_call_impl
    assert session.uncompiled(torch.compile(module)) is module
    assert module._compiled_call_impl is None
    for bound in (session.fresh_code(module.forward), new.forward):
        assert bound.__func__.__code__ is not Noisy.forward.__code__


# ------------------------------------------------- what functions hold is put back


def training(kind=torch.optim.SGD, **settings):
    """A model with gradients, its optimizer after a step, and what a step returns."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = kind(model.parameters(), **settings)
    model(X).sum().backward()
    optimizer.step()
    return model, optimizer


def numbers(model, optimizer):
    gradients = [p.grad for p in model.parameters()]
    return copy.deepcopy([model.state_dict(), optimizer.state_dict(), gradients])


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


def counts(x):
    global count
    count += 1
    return adds_up(x) * count


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


class CountsForAll(torch.nn.Module):
    """Holds its numbers for all of its kind, and a list in the kind that it is of."""

    class Kind(torch.nn.Module):
        seen: ClassVar = []

    class Own(Kind):
        calls = 0

        def forward(self, x):
            type(self).calls += 1
            self.seen.append(x)
            return x * self.calls + len(self.seen)

    def __init__(self):
        super().__init__()
        self.own = self.Own()

    def forward(self, x):
        return self.own(x)


HOLDERS = {
    "closure": closure(),
    "class": CountsForAll(),
    "method": trainer.step,
    "compiled, in a partial": functools.partial(
        torch.compile(CountsUp(), backend="eager")
    ),
    "decorated": torch.no_grad()(adds_up),
    "object": lambda x: cache.update(x),
    "generator, in a function inside it": lambda x: (lambda: draws(x))(),
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
        assert (CountsForAll.Own.calls, CountsForAll.Kind.seen) == (0, [])
        assert trainer.seen.data_ptr() == memory
    with pytest.raises(TypeError), restored(fn):
        [].append(fn(x), 1)
    with restored(fn):
        assert torch.equal(fn(x), expected)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(torch.optim.SGD, {"momentum": 0.9}), (torch.optim.AdamW, {"lr": 0.1})],
)
def test_a_training_step_can_be_repeated_from_the_same_state(kind, settings):
    model, optimizer = training(kind, **settings)

    def step():
        optimizer.zero_grad()
        loss = model(X).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    before, gradients = numbers(model, optimizer), [p.grad for p in model.parameters()]
    again, losses = restored(step), []
    for _ in range(3):
        with again:
            losses.append(step().item())
    assert losses[0] == losses[1] == losses[2] == step().item() > step().item()
    with again:
        pass
    graphs(lambda: (optimizer.step(), torch.ones(1))[1] + 1)  # holds the optimizer only
    torch.testing.assert_close(numbers(model, optimizer), before, rtol=0, atol=0)
    assert all(p.grad is g for p, g in zip(model.parameters(), gradients, strict=True))


def test_what_did_not_change_is_not_written():
    model, optimizer = training()
    compiled = torch.compile(
        lambda x: model(x) * len(optimizer.param_groups), backend="eager"
    )
    versions = [p._version for p in model.parameters()]
    again = restored(compiled, model, optimizer)
    with again:
        compiled(X)
    with Watch() as watch, again:
        compiled(X)
    assert watch.compiles == 0
    assert [p._version for p in model.parameters()] == versions
