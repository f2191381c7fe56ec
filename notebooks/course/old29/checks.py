"""Checks and hints of notebook 29."""

import torch

from course.backend import CountingBackend
from course.exercises import exercise, fresh, near, one_compile
from helpers.text import count

ROOM, WIDTH = 32, 8

# --- 29.1 ----------------------------------------------------------------------


class Memory(torch.nn.Module):
    def __init__(self, room, width):
        super().__init__()
        self.at = 0
        self.register_buffer("rows", torch.zeros(room, width))

    def forward(self, x):
        self.rows[self.at] = x[0]
        self.at += 1
        seen = self.rows[: self.at]
        return (x @ seen.T).softmax(-1) @ seen


@exercise(
    "29.1",
    hints=(
        "An int on a module compiles for each token. Which kind of position is not "
        "guarded?",
        "A tensor. rows.index_copy_ takes it; rows[at] would take the number out. The "
        "slice of the rows seen so far needs an integer, so look at all rows, and hide "
        "those behind the position.",
        "self.register_buffer('at', torch.zeros(1, dtype=torch.long)); "
        "self.rows.index_copy_(0, self.at, x); hidden = torch.arange(len(self.rows)) > "
        "self.at; scores = (x @ self.rows.T).masked_fill(hidden, -torch.inf).",
    ),
    passed="The position is a tensor: one version writes every row.",
)
def mended(answer):
    torch.manual_seed(0)
    vectors = torch.randn(ROOM, 1, WIDTH)
    model, reference = answer(ROOM, WIDTH), Memory(ROOM, WIDTH)
    for n, x in enumerate(vectors, 1):
        if not near(model(x), reference(x)):
            return f"call {n} returns something else than Memory does"
    if int(model.at) != ROOM:
        return f"int(model.at) is not {ROOM} after {ROOM} calls"
    return one_compile(lambda: answer(ROOM, WIDTH), [(x,) for x in vectors])


# --- 29.2 ----------------------------------------------------------------------

PROMPTS = (5, 7, 2)


def _step(tokens, rows, at):
    places = at + torch.arange(len(tokens))
    rows.index_copy_(0, places, tokens)
    seen = torch.arange(ROOM) <= places[-1]
    scores = (tokens[-1:] @ rows.T).masked_fill(~seen, -torch.inf)
    return scores.softmax(-1) @ rows


@exercise(
    "29.2",
    hints=(
        "A call with one token needs a version of its own. All prompts together may "
        "have one more. When is that one made, and for which length?",
        "Tell torch before the first prompt that its length varies: by mark_dynamic "
        "where it has more than one token, or by an argument of torch.compile.",
        "return torch.compile(step, backend=backend, dynamic=True).",
    ),
    passed="Two versions: one for prompts of any length, and one for decode.",
)
def two_versions(answer):
    torch.manual_seed(0)
    backend = CountingBackend()
    serve = answer(fresh(_step), backend)
    for length in PROMPTS:
        ours, wanted = torch.zeros(2, ROOM, WIDTH)
        at = torch.tensor(0)
        for many in (length, 1, 1):
            tokens = torch.randn(many, WIDTH)
            backend.ran.clear()
            where = f"prompt of {length}, call with {count(many, 'token')}"
            if not near(serve(tokens, ours, at), _step(tokens, wanted, at)):
                return f"{where}: the result is wrong"
            if not backend.ran:
                return f"{where}: it ran no graph: is it compiled?"
            if len(backend.ran) > 1:
                return f"{where}: it ran {len(backend.ran)} graphs, and a call is one"
            at = at + many
    if (versions := len(backend.captured)) > 2:
        return f"{count(versions, 'version')} for {len(PROMPTS)} prompts, not 2"
    return None
