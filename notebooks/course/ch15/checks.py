"""Checks and hints of notebook 15."""

import torch

from course.backend import CountingBackend
from course.exercises import exercise, fresh
from helpers.text import count


def _centred(x):
    return x - x.mean(0, keepdim=True)


def _in_pairs(x):
    if x.shape[0] % 2:
        x = torch.cat([x, x[-1:]])
    return x.view(-1, 2, x.shape[1]).sum(1)


PLANS = (  # what is asked, the function, the sizes, and the versions that it needs
    ("2 to 19", _centred, range(2, 20), 1),
    ("0 to 12", _centred, range(13), 3),
    ("multiples of 8", _in_pairs, range(8, 40, 8), 1),
    ("20 to 1, even and odd apart", _in_pairs, range(20, 0, -1), 3),
    ("1 to 20, even and odd apart", _in_pairs, range(1, 21), 3),
    ("odd sizes alone", _in_pairs, (3, 5), 1),
    ("even sizes, and a 15", _in_pairs, (2, 4, 6, 8, 15, 10, 12, 14, 16, 18), 2),
)


@exercise(
    "15.1",
    hints=(
        "Which sizes share a version? List the kinds, and call one size of each.",
        "The exact version of the first size is one too many: a mark on the tensor "
        "saves it.",
        "kinds = {n if n < 2 else 2 + n % 2: n for n in sizes}; for each n in "
        "kinds.values(), make(n), torch._dynamo.maybe_mark_dynamic(x, 0), call.",
    ),
    passed="Compiled before the first request, and never after it.",
)
def warm_up(answer):
    for name, function, sizes, needed in PLANS:
        backend = CountingBackend()
        target = torch.compile(fresh(function), backend=backend)
        with torch.compiler.set_stance("default"):  # it ends what an answer sets
            answer(target, lambda n: torch.ones(n, 3), list(sizes))
        calls, versions = len(backend.ran), len(backend.captured)
        if calls > 4:
            return f"for {name}: {calls} calls, and at most 4 were asked for"
        with torch.compiler.set_stance("fail_on_recompile"):
            for n in sizes:
                try:
                    served = backend.served(target, torch.ones(n, 3))
                except RuntimeError as error:
                    why = str(error).partition("#")[0].splitlines()[-1].strip(" -")
                    done = f"for {name}: after the warm-up, size {n} still compiles"
                    return f"{done}: {why}"
                if served == "eager":
                    return f"for {name}: after the warm-up, size {n} runs eagerly"
        if versions > needed:
            made = count(versions, "version")
            return f"for {name}: {made} were compiled, and {needed} would do"
    return None
