"""Checks and hints of notebook 22."""

import copy

from course.exercises import exercise


def _steps(*compiles, first=0):
    """Return the steps of a rank: for each, the reasons of its compiles, or None."""
    return [
        {"step": n, "compiles": 0 if why is None else len(why) or 2, "why": why or []}
        for n, why in enumerate(compiles, first)
    ]


SIZE = ["0/0: size mismatch: expected 32, actual 48", "4/0: size mismatch"]
MODE = ["0/1: self.training == True"]
CASES = (  # what happens, the records, and what is to be said
    ("nobody compiles twice", [_steps([], None), _steps([], None)], []),
    (
        "rank 1 meets a new size in step 2",
        [_steps([], None, None, None), _steps([], None, SIZE, None)],
        [(2, 1, SIZE[0])],
    ),
    (
        "four of five ranks compile in step 1",
        [_steps([], why) for why in (SIZE, MODE, None, SIZE, [])],
        [(1, 0, SIZE[0]), (1, 1, MODE[0]), (1, 3, SIZE[0]), (1, 4, None)],
    ),
    (
        "of four ranks, one compiles in step 1, and two in step 2",
        [
            _steps([], *w)
            for w in ((None, SIZE), (SIZE, None), (None, MODE), (None,) * 2)
        ],
        [(1, 1, SIZE[0]), (2, 0, SIZE[0]), (2, 2, MODE[0])],
    ),
    (
        "in step 1, rank 0 compiles a function for the first time, and rank 1 again",
        [_steps([], []), _steps([], SIZE)],
        [],
    ),
    (
        "in step 1, rank 0 compiles once, and rank 1 twice",
        [_steps([], MODE), _steps([], SIZE)],
        [],
    ),
    (
        "rank 0 alone compiles again in step 0, as a run that goes on does",
        [_steps(SIZE, None), _steps(None, None)],
        [(0, 0, SIZE[0])],
    ),
    (
        "in step 1, rank 0 alone compiles, for the first time, as to validate",
        [_steps([], []), _steps([], None)],
        [(1, 0, None)],
    ),
    (
        "records that begin at step 7, in which rank 0 alone compiles",
        [_steps(SIZE, None, first=7), _steps(None, None, first=7)],
        [(7, 0, SIZE[0])],
    ),
)


@exercise(
    "22.1",
    hints=(
        "A step in which all ranks compile costs once what it costs. Which steps "
        "cost the others something?",
        "Go through the steps of all ranks side by side: zip(*records). In each, ask "
        'which ranks have something in "compiles": some, or all of them?',
        'for steps in zip(*records): busy = [bool(s["compiles"]) for s in steps]; '
        'where any(busy) and not all(busy), append (s["step"], rank, s["why"][0]) '
        "for each rank that is busy, with None where why is empty.",
    ),
    passed="You name the rank that compiled, and not the one that waited.",
)
def who_compiled_apart(compiled_apart):
    for what, records, wanted in CASES:
        answer = compiled_apart(given := copy.deepcopy(records))
        if given != records:
            return "it changes the records, which others may read after it"
        if not isinstance(answer, list):
            return f"you return a {type(answer).__name__}, and a list was asked for"
        if sorted(map(tuple, answer), key=str) != wanted:
            return f"{what}: you return {answer!r}, and it is {wanted!r}"
    return None
