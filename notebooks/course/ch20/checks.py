"""Checks and hints of notebook 20."""

import math

import torch

from course.exercises import exercise

# --- 20.1 ----------------------------------------------------------------------

# How far the losses of a run are off, at each of 60 steps.
_NEVER = [0.0] * 60
_FINE = [2e-7 * (step % 3) for step in range(60)]
_ROUGH = [1e-3 * (-1) ** step * step / 60 for step in range(60)]
_LOST = [-5e-5 * (20 < step < 40) for step in range(60)]
_NAN = [math.nan if step > 30 else 0.0 for step in range(60)]
_SPIKE = [*_ROUGH[:30], 1e-2, *_ROUGH[31:]]
_NAN_ONCE = [*_FINE[:30], math.nan, *_FINE[31:]]
_FIRST, _LAST = [5e-5, *_FINE[1:]], [*_FINE[:-1], 5e-5]


def _times(factor):
    return [factor * shift for shift in _ROUGH]


TRIALS = (  # eager's, compiled's, and whether they train the same
    ("both off by a few roundings", _FINE, _FINE[::-1], True),
    ("training that is hard for eager, too", _ROUGH, [-x for x in _ROUGH], True),
    ("as far as eager, and earlier", _ROUGH, _ROUGH[::-1], True),
    ("3.9 times as far as eager, to the other side", _ROUGH, _times(-3.9), True),
    ("4.1 times as far as eager, to the same side", _ROUGH, _times(4.1), False),
    ("3.5 times as far as the worst of eager's", _SPIKE, _times(35), True),
    ("an exact eager, and compiled less than 1e-6 off", _NEVER, [9.9e-7] * 60, True),
    ("an exact eager, and compiled more than 1e-6 off", _NEVER, [1.02e-6] * 60, False),
    ("five times as far as eager, and 2e-6 off", _FINE, [2e-6] * 60, True),
    ("a step lost in the middle, which recovers", _FINE, _LOST, False),
    ("a first loss that is off", _FINE, _FIRST, False),
    ("a last loss that is off", _FINE, _LAST, False),
    ("losses that become NaN", _FINE, _NAN, False),
    ("a single NaN in the middle", _FINE, _NAN_ONCE, False),
    ("losses that become NaN, and eager's too", _NAN, _NAN, False),
    ("a single NaN, of eager's", _NAN_ONCE, _FINE, False),
    ("eager's losses become NaN, and compiled ones don't", _NAN, _FINE, False),
    ("one loss ten times as far off", _ROUGH, _SPIKE, False),
)


def _train(eager_off, compiled_off):
    """Return a training run whose losses are off by so much, at each step."""

    def train(dtype, compiled):
        exact = _NEVER if dtype == torch.float64 else eager_off
        shifts = compiled_off if compiled else exact
        if compiled and dtype == torch.float64:  # what is broken is it there, too
            shifts = [shift / 2 for shift in shifts]
        return [2 - 0.01 * step + shift for step, shift in enumerate(shifts)]

    return train


judge = exercise(
    "20.1",
    hints=(
        "Never compare compiled with eager: ask how far each is from float64.",
        "Take the largest distance to float64 over all steps, for eager and for "
        "compiled. A comparison with NaN is False, and max passes over one.",
        "exact, eager, ours = train(float64, False), train(float32, False), "
        "train(float32, True). far(run) is the list of abs(a - b) with exact. Return "
        "all(off <= 4 * max(far(eager)) + 1e-6 for off in far(ours)), and that no off "
        "of eager's is a NaN.",
    ),
    passed="It blames nobody for rounding, and misses neither a lost step nor a NaN.",
    cases=[(what, (_train(*off),), wanted) for what, *off, wanted in TRIALS],
)
