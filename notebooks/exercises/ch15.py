"""Checks and hints of notebook 15."""

import torch
from torch._dynamo.decorators import mark_unbacked
from torch._higher_order_ops import associative_scan

from helpers.exercises import CountingBackend, difference, exercise, fresh, one_graph
from helpers.text import count

# --- 15.1 ----------------------------------------------------------------------


def _halved(x, limit):
    turns = torch.zeros((), dtype=torch.int64)
    while x.abs().max() > limit:
        x, turns = x / 2, turns + 1
    return x, turns


@exercise(
    "15.1",
    hints=(
        "The number of turns depends on a value. Which of the operations of the "
        "lesson goes on until a value says stop?",
        "Two things are carried from turn to turn, x and the number of turns, and "
        "both must be tensors. The limit may be read from outside.",
        "while_loop(lambda x, turns: x.abs().max() > limit, lambda x, turns: (x / 2, "
        "turns + 1), (x, torch.zeros((), dtype=torch.int64))).",
    ),
    passed="One graph, and as many turns as the numbers need.",
)
def halve_in_the_graph(answer):
    torch.manual_seed(0)
    cases = [(4, 1.0, 9.0), (7, 5.0, 1.0), (3, 0.5, 3e37)]  # the second: no turn
    inputs = [
        (torch.rand(size).add(0.5) * scale, torch.tensor(limit))
        for size, limit, scale in cases
    ]
    target = fresh(answer)
    if fault := one_graph(target, *inputs[0]):
        return fault
    compiled = torch.compile(target, backend="eager")
    for name, function in (("in eager", answer), ("compiled", compiled)):
        for x, limit in inputs:
            result, wanted = function(x.clone(), limit), _halved(x, limit)
            turns = int(wanted[1])
            given = f"{name}, for {count(turns, 'turn')}"
            if not isinstance(result, (tuple, list)) or len(result) != 2:
                return f"{given}: two results were asked for, x and the turns"
            if not torch.allclose(result[0], wanted[0]):
                return f"{given}, x is not what halved returns"
            if int(result[1]) != turns:
                return f"{given}, the number of turns is {int(result[1])}"
    return None


# --- 15.2 ----------------------------------------------------------------------


def _pairs(x):
    rows = len(x)
    sums = x.new_zeros((rows + 1) // 2, x.shape[1])
    return sums.index_add_(0, torch.arange(rows) // 2, x)


@exercise(
    "15.2",
    hints=(
        "Three ways to ask a size stood in the table. Which of them cost one compile "
        "in each row?",
        "statically_known_true, from torch.fx.experimental.symbolic_shapes, is True "
        "only where the compiler knows it without a look at the example.",
        "if statically_known_true(x.shape[0] % 2 == 0): return x.view(-1, 2, "
        "x.shape[1]).sum(1). Otherwise pair = torch.arange(x.shape[0]) // 2; return "
        "x.new_zeros((x.shape[0] + 1) // 2, x.shape[1]).index_add_(0, pair, x).",
    ),
    passed="The view where it is free, and one graph for every size that is not known.",
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


# --- 15.3 ----------------------------------------------------------------------


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
    "15.3",
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
