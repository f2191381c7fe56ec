"""Chapter 09: what each exercise asks of an answer, and its hints."""

import random

import torch

from helpers.benchmark import Comparison
from helpers.exercises import exercise
from helpers.exercises import same

IGNORED = "the mode was ignored here: CUDA graphs need tensors on an NVIDIA GPU"
EAGER_S = 0.010


def _race(verdict, call_s, first_s, notes=()):
    """Return a comparison with planted numbers."""
    ratio = EAGER_S / call_s
    spread = 1.3 if verdict == "cannot tell" else 1.001
    return Comparison(
        names=("eager", "compiled"),
        speedup=ratio,
        interval=(ratio / spread, ratio * spread),
        confidence=0.95,
        verdict=verdict,
        median_s=(EAGER_S, call_s),
        cold_start_s=first_s,
        compiles=1,
        graphs=1,
        graph_breaks=0,
        page_faults=None,
        peak_bytes=None,
        matches=True,
        max_error=0.0,
        error64=None,
        rounds=(),
        notes=notes,
        threads=1,
        device="cpu",
        scope="planted",
    )


DEFAULT = _race("faster", 0.005, 1.0)
TUNED = _race("faster", 0.004, 60.0)
PLANTED = (
    # what is planted, the races, calls, answer, what to say
    (
        "only max-autotune, over many calls",
        {"max-autotune": TUNED},
        20_000,
        "max-autotune",
        "it saves time from the first ten thousand calls on",
    ),
    (
        "max-autotune is faster per call, default is cheaper to start",
        {"default": DEFAULT, "max-autotune": TUNED},
        1_000,
        "default",
        "so few calls do not pay for a long first one",
    ),
    (
        "the same two, over many calls",
        {"default": DEFAULT, "max-autotune": TUNED},
        100_000,
        "max-autotune",
        "with so many calls the gain per call decides",
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
        {
            "default": _race("same", 0.00995, 0.1),
            "lite": _race("slower", 0.012, 0.1),
            "max-autotune": _race("cannot tell", 0.009, 0.1),
        },
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
    ("no races at all", {}, 10, "eager", "there is nothing else"),
)


def _drawn():
    """Return races that were drawn by lot, in the form of PLANTED."""
    races, saved, said = {}, {"eager": 0.0}, []
    calls = random.choice((10, 300, 5_000, 40_000))
    for mode in random.sample(("default", "lite", "max-autotune", "mine"), 3):
        verdict = random.choice(("faster", "faster", "cannot tell"))
        call_s, first_s = random.uniform(0.003, 0.009), random.uniform(0.5, 70)
        notes = random.choice(((), (), (IGNORED,)))
        races[mode] = _race(verdict, call_s, first_s, notes)
        said.append(f"{mode} {verdict}{', ignored' if notes else ''}")
        said[-1] += f", {call_s:.4f} s a call, the first {first_s:.1f} s"
        if verdict == "faster" and not notes:
            saved[mode] = calls * EAGER_S - first_s - (calls - 1) * call_s
    what = f"races drawn by lot ({'; '.join(said)}; eager {EAGER_S} s)"
    return what, races, calls, max(saved, key=saved.get), "count for each that counts"


@exercise(
    "09.1",
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
    for what, races, calls, wanted, why in (*PLANTED, *(_drawn() for _ in range(30))):
        found = answer(dict(races), calls)
        if not same(found, wanted):
            return (
                f"planted: {what}. For {calls:,} calls the answer is {wanted!r}, not "
                f"{found!r}: {why}"
            )
    return None


class Recorder:
    """The imitation of the chapter, which counts its recordings."""

    def __init__(self):
        self.recordings, self.replays = [], 0

    def __call__(self, f, x):
        self.recordings.append(tuple(x.shape))
        held = x.clone()
        out = f(held)

        def replay(new):
            if new.shape != held.shape:
                raise AssertionError(
                    f"a recording for {tuple(held.shape)} was replayed with "
                    f"{tuple(new.shape)}: it fits one shape"
                )
            self.replays += 1
            held.copy_(new)
            out.copy_(f(held))
            return out

        return replay


@exercise(
    "09.2",
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
    make = torch.Generator().manual_seed(9)
    inputs = [torch.randn(n, 4, generator=make) for n in (8, 8, 3, 8, 3, 5)]
    before = [x.clone() for x in inputs]
    results = []
    for number, x in enumerate(inputs):
        y = g(x)
        if type(y) is not torch.Tensor or y.shape != x.shape:
            return f"call {number} does not give what f gives, a tensor like x"
        if not torch.allclose(y, f(x)):
            return f"call {number} does not give what f gives"
        results.append(y)
    for x, old in zip(inputs, before, strict=True):
        if not torch.equal(x, old):
            return "the caller's tensor was changed"
    n, shapes = len(recorder.recordings), len({x.shape for x in inputs})
    if not n:
        return "nothing was recorded: use record(f, x)"
    if n > shapes:
        return f"{n} recordings for {shapes} shapes: a recording can be used again"
    if recorder.replays < len(inputs) - n:
        return (
            f"{len(inputs)} calls and {recorder.replays} replays: f ran itself, and "
            "the recordings were for nothing"
        )
    for number, (x, y) in enumerate(zip(inputs, results, strict=True)):
        if not torch.allclose(y, f(x)):
            return f"the result of call {number} was overwritten by a later one"
    other = answer(lambda x: x + 1, Recorder())
    if not torch.equal(other(inputs[0]), inputs[0] + 1):
        return "a second graphed function uses the recordings of the first"
    return None


def _scaled(x):
    return torch.relu(x * 2 + 1)


def _two_steps(x):
    return torch.softmax(x, -1) * 2


CASES = (
    (
        "an option that changes no text, and one that changes it",
        _scaled,
        {"triton.cudagraphs": True, "cpp.simdlen": 1},
        {"cpp.simdlen"},
    ),
    ("options for a GPU only", _scaled, {"max_autotune": True}, set()),
    (
        "options that fall back to eager's operations, or change nothing",
        _two_steps,
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
    "09.3",
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
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(3))
    for what, f, options, wanted in CASES:
        found = answer(f, dict(options), x)
        if isinstance(found, str) or not hasattr(found, "__iter__"):
            return f"the names were wanted, in a list, not {found!r:.60}"
        found = list(found)
        if not all(isinstance(name, str) for name in found):
            return f"the names were wanted, in a list, not {found!r:.60}"
        if set(found) != wanted:
            more = sorted(set(found) - wanted)
            missed = sorted(wanted - set(found))
            if more:
                return f"{what}: {', '.join(more)} leaves every kernel as it was"
            return f"{what}: {', '.join(missed)} changes a kernel, and was not found"
    return None
