"""Checks and hints of notebook 13."""

from functools import partial

import torch

from course.ch13.driver import Recorder
from course.ch13.results import fate
from course.exercises import exercise, near

# --- 13.1 ----------------------------------------------------------------------

CALLS = 6


@exercise(
    "13.1",
    hints=(
        "Two things have to last: the sum, at an address that torch may rely on, and "
        "each result, in memory that no replay writes to.",
        "A tensor that the compiled function writes to is static if it is marked "
        "before the first call, or belongs to a module. A result is cloned outside.",
        "held = torch.zeros(4); torch._dynamo.mark_static_address(held); def add(held, "
        "x): held += x; return held + 0. Then fast = compile_(add), and return lambda "
        "x: fast(held, x).clone().",
    ),
    passed="The sum lies still and is written to in each replay, and what you hand "
    "out is yours no more.",
)
def running_total(answer):
    torch.compiler.reset()
    torch.manual_seed(0)
    first, second = _Total(answer), _Total(answer)
    for n in range(CALLS):
        x = torch.randn(4)
        for total, given in ((first, x), (second, 2 * x)):
            if said := total.call(n, given):
                return said
    return first.at_the_end() or second.at_the_end()


class _Watched(Recorder):
    """A recorder that knows how many tensors its newest graph is given."""

    given = 0

    def __call__(self, graph, inputs, **options):
        self.given = sum(isinstance(x, torch.Tensor) for x in inputs)
        return super().__call__(graph, inputs, **options)


class _Total:
    """One running total of the reader's, and what torch did for it."""

    def __init__(self, answer):
        self.recorder = _Watched()
        self.total = answer(partial(torch.compile, backend=self.recorder))
        self.wanted, self.results = [torch.zeros(4)], []

    def call(self, n, x):
        before = x.clone()
        self.wanted.append(self.wanted[-1] + x)
        try:
            self.results.append(self.total(x))
        except RuntimeError as error:
            if "overwritten" not in str(error):
                raise
            return f"call {n} uses a result that was overwritten"
        if not torch.equal(x, before):
            return f"call {n} changed what it was given"
        if not near(self.results[n], self.wanted[n + 1]):
            return f"call {n} does not give the sum of its own inputs so far"
        did = [step.what for step in self.recorder.take()]
        if not did:
            return "nothing ran that compile_ has compiled"
        if len(did) > 1:
            return f"call {n} ran {len(did)} graphs: the sum is made in one"
        if self.recorder.given < 2:
            return "the compiled function is given x, and no sum to add it to"
        if n >= 2 and did != ["replay"]:
            return f"call {n} was no replay, but: {did[0]}"
        return None

    def at_the_end(self):
        """Say which result is no more what it was, if any is."""
        for n, (result, wanted) in enumerate(
            zip(self.results, self.wanted[1:], strict=True)
        ):
            lost = self.recorder.gave_away(result)
            if lost or fate(result, wanted) != "right":
                return f"the result of call {n} was overwritten by a later one"
        return None


# --- 13.2 ----------------------------------------------------------------------

STEPS = 4


class _Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x).square().mean()


@exercise(
    "13.2",
    hints=(
        "autograd takes the first gradient over, as .grad. Whose memory is that, and "
        "what does the second backward write there?",
        "If .grad is there before the backward runs, gradients are added into it. So "
        "it has to be there before the first batch of the first step, too.",
        "for p in parameters: p.grad = torch.zeros_like(p) if p.grad is None else "
        "p.grad.zero_(). Then for batch in batches: loss_of(batch).backward().",
    ),
    passed="Warm-up, recording or replay: what is added up lies in memory of yours.",
)
def accumulate(answer):
    torch.manual_seed(0)
    torch.compiler.reset()
    model, recorder = _Loss(), Recorder()
    loss_of = torch.compile(model, backend=recorder)
    parameters = [*model.parameters()]
    for n, many in enumerate([2, 3, 2, 3][:STEPS]):
        batches = [torch.randn(8, 4) for _ in range(many)]
        wanted = _sums(model, parameters, batches)
        try:
            answer(loss_of, parameters, batches)
        except RuntimeError as error:
            if "overwritten" not in str(error):
                raise
            return f"step {n} uses memory that torch gave away"
        got = [p.grad for p in parameters]
        if any(grad is None for grad in got):
            return f"step {n} leaves a parameter without .grad"
        if any(map(recorder.gave_away, got)):
            return f"step {n} leaves a .grad in memory that torch gave away"
        if said := _unlike(n, got, wanted, batches):
            return said
        did = [step.what for step in recorder.take()]
        if len(did) != 2 * many:
            return (
                f"step {n} ran {len(did)} graphs for {many} batches, not two for each"
            )
        if n > 1 and {*did} != {"replay"}:
            return f"in step {n} not all was replayed: {', '.join(did)}"
        with torch.no_grad():
            loss_of(batches[0])  # somebody evaluates before the optimizer's step
        recorder.take()
        if _unlike(n, got, wanted, batches):
            return f"a later call wrote over the .grad of step {n}"
    return None


def _sums(model, parameters, batches):
    total = sum(model(batch) for batch in batches)
    return torch.autograd.grad(total, parameters)


def _unlike(n, got, wanted, batches):
    for mine, theirs in zip(got, wanted, strict=True):
        if not near(mine, theirs):
            return (
                f"in step {n} a .grad is not the sum of the {len(batches)} gradients"
                " of that step"
            )
    return None
