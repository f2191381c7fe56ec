"""Checks and hints of notebook 27."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch

from course.backend import CountingBackend
from course.exercises import exercise, fresh, same
from course.left_set import put_back
from course.words import unlogged
from helpers.capture import Watch

# --- 27.1 ----------------------------------------------------------------------


def _mean(series):
    size = series.square().mean(-1, keepdim=True)
    return (series * torch.rsqrt(size + 1e-6)).mean(0)


def _rows(n):
    return torch.linspace(-1, 2, n * 8).view(n, 8)


def _ask(compiled, n):
    with torch.inference_mode():
        return compiled(_rows(n))


@exercise(
    "27.1",
    hints=(
        "The gradient mode belongs to the thread, and is guarded. Which length "
        "gets its own version?",
        "Enter torch.inference_mode() yourself. Call with one row first where 1 is a "
        "length, and then with two of the others: the second makes the size dynamic.",
        "others = [n for n in lengths if n > 1][:2]. with torch.inference_mode(): for "
        "n in [1] * (1 in lengths) + others: compiled(torch.zeros(n, 8)).",
    ),
    passed="Nothing is left to compile, for no length and in no thread.",
)
def warm_for_the_threads(warm):
    several = [5, 17, 9, 2, 1], [1, 5, 17, 9, 2], [5, 9], [6], [1], [9]
    return next(filter(None, (_left_by(warm, lengths) for lengths in several)), None)


def _left_by(warm, lengths):
    torch.compiler.reset()
    backend = CountingBackend()
    compiled = torch.compile(fresh(_mean), backend=backend)
    with put_back() as left, unlogged():
        warm(compiled, list(lengths))
    if left:
        return f"it leaves {left[0]}"
    spent = len(backend.captured)
    with ThreadPoolExecutor(1) as pool, unlogged():
        for n in lengths:
            ran = len(backend.ran)
            with Watch() as watch:
                pool.submit(_ask, compiled, n).result()
            where = f"after it, {n} rows in a thread of the pool"
            if len(backend.captured) > spent:
                why = "; ".join(watch.reasons) or "nothing was compiled for them"
                if "size mismatch at index 0" in why:
                    why += ". Which sizes did your warm-up show, and in which order?"
                return f"{where} still compile, because {why}"
            if len(backend.ran) == ran:
                return f"{where} run no compiled graph"
    most = min(3, len(lengths))
    if spent > most:
        wanted = f"and {most} would be enough for the lengths {lengths}"
        return f"it compiles {spent} times, {wanted}"
    return None


# --- 27.2 ----------------------------------------------------------------------


def _infinite(series):
    return series.square().mean(0) / 0.0


def _largest(series):
    return series.amax(0)


def _in_two_graphs(series):
    size = series.square()
    torch._dynamo.graph_break()
    return size.mean(0)


def _raises_in_eager(series):
    if len(series) == 12 and not torch.compiler.is_compiling():
        raise ValueError("twelve rows")
    return _mean(series)


def _near_1000(series):
    return series.amax(0) + 1000.0


def _served(model, rows, backend):
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        for n in rows:
            compiled(_rows(n))
    return compiled


def _eager_for_one(compiled, model):
    # Twice: a count of all runs must not hide the one that is missing.
    return lambda x: (compiled(x), compiled(x))[1] if len(x) > 1 else model(x)


def _behind(first, second):
    return lambda x: (first(x), second(x))[1]


def _off(by):
    return lambda graph, inputs: lambda *given: tuple(y - by for y in graph(*given))


def _in_a_row(graph, inputs):
    return lambda *given: tuple(y[None] for y in graph(*given))


def _turned_at(rows):  # same mean, norm and largest number
    def run(graph, *given):
        there = any(len(x) == rows for x in given if isinstance(x, torch.Tensor))
        return tuple(y.flip(0) if there else y for y in graph(*given))

    return lambda graph, inputs: partial(run, graph)


def _raises_at_twelve(graph, inputs):  # the last sample
    def run(*given):
        if any(len(x) == 12 for x in given if isinstance(x, torch.Tensor)):
            raise ValueError("twelve rows")
        return graph(*given)

    return run


FIRST = -0.0002 * torch.eye(8)[0]
CASES = {  # what it is: the model, lengths of its warm-up, its backend, may it serve?
    "a good model": (_mean, (1, 5, 6), "eager", True),
    "a good model under eager_on_recompile": (_largest, (1, 5, 6), "eager", True),
    "a good model in two graphs": (_in_two_graphs, (1, 5, 6), "eager", True),
    "a good model that is 0.00009 too low": (_mean, (1, 5, 6), _off(0.00009), True),
    "a warm-up that forgot a length": (_mean, (5, 6), "eager", False),
    "a model that is 0.0002 too low": (_mean, (1, 5, 6), _off(0.0002), False),
    "a model that is wrong for five rows": (_mean, (1, 5, 6), _turned_at(5), False),
    "a model that is wrong for one row": (_mean, (1, 5, 6), _turned_at(1), False),
    "a model whose answers are NaN": (_mean, (1, 5, 6), _off(torch.nan), False),
    "a model that raises": (_mean, (1, 6, 7), _raises_at_twelve, False),
    "a model whose eager raises": (_raises_in_eager, (1, 5, 6), "eager", False),
    "a model that is infinite, in eager too,": (_infinite, (1, 5, 6), "eager", False),
    "a model that is eager for one row": (_mean, (5, 6), "eager", False),
    "a model behind another, which forgot no length,": (_mean, (5, 6), "eager", False),
    "a model with one score 0.0002 too high": (_mean, (1, 5, 6), _off(FIRST), False),
    "a model that gives 999.995 for 1000": (_near_1000, (1, 5, 6), _off(0.005), False),
    "a row of scores where eager has none": (_mean, (1, 5, 6), _in_a_row, False),
}


@exercise(
    "27.2",
    hints=(
        "Which stance turns a compile into an error? And what does torch.allclose say "
        "about infinite numbers, large ones, and another shape?",
        "with torch.no_grad(), torch.compiler.set_stance('fail_on_recompile'): compare "
        "each sample, and ask runs() around it. The with block puts the stance back. "
        "An error means False.",
        "try: with torch.no_grad(), torch.compiler.set_stance('fail_on_recompile'): "
        "for x in samples: before, y, wanted = runs(), compiled(x), eager(x); if "
        "runs() == before or y.shape != wanted.shape or not y.isfinite().all() or not "
        "torch.allclose(y, wanted, rtol=0, atol=1e-4): return False. except "
        "Exception: return False. At the end return True.",
    ),
    passed="The good model passes, and each broken one is stopped.",
)
def ready_or_not(ready):
    samples = [_rows(n) for n in (5, 1, 12)]
    for what, (function, rows, inner, good) in CASES.items():
        torch.compiler.reset()
        model, backend = fresh(function), CountingBackend(inner)
        own = "eager_on_recompile" if "recompile" in what else "default"
        grad = own == "default"
        compiled = _served(model, rows, backend)
        if "eager for one" in what:
            compiled = _eager_for_one(compiled, model)
        if "behind another" in what:
            compiled = _behind(_served(torch.sin, (1, *rows), backend), compiled)
        with (
            torch.compiler.set_stance(own),
            torch.set_grad_enabled(grad),
            put_back() as left,
            unlogged(),
        ):
            try:
                answer = ready(compiled, model, samples, backend.ran.__len__)
            except Exception as error:
                answer = error
        if not same(answer, good):
            wanted = "pass" if good else "be stopped"
            return f"{what} should {wanted}, and your gate says {answer!r}"
        if left:
            return f"after {what}, it leaves {left[0]}"
    return None
