"""Checks and hints of notebook 27."""

from concurrent.futures import ThreadPoolExecutor

import torch

from course.backend import CountingBackend
from course.exercises import exercise, fresh
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
        "The gradient mode belongs to the thread, and is guarded; so is whether x was "
        "made in inference mode. Which length always gets a version of its own?",
        "Enter torch.inference_mode() yourself. Call with one row first where 1 is a "
        "length, and then with two of the others: the second makes the size dynamic.",
        "others = [n for n in lengths if n > 1][:2]. with torch.inference_mode(): for "
        "n in [1] * (1 in lengths) + others: compiled(torch.zeros(n, 8)).",
    ),
    passed="Nothing is left to compile, for no length and in no thread.",
)
def warm_for_the_threads(warm):
    several = [5, 17, 9, 2, 1], [1, 5, 17, 9, 2], [6]
    return next(filter(None, (_left_by(warm, lengths) for lengths in several)), None)


def _left_by(warm, lengths):
    torch.compiler.reset()
    backend = CountingBackend()
    compiled = torch.compile(fresh(_mean), backend=backend)
    default = torch.compiler.set_stance("default")  # put back, whatever it sets
    with default, ThreadPoolExecutor(1) as pool, unlogged():
        warm(compiled, list(lengths))
        spent = len(backend.captured)
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
    return None if spent <= 3 else f"it compiles {spent} times, and 3 are enough"


# --- 27.2 ----------------------------------------------------------------------


def _infinite(series):
    return series.square().mean(0) / 0.0


def _served(model, rows, backend):
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        for n in rows:
            compiled(_rows(n))
    return compiled


def _eager_for_one(compiled, model):
    # Twice: a count of all runs must not hide the one that is missing.
    return lambda x: (compiled(x), compiled(x))[1] if len(x) > 1 else model(x)


def _off(graph, inputs):
    return lambda *given: tuple(y - 0.0002 for y in graph(*given))


def _not_a_number(graph, inputs):
    return lambda *given: tuple(y * float("nan") for y in graph(*given))


def _off_at_five(graph, inputs):
    def run(*given):
        rows = next(len(x) for x in given if isinstance(x, torch.Tensor))
        off = 0.01 * (rows == 5) * torch.linspace(-1, 1, 8)  # its mean is 0
        return tuple(y + off for y in graph(*given))

    return run


def _raises_at_twelve(graph, inputs):  # the last sample
    def run(*given):
        if any(len(x) == 12 for x in given if isinstance(x, torch.Tensor)):
            raise ValueError("twelve rows")
        return graph(*given)

    return run


CASES = {  # what it is: the lengths of its warm-up, its backend, may it serve?
    "a good model": ((1, 5, 6), "eager", True),
    "a good model under eager_on_recompile": ((1, 5, 6), "eager", True),
    "a warm-up that forgot a length": ((5, 6), "eager", False),
    "a model that is 0.0002 too low": ((1, 5, 6), _off, False),
    "a model that is off by 0.01 for five rows": ((1, 5, 6), _off_at_five, False),
    "a model whose answers are NaN": ((1, 5, 6), _not_a_number, False),
    "a model that raises": ((1, 6, 7), _raises_at_twelve, False),
    "a model whose answers are infinite, in eager too,": ((1, 5, 6), "eager", False),
    "a model that is eager for one row": ((5, 6), "eager", False),
}


@exercise(
    "27.2",
    hints=(
        "Which stance turns a compile into an error? And what does torch.allclose say "
        "about NaN, and about two that are infinite?",
        "with torch.no_grad(), torch.compiler.set_stance('fail_on_recompile'): compare "
        "each sample, and ask runs() around it. The with block puts the stance back. "
        "An error means False.",
        "try: with torch.no_grad(), torch.compiler.set_stance('fail_on_recompile'): "
        "for x in samples: before, y = runs(), compiled(x); if runs() == before or not "
        "torch.allclose(y, eager(x), atol=1e-4) or not y.isfinite().all(): return "
        "False. except Exception: return False. At the end return True.",
    ),
    passed="The good model passes, and each broken one is stopped.",
)
def ready_or_not(ready):
    from torch._dynamo import eval_frame

    samples = [_rows(n) for n in (5, 1, 12)]
    for what, (rows, inner, good) in CASES.items():
        torch.compiler.reset()
        function = _infinite if "infinite" in what else _mean
        model, backend = fresh(function), CountingBackend(inner)
        own = "eager_on_recompile" if "recompile" in what else "default"
        compiled = _served(model, rows, backend)
        if "eager for one" in what:
            compiled = _eager_for_one(compiled, model)
        with torch.compiler.set_stance(own), unlogged():
            answer = ready(compiled, model, samples, backend.ran.__len__)
            stance = eval_frame._stance.stance
        if answer is not good:
            wanted = "pass" if good else "be stopped"
            return f"{what} should {wanted}, and your gate says {answer!r}"
        if stance != own:
            return f"after {what}, the stance is {stance}, and it was {own}"
    return None
