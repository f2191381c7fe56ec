"""A model that another process has to find, and what is told where it cannot."""

import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from types import SimpleNamespace

import psutil
import pytest

from tests.refresh import ROOT
from torch_checkup import sandbox
from torch_checkup.helpers.errors import InputError


def local():
    return None


def test_a_target_must_name_what_another_process_finds(project, monkeypatch):
    monkeypatch.setattr(local, "__module__", "__main__")  # as in a notebook
    for make in ("model", "model:", "no/m.py:make", lambda: None, local):
        with pytest.raises(InputError, match="%%writefile"):
            sandbox.target_of(make)
    assert sandbox.target_of("pkg.sub.mine:make") == "pkg.sub.mine:make"
    for wrong in ("mine:1", "mine:a.b", ":make"):
        with pytest.raises(InputError, match=f"^{wrong!r} names no function"):
            sandbox.target_of(wrong)
    with pytest.raises(InputError, match=r"^there is no file pkg/no\.py\. Give"):
        sandbox.target_of("pkg/no.py:make")


# ------------------------------------------------------------------- what is imported


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder in which a package and a module of this name each say where they are."""
    packages = "pkg/__init__.py", "pkg/sub/__init__.py", "pkg/sub/mine.py"
    for file in (*packages, "alone/mine.py", "mine.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(f"def make(): return __name__, {file!r}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [*sys.modules]:
        if re.match(r"(pkg|mine)\b", name):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("target", "name", "file"),
    [
        ("mine:make", "mine", "mine.py"),
        ("pkg.sub.mine:make", "pkg.sub.mine", "pkg/sub/mine.py"),
        ("pkg/sub/mine.py:make", "pkg.sub.mine", "pkg/sub/mine.py"),
        ("alone/mine.py:make", "mine", "alone/mine.py"),  # another is on the path
    ],
)
def test_a_function_is_found_in_its_own_module(target, name, file, project):
    assert sandbox.module_function(target)() == (name, file)
    assert hasattr(sys.modules[name], "make")


# ---------------------------------------------------------------------- what it tells


CHILD = """
import sys, time
from torch_checkup.sandbox import end_with_parent
end_with_parent()
print("ready", flush=True)
time.sleep(600)
"""
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_it_ends_with_the_process_that_started_it_and_not_before():
    command = [sys.executable, "-c", PARENT, CHILD]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}
    parent = subprocess.Popen(command, env=env, **pipes)
    child = psutil.Process(int(parent.stdout.readline()))
    time.sleep(1.2)  # two of its looks
    assert child.is_running() and child.status() != psutil.STATUS_ZOMBIE
    parent.communicate()
    gone, alive = psutil.wait_procs([child], timeout=30)
    for process in alive:
        process.kill()
    assert gone


# --------------------------------------------------------------- what ends a process

LIMIT = 6.0  # seconds
PARTS = """
import os, subprocess, sys, time
from pathlib import Path

def sleeps():
    half = Path(__file__).with_name("half.so")  # as of a compiler at work
    half.write_text("half")
    sleeper = [sys.executable, "-c", "import time; time.sleep(99)"]
    subprocess.Popen([*sleeper, "-o", str(half)])
    starts = f"import subprocess; print(subprocess.Popen({{sleeper}}, stdout=-3).pid)"
    orphan = subprocess.check_output([sys.executable, "-c", starts])
    Path(__file__).with_name("orphan").write_bytes(orphan)
    time.sleep(99)

def eats():  # in a process of a process that it starts
    eats = "x = [0]; all(x.append(b'x' * 2**26) is None for _ in iter(int, 1))"
    eater = [sys.executable, "-c", eats]
    starts = f"import subprocess; subprocess.run({{eater}})"
    subprocess.run([sys.executable, "-c", starts])

def killed():
    os.kill(os.getpid(), 9)

def dies():
    os.kill(os.getpid(), 11)

