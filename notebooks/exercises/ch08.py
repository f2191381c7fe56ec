"""Checks and hints of notebook 08."""

import logging

import torch

from helpers import graphs, recompiles
from helpers.exercises import CountingBackend, difference, exercise, fresh, opaque
from helpers.text import count

# --- 08.1 ----------------------------------------------------------------------

CALLS = 24


class Warmup(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x + min(self.step / 10, 1.0) * self.layer(x)


def _seeded(cls):
    torch.manual_seed(0)
    return cls(6)


@exercise(
    "08.1",
    hints=(
        "Which counters settle, in the table of values?",
        "A buffer counts. Its keys must not reach the checkpoint, and min() of a "
        "tensor would ask for its value.",
        "self.register_buffer('step', torch.zeros(()), persistent=False), and "
        "part = (self.step / 10).clamp(max=1).",
    ),
    passed="A counter that settles: no number of calls costs a third compile.",
)
def mended_class(answer):
    if not (isinstance(answer, type) and issubclass(answer, torch.nn.Module)):
        return f"Mended is {answer!r:.60}, and a module class was asked for"
    model, reference = _seeded(answer), _seeded(Warmup)
    if strange := model.state_dict().keys() ^ reference.state_dict().keys():
        return f"the keys of the state_dict differ: {', '.join(sorted(strange))}"
    for n in range(1, 14):
        x = torch.linspace(-1, 1, 12).reshape(2, 6) * n
        if not torch.allclose(model(x), reference(x), atol=1e-5):
            return f"call {n} returns something else than Warmup does"
        if int(getattr(model, "step", -1)) != n:
            return f"int(model.step) is not {n} after {count(n, 'call')}"
    found = graphs(_seeded(answer), x)
    if found.count != 1 or found.breaks:
        return f"one graph was asked for. Found: {found}"
    with torch.compiler.config.patch(recompile_limit=64):
        cost = recompiles(_seeded(answer), [(x,)] * CALLS)
    if cost.total > 2:
        last = [call for call in cost.calls if call.compiles][-1]
        return (
            f"{CALLS} calls cost {cost.total} compiles, and at most 2 were asked for. "
            f"The last one compiled because {'; '.join(last.reasons)}"
        )
    return None


# --- 08.2 ----------------------------------------------------------------------


def _distances(x):
    return (x - x.mean(0)).norm(dim=1)


@exercise(
    "08.2",
    hints=(
        "mark_dynamic a tensor, call torch.compile(mended, backend='eager') with it, "
        "and read the error from below: which line is it?",
        "A list as long as x, and a loop over its rows, both need to know how long. "
        "A method of x does not.",
        "x.mean(0) for the mean, and (x - mean).norm(dim=1) for all rows at once.",
    ),
    passed="One graph for any number of rows: what you promised holds.",
)
def mended(answer):
    torch.manual_seed(0)
    cases = [(torch.randn(n, 5),) for n in (32, 7, 100, 2, 33)]
    if fault := difference(answer, _distances, cases):
        return f"it does not return what distances returns: {fault}"
    backend = CountingBackend()
    compiled = torch.compile(answer, backend=backend, fullgraph=True)

    def promised(x):
        torch._dynamo.mark_dynamic(x, 0)
        return compiled(x)

    logging.disable(logging.ERROR)  # torch logs what the message below says
    try:
        if fault := difference(promised, _distances, cases):
            return f"compiled, {fault}"
    except Exception as error:
        name, said = type(error).__name__, str(error)
        if name == "ConstraintViolationError":
            stack = said.partition("User stack:")[2]
            lines = [ln.strip() for ln in stack.split("\n") if ln.strip(" ~^")]
            line = next((ln for ln in reversed(lines) if "File" not in ln), "?")
            return f"the promise is broken, and dimension 0 a constant, by: {line}"
        return f"in one graph, marked, it raises {name}: {said.splitlines()[0]:.200}"
    finally:
        logging.disable(logging.NOTSET)
    versions = backend.captured
    if len(versions) != 1:
        return f"{count(len(versions), 'graph')} for five sizes, and one was asked for"
    if hidden := opaque(versions[0]):
        return (
            f"the work hides in an operator that nobody sees into, {hidden[0]}: the "
            "promise holds, and the loop over the rows is still there"
        )
    return None


# --- 08.3 ----------------------------------------------------------------------


def _centred(x):
    return x - x.mean(0, keepdim=True)


def _in_pairs(x):
    if x.shape[0] % 2:
        x = torch.cat([x, x[-1:]])
    return x.view(-1, 2, x.shape[1]).sum(1)


PLANS = (  # what is asked, the function, the sizes, and the versions that it needs
    ("any length to 40", _centred, range(2, 41), 1),
    ("1 to 30", _centred, range(1, 31), 2),
    ("0 to 12", _centred, range(13), 3),
    ("multiples of 8", _in_pairs, range(8, 80, 8), 1),
    ("1 to 20, even and odd apart", _in_pairs, range(20, 0, -1), 3),
)


@exercise(
    "08.3",
    hints=(
        "Which sizes share a version? List the kinds, and call one size of each.",
        "The exact version of the first size is one too many: a mark on the tensor "
        "saves it.",
        "kinds = {n if n < 2 else 2 + n % 2: n for n in sizes}; for each n in "
        "kinds.values(), make(n), torch._dynamo.maybe_mark_dynamic(x, 0), call.",
    ),
    passed="Compiled before the first request, and never again.",
)
def warm_up(answer):
    for name, function, sizes, needed in PLANS:
        backend, calls = CountingBackend(), []
        target = torch.compile(fresh(function), backend=backend)

        def compiled(x, target=target, calls=calls):
            calls.append(len(x))
            return target(x)

        answer(compiled, lambda n: torch.ones(n, 3), list(sizes))
        if len(calls) > 4:
            return f"for {name}: {len(calls)} calls, and at most 4 were asked for"
        with torch.compiler.set_stance("fail_on_recompile"):
            for n in sizes:
                try:
                    target(torch.ones(n, 3))
                except RuntimeError:
                    return (
                        f"for {name}: after the warm-up, size {n} still needs a compile"
                    )
        versions = len(backend.captured)
        if versions > needed:
            return (
                f"for {name}: {count(versions, 'version')} were compiled, and {needed} "
                "would do"
            )
    return None
