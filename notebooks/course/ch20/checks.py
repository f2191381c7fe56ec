"""Checks and hints of notebook 20."""

import math

import torch
from torch.optim.lr_scheduler import OneCycleLR

from course.backend import CountingBackend
from course.exercises import exercise, near

# --- 20.1 ----------------------------------------------------------------------

# How far the losses of a run are off, at each of 60 steps.
_NEVER = [0.0] * 60
_FINE = [2e-7 * (step % 3) for step in range(60)]
_ROUGH = [1e-3 * (-1) ** step * step / 60 for step in range(60)]
_LOST = [5e-5 * (20 < step < 40) for step in range(60)]
_NAN = [math.nan if step > 30 else 0.0 for step in range(60)]
_EVEN = [1e-3 * (step % 2 == 0) for step in range(60)]
_SPIKE = [*_ROUGH[:30], 1e-2, *_ROUGH[31:]]


def _times(factor):
    return [factor * shift for shift in _ROUGH]


TRIALS = (  # eager's, compiled's, and whether they train the same
    ("both off by a few roundings", _FINE, _FINE[::-1], True),
    ("a training that is hard on eager too", _ROUGH, [-x for x in _ROUGH], True),
    ("as far as eager, at the steps between", _EVEN, [0.0, *_EVEN[:-1]], True),
    ("3.5 times as far as eager, to the other side", _ROUGH, _times(-3.5), True),
    ("4.5 times as far as eager, to the same side", _ROUGH, _times(4.5), False),
    ("an exact eager, and compiled less than 1e-6 off", _NEVER, [8e-7] * 60, True),
    ("an exact eager, and compiled more than 1e-6 off", _NEVER, [3e-6] * 60, False),
    ("a step lost in the middle, which recovers", _FINE, _LOST, False),
    ("losses that become NaN", _FINE, _NAN, False),
    ("losses that become NaN, and eager's too", _NAN, _NAN, False),
    ("one loss ten times as far off", _ROUGH, _SPIKE, False),
)


@exercise(
    "20.1",
    hints=(
        "Never compare compiled with eager: ask how far each is from float64.",
        "Take the largest distance to float64 over all steps, of eager and of "
        "compiled. A comparison with NaN is False, so ask for what you want.",
        "exact, eager, ours = train(float64, False), train(float32, False), "
        "train(float32, True). far(run) is max(abs(a - b) for a, b in zip(run, "
        "exact)). Return far(ours) <= 4 * far(eager) + 1e-6, and that no loss is NaN.",
    ),
    passed="It accuses nobody of rounding, and misses neither a lost step nor a NaN.",
)
def a_judge(same_training):
    for what, eager_off, compiled_off, wanted in TRIALS:

        def train(dtype, compiled, off=(eager_off, compiled_off)):
            exact = dtype == torch.float64 and not compiled
            shifts = _NEVER if exact else off[compiled]
            return [2 - 0.01 * step + shift for step, shift in enumerate(shifts)]

        answer = same_training(train)
        if bool(answer) is not wanted:
            return f"{what}: you say {answer}, and it is {wanted}"
    return None


# --- 20.2 ----------------------------------------------------------------------


def _eagerly(model, batches):
    """Train *model*, and return its losses."""
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    schedule = OneCycleLR(optimizer, 0.05, total_steps=len(batches))
    losses = []
    for x in batches:
        loss = model(x).square().mean()
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return losses


@exercise(
    "20.2",
    hints=(
        "TORCH_LOGS=recompiles names both reasons. One is a list.",
        "A list that grows inside the compiled function has another length in each "
        "call: collect the losses outside. And which floats does the schedule move?",
        "Let loss_of return the loss alone; in the loop: loss = loss_of(x); "
        "losses.append(loss.detach()). Momentum is a float that must go on changing, "
        "so call optimizer.step() without compiling it.",
    ),
    passed="Few graphs, the same training, and the model is still compiled.",
)
def a_quiet_loop(mended):
    def fresh():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh())

    torch.manual_seed(1)
    batches = [torch.randn(7, 6) for _ in range(6)]
    reference, model = fresh(), fresh()
    wanted = _eagerly(reference, batches)
    torch.compiler.reset()
    backend = CountingBackend("aot_eager")
    losses = [float(loss) for loss in mended(model, batches, backend)]
    for step, (ours, loss) in enumerate(zip(losses, wanted, strict=True), 1):
        if not abs(ours - loss) < 1e-5:
            return f"another training: the loss of step {step} is not that of loop"
    if (ran := len(backend.ran)) < 6:
        return f"compiled code ran {ran} times in 6 steps: compile the loss"
    if (graphs := len(backend.captured)) > 2:
        return f"{graphs} graphs in 6 steps, and 2 are allowed"
    pairs = zip(model.parameters(), reference.parameters(), strict=True)
    if not all(near(ours.detach(), weight.detach()) for ours, weight in pairs):
        return "the losses are right, and the model does not have loop's weights"
    return None
