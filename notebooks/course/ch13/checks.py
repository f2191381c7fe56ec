"""Checks and hints of lesson 13."""

from functools import partial

import torch

from course.ch13.driver import Recorder
from course.exercises import exercise

X = torch.tensor([0.25, 1.0, -2.5, 4097.0])  # no number of 16 bits, no integer
WANTED = ["warm-up", "record, copies [4]"] + ["replay, copies [4]"] * 4


class _Watched(Recorder):
    """A recorder that knows to which inputs its newest call added x, and may spoil."""

    x, sums = X, ()
    spoils = False

    def _wrap(self, graph, inputs, **how):
        run = super()._wrap(graph, inputs, **how)

        def watched(values):
            given = [x for x in values if isinstance(x, torch.Tensor)]
            before = [x.clone() for x in given]
            results = run(values)
            pairs = zip(given, before, strict=True)
            moved = [(x, (x - old).view(-1)) for x, old in pairs]
            self.sums = [x for x, by in moved if torch.equal(by, self.x)]
            if self.spoils:
                for each in results:
                    each.fill_(-1)
            return results

        watched._boxed_call = True
        return watched


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
    passed="Each replay writes to the sum where it is, and what you returned stays "
    "with the caller.",
)
def running_total(answer):
    torch.compiler.reset()
    recorder = _Watched()
    compile_ = partial(torch.compile, backend=recorder)
    total = answer(compile_)
    results = []
    for n in range(1, 7):
        recorder.x = n * X
        results.append(total(given := n * X))
        if not torch.equal(given, n * X):
            return "the caller's x is another one after the call"
    recorder.x = X
    if recorder.did != WANTED:
        did = "; ".join(recorder.did) or "nothing that compile_ has compiled"
        return f"six calls ran: {did}. Asked for: {'; '.join(WANTED)}"
    if not recorder.sums:
        return "no tensor is there to which the compiled function adds x in place"
    for n, result in enumerate(results):
        try:
            right = result.dtype == X.dtype
            right &= torch.equal(result + 0, (n + 1) * (n + 2) / 2 * X)
        except RuntimeError:
            right = False
        if not right:
            return f"in the end, result {n + 1} is not the sum at that time, in float32"
    recorder.spoils = True
    if not torch.equal(total(X.clone()) + 0, torch.full((4,), -1.0)):
        return "what you return isn't what the compiled function returned"
    recorder.spoils = False
    before = total(X.clone()) + 0
    second = answer(compile_)
    if not torch.equal(second(X), X):
        return "a second total does not begin at 0"
    second(X)
    if not torch.equal(total(X.clone()) + 0, before + X):
        return "a second total changes the sum of the first"
    return None
