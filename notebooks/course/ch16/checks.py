"""Checks and hints of notebook 16."""

import _thread
import functools
import threading
import time
from contextlib import contextmanager

import torch
from torch._dynamo.decorators import mark_unbacked
from torch._higher_order_ops import associative_scan

from course.backend import CountingBackend
from course.exercises import (
    difference,
    exercise,
    fresh,
    near,
    one_graph,
)
from helpers.text import count

# --- 16.1 ----------------------------------------------------------------------


HALVED = (  # numbers, the limit, and a dtype
    ([3.0, -9.0], 1.0, torch.float32),
    ([2.0, -1.0], 5.0, torch.float32),
    ([4.0, 1.0], 1.0, torch.float32),  # it ends on the limit itself
    ([3e37], 0.5, torch.float32),
    ([[1e300], [7.0]], 1e-300, torch.float64),
)


def _halved(x, limit):
    turns = torch.zeros((), dtype=torch.int64)
    while x.abs().max() > limit:
        x, turns = x / 2, turns + 1
    return x, turns


@contextmanager
def _ended_after(seconds):
    """End what runs in the block when it has used so much of the processor.

    A loop that is endless uses it without a pause; a busy machine gives less of it.
    """
    done, ended, before = threading.Event(), [], time.process_time()

    def watch():
        while not done.wait(0.2):
            if time.process_time() - before > seconds:
                ended.append(True)
                _thread.interrupt_main()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except KeyboardInterrupt:
        if not ended:  # it was the reader
            raise
        raise TimeoutError from None
    finally:
        done.set()
        watcher.join()


@exercise(
    "16.1",
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
    try:
        with _ended_after(20):
            return _faults_of_halving(answer)
    except TimeoutError:
        return "the loop does not end: does the body make x smaller in each turn?"


def _faults_of_halving(answer):
    target = fresh(answer)
    if fault := one_graph(target, torch.ones(3), torch.tensor(0.3)):
        return fault
    backend = CountingBackend()
    compiled = torch.compile(target, backend=backend)
    for numbers, limit, dtype in HALVED:
        x = torch.tensor(numbers, dtype=dtype)
        limit = torch.tensor(limit, dtype=dtype)
        result, turns = compiled(x.clone(), limit)
        wanted, wanted_turns = _halved(x, limit)
        given = f"for {count(int(wanted_turns), 'turn')}"
        if not near(result, wanted):
            return f"{given}, x is not what halved returns"
        if repr(turns) != repr(wanted_turns):
            return f"{given}, the number of turns is {turns!r}, not {wanted_turns!r}"
    largest = max(len(graph.graph.nodes) for graph in backend.captured)
    if largest > 100:
        return f"a graph of {largest} nodes: the loop was unrolled, so it has a bound"
    return None


# --- 16.2 ----------------------------------------------------------------------


def _pairs(x):
    rows = len(x)
    sums = x.new_zeros((rows + 1) // 2, x.shape[1])
    return sums.index_add_(0, torch.arange(rows) // 2, x)


@exercise(
    "16.2",
    hints=(
        "Three ways to ask a size were tried on 64, 32 and 7 rows. Which of them ran "
        "one version for all?",
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
    cases = [(torch.randn(rows, 4),) for rows in (8, 7, 6)]
    others = [(torch.randn(rows, 3, dtype=torch.float64),) for rows in (6, 5)]
    if fault := difference(pairs, _pairs, cases + others):
        return f"in eager, these are not the sums of neighbours: {fault}"

    def versions(mark=lambda x, dim: None, **options):
        """Return the graphs that are captured for 8, 7 and 6 rows."""
        backend = CountingBackend()
        compiled = torch.compile(
            fresh(pairs), backend=backend, fullgraph=True, **options
        )

        def marked(x):
            mark(x, 0)
            return compiled(x)

        fault = difference(marked, _pairs, cases)
        assert not fault, f"compiled, {fault}"
        return backend.captured

    code = versions(dynamic=False)[0].code
    if not any(f"{way}(" in code for way in ("view", "reshape", "unflatten")):
        return "8 rows are known to be even, and the graph has no view"
    if "index_add" in code:
        return "8 rows are known to be even, and the graph has index_add, too"
    for kind, graphs in (
        ("an unbacked size", versions(mark_unbacked)),
        ("dynamic=True", versions(dynamic=True)),
    ):
        if len(graphs) != 1:
            return (
                f"{kind}, 8, 7 and 6 rows cost {count(len(graphs), 'compile')}, and "
                "1 is enough: a guard was made"
            )
    return None


# --- 16.3 ----------------------------------------------------------------------


def _forgetful(keep, new, begins):
    state, states = torch.zeros_like(new[0]), []
    for k, n, begin in zip(keep, new, begins, strict=True):
        state = torch.where(begin > 0, n, k * state + n)
        states.append(state)
    return torch.stack(states)


def _from_the_end(combine, pieces):
    return functools.reduce(lambda late, early: combine(early, late), pieces[::-1])


JOINS = {"letter by letter": functools.reduce, "from the end": _from_the_end}


@exercise(
    "16.3",
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
    keep, new, begins = torch.rand(8, 3), torch.randn(8, 3), torch.zeros(8, 3)
    begins[[1, 5, 6]] = 1.0
    text = keep, new, begins
    pieces, states = list(zip(*text, strict=True)), _forgetful(*text)
    for how, join in JOINS.items():
        for letter in range(1, 8):
            if not near(join(combine, pieces[: letter + 1])[1], states[letter]):
                return (
                    f"books begin at letters 1, 5 and 6; pieces joined {how}: the "
                    f"state at letter {letter} is not that of forgetful_loop"
                )
    try:
        scanned = associative_scan(combine, text, dim=0, combine_mode="generic")[1]
    except Exception as error:
        return (
            f"associative_scan cannot capture it ({type(error).__name__}): no if on a "
            "tensor, nothing written outside, and a tuple of three tensors back"
        )
    return None if near(scanned, states) else "in associative_scan the states differ"
