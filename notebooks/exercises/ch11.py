"""Checks and hints of notebook 11."""

import contextlib
import random

import torch
from functorch.compile import make_boxed_func as boxed
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.decorators import mark_unbacked
from torch._higher_order_ops import associative_scan

from helpers.exercises import exercise
from helpers.text import count

# --- 11.1 ----------------------------------------------------------------------


def _forgetful(keep, new, fresh):
    state, states = torch.zeros_like(new[0]), []
    for k, n, f in zip(keep, new, fresh, strict=True):
        state = torch.where(f > 0, n, k * state + n)
        states.append(state)
    return torch.stack(states)


def _text(letters, begins):
    """Return the pieces of a text with books that begin at some letters."""
    keep, new = torch.rand(letters, 3), torch.randn(letters, 3)
    fresh = torch.zeros(letters, 3)
    fresh[list(begins)] = 1.0
    keep[2] = 0.0  # a letter may fade all
    return keep, new, fresh


def _folded(combine, pieces, cut):
    """Return one piece made of all, bracketed as *cut* says."""
    if len(pieces) == 1:
        return pieces[0]
    at = cut(len(pieces))
    early, late = (_folded(combine, p, cut) for p in (pieces[:at], pieces[at:]))
    return combine(early, late)


_BRACKETS = {
    "letter by letter": lambda n: n - 1,
    "from the end": lambda n: 1,
    "in halves": lambda n: n // 2,
    "at random": lambda n: random.Random(n).randrange(1, n),
}


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
    for begins in ((), (0,), (4,), (1, 5, 6)):
        text = _text(8, begins)
        pieces, wanted = list(zip(*text, strict=True)), _forgetful(*text)
        for name, cut in _BRACKETS.items():
            if problem := _bracketed(combine, pieces, wanted, name, cut, begins):
                return problem
    return _scanned(combine, text, wanted)


def _bracketed(combine, pieces, wanted, name, cut, begins):
    where = f"books begin at letters {', '.join(map(str, begins)) or 'none'}"
    for end in range(2, len(pieces) + 1):
        piece = _folded(combine, pieces[:end], cut)
        if not isinstance(piece, tuple | list) or len(piece) != 3:
            return "it does not return three parts: (fade, added, fresh)"
        if not all(torch.is_tensor(p) and p.shape == wanted[0].shape for p in piece):
            return "not all parts are tensors of the shape that came in"
        if not torch.allclose(piece[1], wanted[end - 1], atol=1e-5):
            return (
                f"{where}; pieces joined {name}: the state at letter {end - 1} is not "
                "that of forgetful_loop"
            )
    return None


def _scanned(combine, text, wanted):
    try:
        found = associative_scan(combine, text, dim=0, combine_mode="generic")[1]
    except Exception as error:
        return (
            f"associative_scan cannot capture it ({type(error).__name__}): no if on a "
            "tensor, and nothing written outside"
        )
    if not torch.allclose(found, wanted, atol=1e-5):
        return "in associative_scan the states are not those of forgetful_loop"
    return None


# --- 11.2 ----------------------------------------------------------------------


