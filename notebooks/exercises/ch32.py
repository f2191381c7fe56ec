"""Checks and hints of notebook 32."""

from types import SimpleNamespace

from helpers.exercises import exercise
from helpers.gpu.limits import Chip

# --- 32.1 ----------------------------------------------------------------------

BYTES = {"float32": 4, "bfloat16": 2}


def _needs(row):
    """Return the share of each ceiling that a row needs."""
    chip, own = Chip.find(row.chip), row.parameters * BYTES[row.dtype]
    work, trips, arrays = (6, 7, 4) if row.trains else (2, 1, 1)
    work *= row.parameters * row.tokens
    return {
        "arithmetic": work / row.seconds / chip.peak(row.dtype),
        "bandwidth": trips * own / row.seconds / chip.bytes_per_s,
        "memory": arrays * own / chip.memory,
    }


def _row(parameters, tokens, seconds, chip, dtype, trains):
    names = ("parameters", "tokens", "seconds", "chip", "dtype", "trains")
    values = (parameters, tokens, seconds, chip, dtype, trains)
    return SimpleNamespace(**dict(zip(names, values, strict=True)))


# Near to each ceiling from both sides, and one of the web's among them.
ROWS = (
    _row(8.03e9, 300, 0.048, "a100", "bfloat16", True),
    _row(8.03e9, 4096, 1.0, "a100", "bfloat16", True),
    _row(8.03e9, 1, 1 / 120, "a100", "bfloat16", False),
    _row(8.03e9, 1, 1 / 140, "a100", "bfloat16", False),
    _row(5.2e9, 64, 60.0, "a100", "float32", True),
    _row(5.6e9, 64, 60.0, "a100", "float32", True),
    _row(1e9, 47_000, 0.3, "h100", "bfloat16", True),
    _row(1e9, 51_000, 0.3, "h100", "bfloat16", True),
    _row(1e9, 400, 0.3, "a100", "float32", True),
    _row(1e9, 2000, 0.3, "a100", "float32", True),
    _row(70e9, 1, 0.05, "h200", "bfloat16", False),
    _row(70e9, 1, 0.05, "h100", "bfloat16", False),
    _row(20e9, 1, 0.9, "t4", "bfloat16", False),
)


@exercise(
    "32.1",
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
    for row in ROWS:
        shares = _needs(row)
        expected = {name for name, share in shares.items() if share > 1}
        said = answer(row) or ()
        got = {said} if isinstance(said, str) else set(said)
        if isinstance(said, str) or not got <= set(shares):
            return (
                "return the names of what is broken, such as ('memory',), and an "
                f"empty one for nothing: this is {said!r}"
            )
        for name in expected - got:
            return f"not refused: {vars(row)} needs {shares[name]:.3g} of the {name}"
        for name in got - expected:
            return (
                f"refused for its {name}: {vars(row)}, but it needs only "
                f"{shares[name]:.3g} of it"
            )
    return None


# --- 32.2 ----------------------------------------------------------------------

INF = float("inf")
CASES = (
    ((30.0, 0.01, 0.02), (1500, 3000)),
    ((31.0, 2.0, 3.0), (11, 16)),
    ((10.0, 2.0, 5.0), (2, 5)),
    ((30.0, -0.01, 0.02), (1500, INF)),
    ((30.0, 0.0, 0.5), (60, INF)),
    ((30.0, -0.5, -0.25), (INF, INF)),
    ((30.0, -0.5, 0.0), (INF, INF)),
)


@exercise(
    "32.2",
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
        got = answer(*given)
        if not isinstance(got, (tuple, list)) or len(got) != 2:
            return f"return two numbers, the fewest and the most: this is {got!r}"
        for name, mine, right in zip(("fewest", "most"), got, expected, strict=True):
            if mine != right:
                return f"paid_back{given}: the {name} is {right}, not {mine}"
    return None
