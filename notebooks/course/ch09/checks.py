"""Checks and hints of lesson 09."""

from course.exercises import exercise
from helpers.gpu.gpus import find
from helpers.text import size

# --- 09.1 ----------------------------------------------------------------------

H100, RTX3090 = find("h100").shared_optin, find("rtx3090").shared_optin

TEMPLATES = {  # rows, columns, depth, bytes of a number, memory of a block
    "64 x 128 x 32 in bfloat16 on an H100": (64, 128, 32, 2, H100, "wgmma"),
    "128 x 128 x 128 in bfloat16 on an H100": (128, 128, 128, 2, H100, "wgmma"),
    "128 x 256 x 64 in bfloat16 on an H100": (128, 256, 64, 2, H100, "wgmma"),
    "64 x 64 x 32 in float8 on an H100": (64, 64, 32, 1, H100, "wgmma"),
    "tiles that fit to the byte": (64, 64, 64, 2, 3 * 64 * 128 * 2, "wgmma"),
    "tiles of which not one pair fits": (256, 256, 256, 4, H100, "wgmma"),
    "128 x 128 x 64 in bfloat16 on an RTX 3090": (128, 128, 64, 2, RTX3090, "mma"),
    "32 x 64 x 32 in bfloat16 on an H100": (32, 64, 32, 2, H100, "mma"),
    "tiles of which not one pair fits, with mma": (256, 256, 256, 4, RTX3090, "mma"),
}


@exercise(
    "09.1",
    hints=(
        "How many bytes are one stage: which two tiles does a step hold?",
        "A stage is block_m x block_k and block_k x block_n numbers. How often does it "
        "fit into the limit?",
        "pairs = limit // ((block_m + block_n) * block_k * itemsize), and with mma one "
        "more, if pairs is not 0: a stage that is multiplied has left the memory.",
    ),
    passed="Deeper than the loop is long helps nobody, and every stage takes room from "
    "another program: Inductor's templates have one to five.",
)
def deepest(answer):
    for name, given in TEMPLATES.items():
        rows, columns, depth, itemsize, limit, instruction = given
        stage = (rows + columns) * depth * itemsize
        wanted = limit // stage
        if instruction == "mma" and wanted:
            wanted += 1
        found = answer(*given)
        if found != wanted:
            return (
                f"{name}: {wanted} stages fit, and yours is {found!r}. One stage is "
                f"{size(stage)}, a block may have {size(limit)}, and {instruction} "
                "multiplies"
            )
        if not isinstance(found, int):
            return f"{name}: a number of stages is an int, and yours is {found!r}"
    return None


# --- 09.2 ----------------------------------------------------------------------

PLANS = {  # the product's shape, the tile, room for programs, bytes of a number
    "512 x 1024 by 1024 x 2048, tiles of 64 x 128, room for 528": (
        ((512, 1024, 2048), (64, 128), 528, 2),
        (128, 128 * 192 * 1024 * 2, 1, 128),
    ),
    "the same with room for 100": (
        ((512, 1024, 2048), (64, 128), 100, 2),
        (128, 128 * 192 * 1024 * 2, 2, 28),
    ),
    "a last wave that is full": (
        ((512, 64, 512), (64, 64), 16, 2),
        (64, 64 * 128 * 64 * 2, 4, 16),
    ),
    "500 x 100 by 100 x 1000, whose tiles stick out": (
        ((500, 100, 1000), (128, 128), 132, 2),
        (32, 32 * 256 * 100 * 2, 1, 32),
    ),
    "300 x 100 by 100 x 1000, tiles of 128 rows and 64 columns": (
        ((300, 100, 1000), (128, 64), 132, 2),
        (48, 48 * 192 * 100 * 2, 1, 48),
    ),
    "float32": (
        ((256, 256, 256), (128, 64), 4, 4),
        (8, 8 * 192 * 256 * 4, 2, 4),
    ),
}
PARTS = "programs", "bytes", "waves", "last"
ADVICE = {
    "programs": "the tile's rows cover the result's rows, its columns the columns, and "
    "each direction is rounded up by itself",
    "bytes": "a program reads a strip of rows and a strip of columns, each as long as "
    "the sum, and at the edges as much as anywhere",
    "waves": "a wave that is not full counts as one",
    "last": "what is left for the last wave, which may be full",
}


@exercise(
    "09.2",
    hints=(
        "How many tiles cover 500 rows, if a tile has 128? And 1000 columns?",
        "Round up in each direction (-(-500 // 128)). One program reads tile[0] + "
        "tile[1] strips of shape[1] numbers.",
        "programs = -(-rows // tile[0]) * -(-columns // tile[1]); waves = "
        "-(-programs // room); last = programs - (waves - 1) * room.",
    ),
    passed="Two numbers that no profiler is needed for: how full the chip is at the "
    "end, and how much is read for it.",
)
def plan(answer):
    for name, (given, wanted) in PLANS.items():
        found = answer(*given)
        if not isinstance(found, tuple | list) or len(found) != len(PARTS):
            return f"{name}: four numbers were wanted, and yours is {found!r}"
        for part, one, other in zip(PARTS, found, wanted, strict=True):
            if one != other or not isinstance(one, int):
                return f"{name}: {part} is {other}, and yours {one!r}: {ADVICE[part]}"
    (shape, tile, room, _), wanted = next(iter(PLANS.values()))
    if tuple(answer(shape, tile, room)) != wanted:
        return "itemsize is 2 where none is given"
    return None
