"""Checks and hints of notebook 12."""

from dataclasses import fields

import torch

from helpers.benchmark import Comparison
from helpers.exercises import exercise, near, same

# --- 12.1 ----------------------------------------------------------------------

EAGER_S = 0.010
IGNORED = "the mode was ignored here: CUDA graphs need tensors on an NVIDIA GPU"


def _race(verdict, call_s, first_s, notes=()):
    """Return a comparison with eager's 10 ms that nobody ran."""
    ratio = EAGER_S / call_s
    spread = 1.3 if verdict == "cannot tell" else 1.001
    unknown = dict.fromkeys(field.name for field in fields(Comparison))
    known = {
        "speedup": ratio,
        "interval": (ratio / spread, ratio * spread),
        "verdict": verdict,
        "median_s": (EAGER_S, call_s),
        "cold_start_s": first_s,
        "matches": True,
        "notes": notes,
    }
    return Comparison(**unknown | known)


DEFAULT, TUNED = _race("faster", 0.005, 1.0), _race("faster", 0.004, 60.0)
PLANTED = (  # what is planted, the races, calls, the answer, why
    (
        "max-autotune is faster per call, default is cheaper to start",
        {"default": DEFAULT, "max-autotune": TUNED},
        1_000,
        "default",
        "so few calls do not pay for a long first one",
    ),
    (
        "the same two, over 50 calls",
        {"default": DEFAULT, "max-autotune": TUNED},
        50,
        "eager",
        "no mode is paid back by then",
    ),
    (
        "reduce-overhead has the least time per call, but was ignored",
        {
            "default": DEFAULT,
            "reduce-overhead": _race("faster", 0.0049, 1.0, ("a note", IGNORED)),
        },
        10_000,
        "default",
        "what was ignored is default under another name: read the notes",
    ),
    (
        "the verdict of max-autotune is cannot tell",
        {"default": DEFAULT, "max-autotune": _race("cannot tell", 0.0045, 1.0)},
        10_000,
        "default",
        "a median without a verdict is no evidence",
    ),
    (
        "nothing is found to be faster",
        {"lite": _race("slower", 0.012, 0.1), "default": _race("same", 0.00995, 0.1)},
        10_000,
        "eager",
        "then eager it is",
    ),
    (
        "201 calls, and a first call of 1.006 s",
        {"default": _race("faster", 0.005, 1.006)},
        201,
        "default",
        "the first call is a call, too: calls - 1 are left to run at full speed",
    ),
)


@exercise(
    "12.1",
    hints=(
        "Sort out first what is no evidence: another verdict than faster, or a note "
        "that the mode was ignored. Then compare totals, not single calls.",
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
    for what, races, calls, wanted, why in PLANTED:
        mode = answer(dict(races), calls)
        if not same(mode, wanted):
            return (
                f"planted: {what}. For {calls:,} calls the answer is {wanted!r}, not "
                f"{mode!r}: {why}"
            )
    return None


# --- 12.2 ----------------------------------------------------------------------


class Recorder:
    """The imitation of the lesson, which counts its recordings and replays."""

    def __init__(self):
        self.recordings = self.replays = 0

    def __call__(self, f, x):
        self.recordings += 1
        memory = x.clone()
        out = f(memory)

        def replay(new):
            assert new.shape == memory.shape, (
                f"a recording for {tuple(memory.shape)} was replayed with "
                f"{tuple(new.shape)}: it fits one shape"
            )
            self.replays += 1
            memory.copy_(new)
            return out.copy_(f(memory))

        return replay


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

    recorder = Recorder()
    g = answer(f, recorder)
    if not callable(g):
        return f"graphed returns a function, not {type(g).__name__}"
    torch.manual_seed(0)
    inputs = [torch.randn(n, 4) for n in (8, 8, 3, 8, 3, 5)]
    before, results = [x.clone() for x in inputs], []
    for n, x in enumerate(inputs):
        results.append(g(x))
        if not near(results[n], f(x)):
            return f"call {n} does not give what f gives, a tensor like x"
    if not all(map(torch.equal, inputs, before)):
        return "the caller's tensor was changed"
    if not recorder.recordings:
        return "nothing was recorded: use record(f, x)"
    if recorder.recordings > 3:
        many = recorder.recordings
        return f"{many} recordings for 3 shapes: a recording can be used again"
    if recorder.replays < len(inputs) - recorder.recordings:
        return (
            f"{len(inputs)} calls and {recorder.replays} replays: f ran itself, and "
            "the recordings were for nothing"
        )
    for n, (x, result) in enumerate(zip(inputs, results, strict=True)):
        if not torch.allclose(result, f(x)):
            return f"the result of call {n} was overwritten by a later one"
    other = answer(lambda x: x + 1, Recorder())
    if not torch.equal(other(inputs[0]), inputs[0] + 1):
        return "a second graphed function uses the recordings of the first"
    return None


# --- 12.3 ----------------------------------------------------------------------


CASES = (  # what it is, the function, the options, and which of them do anything
    (
        "an option that changes no text, and one that changes it",
        lambda x: torch.relu(x * 2 + 1),
        {"triton.cudagraphs": True, "cpp.simdlen": 1},
        {"cpp.simdlen"},
    ),
    (
        "options that fall back to eager's operations, or change nothing",
        lambda x: torch.softmax(x, -1) * 2,
        {"fallback_by_default": True, "coordinate_descent_tuning": True},
        {"fallback_by_default"},
    ),
    (
        "a matrix product, which is the library's whatever the options",
        lambda x: x @ x.t(),
        {"cpp.simdlen": 1, "fallback_by_default": True},
        set(),
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
    torch.manual_seed(0)
    x = torch.randn(16, 64)
    for what, f, options, wanted in CASES:
        names = answer(f, dict(options), x)
        if isinstance(names, str) or not hasattr(names, "__iter__"):
            return f"the names were wanted, in a list, not {names!r:.60}"
        names = set(names)
        if more := names - wanted:
            return f"{what}: {', '.join(map(str, more))} leaves every kernel as it was"
        if missed := wanted - names:
            return f"{what}: {', '.join(missed)} changes a kernel, and was not found"
    return None
