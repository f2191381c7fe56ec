"""Checks and hints of notebook 02."""

import random

from course.exercises import exercise


class Device:
    """A device on its own clock: exact, whatever the machine is doing."""

    launched, work = 0.4e-3, 1.6e-3  # seconds of a launch, and of the work behind it
    compiling = interrupted = cached = 0.0  # seconds, of the first call and of odd ones

    def __init__(self, coin, **how):
        self.coin, self.time, self.free, self.calls = coin, 0.0, 0.0, 0
        vars(self).update(how)

    def now(self):
        self.time += 1e-7
        return self.time

    def launch(self):
        self.time += self.launched + (self.compiling if self.calls == 0 else 0)
        odd = self.coin.random() < 0.1
        work = self.work + odd * (self.interrupted - self.cached)
        self.free = max(self.time, self.free) + work
        self.calls += 1

    def wait(self):
        self.time = max(self.time, self.free)


DEVICES = (
    ("on a quiet device, from the launch to the end of the work", {}),
    ("where the work takes longer", {"work": 3.6e-3}),
    ("where the launch takes longer", {"launched": 2e-3}),
    ("where the first call compiles", {"compiling": 3.0}),
    ("where one call in ten is interrupted", {"interrupted": 0.05}),
    ("where one call in ten is served from a cache", {"cached": 1.5e-3}),
)


@exercise(
    "02.1",
    hints=(
        "Three things spoil the number: the first call, a launch that is not waited "
        "for, and the odd call that is not typical. Deal with one at a time.",
        "Per call: now(), launch(), wait(), now(). Before the first of them: one "
        "launch() and wait() that nobody times.",
        "Collect the differences of, say, 21 warm calls in a list and return "
        "statistics.median of it.",
    ),
    passed="Warm, waited for, and robust on both sides.",
)
def seconds_per_call(answer):
    for where, how in DEVICES:
        for seed in range(20, 100):
            device = Device(random.Random(seed), **how)
            seconds = answer(device.launch, device.wait, device.now)
            ratio = seconds / (device.launched + device.work)
            if not 0.95 < ratio < 1.05:
                return f"{where}, your answer is {ratio:.2f} times the true one"
    return None


class Machine:
    """A made-up machine: *ratio* is eager's seconds over compiled's.

    *drift* is by how much a call gets slower in 100 calls; *noise* the
    share by which calls vary; one call in *interrupted* takes twenty times as long.
    """

    def __init__(self, seed, ratio=1.0, drift=0.0, noise=0.02, interrupted=0):
        self.ratio, self.drift, self.noise = ratio, drift, noise
        self.coin, self.interrupted = random.Random(seed), interrupted
        self.calls = 0

    def call(self, seconds):
        block, call = divmod(self.calls, 200)  # no warm-up outwaits the drift
        slower = (1 + self.drift * call / 100) * (1 + self.drift) ** min(block, 50)
        self.calls += 1
        spread = 1 + self.noise * self.coin.random() + 0.001 * self.coin.gauss(0, 1)
        if self.interrupted and self.coin.random() < 1 / self.interrupted:
            spread *= 20
        return seconds * slower * spread

    def raced_by(self, answer):
        return answer(lambda: self.call(1e-3 * self.ratio), lambda: self.call(1e-3))


MACHINES = (  # the machine, the answer, what it is
    (
        {"ratio": 1 / 1.5},
        "slower",
        "compiled takes half as long again as eager: such a difference can be told",
    ),
    (
        {"noise": 0.1},
        "cannot tell",
        "both sides are the same function, and calls vary by a tenth: how many of "
        "a number of pairs that you fixed before agree",
    ),
    (
        {"drift": 0.5},
        "cannot tell",
        "both sides are the same function, on a machine that slows down: let the two "
        "sides take turns, each go first in half of them, and compare within the pairs",
    ),
    (
        {"drift": 3.0},
        "cannot tell",
        "both sides are the same function, and each call is slower than the one "
        "before: which side goes first in a turn should change",
    ),
    (
        {"ratio": 1.5, "drift": 3.0},
        "faster",
        "compiled takes two thirds of eager's time in each pair, on a machine that "
        "slows down: compare within the pairs",
    ),
    (
        {"ratio": 1.5, "interrupted": 25},
        "faster",
        "compiled takes two thirds of eager's time, and calls are interrupted: a mean "
        "follows the few long calls, and some pairs are lost: don't ask for all; count "
        "pairs, or take a median",
    ),
    (
        {"ratio": 1 / 1.03, "noise": 0.01},
        "slower",
        "compiled takes three hundredths more than eager, and all pairs agree: ask how "
        "many do, not by how much",
    ),
    (
        {"ratio": 1.03, "noise": 0.01},
        "faster",
        "compiled takes three hundredths less than eager, and all pairs agree: ask "
        "how many do, not by how much",
    ),
    (
        {"noise": 3.0},
        "cannot tell",
        "both sides are the same function, and calls vary threefold: a threshold can't "
        "know that, and the number of pairs that agree can",
    ),
)


@exercise(
    "02.2",
    hints=(
        "Take turns: one call of each side makes a pair, and a pair gives one ratio. "
        "What slows the machine slows both. Which side goes first should change.",
        "If both sides are the same, each pair is won by chance, like a coin. In how "
        "many of 30 pairs does a fair coin almost never fall on the same side?",
        "wins = sum of (eager's seconds > compiled's seconds) over 30 pairs; return "
        "'faster' if wins >= 24, 'slower' if wins <= 6, else 'cannot tell'.",
    ),
    passed="Pairs, and a verdict only where they agree. Statisticians call it a sign "
    "test; the interval of compare rests on the same idea.",
)
def race_of(answer):
    for how, wanted, what in MACHINES:
        verdicts = [Machine(seed, **how).raced_by(answer) for seed in range(200)]
        right = verdicts.count(wanted)
        if right < 185:
            return f"of 200 such races, {right} gave {wanted!r}, and 185 should: {what}"
    return None
