"""Checks and hints of notebook 30."""

from types import SimpleNamespace

from course.exercises import exercise

# --- 30.1 ----------------------------------------------------------------------

NAMES = ("parameters", "tokens", "seconds", "chip", "dtype", "trains")
ROWS = (  # near to each ceiling from both sides, and what is broken
    ((8.03e9, 300, 0.048, "a100", "bfloat16", True), {"bandwidth"}),
    ((8.03e9, 300, 0.058, "a100", "bfloat16", True), set()),
    ((8.03e9, 1, 1 / 120, "a100", "bfloat16", False), set()),
    ((8.03e9, 1, 1 / 140, "a100", "bfloat16", False), {"bandwidth"}),
    ((5.2e9, 64, 60.0, "a100", "float32", True), set()),
    ((5.6e9, 64, 60.0, "a100", "float32", True), {"memory"}),
    ((1e9, 47_000, 0.3, "h100", "bfloat16", True), set()),
    ((1e9, 56_000, 0.3, "h100", "bfloat16", True), {"arithmetic"}),
    ((1e9, 2000, 0.3, "a100", "float32", True), {"arithmetic"}),
    ((1e9, 100_000, 0.8, "a100", "bfloat16", False), set()),
    ((1e9, 100_000, 0.5, "a100", "bfloat16", False), {"arithmetic"}),
    ((8.03e9, 1, 1.0, "a100", "float32", False), set()),
    ((24e9, 1, 60.0, "a100", "float32", False), {"memory"}),
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
        if isinstance(names, str):
            return (
                "return the names of what is broken, such as ('memory',), and an "
                f"empty one for nothing: this is {names!r}"
            )
        if missed := ", ".join(sorted(broken - set(names))):
            return f"not refused, though it breaks its {missed}: {vars(row)}"
        if wrong := ", ".join(sorted(set(names) - broken)):
            return f"refused for its {wrong}, which is not broken: {vars(row)}"
    return None


# --- 30.2 ----------------------------------------------------------------------

INF = float("inf")
CASES = (
    ((30.0, 0.01, 0.02), (1500, 3000)),
    ((10.0, 2.0, 5.0), (2, 5)),
    ((31.0, 2.0, 3.0), (11, 16)),
    ((30.0, -0.01, 0.02), (1500, INF)),
    ((30.0, 0.0, 0.5), (60, INF)),
    ((30.0, -0.5, -0.25), (INF, INF)),
)


@exercise(
    "30.2",
    hints=(
        "The fewest calls belong to the largest gain. What if a gain is 0, or less?",
        "After 2.5 calls nothing is paid back: it takes 3. math.ceil rounds up.",
        "calls = lambda gain: math.ceil(extra / gain) if gain > 0 else float('inf'); "
        "then return calls(high), calls(low).",
    ),
    passed="An interval in, an interval out, and no end where there is none.",
)
def paid_back(answer):
    for given, expected in CASES:
        for name, mine, right in zip(
            ("fewest", "most"), answer(*given), expected, strict=True
        ):
            if mine != right:
                return f"paid_back{given}: the {name} is {right}, not {mine}"
    for given, _ in CASES:
        for name, mine in zip(("fewest", "most"), answer(*given), strict=True):
            if mine != INF and not isinstance(mine, int):
                return f"paid_back{given}: the {name} is {mine!r}, and that is no int"
    return None
