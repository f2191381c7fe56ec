"""Launches of lesson 22: what goes wrong with two processes is said, and stopped."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time

import psutil
import pytest

from course.ch22 import ranks

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
TORCHRUN = "torchrun --standalone --nproc-per-node 2"


def offspring():
    return psutil.Process().children(recursive=True)


@pytest.fixture(autouse=True)
def nothing_stays():
    """Whatever a test does, no process is left behind."""
    before = {process.pid for process in offspring()}
    yield
    left = [p for p in offspring() if p.pid not in before and p.is_running()]
    _, alive = psutil.wait_procs(left, timeout=10)
    assert alive == []


def written(name, text):
    """Write a script into the page's folder, and return the command that runs it."""
    (ranks.workplace() / name).write_text(text)
    return f"{TORCHRUN} {name}"


def test_a_piece_of_the_example_is_as_in_the_file():
    text = ranks.EXAMPLE.read_text()
    for part in ranks.piece("connect", "wrapped").split("\n\n"):
        assert part in text
    with pytest.raises(ValueError, match="no function"):
        ranks.piece("disconnect")


def test_a_port_that_is_taken_is_said_before_anything_starts():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for asked in (
            f"--rdzv-backend c10d --rdzv-endpoint localhost:{port}",
            f"--master-addr 127.0.0.1 --master-port={port}",
        ):
            with pytest.raises(ranks.LaunchFailed, match=f"port {port} is taken"):
                ranks.terminal(f"torchrun --nnodes 1 {asked} train_two_ranks.py")


def test_what_torchrun_says_stands_where_a_node_did_not_end_well():
    """The server of a rendezvous may be gone before the last node is."""
    late = "The node has failed to shutdown the rendezvous 'none'"
    ends = [(0, 0), (0, 1), (0, None)]
    told = [str(ranks.Launch(codes, late, ("rank 0",))) for codes in ends]
    assert told == ["rank 0", f"rank 0\n{late}", f"rank 0\n{late}"]


def test_only_torchrun_is_run():
    with pytest.raises(ValueError, match="not a command of torchrun"):
        ranks.terminal("rm -r somewhere")


TASK = """
import os
import torch.distributed as dist
from course.ch22.in_a_rank import try_ways

def way(model):
    if dist.get_rank() == 1:
        {what}
    dist.barrier()

try_ways(way)
"""


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ('raise ValueError("rank 1 has had enough")', "^ValueError: rank 1 has had"),
        ("os.kill(os.getpid(), 9)", "(?s)^a rank ended before it was done.*SIGKILL"),
    ],
)
def test_of_a_rank_that_fails_it_is_said_how(what, told):
    launch = ranks.terminal(written("task.py", TASK.format(what=what)))
    assert launch.codes == (1,)
    with pytest.raises(ranks.LaunchFailed, match=told):
        print(launch.found)


def test_what_an_earlier_launch_left_is_not_found_again():
    for rank in (0, 1):
        (ranks.workplace() / f"found-{rank}.json").write_text("{}")
    launch = ranks.terminal(written("quiet.py", ""))
    with pytest.raises(ranks.LaunchFailed, match="a rank ended before it was done"):
        print(launch.found)


WAITS = """
import os, pathlib, time

def waits():
    pathlib.Path(f"begun-{os.environ['RANK']}").touch()
    time.sleep(1000)

waits()
"""


@pytest.fixture
def begun():
    """Return what waits until both ranks are in `waits`, and says whether."""
    for old in ranks.workplace().glob("begun-*"):
        old.unlink()

    def both():
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if len([*ranks.workplace().glob("begun-*")]) == 2:
                return True
            time.sleep(0.1)
        return False

    return both


def test_the_limit_stops_all_and_says_where_they_were(begun, monkeypatch):
    command, wait = written("waits.py", WAITS), ranks._wait
    monkeypatch.setattr(ranks, "_wait", lambda ran, limit: begun() and wait(ran, limit))
    with pytest.raises(ranks.LaunchFailed, match=r"^stopped after 0 seconds") as error:
        ranks.terminal(command, limit=0)
    assert str(error.value).count(" in waits\n") == 2


def test_an_interrupt_stops_all(begun):
    main = threading.main_thread().ident

    def press():
        if begun():
            signal.pthread_kill(main, signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        ranks.terminal(written("waits.py", WAITS), limit=90)
    presser.join()
