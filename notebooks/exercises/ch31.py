"""Checks and hints of notebook 31."""

import torch

from helpers.exercises import CountingBackend, exercise


def _near(found, wanted):
    return isinstance(found, torch.Tensor) and (
        found.shape == wanted.shape
        and torch.allclose(found, wanted, rtol=1e-4, atol=1e-5)
    )


# --- 31.1 ----------------------------------------------------------------------


@exercise(
    "31.1",
    hints=(
        "Which line needs the number itself, and does it have to be compiled?",
        "Compile the arithmetic only, as a function of x and keep. The look-up is "
        "Python, before the call.",
        "arithmetic = torch.compile(lambda x, keep: ..., backend=backend); "
        "return lambda x, t, table: arithmetic(x, table[t]).",
    ),
    passed="Eleven timesteps, one compile.",
)
def any_timestep(make_step):
    torch.compiler.reset()
    backend = CountingBackend()
    step = make_step(backend)
    torch.manual_seed(31)
    table = torch.linspace(0.99, 0.01, 1000)
    for n, t in enumerate(range(990, 0, -90)):
        x = torch.randn(2, 6)
        backend.ran.clear()
        found = step(x, t, table)
        keep = table[t]
        if not _near(found, keep.sqrt() * x + (1 - keep).sqrt() * torch.tanh(x)):
            return f"at timestep {t} the values are not those of step"
        made = len(backend.captured)
        if not backend.ran:
            return f"call {n + 1} ran no compiled code, after {made} graphs"
        if not any("tanh" in str(node.target) for node in backend.ran[0].graph.nodes):
            return "the arithmetic is not in the graph"
    if made != 1:
        return f"eleven timesteps made {made} graphs, and one is enough"
    return None


# --- 31.2 ----------------------------------------------------------------------


@exercise(
    "31.2",
    hints=(
        "An if on a float is a guard on that float. A float that is only calculated "
        "with becomes a symbol at its second value, and that is a compile, too.",
        "Ask the if outside, and compile the two ways as two functions. A scale that "
        "is a tensor costs no second compile.",
        "one = torch.compile(model, backend=backend); two = torch.compile(lambda x, s: "
        "..., backend=backend); return lambda x, scale: one(x) if scale <= 1 else "
        "two(x, torch.tensor(scale)).",
    ),
    passed="Guidance on or off, at any scale: two compiles.",
)
def on_and_off(make_guide):
    torch.compiler.reset()
    backend = CountingBackend()
    torch.manual_seed(31)
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh())
    guide = make_guide(model, backend)
    for scale in (7.5, 5.0, 1.0, 3.0, 0.5, 2.0, 0.0):
        x = torch.randn(1, 6)
        backend.ran.clear()
        found = guide(x, scale)
        wanted = model(x)
        if scale > 1:
            plain = model(x * 0)
            wanted = plain + scale * (wanted - plain)
        if not _near(found, wanted):
            return f"with scale {scale} the values are not those of guide"
        if not backend.ran:
            return f"scale {scale} ran no compiled code"
    if len(backend.captured) > 2:
        return f"seven requests made {len(backend.captured)} graphs, and two are enough"
    if len(backend.captured) < 2:
        return "guidance off costs two rows, too"
    return None
