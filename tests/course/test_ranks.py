"""Ranks of lesson 22: what goes wrong with two processes is said, and stopped."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

import psutil
import pytest

from course.ch22.ranks import RankFailed, Ranks

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
pytestmark = [posix, pytest.mark.weekly]
RAISES = """
import os
import torch.distributed as dist

def main(device):
    if dist.get_rank() == 1:
        {what}
    dist.barrier()
"""


@pytest.fixture
def two():
    """Return two ranks; nothing of them is left behind."""
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    ranks = Ranks()
    yield ranks
    ranks.stop()
    left = psutil.Process().children(recursive=True)
    _, alive = psutil.wait_procs([p for p in left if p.pid not in before], timeout=10)
    assert alive == []


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ('raise ValueError("rank 1 has had enough")', "ValueError: rank 1 has had"),
        ("os.kill(os.getpid(), 9)", "(?s)^a rank ended.*SIGKILL"),
    ],
)
def test_of_a_rank_that_fails_it_is_said_how(two, what, told):
    (two.folder / "fails.py").write_text(RAISES.format(what=what))
    with pytest.raises(RankFailed, match=told):
        two.run("fails.py")


def test_they_end_with_a_process_that_is_killed():
    code = "from course.ch22.ranks import Ranks; import os; two = Ranks()\n"
    code += "print(two._torchrun.pid, flush=True); os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(done.stdout)).wait(timeout=60)


def test_the_limit_stops_all_and_a_script_may_be_written_anew(two):
    script = two.folder / "script.py"
    for number in (1, 2):
        script.write_text(f"def main(device):\n    return {number}\n")
        assert two.run("script.py") == [number, number]
    script.write_text("import time\n\ndef main(device):\n    time.sleep(1000)\n")
    with pytest.raises(RankFailed, match=r"^stopped after 1 seconds"):
        two.run("script.py", limit=1)
