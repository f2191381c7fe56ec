"""Parts of the work in a child process: what ends it, and what is reported then."""

import re
import subprocess
import time
from contextlib import suppress
from types import SimpleNamespace

import psutil
import pytest

from torch_checkup import children
from torch_checkup.helpers.errors import InputError, Unavailable

LIMIT = 6.0  # seconds
CHILD = """
import json, os, subprocess, sys, time
from pathlib import Path
from torch_checkup.sandbox import Report

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

order = json.load(sys.stdin)
report = Report(order["report"])
report.stage("make the model")
{begin}
report.put(calls=1)
for name in order["parts"]:
    report.stage(name)
    globals()[name]()
    report.put(part={{"name": name, "says": "done"}})
report.put(done=True)
"""
ENDS = {
    "sleeps": "not done after 6 seconds: give a longer timeout=",
    "eats": "it took # of memory, more than 512 MiB",
    "killed": "its process died of SIGKILL, as of a system whose memory is full",
    "dies": "its process died of SIGSEGV",
    "exits": "it ended its process, with status 3; it said: which weights?",
    "raises": "ValueError: no such thing in …/it.py",
}
HOW = {"sleeps": "time", "eats": "memory", "killed": "SIGKILL", "dies": "SIGSEGV"}
HOW |= {"exits": "status 3", "raises": "raised"}


@pytest.fixture
def child(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def written(begin):
        (tmp_path / "a_child.py").write_text(CHILD.format(begin=begin))
        return "a_child"

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
    monkeypatch.setattr(children, "time", clock)
    return orphan


def test_what_ends_a_part_is_told_and_the_others_go_on(child, orphan, tmp_path):
    # A test before this one may have left a helper process, as the interpreter is.
    others = set(psutil.Process().children(recursive=True))
    order, found = {"target": "it"}, {}
    names = ["sleeps", "works", *[*ENDS][1:]]
    for name, news in children.parts(child(""), order, names, LIMIT, 2**29):
        if name:
            found[name] = news
        else:
            assert news == {"calls": 1}
        if name == "sleeps":
            sleeper = int(orphan.read_text())
            orphan.unlink()
    assert found.pop("works")["says"] == "done"
    assert found.keys() == ENDS.keys()
    for name, said in ENDS.items():
        problem, how = found[name].values()
        assert how == HOW[name]
        problem = re.sub(r"(?<=took )[\d.]+ \w+", "#", problem)
        assert problem == f"failed at: {name}: {said}"
    assert set(psutil.Process().children(recursive=True)) <= others
    assert not (tmp_path / "half.so").exists(), "the next run would load it"
    with suppress(psutil.NoSuchProcess):  # whose parent had ended
        assert psutil.Process(sleeper).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        ("raise OSError('no weights')", "it: failed at: make the model: OSError: no w"),
        ("import nothing_like_it", "'nothing_like_it'. Name another$"),
        ("dies()", "make the model: its process died of SIGSEGV"),
    ],
)
def test_what_never_comes_to_its_first_part_is_an_error(begin, said, child):
    order, advice = {"target": "it"}, {"^make the model: .*No module": "Name another"}
    with pytest.raises(InputError, match=said):
        list(children.parts(child(begin), order, ["works"], 60.0, advice=advice))


def test_the_last_report_of_a_process_names_its_stage(child):
    order = {"parts": ["works", "raises"]}
    told = [*children.reports(child(""), order, 60.0)]
    assert told[2:-1] == [
        {"stage": "works"},
        {"part": {"name": "works", "says": "done"}},
        {"stage": "raises"},
    ]
    problem = f"failed at: raises: {ENDS['raises']}"
    assert told[-1] == {"stage": "raises", "problem": problem, "ended": "raised"}


ADVICE = {"^the first call: .*No space": "Free some", "denied|No space": "Ask for it"}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("OSError: No space left", "OSError: No space left. Free some"),
        ("one\nOSError: denied\ntwo", "OSError: denied. Ask for it"),
        ("Traceback\ntorch._inductor.exc.CppCompileError: no", "CppCompileError: no"),
        ("AttributeError: 'X' has no attribute 'y'",) * 2,
        ("helpers.errors.InputError: give a model", "give a model"),
        ("one\ntwo", "two"),
        ("", "it said nothing"),
    ],
)  # fmt: skip
def test_a_failure_is_told_in_one_line(said, told):
    first = "failed at: the first call: "
    assert children.explained("the first call", said, ADVICE) == first + told


def test_names_are_chosen_in_their_order_and_unknown_ones_are_told():
    assert children.chosen(["c", "a"], "abc") == ["a", "c"]
    assert children.chosen([], "abc") == ["a", "b", "c"]
    said = "^there is no x, y: there are a, b, c$"
    with pytest.raises(InputError, match=said):
        children.chosen(["y", "a", "x"], "abc")


def test_a_process_that_cannot_start_says_what_is_missing(monkeypatch):
    def full(*arguments, **options):
        raise OSError("no memory")

    monkeypatch.setattr("subprocess.Popen", full)
    with pytest.raises(Unavailable, match=r"^no process .* here \(no memory\)"):
        list(children.reports("json", {}, 1.0))


ASKED = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("here", flush=True)
time.sleep(99)
"""
DEAF = ASKED.replace("lambda *_: sys.exit(7)", "signal.SIG_IGN")


@pytest.mark.parametrize(("program", "status"), [(ASKED, 7), (DEAF, -9)])
def test_a_process_may_be_asked_to_end(program, status):
    process = children.start("-c", program, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "here\n"
    assert children.end(process, patience=1.0 if program is DEAF else 30.0) == status
    process.stdout.close()


@pytest.mark.parametrize(
    ("program", "limits", "how", "says"),
    [
        (
            "raise SystemExit(3)",
            (60.0, 2**40),
            "status 3",
            "status 3; it said: nothing",
        ),
        ("1 / 0", (60.0, 2**40), "raised", "ZeroDivisionError: division by zero\n"),
        ("import time; time.sleep(99)", (0.5, 2**40), "time", "longer timeout="),
        ("import time; time.sleep(99)", (60.0, 1), "memory", "more than 1 B"),
    ],
)
def test_how_a_process_ends_that_reports_nothing(program, limits, how, says, tmp_path):
    said = tmp_path / "said"
    with said.open("w") as errors:
        process = children.start("-c", program, stderr=errors)
    found = children.awaited(process, said, *limits)
    assert found.how == how and found.says.endswith(says), found
    assert process.returncode is not None


def test_a_process_imports_what_this_one_can(tmp_path):
    (tmp_path / "own_one.py").touch()
    program = "import own_one, helpers, os; print(os.environ['OWN'])"
    process = children.start(
        *("-c", program),
        path=[str(tmp_path)],
        env={"OWN": "set"},
        stdout=subprocess.PIPE,
        cwd="/",
    )
    assert process.communicate()[0].split() == [b"set"]
    assert children.end(process) == 0  # which has ended: no error
