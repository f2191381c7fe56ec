"""Checks and hints of notebook 30."""

from types import SimpleNamespace

from course.exercises import exercise

# --- 30.1 ----------------------------------------------------------------------

CEILINGS = ("arithmetic", "bandwidth", "memory")
NAMES = ("parameters", "tokens", "seconds", "chip", "dtype", "trains")
ROWS = (  # near to each ceiling from both sides, and what is broken
    ((8.03e9, 300, 0.048, "a100", "bfloat16", True), {"bandwidth"}),
    ((8.03e9, 300, 0.09, "a100", "bfloat16", True), set()),
    ((8.03e9, 1, 1 / 120, "a100", "bfloat16", False), set()),
    ((8.03e9, 1, 1 / 140, "a100", "bfloat16", False), {"bandwidth"}),
    ((5.2e9, 64, 60.0, "a100", "float32", True), set()),
    ((5.6e9, 64, 60.0, "a100", "float32", True), {"memory"}),
    ((11e9, 64, 60.0, "a100", "bfloat16", True), {"memory"}),
    ((4e9, 1, 0.05, "a100", "float32", True), {"bandwidth"}),
    ((1e9, 47_000, 0.3, "h100", "bfloat16", True), set()),
    ((1e9, 56_000, 0.3, "h100", "bfloat16", True), {"arithmetic"}),
    ((1e9, 2000, 0.3, "a100", "float32", True), {"arithmetic"}),
    ((1e9, 100_000, 0.8, "a100", "bfloat16", False), set()),
    ((1e9, 100_000, 0.5, "a100", "bfloat16", False), {"arithmetic"}),
    ((8.03e9, 1, 1.0, "a100", "float32", False), set()),
    ((20e9, 1, 60.0, "a100", "float32", False), set()),
    ((24e9, 1, 60.0, "a100", "float32", False), {"memory"}),
    ((1e9, 10_000, 0.8, "a100", "float32", False), {"arithmetic"}),
    ((8.03e9, 1, 1 / 80, "a100", "float32", False), {"bandwidth"}),
    ((5e9, 1, 1 / 150, "rtx4090", "bfloat16", False), {"bandwidth"}),
    ((14e9, 1, 1 / 20, "rtx4090", "bfloat16", False), {"memory"}),
    ((14e9, 1e6, 1 / 50, "rtx4090", "bfloat16", False), {*CEILINGS}),
)


@exercise(
    "30.1",
    hints=(
        "plausible takes all three at once, and says what is broken. Three numbers "
        "differ between a row that trains and one that does not.",
        "A row that trains: six operations for a parameter and a token, seven trips, "
        "four arrays. One that does not: two, one and one. How large is an array?",
        "array = row.parameters * {'float32': 4, 'bfloat16': 2}[row.dtype]; then "
        "plausible(row.chip, row.seconds, flops=..., moved=trips * array, "
        "memory=arrays * array, dtype=row.dtype).broken.",
    ),
    passed="It refuses what cannot be, and nothing else.",
)
def refuse(answer):
    for values, broken in ROWS:
        row = SimpleNamespace(**dict(zip(NAMES, values, strict=True)))
        names = answer(row) or ()
        listed = hasattr(names, "__iter__") and not isinstance(names, str)
        names = set(names) if listed else names
        if not listed or names - {*CEILINGS}:
            return (
                "return the names of what is broken, such as ('memory',), and an "
                f"empty one for nothing: this is {names!r}"
            )
        if missed := ", ".join(sorted(broken - names)):
            return f"not refused, though it breaks its {missed}: {vars(row)}"
        if wrong := ", ".join(sorted(names - broken)):
            return f"refused for its {wrong}, which is not broken: {vars(row)}"
    return None
