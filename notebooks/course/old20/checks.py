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
    def __init__(self, drop=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = torch.nn.Linear(6, 8), torch.nn.Linear(8, 1)
        self.drop = torch.nn.Dropout(drop)

    def forward(self, x):
        return self.head(self.drop(torch.tanh(self.body(x))))


def _layers_in(graph):
    """Return how many linear layers a captured graph has."""
    functional = torch.nn.functional
    return sum(node.target is functional.linear for node in graph.graph.nodes)


def _doubling(graph, inputs):
    return lambda *tensors: [2 * made for made in graph.forward(*tensors)]


@exercise(
    "20.1",
    hints=(
        "One way is a larger graph. Which two things must be in it? The gradient "
        "that is trained, and the backward that it comes from.",
        "The compiled function holds the whole loss, and gets a leaf: make the leaf "
        "outside. trace_autograd_ops lets the inner gradient in.",
        "loss = torch.compile(whole, backend=backend, fullgraph=True); call "
        "loss(model, x.detach().requires_grad_()) under "
        "torch._dynamo.config.patch(trace_autograd_ops=True). whole is loss_of "
        "without its first line.",
    ),
    passed="The gradients of the penalty are right, and the forward is compiled.",
)
@torch._dynamo.config.patch(trace_autograd_ops=False)  # the page has set it
def penalty_trains(answer):
    torch.compiler.reset()
    # By AOTAutograd, so that no graph has a backward of a backward.
    backend = CountingBackend("aot_eager")
    model, reference = Critic(), Critic()  # with the same weights
    loss_of = answer(model, backend)
    for x in torch.randn(2, 5, 6):
        loss, wanted = loss_of(x), _loss_of(reference, x)
        if x.requires_grad:
            return "it changes its input, which now wants a gradient: detach it first"
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
    if _layers_in(backend.captured[0]) < 2:
        return "the graph does not hold the model's forward: it ran eagerly"
    torch.compiler.reset()
    if near(answer(Critic(), _doubling)(x), wanted):
        return "what compiled code computes is not used in the loss"
    return None


# --- 20.2 ----------------------------------------------------------------------


def _fresh(kind):
    model = Critic(drop=0.2)
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


def _holds(model, weights):
    """Return whether *model* has these weights, whatever their prefix."""
    own = model.state_dict().values()
    pairs = zip(own, weights.values(), strict=True)
    return all(torch.equal(one, saved) for one, saved in pairs)


@exercise(
    "20.2",
    hints=(
        "Into what do you load? The plain model is there in both cases: "
        "getattr(model, '_orig_mod', model).",
        "Take the prefix off the keys of the file, as "
        "consume_prefix_in_state_dict_if_present does in place: work on a copy.",
        "weights = dict(file['model']); consume_prefix_in_state_dict_if_present("
        "weights, '_orig_mod.'); getattr(model, '_orig_mod', model)"
        ".load_state_dict(weights); optimizer.load_state_dict(file['optimizer']); "
        "torch.set_rng_state(file['random']).",
    ),
    passed="Weights, moments and random numbers are back, and a wrong file raises.",
)
def any_file(answer):
    for saved, loaded in itertools.product(("compiled", "plain"), repeat=2):
        how = f"from a {saved} model into a {loaded} one"
        torch.compiler.reset()
        model, optimizer = _fresh(saved)
        _run(model, optimizer, 4)
        file = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        file = copy.deepcopy(file) | {"random": torch.get_rng_state()}
        wanted = _run(model, optimizer, 3)
        model, optimizer = _fresh(loaded)
        answer(copy.deepcopy(file), model, optimizer)
        if not _holds(model, file["model"]):
            return f"{how}, the weights are not those of the file"
        if not torch.equal(torch.get_rng_state(), file["random"]):
            return f"{how}, the random numbers do not go on where they stopped"
        if not near(_run(model, optimizer, 3), wanted):
            return f"{how}, the run goes another way after its first step"
    few = dict(list(file["model"].items())[:-1])
    tail = {"tail.weight": torch.ones(1)}
    changes = {"missing": few, "too many": file["model"] | tail}
    changes["missing, and another too many,"] = few | tail
    for change, weights in changes.items():
        try:
            answer({**file, "model": weights}, *_fresh("compiled"))
        except Exception:
            continue
        return f"where a weight is {change} in the file, nothing is raised"
    return None
