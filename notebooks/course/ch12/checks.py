"""Checks and hints of notebook 12."""

from types import SimpleNamespace

import torch

from course.exercises import exercise, near

# --- 12.1 ----------------------------------------------------------------------


def _race(verdict, call_s, first_s, *notes):
    """Return a comparison with eager's 10 ms that nobody ran."""
    return SimpleNamespace(
        verdict=verdict, median_s=(0.010, call_s), cold_start_s=first_s, notes=notes
    )


DEFAULT, TUNED = _race("faster", 0.005, 1.0), _race("faster", 0.004, 60.0)
UNUSED = "the mode's CUDA graphs were not used: they need tensors on an NVIDIA GPU"
RECORDED = _race("faster", 0.003, 2.0, "2 of 12 rounds were disturbed")
PLANTED = (  # the races, calls, the answer, why
    (
        {"default": DEFAULT, "max-autotune": TUNED},
        1_000,
        "default",
        "so few calls do not pay for the long first one of max-autotune",
    ),
    (
        {"default": DEFAULT, "max-autotune": TUNED},
        50,
        "eager",
        "no mode is paid back by then",
    ),
    (
        {"default": DEFAULT, "reduce-overhead": _race("faster", 0.004, 1.0, UNUSED)},
        10_000,
        "default",
        "without CUDA graphs, reduce-overhead is default by another name: read the "
        "notes",
    ),
    (
        {"default": DEFAULT, "max-autotune": _race("faster", 0.004, 60.0, UNUSED)},
        1_000_000,
        "max-autotune",
        "without CUDA graphs it still tunes, and so many calls pay for its first one",
    ),
    (
        {"default": DEFAULT, "reduce-overhead": RECORDED},
        10_000,
        "reduce-overhead",
        "its CUDA graphs were used: its note is about something else",
    ),
    (
        {"max-autotune": _race("cannot tell", 0.0045, 1.0)},
        10_000,
        "eager",
        "a median without a verdict is no evidence",
    ),
    (
        {"default": _race("faster", 0.005, 1.006)},
        201,
        "default",
        "the first call is a call, too: calls - 1 are left to run at full speed",
    ),
)


@exercise(
    "12.1",
    hints=(
        "Sort out first what is no evidence: another verdict than faster, or "
        "reduce-overhead where its CUDA graphs were not used. Then compare totals, not "
        "single calls.",
        "A mode takes cold_start_s for its first call and median_s[1] for each of the "
        "other calls - 1; eager takes median_s[0] for all of them.",
        "saved = {mode: calls * r.median_s[0] - r.cold_start_s - (calls - 1) * "
        "r.median_s[1] for each mode that counts}; best = max(saved, key=saved.get, "
        "default='eager'); return it if saved.get(best, 0) > 0, else 'eager'.",
    ),
    passed="Evidence first, then totals: a mode is chosen for a number of calls, not "
    "for its name.",
)
def choose(answer):
    for races, calls, wanted, why in PLANTED:
        mode = answer(dict(races), calls)
        if mode != wanted:
            return (
                f"planted: {', '.join(races)}. For {calls:,} calls the answer is "
                f"{wanted!r}, not {mode!r}: {why}"
            )
    return None


# --- 12.2 ----------------------------------------------------------------------


@exercise(
    "12.2",
    hints=(
        "Two things need a place: the recordings, by shape, and a result that must "
        "not be the recording's own memory.",
        "A dict outside the inner function, with x.shape as key; record only when the "
        "shape is new; clone what replay returns.",
        "known = {}; def g(x): if x.shape not in known: known[x.shape] = record(f, x); "
        "return known[x.shape](x).clone(); return g.",
    ),
    passed="One recording a shape, and results that last. This is the contract of "
    "reduce-overhead, and the price of changing sizes.",
)
def graphed(answer):
    def f(x):
        return torch.sin(x) * 3 + 1

    recorded, replayed = [], []

    def record(f, x):
        """Imitate a CUDA graph, as the lesson does."""
        recorded.append(x.shape)
        memory = x.clone()
        out = f(memory)

        def replay(new):
            replayed.append(new.shape)
            memory.copy_(new)
            return out.copy_(f(memory))

        return replay

    g = answer(f, record)
    torch.manual_seed(0)
    shapes = (8, 4), (4, 8), (8, 2), (8, 4), (4, 8)
    inputs = [torch.randn(shape) for shape in shapes]
    results = []
    for n, x in enumerate(inputs):
        before = x.clone()
        results.append(g(x))
        if not near(results[n], f(x)):
            return f"call {n} does not give what f gives, a tensor like x"
        if not torch.equal(x, before):
            return f"call {n} changed what it was given"
    if len(recorded) != 3:
        return f"{len(recorded)} recordings for 3 shapes: each can be used again"
    for n, (x, result) in enumerate(zip(inputs, results, strict=True)):
        if not near(result, f(x)):
            return f"the result of call {n} was overwritten by a later one"
    if len(replayed) < 2:
        return "two of the shapes came again, and nothing was replayed for them"
    return None


# --- 12.3 ----------------------------------------------------------------------


PLANTED_OPTIONS = (  # a function, what changes its kernels, what does not
    (
        lambda x: torch.relu(x * 2 + 1),
        {"fallback_by_default": True, "cpp.simdlen": 1},
        {"triton.cudagraphs": True, "max_fusion_size": 1},
    ),
    (
        lambda x: torch.softmax(x, -1),
        {"max_fusion_size": 1},
        {"fallback_by_default": False, "epilogue_fusion": False},
    ),
)


@exercise(
    "12.3",
    hints=(
        "Compile once with no options, and once with each of them alone. What of the "
        "result can be compared?",
        "output_code(f, *inputs, options=...) has names and kernel(name). Its whole "
        "text is numbered anew with every graph, so it never is the same.",
        "def texts(o): c = output_code(f, *inputs, options=o); return [c.kernel(n) for "
        "n in c.names]. Keep each name whose "
        "texts({name: value}) differ from texts({}).",
    ),
    passed="You can say which of somebody's options do anything. The others are "
    "folklore, for this function and on this machine.",
)
def culprits(answer):
    x = torch.linspace(-1, 1, 1024).reshape(16, 64)
    for function, busy, idle in PLANTED_OPTIONS:
        names = set(answer(function, busy | idle, x))
        if unknown := names - busy.keys() - idle.keys():
            return f"{', '.join(sorted(unknown))} was not among the options given"
        if more := names - busy.keys():
            return f"{', '.join(sorted(more))} leaves every kernel as it was"
        if missed := busy.keys() - names:
            return f"{', '.join(sorted(missed))} changes a kernel, and was not found"
    return None
