"""Checks and hints of lesson 09."""

from course.exercises import exercise
from helpers.gpu.gpus import find

H100, RTX3090 = find("h100").shared_optin, find("rtx3090").shared_optin

deepest = exercise(
    "09.1",
    hints=(
        "How many bytes are one stage: which two tiles does a step hold?",
        "A stage is block_m x block_k and block_k x block_n numbers. How often does it "
        "fit into the limit?",
        "pairs = limit // ((block_m + block_n) * block_k * itemsize), and with mma one "
        "more: a stage that is multiplied has left the memory.",
    ),
    passed="Each stage takes room that another program could have.",
    cases=[
        ("64 x 128 x 32 in bfloat16, H100", (64, 128, 32, 2, H100, "wgmma"), 18),
        ("128 x 128 x 128 in bfloat16, H100", (128, 128, 128, 2, H100, "wgmma"), 3),
        ("64 x 64 x 32 in float8, H100", (64, 64, 32, 1, H100, "wgmma"), 56),
        ("tiles that fit to the byte", (64, 64, 64, 2, 3 * 2**14, "wgmma"), 3),
        ("128 x 128 x 64 on an RTX 3090", (128, 128, 64, 2, RTX3090, "mma"), 4),
        ("64 x 128 x 32 in float8, with mma", (64, 128, 32, 1, RTX3090, "mma"), 17),
        ("32 x 32 x 64 in float8, with mma", (32, 32, 64, 1, RTX3090, "mma"), 25),
        ("64 x 64 x 32 in float32, with mma", (64, 64, 32, 4, RTX3090, "mma"), 7),
        ("one pair, to the byte, with mma", (64, 64, 64, 2, 2**14, "mma"), 2),
    ],
)

last_wave = exercise(
    "09.2",
    hints=(
        "How many tiles cover 500 rows, if a tile has 128? And 1000 columns?",
        "Round up in each direction, -(-500 // 128), and multiply. Then take away the "
        "waves that are full.",
        "programs = -(-rows // tile[0]) * -(-columns // tile[1]), and the result is "
        "programs % room, or room where that is 0.",
    ),
    passed="You need no profiler to know how full the chip is at the end.",
    cases=[
        ("512 x 2048, tiles of 64 x 128", (512, 2048, (64, 128), 528), 128),
        ("the same with room for 100", (512, 2048, (64, 128), 100), 28),
        ("a last wave that is full", (512, 512, (64, 64), 16), 16),
        ("500 x 1000, tiles that stick out", (500, 1000, (128, 128), 132), 32),
        ("512 x 1030, a tile for six columns", (512, 1030, (128, 128), 132), 36),
        ("one tile", (128, 128, (128, 128), 132), 1),
        ("260 x 1000, tiles of 128 x 64", (260, 1000, (128, 64), 132), 48),
    ],
)
