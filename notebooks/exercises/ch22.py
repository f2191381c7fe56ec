"""Checks and hints of notebook 22."""

import threading
import time

import torch

from helpers.capture import Watch
from helpers.exercises import exercise, fresh

# --- 22.1 ----------------------------------------------------------------------


def _make(rows):
    return torch.linspace(-1, 2, rows * 8).view(rows, 8)


def _compiled():
    torch.compiler.reset()
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    return torch.compile(model, backend="aot_eager")


def _reference(compiled, sizes):
    for wanted in (False, True):
        x = _make(sizes[0])
        torch._dynamo.mark_dynamic(x, 0)
        with torch.set_grad_enabled(wanted):
            y = compiled(x)
    y.sum().backward()


@exercise(
    "22.1",
    hints=(
        "Two kinds of calls come: under no_grad, and with a backward. Which compiles "
        "does each need?",
        "Mark the rows as dynamic, so that one version serves every size. Call it once "
        "under no_grad, and once with gradients and .sum().backward(). The last one "
        "leaves gradients in the model.",
        "x = make(sizes[0]); torch._dynamo.mark_dynamic(x, 0); with torch.no_grad(): "
        "compiled(x). Then the same with a new x: compiled(x).sum().backward(). At the "
        "end compiled.zero_grad().",
    ),
    passed="All compiles before the traffic, none in it, and no gradient left.",
)
def warm_and_no_warmer(warm):
    with Watch() as needed:
        _reference(_compiled(), [6, 3, 9])
    for sizes in ([5], [6, 3, 9]):
        compiled = _compiled()
        with Watch() as spent:
            warm(compiled, _make, list(sizes))
        if any(weight.grad is not None for weight in compiled.parameters()):
            return "it leaves gradients in the model: the next step would use them"
        with torch.compiler.set_stance("default"):  # whatever the answer left
            for rows in sizes:
                with Watch() as late, torch.no_grad():
                    compiled(_make(rows))
                if late.compiles:
                    return f"after it, {rows} rows under no_grad still compile"
                with Watch() as late:
                    compiled(_make(rows)).sum().backward()
                if late.compiles:
                    return f"after it, a training step with {rows} rows still compiles"
        if len(sizes) > 1 and spent.compiles > needed.compiles:
            return (
                f"for the sizes {sizes} it compiled {spent.compiles} times, and "
                f"{needed.compiles} are enough: one version without gradients, and "
                "one with them"
            )
    return None


# --- 22.2 ----------------------------------------------------------------------


def _at_once(call, x, threads):
    """Return what each thread got or raised; None where one never came back."""
    gate, found = threading.Barrier(threads), []

    def go():
        gate.wait()
        try:
            found.append(call(x))
        except Exception as error:
            found.append(error)

    crowd = [threading.Thread(target=go, daemon=True) for _ in range(threads)]
    for thread in crowd:
        thread.start()
    until = time.monotonic() + 15
    for thread in crowd:
        thread.join(max(0, until - time.monotonic()))
    return None if any(thread.is_alive() for thread in crowd) else found


class _Meeting:
    """A function that notes how many threads are in it at the same time."""

    def __init__(self, failures):
        self.failures, self.calls, self.most = failures, 0, 0
        self.inside, self.most_before, self.succeeded = 0, 0, False
        self.lock = threading.Lock()

    def __call__(self, x):
        with self.lock:
            self.calls += 1
            number = self.calls
            self.inside += 1
            self.most = max(self.most, self.inside)
            if not self.succeeded:
                self.most_before = max(self.most_before, self.inside)
        time.sleep(0.05)
        with self.lock:
            self.inside -= 1
            self.succeeded |= number > self.failures
        if number <= self.failures:
            raise RuntimeError("the compiler fails")
        return x + 1


def _wave(x):
    return x.sin() + x


@exercise(
    "22.2",
    hints=(
        "Look whether it is done, take the lock, and look again: another thread may "
        "have done it while you waited.",
        "`with lock:` lets go of the lock when the call raises. Note that it is done "
        "only after the call has returned.",
        "lock, done = threading.Lock(), threading.Event(). In the inner function: if "
        "not done.is_set(): with lock: if not done.is_set(): y = compiled(x); "
        "done.set(); return y. At the end: return compiled(x).",
    ),
    passed="One compile, an error that harms nobody else, and no lock in traffic.",
)
def only_the_first_one_waits(once):
    torch.compiler.reset()
    built, x = [], torch.linspace(-1, 2, 8)

    def slow(graph, inputs):
        built.append(graph)
        time.sleep(0.05)
        return graph.forward

    found = _at_once(once(torch.compile(fresh(_wave), backend=slow)), x, 12)
    if found is None:
        return "twelve threads call it at once, and some never come back"
    if len(built) != 1:
        return f"twelve threads call it at once, and it compiles {len(built)} times"
    if not all(torch.is_tensor(y) and torch.allclose(y, _wave(x)) for y in found):
        return "twelve threads call it at once, and not all get the right answer"
    meeting = _Meeting(failures=1)
    call = once(meeting)
    found = _at_once(call, x, 4)
    if found is None:
        return "when the first call raises, other threads wait for ever"
    raised = [y for y in found if isinstance(y, RuntimeError)]
    if len(raised) != 1 or sum(map(torch.is_tensor, found)) != 3:
        return (
            "when the first call raises, its caller gets the error, the others a result"
        )
    if meeting.most_before > 1:
        return "when the first call raises, the others all try at once: one at a time"
    meeting.most = 0
    if _at_once(call, x, 4) is None or meeting.most < 2:
        return "after the first success, calls still wait for each other"
    return None
