"""Checks and hints of notebook 22."""

import ast
import linecache

from course.ch22.lanes import tally
from course.ch22.ranks import LaunchFailed, terminal, workplace
from course.exercises import exercise
from helpers.text import count

# --- 22.1 ----------------------------------------------------------------------


def _steps(*compiles):
    """Return the steps of a rank: for each, the reasons of its compiles, or None."""
    return [
        {
            "step": number,
            "compiles": [] if why is None else [(number, number + 0.5)],
            "why": why or [],
        }
        for number, why in enumerate(compiles)
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
        "two of three ranks meet a new size in step 1",
        [_steps([], SIZE), _steps([], None), _steps([], MODE)],
        [(1, 0, SIZE[0]), (1, 2, MODE[0])],
    ),
    (
        "in step 1, rank 0 compiles a function for the first time, and rank 1 again",
        [_steps([], []), _steps([], SIZE)],
        [],
    ),
    (
        "records that begin at step 7, in which rank 0 alone compiles",
        [
            [{**step, "step": step["step"] + 7} for step in rank]
            for rank in (_steps(SIZE, None), _steps(None, None))
        ],
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
        "for each rank that is busy.",
    ),
    passed="You name the rank that compiled, and not the one that waited.",
)
def who_compiled_apart(compiled_apart):
    for what, records, wanted in CASES:
        answer = compiled_apart(records)
        if sorted(map(tuple, answer)) != wanted:
            return f"{what}: you say {answer!r}, and it is {wanted!r}"
    return None


# --- 22.2 ----------------------------------------------------------------------

BLOCKS = 4


def _is_set(node):
    """Return whether a line gives a setting, or a name, a value that it spells out."""
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)


def _script(wrap):
    """Return a script with the imports, functions and settings of *wrap*'s cell."""
    cell = ast.parse("".join(linecache.getlines(wrap.__code__.co_filename)))
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    kept = [node for node in cell.body if isinstance(node, kinds) or _is_set(node)]
    return f"""import torch
{ast.unparse(ast.Module(kept, []))}
from course.ch22.in_a_rank import try_ways
try_ways({wrap.__name__})
"""


@exercise(
    "22.2",
    hints=(
        "Compile the blocks as for FSDP2, and look at the table for DDP: what cuts a "
        "graph in two?",
        "A block of 2 MiB does not fit a bucket exactly, so DDPOptimizer cuts it. One "
        "setting of torch._dynamo.config keeps graphs whole.",
        "torch._dynamo.config.optimize_ddp = False; for block in model.blocks: "
        "block.compile(); return DDP(model, bucket_cap_mb=2).",
    ),
    passed="Blocks are whole, and all-reduces still start between their backwards.",
)
def whole_blocks(wrap):
    (workplace() / "answer.py").write_text(_script(wrap), encoding="utf-8")
    try:
        launch = terminal("torchrun --standalone --nproc-per-node 2 answer.py")
        ranks = launch.found
    except LaunchFailed as error:
        return str(error)[:400]
    for rank, ways in enumerate(ranks):
        record = ways[wrap.__name__]
        if not record["equal"]:
            return "the gradients of the two ranks differ: is the model under DDP?"
        if not record["right"]:
            return "the gradients are not those of the whole batch"
        counts = tally(record)
        if counts["full"] < BLOCKS:
            return (
                f"rank {rank} reduced {count(counts['full'], 'bucket')}: with "
                f"bucket_cap_mb=2 there are at least {BLOCKS}, and more all-reduces "
                "overlap with the backward"
            )
        for way in ("forward", "backward"):
            if counts[way] != BLOCKS:
                return (
                    f"rank {rank} ran {count(counts[way], f'{way} graph')}, and "
                    f"{BLOCKS} were asked for, one for each block"
                )
    return None
