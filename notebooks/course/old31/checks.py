"""Checks and hints of notebook 31."""

import torch

from course.backend import CountingBackend
from course.exercises import exercise, near
from helpers.text import count

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
    passed="Any timestep, one compile.",
)
def any_timestep(make_step):
    backend = CountingBackend()
    torch.compiler.reset()
    step = make_step(backend)
    torch.manual_seed(31)
    one = torch.linspace(0.99, 0.01, 1000)
    for t, table in ((990, one), (660, one), (330, one.square())):
        x, keep = torch.randn(2, 6), table[t]
        backend.ran.clear()
        wanted = keep.sqrt() * x + (1 - keep).sqrt() * torch.tanh(x)
        if not near(step(x, t, table), wanted):
            other = "" if table is one else ", of another table,"
            return f"at timestep {t}{other} the values are not those of step"
        if not backend.ran:
            return f"at timestep {t} no compiled code ran"
    if (graphs := len(backend.captured)) != 1:
        return f"three timesteps made {graphs} graphs, and one is enough"
    calls = [node for node in backend.captured[0].graph.nodes if "call" in node.op]
    if len(calls) < 4:  # tanh, two products, a sum
        return f"only {count(len(calls), 'operation')} of the arithmetic is compiled"
    return None


# --- 31.2 ----------------------------------------------------------------------


def _rows(graph):
    """Return how many rows a graph's linear layers are given."""
    linear = graph.graph.find_nodes(
        op="call_function", target=torch.nn.functional.linear
    )
    return sum(int(node.meta["example_value"].shape[0]) for node in linear)


def _takes_a_scale(graph):
    """Tell whether one number, a float or a tensor of one, is an input."""
    given = [
        node.meta.get("example_value")
        for node in graph.graph.find_nodes(op="placeholder")
    ]
    return any(
        isinstance(value, torch.SymFloat)
        or (isinstance(value, torch.Tensor) and all(n == 1 for n in value.shape))
        for value in given
    )


@exercise(
    "31.2",
    hints=(
        "An if on a float is a guard on that float. A float that multiplies a tensor "
        "becomes a symbol at its second value, and that is a compile, too.",
        "Ask the if outside, and compile the two ways as two functions. A scale that "
        "is a tensor costs no second compile.",
        "one = torch.compile(model, backend=backend); two = torch.compile(lambda x, s: "
        "..., backend=backend); return lambda x, scale: one(x) if scale <= 1 else "
        "two(x, torch.tensor(scale)).",
    ),
    passed="Guidance on or off, at any scale: two compiles.",
)
def on_and_off(make_guide):
    backend = CountingBackend()
    torch.compiler.reset()
    torch.manual_seed(31)
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Tanh())
    guide, eager = make_guide(model, backend), []
    for scale in (7.5, 5.0, 1.0, 3.0, 0.5):
        x = torch.randn(1, 6)
        backend.ran.clear()
        wanted = model(x)
        if scale > 1:
            plain = model(x * 0)
            wanted = plain + scale * (wanted - plain)
        if not near(guide(x, scale), wanted):
            return f"with scale {scale} the values are not those of guide"
        if not backend.ran:
            return f"scale {scale} ran no compiled code"
        rows = sum(_rows(backend.captured[ran]) for ran in backend.ran)
        if scale <= 1 < rows:
            return f"scale {scale} costs {rows} rows, and one is enough"
        if scale > 1 and not any(
            _takes_a_scale(backend.captured[ran]) for ran in backend.ran
        ):
            eager.append(scale)
    graphs = len(backend.captured)
    if graphs > 2:
        return f"five requests made {graphs} graphs, and two are enough"
    if eager:
        return f"no graph that ran gets the scale {eager[0]}: its arithmetic is eager"
    return None
