"""Checks and hints of lesson 13."""

from functools import partial

import torch

from course.ch13.driver import Recorder
from course.exercises import exercise

WANTED = ["warm-up", "record, copies [4]"] + ["replay, copies [4]"] * 4


class _Watched(Recorder):
    """A recorder that knows what the newest call of a graph was given, and made."""

    given = made = ()

    def _wrap(self, graph, inputs, **how):
        run = super()._wrap(graph, inputs, **how)

        def watched(values):
            self.given = [x for x in values if isinstance(x, torch.Tensor)]
            results = run(values)
            self.made = [x.clone() for x in (*self.given, *results)]
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
    total, x = answer(compile_), torch.arange(4.0)
    inputs = [x.clone() for _ in WANTED]
    results = [total(each) for each in inputs]
    held = [given for given in recorder.given if torch.equal(given, 6 * x)]
    inside = any(torch.equal(made, 6 * x) for made in recorder.made)
    if recorder.did != WANTED or not held or not inside:
        did = "; ".join(recorder.did) or "nothing that compile_ has compiled"
        return (
            f"six calls ran: {did}. Asked for: {'; '.join(WANTED)}, with the sum in a "
            "tensor that the compiled function is given, and made inside"
        )
    if not all(torch.equal(each, x) for each in inputs):
        return "the caller's x is another one after the call"
    for n, result in enumerate(results):
        try:
            right = torch.equal(result + 0, (n + 1) * x)
        except RuntimeError:
            right = False
        if not right:
            return f"in the end, the result of call {n} is not the sum at that time"
    held[0].zero_()
    if not torch.equal(total(x.clone()) + 0, x):
        return "what is returned isn't read where the sum stays"
    second = answer(compile_)
    if not torch.equal(second(x), x):
        return "a second total does not begin at 0"
    second(x)
    if not torch.equal(total(x.clone()) + 0, 2 * x):
        return "a second total changes the sum of the first"
    return None
