"""Checks and hints of notebook 28."""

import torch

from course.backend import CountingBackend
from course.exercises import exercise, near
from helpers import session

# --- 28.1 ----------------------------------------------------------------------

TRAFFIC = (
    ("two texts", [[5, 6, 7, 8], [9, 4]]),
    ("three texts", [[3, 3, 3], [8], [2, 6, 4, 9, 7]]),
    ("one text", [[7, 1, 5]]),
    ("one token", [[4]]),
    ("a hundred texts, of up to 100 tokens", [[9] * (1 + n) for n in range(100)]),
    ("a thousand texts", [[3 + n % 9] for n in range(1000)]),
    ("one text, as long as the model takes", [[n % 16 for n in range(256)]]),
)


class Encoder(torch.nn.Module):
    """An encoder as those of transformers are called; a mask hides what is padded."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words = torch.nn.Embedding(16, 8)
        self.places = torch.nn.Embedding(256, 8)
        self.mix = torch.nn.Linear(8, 8)

    def forward(self, input_ids=None, attention_mask=None):
        place = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.words(input_ids) + self.places(place)
        close = x @ self.mix(x).transpose(1, 2)
        if attention_mask is not None:
            close = close.masked_fill(attention_mask[:, None] == 0, -1e9)
        return (close.softmax(-1) @ x,)


@exercise(
    "28.1",
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
    model, backend = Encoder().eval(), CountingBackend()
    torch.compiler.reset()
    with session.undisturbed():  # nothing is known of sizes
        answer = serve(model, backend)
        for what, texts in TRAFFIC:
            backend.ran.clear()
            vectors = answer([list(text) for text in texts])
            wanted = torch.cat([model(torch.tensor([t]))[0][:, 0] for t in texts])
            if not near(vectors, wanted):
                return f"{what}: another answer. Does the mask hide what you padded?"
            if not backend.ran:
                return f"{what}: nothing ran that your backend compiled"
            if len(backend.captured) > 1:
                return f"{what}: compiled again. What differs from the calls before?"
    return None


# --- 28.2 ----------------------------------------------------------------------


def denoise(latents, time):
    if not isinstance(time, torch.Tensor):
        time = torch.tensor(time, dtype=torch.float32, device=latents.device)
    waves = torch.exp(-torch.arange(4, device=latents.device)) * time.float()
    return latents * waves.cos() + waves.sin()


STEPS = (
    ("an int", 8, 999),
    ("another int", 8, 749),
    ("a float", 8, 499.5),
    ("a tensor of ints", 8, torch.tensor(249)),
    ("a tensor of float64", 8, torch.tensor(12.5, dtype=torch.float64)),
    ("three latents", 3, 7),
)


@exercise(
    "28.2",
    hints=(
        "A number is guarded by its value, a tensor by its dtype. Where can both "
        "become the same, before compiled code is called?",
        "torch.as_tensor(time, dtype=torch.float32) takes a number and a tensor. Made "
        "inside the compiled function, it is too late. And the rows change as well.",
        "def call(latents, time): time = torch.as_tensor(time, dtype=torch.float32, "
        "device=latents.device); torch._dynamo.mark_dynamic(latents, 0); return "
        "compiled(latents, time).",
    ),
    passed="Numbers and tensors take the same version.",
)
def one_kind_of_time(steady):
    backend = CountingBackend()
    torch.compiler.reset()
    with session.undisturbed():  # nothing is known of sizes
        call = steady(denoise, backend)
        for what, rows, time in STEPS:
            latents = torch.linspace(-1, 2, rows * 4).view(rows, 4)
            backend.ran.clear()
            if not near(call(latents, time), denoise(latents, time)):
                return f"{what}: the result is not that of denoise"
            if not backend.ran:
                return f"{what}: nothing ran that your backend compiled"
            if (graphs := len(backend.captured)) > 1:
                return f"{what}: that makes {graphs} graphs, and one was asked for"
    return None
