"""Checks and hints of notebook 14."""

import torch

from course.exercises import exercise, in_place, left_behind, near


class Warmup(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x + min(self.step / 10, 1.0) * self.layer(x)


X = torch.linspace(-1, 1, 12).reshape(2, 6)


def _call(model):
    """Return the result of a call, and the gradients of the input and the layer."""
    x = X.clone().requires_grad_()
    result, wanted = model(x), (x, *model.parameters())
    found = torch.autograd.grad(result.sum(), wanted, materialize_grads=True)
    return result, *found


@exercise(
    "14.1",
    hints=(
        "Inductor compiles again for a float that is counted, too. Which values aren't "
        "guarded, in the lines of 'Modes, dtypes and strides'?",
        "The values of tensors. A buffer can count, if its key stays out of the "
        "checkpoint. Which method of a tensor does what min() does?",
        "self.register_buffer('step', torch.tensor(0), persistent=False), then "
        "self.step = self.step + 1, not in place, and part = (self.step / 10)"
        ".clamp(max=1). An integer counts on in bfloat16, and without dimensions it "
        "leaves the result's dtype alone.",
    ),
    passed="The step is a tensor: its value flows through the one graph there is.",
    made=lambda answer: answer(6),
    inputs=[(X,)] * 13,
    graphs=1,
    compiles=1,
)
def fixed(answer):
    model, reference = answer(6), Warmup(6)
    part, wanted = (torch.nn.Sequential(m).state_dict() for m in (model, reference))
    if strange := {key.removeprefix("0.") for key in part.keys() ^ wanted.keys()}:
        return f"the keys of the state_dict differ: {', '.join(sorted(strange))}"
    model.load_state_dict(reference.state_dict())
    compiled = torch.compile(model, backend="eager")
    for n in range(1, 14):
        for each in (model, reference):
            each.train(n != 5)
        if not (all(map(near, _call(compiled), _call(reference))) and model.step == n):
            how = ", in eval()," if n == 5 else ""
            return f"compiled, call {n}{how} gives another result, gradient or step"
    if told := in_place(model, X):
        return told
    half = answer(6).bfloat16()
    for _ in range(300):  # bfloat16 has no 257
        half(X.bfloat16())
    if int(half.step) != 300:
        return f"in bfloat16, a new model's step is {int(half.step)} after 300 calls"
    if half(X.bfloat16()).dtype != torch.bfloat16:
        return "in bfloat16, the result has another dtype than Warmup's"
    return left_behind(half)
