"""Checks and hints of notebook 25."""

import threading
import time
from contextlib import contextmanager
from unittest.mock import patch

import torch

from course.backend import CountingBackend
from course.exercises import exercise
from helpers.capture import Watch

# --- 25.1 ----------------------------------------------------------------------


def _make(rows):
    return torch.linspace(-1, 2, rows * 8).view(rows, 8)


class _OfMeans(torch.nn.Module):
    """A layer after a mean over the rows: its backward needs no size, and is lazy."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x.mean(0))


@exercise(
    "25.1",
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
@torch.compiler.set_stance("default")  # an answer may set another
def warm_and_no_warmer(warm):
    torch.compiler.reset()
    backend = CountingBackend("aot_eager")
    compiled = torch.compile(_OfMeans(), backend=backend)
    sizes = [6, 3, 9]
    with Watch() as spent:
        warm(compiled, _make, list(sizes))
    left = [w.grad for w in compiled.parameters() if w.grad is not None]
    if any(grad.any() for grad in left):
        return "it leaves gradients in the model: the next step would use them"
    if left:
        return "it leaves gradients of zeros, as large as the weights: leave None"
    if not torch.is_grad_enabled():
        torch.set_grad_enabled(True)
        return "it leaves gradients switched off, for all that comes after it"
    if not compiled.training:
        return "it leaves the model in eval(): the training would go on in it"
    for rows in sizes:
        with Watch() as late, torch.no_grad():
            served = backend.served(compiled, _make(rows))
        if late.compiles:
            return f"after it, {rows} rows under no_grad still compile"
        with Watch() as late:
            compiled(_make(rows)).sum().backward()
        if late.compiles:
            return f"after it, a training step with {rows} rows still compiles"
        if served == "eager":
            return f"after it, {rows} rows run eagerly: no compiled code is called"
    if spent.compiles > 3:
        return (
            f"for the sizes {sizes} it compiled {spent.compiles} times, and 3 are "
            "enough: one version without gradients, one with them, and its backward"
        )
    return None


# --- 25.2 ----------------------------------------------------------------------

THREADS = 4


def _at_once(call):
    """Return what each thread got or raised; fewer if some never came back."""
    gate, results = threading.Barrier(THREADS), []

    def go():
        gate.wait()
        try:
            results.append(call(1))
        except RuntimeError as error:
            results.append(error)

    crowd = [threading.Thread(target=go, daemon=True) for _ in range(THREADS)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join(2)
    return results


class _Meeting:
    """A function that notes how many threads are in it at the same time.

    ``first`` is how many were, at most, before a call had succeeded.
    """

    def __init__(self, fails):
        self.lock, self.inside, self.most, self.first = threading.Lock(), 0, 0, 0
        self.fails, self.succeeded = fails, False

    def __call__(self, x):
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
            if not self.succeeded:
                self.first = max(self.first, self.inside)
        time.sleep(0.1)
        with self.lock:
            self.inside -= 1
            self.succeeded |= not self.fails
        if self.fails:
            raise RuntimeError("the compiler fails")
        return x + 1


class _Lock:
    """A lock that notes in *taken* each time it is taken."""

    def __init__(self, lock, taken):
        self.lock, self.taken = lock, taken

    def acquire(self, *how, **more):
        self.taken.append(1)
        return self.lock.acquire(*how, **more)

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.lock.release()

    def __getattr__(self, name):
        return getattr(self.lock, name)


@contextmanager
def _locks_taken():
    """Collect one entry for each time that a lock made in the block is taken."""
    taken = []

    def noted(make):
        return lambda: _Lock(make(), taken)

    with (
        patch.object(threading, "Lock", noted(threading.Lock)),
        patch.object(threading, "RLock", noted(threading.RLock)),
    ):
        yield taken


@exercise(
    "25.2",
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
    meeting = _Meeting(fails=True)
    with _locks_taken() as taken:
        call = once(meeting)
    errors = _at_once(call)
    if len(errors) < THREADS:
        return "when the first call raises, other threads wait for ever"
    if meeting.most > 1:
        return (
            f"before a call has succeeded, {meeting.most} threads were in it at once, "
            "and each would compile: one at a time, also after an error"
        )
    if not all(isinstance(error, RuntimeError) for error in errors):
        return f"where each call raises, the threads got {errors}"
    meeting.fails, meeting.most = False, 0
    if (result := call(1)) != 2:
        return f"where a call of x + 1 succeeds at last, its caller got {result}"
    if (result := call(5)) != 6:
        return f"after the first success, a call with 5 in place of 1 got {result}"
    if len(_at_once(call)) < THREADS or meeting.most < 2:
        return "after the first success, calls still wait for each other"
    before = len(taken)
    call(1)
    if len(taken) > before:
        return "after the first success, a call still takes a lock"
    return _the_first_of_many(once)


def _the_first_of_many(once):
    """Let all threads come while the first call succeeds."""
    meeting = _Meeting(fails=False)
    if _at_once(once(meeting)) != [2] * THREADS:
        return "when threads make the first call together, not all get x + 1"
    if meeting.first > 1:
        return f"{meeting.first} threads were in the first call together"
    if meeting.most < 2:
        return (
            "threads that waited for the first call ran one after the other when it "
            "was done: after the first success, calls take no lock"
        )
    return None
