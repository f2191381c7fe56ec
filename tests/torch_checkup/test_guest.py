"""A model that another process has to find, and what is told where it cannot."""

import functools
import json
import os
import re
import subprocess
import sys
import time

import psutil
import pytest
import torch

from tests.refresh import ROOT
from torch_checkup import guest
from torch_checkup.helpers.children import explained
from torch_checkup.helpers.errors import InputError


def local():
    return None


@pytest.mark.parametrize(
    "make",
    ["model", "model:", "no/m.py:make", pytest.param(lambda: None, id="lambda"), local],
    ids=lambda make: getattr(make, "__name__", make),
)
def test_a_target_that_no_process_can_find(make, monkeypatch):
    monkeypatch.setattr(local, "__module__", "__main__")  # as in a notebook
    with pytest.raises(InputError, match="%%writefile"):
        guest.target_of(make)


def test_a_target_is_text_that_another_process_can_follow(tmp_path, monkeypatch):
    (tmp_path / "m.py").touch()
    monkeypatch.chdir(tmp_path)
    assert guest.target_of("m.py:make") == f"{tmp_path / 'm.py'}:make"
    assert guest.target_of(json.dumps) == "json:dumps"


DENIED = "PermissionError: [Errno 13] Permission denied: 'x'"
NO_SPACE = "OSError: [Errno 28] No space left on device: 'x'"


@pytest.mark.parametrize(
    ("stage", "said", "does"),
    [
        ("the first call", NO_SPACE, "The disk is full: free some"),
        ("the first call", DENIED, "The cache cannot be written: name another place"),
        ("make the model", "ImportError: No module named 'x'", 'Give "module:'),
    ],
)
def test_what_went_wrong_in_a_process_has_its_advice(stage, said, does):
    told = explained(stage, said, guest.ADVICE)
    assert told.startswith(f"failed at: {stage}: {said}. {does}")


def test_a_file_that_the_model_may_not_read_is_not_the_cache():
    assert explained("make the model", DENIED, guest.ADVICE).endswith(DENIED)


# ------------------------------------------------------------------- what is imported


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder in which a package and a module of this name each say where they are."""
    for file in ("pkg/__init__.py", "pkg/sub/__init__.py", "aside.py"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    for file in ("pkg/sub/mine.py", "alone/mine.py", "mine.py"):
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
    assert guest.module_function(target)() == (name, file)
    assert hasattr(sys.modules[name], "make")


def test_imports_begin_where_python_would_begin_them(project):
    pkg = project / "pkg" / "sub"
    assert guest.folders_of("mine:make") == [str(project)]
    assert guest.folders_of("alone/mine.py:make") == [
        *[str(project / "alone")] * 2,
        str(project),
    ]
    assert guest.folders_of("pkg/sub/mine.py:make") == [
        *map(str, (project, pkg, project))
    ]
    (pkg / "torch_checkup.py").touch()
    assert guest.folders_of("alone/mine.py:make")
    with pytest.raises(InputError, match=r"another name to torch_checkup\.py$"):
        guest.folders_of("pkg/sub/mine.py:make")


def test_a_target_in_text_must_name_a_function_and_a_file_that_is_there(project):
    assert guest.target_of("pkg.sub.mine:make") == "pkg.sub.mine:make"
    for wrong in ("mine:1", "mine:a.b", ":make"):
        with pytest.raises(InputError, match=f"^{wrong!r} names no function"):
            guest.target_of(wrong)
    with pytest.raises(InputError, match=r"^there is no file pkg/no\.py\. Give"):
        guest.target_of("pkg/no.py:make")


@pytest.mark.parametrize("make", [functools.partial(json.dumps), json.JSONEncoder])
def test_only_a_function_of_a_module_can_be_named(make):
    with pytest.raises(InputError, match="cannot be imported by another process"):
        guest.target_of(make)


# ---------------------------------------------------------------------- what it gives


def test_what_make_gives_is_a_model_its_inputs_and_perhaps_a_loss():
    model, loss = torch.nn.Identity(), torch.sum
    assert guest.given(lambda: (model, (1,))) == (model, (1,), None)
    assert guest.given(lambda: (model, (1,), loss)) == (model, (1,), loss)


@pytest.mark.parametrize("made", [(len,), (len, (), None, 1), ("len", ()), len])
def test_what_make_gives_instead_is_told(made):
    def build():
        return made

    said = rf"^build\(\) must return .*; it returned {type(made).__name__}$"
    with pytest.raises(TypeError, match=said):
        guest.given(build)


def test_a_first_call_and_its_backward(tmp_path):
    path = tmp_path / "given.py"
    path.write_text(
        "import torch\n"
        "def double(x, *, by): return x * by\n"
        "def make(): return torch.compile(double), "
        "[{'x': torch.ones(3), 'by': 2}, {'x': None, 'by': 0}], torch.sum\n"
    )
    fn, inputs, kwargs, loss = guest.made_by(f"{path}:make")
    assert (fn.__name__, inputs, kwargs["by"], loss) == ("double", (), 2, torch.sum)
    assert not hasattr(fn, "_torchdynamo_orig_callable"), "it is still compiled"
    x = torch.ones(3, requires_grad=True)
    result = guest.trained(fn, loss)(x, by=4)
    assert (result.item(), result.requires_grad, x.grad.tolist()) == (
        12,
        False,
        [4] * 3,
    )
    del sys.modules["given"]


# ---------------------------------------------------------------------- what it tells


def test_a_report_is_read_while_it_is_written(tmp_path, monkeypatch):
    clock = iter([0.0, 10.0, 10.5])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    report = guest.Report(str(tmp_path / "report"))
    report.stage("find")
    report.put(calls=2, says="⟨2⟩")
    report.end("find_s")
    lines = (tmp_path / "report").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"stage": "find"},
        {"calls": 2, "says": "⟨2⟩"},
        {"find_s": 0.5},
    ]


CHILD = """
import sys, time
from torch_checkup.guest import end_with_parent
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