def exits():
    print("which weights?", file=sys.stderr)
    sys.exit(3)

def raises():
    raise ValueError("no such thing in /some/folder/of/it.py")

def works():
    pass

def run(order, report):
    report.stage("make the model")
    {begin}
    report.put(calls=1)
    for name in order["parts"]:
        report.stage(name)
        globals()[name]()
        report.put(part={{"name": name, "says": "done"}})
"""
ENDS = {  # how a part ends, and what is told of it
    "sleeps": ("time", "not done after 6 seconds: give a longer timeout="),
    "eats": ("memory", "it took # of memory, more than 512 MiB"),
    "killed": ("SIGKILL", "its process died of SIGKILL, as of a system whose memory"),
    "dies": ("SIGSEGV", "its process died of SIGSEGV"),
    "exits": ("status 3", "it ended its process, with status 3; it said: which w"),
    "raises": ("raised", "ValueError: no such thing in …/it.py"),
}


@pytest.fixture
def child(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def written(begin):
        (tmp_path / "a_child.py").write_text(PARTS.format(begin=begin))
        return "a_child:run"

    return written


@pytest.fixture
def orphan(tmp_path, monkeypatch):
    """The file that says which process outlives a part that sleeps.

    Time goes a hundred times slower, for a busy machine must not end another part, and
    leaps over the limit while this file is there.
    """
    orphan, leaps = tmp_path / "orphan", [0.0]

    def monotonic():
        if orphan.exists() and orphan.read_text():
            leaps[0] += LIMIT
        return time.monotonic() / 100 + leaps[0]

    clock = SimpleNamespace(monotonic=monotonic, sleep=time.sleep)
    monkeypatch.setattr(sandbox, "time", clock)
    return orphan


def test_what_ends_a_part_is_told_and_the_others_go_on(child, orphan, tmp_path):
    # A test before this one may have left a helper process, as the interpreter is.
    others = set(psutil.Process().children(recursive=True))
    order, found = {"target": "it"}, {}
    names = ["sleeps", "works", *[*ENDS][1:]]
    for name, news in sandbox.parts(child(""), order, names, LIMIT, 2**29):
        if name:
            found[name] = news
        else:
            assert news == {"calls": 1} or [*news] == ["stage"]
        if name == "sleeps":
            sleeper = int(orphan.read_text())
            orphan.unlink()
    assert found.pop("works")["says"] == "done"
    assert found.keys() == ENDS.keys()
    for name, (how, said) in ENDS.items():
        problem = re.sub(r"(?<=took )[\d.]+ \w+", "#", found[name]["problem"])
        assert problem.startswith(f"failed at: {name}: {said}")
        assert found[name]["ended"] == how
    assert set(psutil.Process().children(recursive=True)) <= others
    assert not (tmp_path / "half.so").exists(), "the next run would load it"
    with suppress(psutil.NoSuchProcess):  # whose parent had ended
        assert psutil.Process(sleeper).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        ("raise OSError('no weights')", "it: failed at: make the model: OSError: no w"),
        ("import nothing_like_it", "'nothing_like_it'. Give \"module:"),
        ("dies()", "make the model: its process died of SIGSEGV"),
    ],
)
def test_what_never_comes_to_its_first_part_is_an_error(begin, said, child):
    order = {"target": "it"}
    with pytest.raises(InputError, match=said):
        list(sandbox.parts(child(begin), order, ["works"], 60.0))


def test_how_a_process_ends_that_reports_nothing(tmp_path):
    found = sandbox.ended("-c", "1 / 0", folder=tmp_path, timeout=60.0)
    assert found.how == "raised" and "ZeroDivisionError: division" in found.says
    how = {"folder": tmp_path, "timeout": 60.0, "memory": 1}
    found = sandbox.ended("-c", "import time; time.sleep(99)", **how)
    assert found.how == "memory" and not [*tmp_path.iterdir()]
