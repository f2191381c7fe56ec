"""Checks and hints of notebook 28."""

import copy

import torch

from course.backend import CountingBackend
from course.exercises import exercise, left_behind, near, one_compile
from course.failures import failure
from helpers import session

ROOM, WIDTH = 40, 6

# --- 28.1 ----------------------------------------------------------------------


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
    "28.1",
    hints=(
        "An int on a module compiles for each token. Which kind of position is not "
        "guarded?",
        "A tensor. rows.index_copy_ takes it. The slice of the rows seen so far needs "
        "an integer, so look at all rows, and hide those behind the position.",
        "self.register_buffer('at', torch.zeros(1, dtype=torch.long)); "
        "self.rows.index_copy_(0, self.at, x); hidden = torch.arange(len(self.rows), "
        "device=x.device) > self.at; scores = (x @ self.rows.T).masked_fill(hidden, "
        "-torch.inf). And self.at = self.at + 1, not in place.",
    ),
    passed="The position is a tensor: one version writes every row.",
)
@torch.enable_grad()
def fixed(answer):
    torch.manual_seed(0)
    vectors = torch.randn(ROOM, 1, WIDTH)
    vectors[1], vectors[2:4] = 0, torch.eye(WIDTH)[:2, None]  # scores of 0, too
    vectors[4] *= 20  # an exp of its scores is infinite
    compiled = torch.compile(answer(ROOM, WIDTH), backend="eager")
    return (
        _unlike_memory(answer(ROOM, WIDTH), vectors)
        or _unlike_memory(answer(9, 2), vectors[:9, :, :2], "with room 9 and width 2, ")
        or one_compile(lambda: answer(ROOM, WIDTH), [(x,) for x in vectors])
        or _unlike_memory(compiled, vectors, "compiled, ")
        or _forgotten(answer, *vectors[:2])
        or _unlike_memory(
            answer(ROOM, WIDTH).double(), vectors.double(), "as float64, "
        )
        or _elsewhere(answer(ROOM, WIDTH).to("meta"), vectors[0].to("meta"))
    )


def _elsewhere(model, x):
    error = str(failure(model, x))  # meta tensors can't be asked for a number: no fault
    return f"on another device: {error:.90}" if "device" in error else None


def _unlike_memory(model, vectors, how=""):
    reference = Memory(len(vectors), vectors.shape[-1]).to(vectors)
    for n, x in enumerate(vectors, 1):
        if not near(model(x), reference(x)):
            return f"{how}call {n} returns something else than Memory does"
        if int(model.at) != n:
            return f"{how}int(model.at) is {int(model.at)} after {n} calls"
        if torch.is_floating_point(torch.as_tensor(model.at)):
            return "at is a float, which as bfloat16 ends at 256"
    return None


def _forgotten(answer, first, second):
    model, reference = answer(ROOM, WIDTH), Memory(ROOM, WIDTH)
    model(first), reference(first)
    saved = copy.deepcopy(model.state_dict())
    loaded = answer(ROOM, WIDTH)
    loaded.load_state_dict(saved)
    if near(loaded(second), reference(second)) and "rows" in saved:
        return left_behind(loaded)
    return (
        "a saved model forgets its rows or its at: load its state_dict into a new one"
    )


# --- 28.2 ----------------------------------------------------------------------

TRAFFIC = (
    ("eight texts", [[3] * 8] * 8),  # as many rows as columns
    ("two texts", [[5, 6, 7, 8], [9, 4]]),
    ("three texts", [[3, 3, 3], [8], [2, 6, 4, 9, 7]]),
    ("one text", [[7, 1, 5]]),
    ("one token", [[4]]),
    ("a hundred texts, of up to 100 tokens", [[9] * (1 + n) for n in range(100)]),
    ("three thousand texts", [[3 + n % 9] for n in range(3000)]),
    ("one text, as long as the model takes", [[n % 16 for n in range(256)]]),
)


class Encoder(torch.nn.Module):
    """An encoder as those of transformers are called; a mask hides what is padded."""

    eager = 0  # calls, of all encoders

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words = torch.nn.Embedding(16, 8)
        self.places = torch.nn.Embedding(256, 8)
        self.mix = torch.nn.Linear(8, 8)

    def forward(self, input_ids=None, attention_mask=None):
        if not torch.compiler.is_compiling():
            Encoder.eager += 1
        place = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.words(input_ids) + self.places(place)
        close = x @ self.mix(x).transpose(1, 2)
        if attention_mask is not None:
            close = close.masked_fill(attention_mask[:, None] == 0, -1e9)
        return (close.softmax(-1) @ x,)


@exercise(
    "28.2",
    hints=(
        "What may differ between two requests: keys, rows, length. Which of them can "
        "you keep the same, and which must be marked?",
        "Pad all texts with 0 to the longest and make a mask of 1 and 0. Sizes of 1 "
        "are compiled apart, so neither the rows nor the length may be 1.",
        "rows = max(2, len(texts)); length = max(2, *map(len, texts)); fill two "
        "tensors of zeros; torch._dynamo.mark_dynamic(x, [0, 1]) for both; return "
        "compiled(input_ids=ids, attention_mask=mask)[0][: len(texts), 0].",
    ),
    passed="One compile, and padding changes no answer.",
)
@torch.no_grad()
def one_compile_for_all(serve):
    model, reference, backend = Encoder().eval(), Encoder().eval(), CountingBackend()
    torch.compiler.reset()
    with session.undisturbed():  # nothing is known of sizes
        answer, kept = serve(model, backend), ()
        for what, texts in TRAFFIC:
            backend.ran.clear()
            before = Encoder.eager
            vectors = answer(given := [list(text) for text in texts])
            if Encoder.eager > before:
                return f"{what}: the model was called in eager mode"
            if given != texts:
                return f"{what}: it changes the texts that it's given"
            wanted = torch.cat([reference(torch.tensor([t]))[0][:, 0] for t in texts])
            if (shape := getattr(vectors, "shape", None)) != wanted.shape:
                return f"{what}: its shape is {shape}, and {wanted.shape} is asked for"
            if not near(vectors, wanted):
                asks = "Is each row of the first token? Is just what you padded hidden?"
                return f"{what}: the answer differs. {asks}"
            if not backend.ran:
                return f"{what}: nothing ran that your backend compiled"
            if len(backend.captured) > 1:
                return f"{what}: compiled again. What differs from the calls before?"
            kept = kept or (vectors, wanted)
    return None if near(*kept) else "a later request overwrites an earlier answer"
