"""Checks and hints of notebook 02."""

import torch

from helpers import compare
from helpers.errors import InputError
from helpers.exercises import exercise, number


class Device:
    """A device on a clock of its own: exact, whatever the machine is doing."""

    def __init__(self, warm=2e-3, compiling=0.0, interrupted=0.0):
        self.time, self.free, self.calls, self.warm = 0.0, 0.0, 0, warm
        self.compiling, self.interrupted = compiling, interrupted

    def now(self):
        self.time += 1e-7
        return self.time

    def launch(self):
        self.time += 5e-6 + (self.compiling if self.calls == 0 else 0)
        work = self.warm + (self.interrupted if self.calls % 5 == 3 else 0)
        self.free = max(self.time, self.free) + work
        self.calls += 1

    def wait(self):
        self.time = max(self.time, self.free)

    def timed_by(self, answer):
        """Return the answer as a multiple of the true time of a warm call."""
        seconds = answer(self.launch, self.wait, self.now)
        kind = type(seconds).__name__
        assert number(seconds) is not None, f"seconds are a number, not {kind}"
        return number(seconds) / self.warm


@exercise(
    "02.1",
    hints=(
        "Three things spoil the number: the first call, a launch that is not waited "
        "for, and the odd interrupted call. Deal with one at a time.",
        "Per call: now(), launch(), wait(), now(). Before the first of them: one "
        "launch() and wait() that nobody times.",
        "Collect the differences of, say, 21 warm calls in a list and return "
        "statistics.median of it.",
    ),
    passed="Warm, waited for, and robust against an interruption.",
)
def seconds_per_call(answer):
    quiet = Device()
    ratio = quiet.timed_by(answer)
    if ratio < 0.5:
        return "the watch was stopped while the device was still working: wait() first"
    if quiet.calls < 5:
        return f"{quiet.calls} calls cannot tell what is typical: time more of them"
    if Device(compiling=3.0).timed_by(answer) > 1.2:
        return "the first call, which compiles, is in your number: warm up before"
    if not 0.9 < ratio < 1.2:
        return f"on a quiet device the answer is {ratio:.2f} times the true one"
    if Device(interrupted=0.05).timed_by(answer) > 1.2:
        return "a few interrupted calls moved your answer: a median would not move"
    if not 0.9 < Device(warm=7e-3).timed_by(answer) < 1.2:
        return "on a device whose calls take 0.007 s, your answer is another"
    return None


ASKED = (  # the function, the shape of its inputs, the answer, what it is
    (lambda x: torch.relu(x * 2 + 1) - 3, [4096], True, "a chain of four operations"),
    (lambda x: x * 2 + 1, [4096], True, "a chain of two operations, exactly half"),
    (lambda a: a @ a, [96, 96], False, "one matmul, which has nothing to fuse"),
    (lambda x: x + 1, [4096], False, "one operation, although it is one kernel"),
    (lambda x, y: x * 2 + y, [4096], False, "x * 2 + y: fewer bytes, but not half"),
    (lambda x, y: (x * 2 + y).cos(), [4096], True, "a chain with two inputs"),
)


@exercise(
    "02.2",
    hints=(
        "The notebook counted both sides of the question, in its table of three fates.",
        "helpers has eager_bytes(f, *inputs) and kernels(f, *inputs). Both have bytes.",
        "Return whether eager_bytes(...).bytes is at least twice kernels(...).bytes.",
    ),
    passed="You can now rule a speed-up out before anybody takes out a clock.",
)
def can_fuse(answer):
    for function, shape, wanted, what in ASKED:
        inputs = [torch.randn(shape) for _ in range(function.__code__.co_argcount)]
        said = answer(function, *inputs)
        if not isinstance(said, bool):
            return f"the answer is True or False, not {type(said).__name__}"
        if said != wanted:
            return f"{what}: this is {wanted}, and you said {said}"
    return None


@exercise(
    "02.3",
    hints=(
        "The function is sent to another process as text. What it needs must be in it.",
        "Begin with `import torch` inside make, and define the function there too.",
        "Inside: import torch, def f(x): ..., then return f, torch.compile(f), "
        "torch.randn(1000).",
    ),
    passed="The interval now holds what differs between processes as well.",
)
def make(answer):
    try:
        result = compare(answer, processes=2, budget=0.1)
    except InputError as error:
        return f"it does not stand on its own. {str(error).splitlines()[0]}"
    if result.graphs == 0:
        return "nothing was compiled: the second function must come from torch.compile"
    if result.matches is False:
        return "the two functions do not compute the same"
    if result.matches is None:
        return "the two could not be compared: leave the random numbers out"
    return None
