"""Checks and hints of notebook 20."""

import copy
import itertools

import torch

from course.backend import CountingBackend
from course.exercises import exercise, near

# --- 20.1 ----------------------------------------------------------------------


def _loss_of(model, x):
    x = x.detach().requires_grad_()
    scores = model(x)
    total = scores.sum()
    [slope] = torch.autograd.grad(total, x, create_graph=True)
    return scores.square().mean() + slope.square().sum(1).mean()


class Critic(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = torch.nn.Linear(6, 8), torch.nn.Linear(8, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


@exercise(
    "20.1",
    hints=(
        "Which of the two terms is differentiated twice? Only that one must stay "
        "away from AOTAutograd.",
        "The plain model has the same weights. Call it for the penalty, and a "
        "compiled one for the scores.",
        "call = torch.compile(model, backend=backend); the loss is "
        "call(x).square().mean() plus the slope's part, from model(x) with "
        "create_graph=True.",
    ),
    passed="The penalty is computed apart, and the rest of the step stays compiled.",
)
def penalty_apart(answer):
    torch.compiler.reset()
    # By AOTAutograd, so that no graph has a backward of a backward.
    backend = CountingBackend("aot_eager")
    model, reference = Critic(), Critic()  # with the same weights
    loss_of = answer(model, backend)
    for x in torch.randn(2, 5, 6):
        loss, wanted = loss_of(x), _loss_of(reference, x)
        if not near(loss, wanted):
            return "the loss is not that of loss_of"
        model.zero_grad()
        loss.backward()
        slopes = torch.autograd.grad(wanted, list(reference.parameters()))
        for (name, weight), slope in zip(model.named_parameters(), slopes, strict=True):
            if not near(weight.grad, slope):
                return f"the loss is right, and the gradient of {name} is not"
    if not backend.ran:
        return "no compiled graph ran: what does the backend get?"
    if len(backend.captured) > 1:
        return f"{len(backend.captured)} graphs were compiled, and 1 was asked for"
    return None


# --- 20.2 ----------------------------------------------------------------------


def _fresh(kind):
    model = Critic()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    call = torch.compile(model, backend="eager") if kind == "compiled" else model
    return call, optimizer


def _run(model, optimizer, steps):
    x, losses = torch.linspace(-1, 1, 30).reshape(5, 6), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


@exercise(
    "20.2",
    hints=(
        "Into what do you load? The plain model is there in both cases: "
        "getattr(model, '_orig_mod', model).",
        "Take the prefix off the keys of the file, as "
        "consume_prefix_in_state_dict_if_present does in place: work on a copy.",
        "weights = dict(file['model']); consume_prefix_in_state_dict_if_present("
        "weights, '_orig_mod.'); getattr(model, '_orig_mod', model)"
        ".load_state_dict(weights); optimizer.load_state_dict(file['optimizer']).",
    ),
    passed="Weights and moments are back, and a wrong file raises.",
)
def any_file(answer):
    for saved, loaded in itertools.product(("compiled", "plain"), repeat=2):
        how = f"from a {saved} model into a {loaded} one"
        torch.compiler.reset()
        model, optimizer = _fresh(saved)
        _run(model, optimizer, 4)
        file = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        file = copy.deepcopy(file)
        wanted = _run(model, optimizer, 3)
        model, optimizer = _fresh(loaded)
        answer(copy.deepcopy(file), model, optimizer)
        losses = _run(model, optimizer, 3)
        if not near(losses[0], wanted[0]):
            return f"{how}, the weights are not those of the file"
        if not near(losses, wanted):
            return f"{how}, the run goes another way after its first step"
    few = dict(list(file["model"].items())[:-1])
    many = file["model"] | {"tail.weight": torch.ones(1)}
    for change, weights in (("missing", few), ("too many", many)):
        try:
            answer({**file, "model": weights}, *_fresh("compiled"))
        except Exception:
            continue
        return f"where a weight is {change} in the file, nothing is raised"
    return None
