"""Checks and hints of notebook 11."""

import contextlib

import torch
from functorch.compile import make_boxed_func as boxed
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.decorators import mark_unbacked
from torch._higher_order_ops import associative_scan

from helpers.exercises import CountingBackend, difference, exercise
from helpers.text import count

# --- 11.1 ----------------------------------------------------------------------


def _forgetful(keep, new, begins):
    state, states = torch.zeros_like(new[0]), []
    for k, n, begin in zip(keep, new, begins, strict=True):
        state = torch.where(begin > 0, n, k * state + n)
        states.append(state)
    return torch.stack(states)


BRACKETS = {  # how pieces are joined: where the last joint of n pieces lies
    "letter by letter": lambda n: n - 1,
    "from the end": lambda n: 1,
    "in halves": lambda n: n // 2,
}


def _joined(combine, pieces, cut):
    """Return one piece made of all, bracketed as *cut* says."""
    if len(pieces) == 1:
        return pieces[0]
    at = cut(len(pieces))
    early, late = (_joined(combine, p, cut) for p in (pieces[:at], pieces[at:]))
    return combine(early, late)


@exercise(
    "11.1",
    hints=(
        "Write down what a piece does to the state before it, in both cases. Then let "
        "the late piece act on what the early one left.",
        "If a book begins in the late piece, nothing of the early one is left in "
        "added. If none does, it is keep * added + new. The new piece is fresh if "
        "either is. All parts are tensors: which function chooses between two?",
        "(fade, added, first), (keep, new, second) = early, late; state = "
        "torch.where(second > 0, new, keep * added + new); return fade * keep, state, "
        "torch.maximum(first, second).",
    ),
    passed="Any bracketing gives the states of the loop: a scan may split the text.",
)
def a_scan_that_can_forget(combine):
    torch.manual_seed(0)
    for books in ((), (4,), (1, 5, 6)):
        keep, new, begins = torch.rand(8, 3), torch.randn(8, 3), torch.zeros(8, 3)
        begins[list(books)] = 1.0
        keep[2] = 0.0  # a letter may fade all
        text = keep, new, begins
        pieces, states = list(zip(*text, strict=True)), _forgetful(*text)
        where = f"books begin at letters {', '.join(map(str, books)) or 'none'}"
        for name, cut in BRACKETS.items():
            for end in range(2, 9):
                piece = _joined(combine, pieces[:end], cut)
                if not isinstance(piece, (tuple, list)) or len(piece) != 3:
                    return "it does not return three parts: (fade, added, fresh)"
                if not all(torch.is_tensor(p) and p.shape == (3,) for p in piece):
                    return "not all parts are tensors of the shape that came in"
                if not torch.allclose(piece[1], states[end - 1], atol=1e-5):
                    return (
                        f"{where}; pieces joined {name}: the state at letter {end - 1} "
                        "is not that of forgetful_loop"
                    )
    try:
        scanned = associative_scan(combine, text, dim=0, combine_mode="generic")[1]
    except Exception as error:
        return (
            f"associative_scan cannot capture it ({type(error).__name__}): no if on a "
            "tensor, and nothing written outside"
        )
    if not torch.allclose(scanned, states, atol=1e-5):
        return "in associative_scan the states are not those of forgetful_loop"
    return None


# --- 11.2 ----------------------------------------------------------------------