def _pairs(x):
    rows = len(x)
    sums = x.new_zeros((rows + 1) // 2, x.shape[1])
    return sums.index_add_(0, torch.arange(rows) // 2, x)


def _captured(pairs, sizes, mark=None, **options):
    """Return the graphs, as code, of one compile that was called for each size."""
    found = []

    def keep(graph, _):
        found.append(graph.code)
        return graph

    def fresh(x):
        return pairs(x)

    torch._dynamo.reset_code(fresh.__code__)
    compiled = torch.compile(fresh, backend=keep, **options)
    for rows in sizes:
        x = torch.randn(rows, 4)
        wanted = _pairs(x)
        if mark:
            mark(x, 0)
        if not torch.allclose(compiled(x), wanted, atol=1e-5):
            found.append("wrong")
    return found


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
    for rows in (8, 7, 1, 2):
        x = torch.randn(rows, 4)
        found = pairs(x.clone())
        if not torch.is_tensor(found) or found.shape != _pairs(x).shape:
            return f"{rows} rows, in eager: it does not return {(rows + 1) // 2} rows"
        if not torch.allclose(found, _pairs(x), atol=1e-5):
            return f"{rows} rows, in eager: the sums are not those of neighbours"
    known = _captured(pairs, (8,), dynamic=False)
    if not any(op in "".join(known) for op in ("view(", "index_add")):
        return "neither a view nor index_add_ is in a graph: was it captured?"
    if "index_add" in "".join(known):
        return "8 rows are known to be even, and index_add_ ran: a view was wanted"
    return _open_sizes(pairs)


def _open_sizes(pairs):
    try:
        blind = _captured(pairs, (8, 7, 6), mark_unbacked, fullgraph=True)
    except Exception:
        return "an unbacked size raised: some branch asked for its value"
    seen = _captured(pairs, (8, 7, 6), dynamic=True)
    for kind, graphs in (("unbacked", blind), ("dynamic=True", seen)):
        if "wrong" in graphs:
            return f"{kind}, 8, 7 and 6 rows: compiled, a sum is wrong"
        if len(graphs) != 1:
            return (
                f"{kind}, 8, 7 and 6 rows cost {count(len(graphs), 'compile')}, and 1 "
                "is enough: a guard was made"
            )
    return None


# --- 11.3 ----------------------------------------------------------------------

_LIBRARY = """
def note(text):
    torch._dynamo.graph_break()

def weigh(x):
    torch._dynamo.graph_break()
    return torch.erf(x) * {number}

def stranger(x, w):
    h = x @ w
    note(f"halfway {{h.dim()}}")
    return weigh(h).tanh() + x.sum()
"""


def _library(number):
    """Return the names of a small library, in which two functions break a graph."""
    names = {"torch": torch}
    exec(_LIBRARY.format(number=number), names)
    return names


def _results(fn, x, w):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    out = fn(x, w)
    return out, *torch.autograd.grad(out.sum(), (x, w))


def _settings():
    config = torch._dynamo.config
    return {k: repr(v) for k, v in config.get_config_copy().items()}


@contextlib.contextmanager
def _as_it_was():
    """Put the list of functions to ignore back, whatever was added to it."""
    config = torch._dynamo.config
    listed = set(config.ignore_logging_functions)
    try:
        yield
    finally:
        config.ignore_logging_functions = listed


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
    for number in (7, 3):
        names, plain = _library(number), _library(number)
        with _as_it_was():
            if problem := _adoption(adopted, names, plain["stranger"]):
                return problem
    return None


def _adoption(adopted, names, eager):
    before, captured, graphs = _settings(), [], []

    def record(graph, _):
        captured.append({str(n.target) for n in graph.graph.nodes})
        return boxed(graph)

    inner = aot_autograd(fw_compiler=record, bw_compiler=lambda graph, _: boxed(graph))

    def backend(graph, inputs):
        graphs.append(graph)
        return inner(graph, inputs)

    mine = adopted(names["stranger"], names["note"], names)
    if not callable(mine):
        return f"it returned {type(mine).__name__}, not a function"
    for rows in (4, 6, 9):
        x, w = torch.randn(rows, 5), torch.randn(5, 5)
        had = len(graphs)
        with torch.compiler.set_stance("default", force_backend=backend):
            found = _results(mine, x, w)
        if not all(map(torch.allclose, found, _results(eager, x, w))):
            return f"{rows} rows: result or gradient is not that of stranger"
        if problem := _whole(graphs[had:], captured, first=rows == 4):
            return problem
        if _settings() != before:
            return "after a call, a setting of torch._dynamo.config is not as it was"
    return None


def _whole(graphs, captured, first):
    if first and not graphs:
        return "nothing was captured: is it compiled?"
    if len(graphs) > 1:
        return f"one call made {len(graphs)} graphs: something breaks it still"
    if not any("erf" in target for target in captured[-1]):
        return "the erf of weigh is in no graph: it runs eagerly"
    return None
