"""Launches of lesson 25: what goes wrong with two processes is said, and stopped."""

from __future__ import annotations

import functools
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

from course.ch25 import ranks
from tests.refresh import ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def children():
    return psutil.Process().children(recursive=True)


@pytest.fixture(autouse=True)
def nothing_stays():
    """Whatever a test does, no process is left behind."""
    before = {process.pid for process in children()}
    yield
    ranks._two.stop()
    left = [p for p in children() if p.pid not in before and p.is_running()]
    _, alive = psutil.wait_procs(left, timeout=10)
    assert alive == []


FACTOR = 3


def factor():
    return FACTOR


@functools.cache
def uses_factor(_: Path | None = None) -> int:
    return factor() * len(textwrap.dedent("  a"))


def test_functions_travel_with_what_they_use(monkeypatch):
    for function in (factor, uses_factor.__wrapped__):
        monkeypatch.setattr(function, "__module__", "__main__")
    names = {}
    exec(ranks.shipped([uses_factor.__wrapped__]), names)
    assert names["uses_factor"]() == 3
    with pytest.raises(TypeError, match="made by def"):
        ranks.shipped([lambda: 1])


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


def test_only_torchrun_is_run():
    with pytest.raises(ValueError, match="not a command of torchrun"):
        ranks.terminal("rm -r somewhere")


def test_a_rank_that_raises_is_quoted_and_the_other_is_stopped():
    with pytest.raises(ranks.LaunchFailed, match="ValueError: rank 1 has had enough"):
        ranks.on_two_ranks("ways", raises)
    assert ranks._two.running is None


def raises(model):
    import torch.distributed as dist

    if dist.get_rank() == 1:
        raise ValueError("rank 1 has had enough")
    dist.barrier()


def dies(model):
    import os

    import torch.distributed as dist

    if dist.get_rank() == 1:
        os.kill(os.getpid(), 9)
    dist.barrier()


def test_a_rank_that_dies_is_said():
    with pytest.raises(ranks.LaunchFailed, match="SIGKILL"):
        ranks.on_two_ranks("ways", dies)


def waits(model):
    import os

    Path(os.environ["BEGUN"], os.environ["RANK"]).touch()
    time.sleep(1000)


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A function that waits until both ranks are in `waits`, and says whether."""
    monkeypatch.setenv("BEGUN", str(tmp_path))

    def both():
        until = time.monotonic() + 60
        while len([*tmp_path.glob("[01]")]) < 2 and time.monotonic() < until:
            time.sleep(0.1)
        return len([*tmp_path.glob("[01]")]) == 2

    return both


def test_the_limit_stops_all_and_says_where_they_were(begun):
    ranks._two.ask("ways", [waits], {})
    assert begun()
    family = psutil.Process(ranks._two.running.processes[0].pid).children()
    with pytest.raises(ranks.LaunchFailed, match=r"^stopped after 0 seconds") as error:
        ranks._two.running.wait(0)
    assert str(error.value).count(" in waits\n") == 2
    assert not any(map(psutil.Process.is_running, family))
    with pytest.raises(ranks.LaunchFailed, match=r"^stopped after 0 seconds"):
        ranks.on_two_ranks("ways", waits, limit=0)
    assert ranks._two.running is None


def test_an_interrupt_stops_all(begun):
    main = threading.main_thread().ident

    def press():
        if begun():
            signal.pthread_kill(main, signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        ranks.on_two_ranks("ways", waits, limit=90)
    presser.join()
    assert ranks._two.running is None


def test_ranks_end_when_the_kernel_is_killed(begun, tmp_path):
    (tmp_path / "kernel.py").write_text(
        f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'notebooks')!r}]\n"
        "from tests.course.test_ranks import ranks, waits\n"
        "ranks.on_two_ranks('ways', waits)\n"
    )
    kernel = subprocess.Popen([sys.executable, str(tmp_path / "kernel.py")])
    came = begun()
    family = psutil.Process(kernel.pid).children(recursive=True)
    kernel.kill()
    kernel.wait()
    assert came and len(family) >= 3  # torchrun and two ranks
    _, alive = psutil.wait_procs(family, timeout=60)
    for process in alive:
        process.kill()
    assert alive == []
