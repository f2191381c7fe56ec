"""Checks and hints of notebook 08."""

import logging
import types

import torch

from helpers import graphs, session, recompiles
from helpers.exercises import exercise
from helpers.exercises import foreign
from helpers.text import count

# --- 08.1 ----------------------------------------------------------------------

CALLS = 24


class _Warmup(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = torch.nn.Linear(width, width)
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x + min(self.step / 10, 1.0) * self.layer(x)


def _made(cls, width):
    torch.manual_seed(width)
    return cls(width)


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
    wrong = _results_fault(answer, lambda model: model, "in eager")
    if wrong:
        return wrong
    x = torch.linspace(-1, 1, 24).reshape(4, 6)
    found = graphs(_made(answer, 6), x)
    if found.count != 1 or found.breaks:
        return f"one graph was asked for. Found: {found}"
    with torch.compiler.config.patch(recompile_limit=64):
        cost = recompiles(_made(answer, 6), [(x,)] * CALLS)
    if cost.total > 2:
        last = [call for call in cost.calls if call.compiles][-1]
        why = "; ".join(last.reasons)
        return (
            f"{CALLS} calls cost {cost.total} compiles, and at most 2 were asked for. "
            f"The last one compiled because {why}"
        )
    return _results_fault(
        answer, lambda model: torch.compile(model, backend="eager"), "compiled"
    )


def _results_fault(cls, wrap, how):
    for width in (6, 3):
        theirs, mine = _made(_Warmup, width), _made(cls, width)
        strange = set(theirs.state_dict()) ^ set(mine.state_dict())
        if strange:
            return f"the keys of the state_dict differ: {', '.join(sorted(strange))}"
        called = wrap(mine)
        for n in range(1, 14):
            x = torch.linspace(-1, 1, 2 * width).reshape(2, width) * n
            if not torch.allclose(called(x), theirs(x), atol=1e-5):
                return f"{how}, call {n} returns something else than Warmup does"
            if int(getattr(mine, "step", -1)) != n:
                return f"{how}, int(model.step) is not {n} after {count(n, 'call')}"
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
    tensors = [torch.randn(n, 5) for n in (32, 7, 100, 2, 33)]
    for x in tensors:
        got = answer(x)
        if type(got) is not torch.Tensor or got.shape != (len(x),):
            return f"for {len(x)} rows it does not return one distance for each"
        if not torch.allclose(got, _distances(x), atol=1e-5):
            return f"for {len(x)} rows it does not return what distances returns"
    return _promise_fault(answer, tensors)


def _promise_fault(answer, tensors):
    captured = []

    def backend(graph, inputs):
        captured.append(graph)
        return graph

    compiled = torch.compile(answer, backend=backend, fullgraph=True)
    logging.disable(logging.ERROR)  # torch logs what the message below says
    try:
        for x in tensors:
            torch._dynamo.mark_dynamic(x, 0)
            if not torch.allclose(compiled(x), _distances(x), atol=1e-5):
                return f"compiled, {len(x)} rows give something else"
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
    if len(captured) != 1:
        return f"{count(len(captured), 'graph')} for five sizes, and one was asked for"
    if hidden := foreign(captured[0]):
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


def _kinds(fn, sizes):
    """Return the versions that are needed: 0 and 1, and what is open."""
    parity = fn is _in_pairs
    return len({n if n < 2 else 2 + parity * (n % 2) for n in sizes})


PLANS = (
    ("any length to 40", _centred, range(2, 41)),
    ("1 to 30", _centred, range(1, 31)),
    ("0 to 12", _centred, range(13)),
    ("multiples of 8", _in_pairs, range(8, 80, 8)),
    ("1 to 20, even and odd apart", _in_pairs, range(20, 0, -1)),
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
    for name, fn, sizes in PLANS:
        captured, ran, calls = [], [], []
        twin = _twin(fn, captured, ran)

        def compiled(x, twin=twin, calls=calls):
            calls.append(x.shape[0])
            return twin(x)

        with session.undisturbed():  # what torch learned of sizes is put aside
            answer(compiled, lambda n: torch.ones(n, 3), list(sizes))
            fault = _plan_fault(twin, calls, (captured, ran), fn, sizes)
        if fault:
            return f"for {name}: {fault}"
    return None


def _twin(fn, captured, ran):
    """Return fn compiled under a code object of its own, which notes its graphs."""
    code = fn.__code__.replace()
    fresh = types.FunctionType(code, fn.__globals__, fn.__name__)

    def backend(graph, inputs):
        captured.append(graph)
        return lambda *tensors: ran.append(graph) or graph(*tensors)

    return torch.compile(fresh, backend=backend)


def _plan_fault(twin, calls, noted, fn, sizes):
    captured, ran = noted
    if len(calls) > 4:
        return f"{count(len(calls), 'call')}, and at most 4 were asked for"
    for n in sizes:
        ran.clear()
        with torch.compiler.set_stance("fail_on_recompile"):
            try:
                twin(torch.ones(n, 3))
            except RuntimeError:
                return f"after the warm-up, size {n} still needs a compile"
        if not ran:
            return f"after the warm-up, size {n} runs eagerly: no graph is run for it"
    needed = _kinds(fn, sizes)
    if len(captured) > needed:
        made = count(len(captured), "version")
        return f"{made} were compiled, and {needed} would do"
    return None
