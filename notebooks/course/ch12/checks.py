"""Checks and hints of lesson 12."""

from types import SimpleNamespace

import torch

from course.exercises import exercise

# --- 12.1 ----------------------------------------------------------------------


def _race(verdict, call_s, first_s, *notes, eager_s=0.010):
    """Return a comparison with eager that nobody ran."""
    notes = "2 threads", *notes, "2 of 12 rounds were disturbed"
    return SimpleNamespace(
        verdict=verdict, median_s=(eager_s, call_s), cold_start_s=first_s, notes=notes
    )


DEFAULT, TUNED = _race("faster", 0.005, 1.0), _race("faster", 0.004, 60.0)
UNUSED = "the mode's CUDA graphs were not used: they need tensors on an NVIDIA GPU"
RECORDED = _race("faster", 0.003, 2.0, "CUDA graphs were recorded 3 times")
BOTH = {"default": DEFAULT, "max-autotune": TUNED}
SKIPPED = {"default": DEFAULT, "reduce-overhead": _race("faster", 0.004, 1.0, UNUSED)}
STILL_TUNED = {
    "default": DEFAULT,
    "max-autotune": _race("faster", 0.004, 60.0, UNUSED),
}
USED = {"default": DEFAULT, "reduce-overhead": RECORDED}
APART = {"default": DEFAULT, "lite": _race("faster", 0.010, 1.0, eager_s=0.016)}
UNSURE = {"max-autotune": _race("cannot tell", 0.0045, 1.0)}
SLOWER = {"max-autotune": _race("slower", 0.0045, 1.0)}
ALIKE = {"max-autotune": _race("same", 0.0099, 1.0)}

choose = exercise(
    "12.1",
    hints=(
        "First leave out what is no evidence: a verdict other than faster, or "
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
    cases=[
        ("default and max-autotune, 1,000 calls", (BOTH, 1_000), "default"),
        ("both, 150 calls: none is paid back", (BOTH, 150), "eager"),
        ("both, 15,000 calls: both are paid back", (BOTH, 15_000), "default"),
        ("graphs that were not used", (SKIPPED, 10_000), "default"),
        ("not used, but tuned", (STILL_TUNED, 1_000_000), "max-autotune"),
        ("graphs that were used", (USED, 10_000), "reduce-overhead"),
        ("races in which eager took 10 and 16 ms", (APART, 10_000), "lite"),
        ("a median without a verdict", (UNSURE, 10_000), "eager"),
        ("a median against its verdict", (SLOWER, 10_000), "eager"),
        ("a mode that takes the same", (ALIKE, 100_000), "eager"),
        (
            "a first call that is one of 201",
            ({"default": _race("faster", 0.005, 1.006)}, 201),
            "default",
        ),
    ],
)

# --- 12.2 ----------------------------------------------------------------------


def _softmax_last(x):
    return (x.sin() @ x.t()).softmax(-1)


def _softmax_first(x):
    return (x.softmax(-1) @ x.t()).sin()


X = torch.linspace(-1, 1, 1024).reshape(16, 64)
BUSY = {"fallback_by_default": True, "cpp.simdlen": 1}
IDLE = {"triton.cudagraphs": True, "max_fusion_size": 1}
AS_BEFORE = {"cpp.simdlen": None, "max_fusion_size": 64}
SPLIT = {"max_fusion_size": 1}
ADDS = {"use_joint_graph_passes": False}
FUNCTIONS = {
    "relu(x * 2 + 1)": (lambda x: torch.relu(x * 2 + 1), BUSY | IDLE, {*BUSY}),
    "x * 2": (lambda x: x * 2, AS_BEFORE, set()),
    # Of two kernels, the option changes the second, or the first.
    "softmax(sin(x) @ x.t())": (_softmax_last, SPLIT, {*SPLIT}),
    "sin(softmax(x) @ x.t())": (_softmax_first, SPLIT, {*SPLIT}),
    "(x * 1) @ x.t()": (lambda x: (x * 1) @ x.t(), ADDS, {*ADDS}),  # none is lost
}


@exercise(
    "12.2",
    hints=(
        "Compile once with no options, and once with each of them alone. What of the "
        "result can be compared?",
        "output_code(f, *inputs, options=...) has kernels, a dictionary. Its whole "
        "text is numbered anew with every graph, so don't compare that.",
        "def texts(o): return [*output_code(f, *inputs, options=o).kernels.values()]. "
        "Keep each name whose texts({name: value}) differ from texts({}).",
    ),
    passed="You can say which of somebody's options do anything. The others are "
    "folklore, for this function and on this machine.",
)
def culprits(answer):
    for what, (function, options, wanted) in FUNCTIONS.items():
        names = {*answer(function, dict(options), X)}
        if more := ", ".join(sorted(names - wanted)):
            return f"of {what}, {more} leaves every kernel as it was"
        if missed := ", ".join(sorted(wanted - names)):
            return f"of {what}, {missed} changes a kernel, and was not found"
    return None