def _pairs(x):
    rows = len(x)
    sums = x.new_zeros((rows + 1) // 2, x.shape[1])
    return sums.index_add_(0, torch.arange(rows) // 2, x)


@exercise(
    "11.2",
    hints=(
        "Three ways to ask a size stood in the table. Which of them cost one compile "
        "in each row?",
        "statically_known_true, from torch.fx.experimental.symbolic_shapes, is True "
        "only where the compiler knows it without a look at the example.",
        "if statically_known_true(x.shape[0] % 2 == 0): return x.view(-1, 2, "
        "x.shape[1]).sum(1). Otherwise pair = torch.arange(x.shape[0]) // 2; return "
        "x.new_zeros((x.shape[0] + 1) // 2, x.shape[1]).index_add_(0, pair, x).",
    ),
    passed="The view where it is free, and one graph for all open sizes.",
)
def fast_where_it_is_free(pairs):
    torch.manual_seed(0)
    cases = [(torch.randn(rows, 4),) for rows in (8, 7, 6, 1)]
    if fault := difference(pairs, _pairs, cases):
        return f"in eager, these are not the sums of neighbours: {fault}"

    def compiled(sizes, mark=lambda x, dim: None, **options):
        """Return the graphs of a compile that was called for each size, and a fault."""
        backend = CountingBackend()
        target = torch.compile(lambda x: pairs(x), backend=backend, **options)

        def marked(x):
            mark(x, 0)
            return target(x)

        fault = difference(marked, _pairs, cases[:sizes])
        return [graph.code for graph in backend.captured], fault

    known, _ = compiled(1, dynamic=False)
    if not any(op in "".join(known) for op in ("view(", "index_add")):
        return "neither a view nor index_add_ is in a graph: was it captured?"
    if "index_add" in "".join(known):
        return "8 rows are known to be even, and index_add_ ran: a view was wanted"
    try:
        unbacked = compiled(3, mark_unbacked, fullgraph=True)
    except Exception:
        return "an unbacked size raised: some branch asked for its value"
    dynamic = compiled(3, dynamic=True)
    for kind, (versions, fault) in (("unbacked", unbacked), ("dynamic=True", dynamic)):
        if fault:
            return f"{kind}, compiled, {fault}"
        if len(versions) != 1:
            return (
                f"{kind}, 8, 7 and 6 rows cost {count(len(versions), 'compile')}, and "
                "1 is enough: a guard was made"
            )
    return None


# --- 11.3 ----------------------------------------------------------------------

LIBRARY = """
def note(text):
    torch._dynamo.graph_break()

def weigh(x):
    torch._dynamo.graph_break()
    return torch.erf(x) * 7

def stranger(x, w):
    h = x @ w
    note(f"halfway {h.dim()}")
    return weigh(h).tanh() + x.sum()
"""


def _library():
    """Return the names of a small library, in which two functions break a graph."""
    names = {"torch": torch}
    exec(LIBRARY, names)
    return names


def _results(fn, x, w):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    out = fn(x, w)
    return out, *torch.autograd.grad(out.sum(), (x, w))


def _settings():
    settings = torch._dynamo.config.get_config_copy()
    return {name: repr(value) for name, value in settings.items()}


@contextlib.contextmanager
def _ignored_functions_restored():
    config = torch._dynamo.config
    before = set(config.ignore_logging_functions)
    try:
        yield
    finally:
        config.ignore_logging_functions = before


@exercise(
    "11.3",
    hints=(
        "Two tools of the first section, one for note and one for weigh. When is a "
        "setting read: at torch.compile, or at the first call?",
        "weigh is looked up in namespace, so a nonstrict_trace of it can stand there. "
        "note goes into ignore_logging_functions, by config.patch, round each call: "
        "any of them may compile.",
        'namespace["weigh"] = torch._dynamo.nonstrict_trace(namespace["weigh"]); '
        "compiled = torch.compile(stranger, fullgraph=True); return a function that "
        "does `with torch._dynamo.config.patch(ignore_logging_functions={note}): "
        "return compiled(*inputs)`.",
    ),
    passed="One graph, gradients and all, of a function that nobody edited.",
)
def somebody_elses_function(adopted):
    torch.manual_seed(0)
    eager, names = _library()["stranger"], _library()
    graphs, captured, settings = [], [], _settings()

    def forward_compiler(graph, _):
        captured.append({str(n.target) for n in graph.graph.nodes})
        return boxed(graph)

    inner = aot_autograd(
        fw_compiler=forward_compiler, bw_compiler=lambda graph, _: boxed(graph)
    )

    def backend(graph, inputs):
        graphs.append(graph)
        return inner(graph, inputs)

    with _ignored_functions_restored():
        ours = adopted(names["stranger"], names["note"], names)
        if not callable(ours):
            return f"it returned {type(ours).__name__}, not a function"
        for rows in (4, 6, 9):
            x, w = torch.randn(rows, 5), torch.randn(5, 5)
            graphs.clear()
            with torch.compiler.set_stance("default", force_backend=backend):
                results = _results(ours, x, w)
            if not all(map(torch.allclose, results, _results(eager, x, w))):
                return f"{rows} rows: result or gradient is not that of stranger"
            if rows == 4 and not graphs:
                return "nothing was captured: is it compiled?"
            if len(graphs) > 1:
                return f"one call made {len(graphs)} graphs: something breaks it still"
            if not any("erf" in target for target in captured[-1]):
                return "the erf of weigh is in no graph: it runs eagerly"
            if _settings() != settings:
                return "a call leaves a setting of torch._dynamo.config changed"
    return None
